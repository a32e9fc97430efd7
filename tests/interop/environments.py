"""The environments of the clients: a folder each below `.interop/`, made from the pins in `environments/`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.node import Node

HERE = Path(__file__).resolve().parent
PINS = HERE / "environments"
DRIVERS = HERE / "drivers"
_STAMP = "made-from"
_INSTALL_SECONDS = 600.0


class EnvironmentFailed(Exception):
    """A client's packages could not be installed. The message says why."""


def make_environment(name: str, below: Path, node: Node) -> Path:
    """The folder with what `environments/NAME` pins, made unless it is there. Raises EnvironmentFailed, NodeError."""
    folder, pins = below / name, PINS / name
    stamp = folder / _STAMP
    made_from = _digest(pins, node)
    if not stamp.is_file() or stamp.read_text() != made_from:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if (pins / "package.json").is_file():
            shutil.copy(pins / "package.json", folder)
            node.install(folder)
        else:
            _install_python(folder, pins / "requirements.txt")
        stamp.write_text(made_from)
    for driver in DRIVERS.glob("*.mjs"):  # a script finds its packages only from below their folder
        shutil.copy(driver, folder)
    return folder


def python_of(folder: Path) -> str:
    return str(folder / "bin" / "python")


def _digest(pins: Path, node: Node) -> str:
    digest = hashlib.sha256(f"{sys.version} {node.executable}".encode())
    for path in sorted(pins.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _install_python(folder: Path, requirements: Path) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [python_of(folder), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "-r", str(requirements)])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise EnvironmentFailed(str(late)) from None
    if done.returncode != 0:
        raise EnvironmentFailed(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
