"""The real console as a child process, and what it prints."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

_ROOT = Path(__file__).parents[2]
_SECONDS = 120.0


def wait_until(
    condition: Callable[[], object], *, within: float = _SECONDS, otherwise: str = "in time"
) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not {otherwise}"
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    """Child processes that are not zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except (OSError, ProcessLookupError):
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(stat.parent.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Console:
    """`adapter …`, running; `with` kills it at the end if it has not ended by itself."""

    def __init__(
        self, *arguments: str, environment: Mapping[str, str] | None = None, module: str = "adapter.cli"
    ) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("ADAPTER_", "AWS_"))}
        path = os.pathsep.join(filter(None, [(environment or {}).get("PYTHONPATH"), str(_ROOT)]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**inherited, **(environment or {}), "PYTHONPATH": path},
        )
        self.stdout = ""
        self.stderr = ""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, "stdout")),
            threading.Thread(target=self._read, args=(self.process.stderr, "stderr")),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str], name: str) -> None:
        with stream:
            for line in stream:
                setattr(self, name, getattr(self, name) + line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(_SECONDS)

    @property
    def printed(self) -> str:
        return self.stdout + self.stderr

    def wait_for(self, text: str, *, within: float = _SECONDS) -> None:
        """Until it has printed `text`."""

        def seen() -> bool:
            ended = self.process.poll() is not None and not any(r.is_alive() for r in self._readers)
            assert text in self.printed or not ended, f"it ended without {text!r}:\n{self.printed}"
            return text in self.printed

        wait_until(seen, within=within, otherwise=f"printed: {text}; but: {self.printed}")

    def ended(self, *, within: float = _SECONDS) -> int:
        """The exit code, once it has ended and all that it printed has been read."""
        code = self.process.wait(within)
        for reader in self._readers:
            reader.join(_SECONDS)
        return code
