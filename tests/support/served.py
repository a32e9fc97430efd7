"""The server under test: a child process that is ready when the block begins and gone when it ends."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_HOST = "127.0.0.1"
_END_SECONDS = 10.0


class ServerError(Exception):
    """The server did not come up. The message of `served` holds the end of what it printed."""


def dev_server(tools: Path, port: int) -> list[str]:
    """The command of `adapter dev` in the running Python's environment."""
    return [sys.executable, "-m", "adapter.cli", "dev", "--tools", str(tools), "--port", str(port)]


def free_port() -> int:
    with socket.create_server((_HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def served(
    command: Sequence[str],
    port: int,
    log: Path,
    *,
    settings: Mapping[str, str] | None = None,
    within: float = 60.0,
) -> Iterator[str]:
    """Start `command`, wait until it answers `/healthz` on `port`, and give the URL of its endpoint.

    `settings` are added to its environment, and its output goes to `log`. Raises ServerError if it ends early or
    is not ready `within` so many seconds.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(settings or {})},
        )
        try:
            _ready(process, port, log, within)
            yield f"http://{_HOST}:{port}/mcp"
        finally:
            _end(process)


def _ready(process: subprocess.Popen[bytes], port: int, log: Path, within: float) -> None:
    try:
        wait_until_healthy(process, port, within=within)
    except ServerError as error:
        raise ServerError(f"{error}:\n{_tail(log)}") from None


def wait_until_healthy(
    process: subprocess.Popen[bytes], port: int, *, path: str = "/healthz", within: float
) -> None:
    """Raises ServerError if it ends early or is not healthy `within` so many seconds."""
    deadline = time.monotonic() + within
    while not is_healthy(port, path):
        if process.poll() is not None:
            raise ServerError(f"the server ended at once (exit code {process.returncode})")
        if time.monotonic() > deadline:
            raise ServerError(f"the server was not ready within {within:g} s")
        time.sleep(0.05)


def is_healthy(port: int, path: str = "/healthz") -> bool:
    """Whether a server on this port says so now."""
    connection = http.client.HTTPConnection(_HOST, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
