"""Starts the embedded AWS in a child process that never outlives this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from adapter.errors import ConfigurationError

HOST = "127.0.0.1"
REGION = "us-east-1"
_EXIT_SECONDS = 5.0


class LocalAws:
    """A running embedded AWS on loopback. Made by `start`; also a context manager that closes it.

    The child watches a pipe from this process: when the pipe closes, however that came about, the child ends.
    """

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.port = port

    @classmethod
    def start(cls, *, port: int = 0, timeout: float = 60.0) -> LocalAws:
        """Start it and wait, at most `timeout` seconds, until it serves. Port 0 takes a free one.

        Raises ConfigurationError: the extra is missing, the port is in use, or it did not come up in time.
        """
        process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
            [sys.executable, "-P", "-m", "adapter.local.server", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_child_environment(),
            start_new_session=True,
        )
        try:
            return cls(process, _reported_port(process, timeout))
        except BaseException:  # also where it is interrupted: the child must not outlive us
            _end(process)
            raise

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that point an AWS client of any kind at this engine."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "NO_PROXY": ",".join(filter(None, [os.environ.get("NO_PROXY"), HOST])),
        }

    def close(self) -> None:
        """End the child and wait for it. Closing twice is fine."""
        _end(self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _child_environment() -> Mapping[str, str]:
    """Ours without AWS settings and proxies, which could lead the engine's own calls off this machine."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_") and not name.lower().endswith("_proxy")
    }
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path),
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _reported_port(process: subprocess.Popen[str], timeout: float) -> int:
    assert process.stdout is not None
    overdue = threading.Timer(timeout, process.kill)
    overdue.start()
    try:
        line = process.stdout.readline()
    finally:
        overdue.cancel()
    if not line:
        raise ConfigurationError(f"the local engine did not start within {timeout:g} s or ended at once")
    report = json.loads(line)
    if "error" in report:
        raise ConfigurationError(report["error"])
    return int(report["port"])


def _end(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
