"""Driver processes: one does one job for one client and tells what it saw, one JSON object a line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.support.node import Node

from .clients import Client
from .environments import DRIVERS, python_of
from .flows import SECONDS, TIMEOUT_MS, Flow, Json

_DEADLINE_SECONDS = 60.0
_WHILE_FOLLOWING = 0.7
"""Seconds between a task's making and its client's end: long enough to be amid its polling."""


@dataclass(slots=True)
class Told:
    """What a driver told. `task`: the id of the task that it made; `pids`: processes of the client besides it."""

    seen: Json | None = None
    broke: str | None = None
    task: str | None = None
    pids: list[int] = field(default_factory=list)

    def take(self, line: Mapping[str, Any]) -> None:
        self.seen = line.get("seen", self.seen)
        self.broke = line.get("broke", self.broke)
        self.task = line.get("task", self.task)
        self.pids += line.get("pids", [])


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where the drivers run: the endpoint that they call, and what they are run with.

    `home`: a folder for what clients write; its path is short, as one of them puts a socket there.
    """

    url: str
    node: Node
    environments: Path
    logs: Path
    home: Path

    async def drive(self, client: Client, flow: Flow) -> Told:
        """Drive `client` through `flow`, in two parts where it is to be resumed."""
        if not flow.resumed:
            return await self._run(client, flow, flow.name)
        left = await self._run(client, flow, "leave", kill=True)
        if left.task is None:
            return left
        if left.seen is not None:
            return Told(broke="the task was over before its client was killed", task=left.task)
        return await self._run(client, flow, "resume", task=left.task)

    async def _run(
        self, client: Client, flow: Flow, part: str, *, task: str | None = None, kill: bool = False
    ) -> Told:
        job = {
            "url": self.url,
            "flow": part,
            "era": client.mode,
            "tool": client.tools.get(flow.name, flow.tool),
            "seconds": SECONDS,
            "timeout_ms": TIMEOUT_MS,
            "environment": str(self.environments / client.environment),
            "node": self.node.executable,
            "task": task,
        }
        log = self.logs / f"{client.name}-{flow.name}-{part}.log"
        with log.open("wb") as output:
            return await _told(
                [*self._command(client), json.dumps(job)], self._environment(), output, kill=kill
            )

    def _command(self, client: Client) -> list[str]:
        folder = self.environments / client.environment
        if client.driver.endswith(".mjs"):
            return [self.node.executable, str(folder / client.driver)]
        has_python = Path(python_of(folder)).exists()
        return [python_of(folder) if has_python else sys.executable, str(DRIVERS / client.driver)]

    def _environment(self) -> dict[str, str]:
        """Nothing of ours, so that a client runs as it would anywhere."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.home), "TMPDIR": str(self.home), "PYTHONWARNINGS": "ignore"}


async def _told(command: list[str], environment: dict[str, str], log: IO[bytes], *, kill: bool) -> Told:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=log,
        env=environment,
    )
    told = Told()
    try:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            await _listen(process, told, kill=kill)
            await process.wait()
    except TimeoutError:
        told.broke = f"it did not end within {_DEADLINE_SECONDS:g} s"
    finally:
        if process.returncode is None:
            _kill(process, told)
            await process.wait()
    if told.seen is None and told.broke is None and not kill:
        told.broke = f"it ended without a word (exit code {process.returncode}); see {log.name}"
    return told


async def _listen(process: asyncio.subprocess.Process, told: Told, *, kill: bool) -> None:
    assert process.stdout is not None
    killing: asyncio.Task[None] | None = None
    async for line in process.stdout:
        with contextlib.suppress(ValueError):  # a client may write lines of its own
            told.take(json.loads(line))
        if kill and told.task is not None and killing is None:
            killing = asyncio.create_task(_kill_soon(process, told))
    if killing is not None:
        await killing


async def _kill_soon(process: asyncio.subprocess.Process, told: Told) -> None:
    await asyncio.sleep(_WHILE_FOLLOWING)
    _kill(process, told)


def _kill(process: asyncio.subprocess.Process, told: Told) -> None:
    for pid in told.pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
