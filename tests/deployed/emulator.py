"""An AWS account on the loopback interface: ministack, in an environment of its own (`.venv-e2e`).

    python -m tests.deployed.emulator [--port 4566]        # or: make emulator

keeps it running until Ctrl-C, to deploy to by hand. It verifies signatures and enforces the policies of roles, by
action and resource (`AUTH`). It runs the code of functions as processes of this machine, with the rights of whoever
starts it, so it listens on 127.0.0.1 only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from tests.support.served import ServerError, wait_until_healthy

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-e2e"
HOST = "127.0.0.1"
ACCOUNT = "123456789012"
REGION = "us-east-1"
ROOT_USER = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": REGION,
}
"""The credentials of whoever deploys. The emulator lets this key do everything."""
BUILD = {"ADAPTER_BUILD": "native", "PYTHON": str(ENVIRONMENT / "bin" / "python")}
"""Makes `sam build` a package for the Python with which the emulator runs functions, whatever Runtime says."""
PATH = os.pathsep.join([*(str(ROOT / name / "bin") for name in (".venv", ".venv-package")), "$PATH"])
"""Where `adapter` and `sam` are."""
_READY_SECONDS = 60.0
_ROOM_BYTES = 2_000_000_000


@contextmanager
def emulated(port: int, output: IO[bytes] | None = None) -> Iterator[str]:
    """A fresh account until the end of the block; the URL of all its services. What it prints goes to `output`.

    Raises ServerError.
    """
    _refuse_taken(port)
    with tempfile.TemporaryDirectory(prefix="emulator-", dir=_memory()) as folder:
        process = subprocess.Popen(
            [str(ENVIRONMENT / "bin" / "python"), "-m", "ministack"],
            cwd=folder,
            env=_environment(port, folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            start_new_session=True,
        )
        try:
            wait_until_healthy(process, port, path="/_ministack/health", within=_READY_SECONDS)
            yield f"http://{HOST}:{port}"
        finally:
            _end(process)


def _memory() -> str | None:
    """A directory in memory with room for code that runs, if there is one.

    Each process of a function has 1,500 files of its own; some disks take longer to delete them than the tests to run.
    """
    memory = Path("/dev/shm")
    if not memory.is_dir() or os.statvfs(memory).f_flag & os.ST_NOEXEC:
        return None
    return str(memory) if shutil.disk_usage(memory).free > _ROOM_BYTES else None


def _environment(port: int, folder: str) -> Mapping[str, str]:
    """Nothing of the caller's: functions inherit it. The code of functions is unpacked below TMPDIR."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "TMPDIR": folder,
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_REGION": REGION,
        "AUTH": "true",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "INFO",
    }


def _refuse_taken(port: int) -> None:
    """Or another emulator that is there already would be taken for this one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise ServerError(f"port {port} is taken; choose another: make emulator PORT=4567") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """At once, with the processes of functions, which are of its group: nothing of it is kept."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deployed.emulator", description=__doc__)
    parser.add_argument("--port", type=int, default=4566)
    port = parser.parse_args().port
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        with emulated(port) as endpoint:
            settings = {"AWS_ENDPOINT_URL": endpoint, **ROOT_USER, **BUILD}
            exports = " ".join(f"{name}={value}" for name, value in settings.items())
            sys.stdout.write(f"\nIn another terminal, in this directory:\nexport {exports} PATH={PATH}\n\n")
            sys.stdout.flush()
            signal.pause()
    except ServerError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _interrupted(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
