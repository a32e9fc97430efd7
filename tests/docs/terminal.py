"""One terminal with one shell in it, as a reader has it."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 120.0

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MARK = "\x1e"
_END = re.compile(rf"{_MARK}(\d+){_MARK}")


class Terminal:
    """Commands share one shell, so that its variables, functions and directory stay."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._screen, inner = pty.openpty()
        _no_echo(inner)
        script, self._script = os.pipe()
        self._shell = subprocess.Popen(
            ["bash", f"/dev/fd/{script}"],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            pass_fds=[script],
            cwd=directory,
            env=dict(environment),
            start_new_session=True,
        )
        os.close(inner)
        os.close(script)

    def run(self, command: str, typed: Sequence[str] = ()) -> tuple[int, str]:
        """Its exit code, and the screen with what was typed; a line is typed whenever a prompt waits for it."""
        os.write(self._script, f"{command}\nprintf '{_MARK}%d{_MARK}' $?\n".encode())
        left = list(typed)
        output = b""
        deadline = time.monotonic() + SECONDS
        while not (end := _END.search(screen := _shown(output))):
            if left and screen.endswith(": "):
                line = f"{left.pop(0)}\n".encode()
                os.write(self._screen, line)
                output += line
            elif select.select([self._screen], [], [], max(0.0, deadline - time.monotonic()))[0]:
                output += os.read(self._screen, 65536)
            else:
                raise TimeoutError(f"`{command}` did not end within {SECONDS:g} s; it printed:\n{screen}")
        return int(end[1]), screen[: end.start()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._script)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._shell.wait(2)
        self._shell.kill()
        self._shell.wait()
        os.close(self._screen)


def _shown(output: bytes) -> str:
    text = _ESCAPES.sub("", output.decode(errors="replace"))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _no_echo(terminal: int) -> None:
    attributes = termios.tcgetattr(terminal)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
