"""The official suite: the pinned package in a folder, and its command line."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

from tests.support.node import Node, find_node

from .results import Verdict, broken, judge, read_checks
from .scenarios import Run

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
_SCENARIO_SECONDS = 120.0


class SuiteError(Exception):
    """The suite cannot be run. The message says what is missing."""


class Suite:
    """The installed suite."""

    def __init__(self, node: Node, script: Path) -> None:
        self._command = (node.executable, str(script))

    @classmethod
    def install(cls, cache: Path) -> Suite:
        """The pinned suite, installed below `cache` unless it is there already. Raises NodeError."""
        node = find_node()
        package = cache / "node_modules" / PACKAGE
        if _installed_version(package) != VERSION:
            node.install(cache, f"{PACKAGE}@{VERSION}")
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
