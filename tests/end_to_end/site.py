"""The adapter over the local engine, and a client of it that keeps everything it was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

import adapter.main
from adapter.aws import Aws
from adapter.local.deploy import deploy
from adapter.main import Parts, open_adapter
from adapter.mcp.exchange import Request
from adapter.settings import Settings
from adapter.stores.table import create_table
from adapter.tasks.clock import system_clock
from adapter.tools.catalog import Catalog
from adapter.tools.file import load_catalog
from tests.support.adapter import Answer, Json, Mcp, Stream, accepted
from tests.support.partition import Partition

TOOLS = Path(__file__).parent / "pipelines" / "tools.yaml"
TABLE = "end-to-end"
KEY = "k" * 32
SECONDS = 60.0
"""After which something awaited counts as not happening, also on a machine that is busy."""
ENDED = ("completed", "failed", "cancelled")
YES = accepted(approve=True)
NEVER_TOLD = ("An error occurred", "Traceback", TABLE, "stateMachine", "botocore", "127.0.0.1")


class Clock:
    """The system's clock, which a test may put forward."""

    def __init__(self) -> None:
        self.forward_ms = 0

    def __call__(self) -> int:
        return system_clock() + self.forward_ms

    def advance(self, seconds: float) -> None:
        self.forward_ms += int(seconds * 1000)


class Client(Mcp):
    """A client of an adapter over real parts. Messages are checked as they come."""

    def __init__(self, parts: Parts, aws: Aws, clock: Clock) -> None:
        self.parts = parts
        self.aws = aws
        self.shifted = clock
        self.table = Partition(aws.dynamodb, TABLE)
        self.told: list[bytes] = []

    async def send(self, request: Request) -> Answer:
        answer = await super().send(request)
        self.told.extend(map(orjson.dumps, answer.messages))
        return answer

    @asynccontextmanager
    async def stream(self, method: str, params: Json | None = None, **options: Any) -> AsyncIterator[Stream]:
        async with super().stream(method, params, **options) as stream:
            yield stream
        self.told.extend(map(orjson.dumps, stream.seen))

    async def until(self, task_id: str, reached: Callable[[Json], bool], **options: Any) -> Json:
        """Polls until the task is as wanted."""
        async with asyncio.timeout(SECONDS):
            while not reached(task := await self.get(task_id, **options)):
                await asyncio.sleep(0.02)
        return task

    async def caught(self, tool: str, seen: Callable[[Json], bool]) -> Json:
        """A new task, seen in what lasts but a second: a busy machine may miss that, and then starts another."""
        async with asyncio.timeout(SECONDS):
            while True:
                task_id = await self.start(tool)
                task = await self.until(task_id, lambda task: seen(task) or task["status"] in ENDED)
                if seen(task):
                    return task

    async def ended(self, task_id: str) -> Json:
        return await self.until(task_id, lambda task: task["status"] in ENDED)

    async def questions(self, task_id: str, count: int = 1) -> Json:
        """The open questions, once there are so many."""
        task = await self.until(task_id, lambda task: len(task.get("inputRequests", {})) == count)
        return task["inputRequests"]

    async def update(self, task_id: str, answers: Json, **options: Any) -> Answer:
        params = {"taskId": task_id, "inputResponses": answers}
        return await self.call("tasks/update", params, **options)

    async def cancel(self, task_id: str) -> Answer:
        return await self.call("tasks/cancel", {"taskId": task_id})

    async def waiting(self, task_id: str) -> str:
        """The sort key of the item of a question that the workflow has just written, seen past the adapter."""
        async with asyncio.timeout(SECONDS):
            while not (items := await self.items(task_id, "input#")):
                await asyncio.sleep(0.02)
        return items[0]["sk"]["S"]

    async def items(self, task_id: str, prefix: str = "") -> list[dict[str, Any]]:
        reply = await self.aws.dynamodb.query(
            TableName=TABLE,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": task_id}},
            ConsistentRead=True,
        )
        return [dict(item) for item in reply["Items"] if item["sk"]["S"].startswith(prefix)]

    async def done(self, task_id: str) -> None:
        """Waits until the execution has ended, past the adapter, whose next look then is due."""
        async with asyncio.timeout(SECONDS):
            while await self.status(task_id) == "RUNNING":
                await asyncio.sleep(0.02)
        self.shifted.advance(1)

    async def status(self, task_id: str) -> str:
        reply = await self.aws.stepfunctions.describe_execution(
            executionArn=await self.execution_arn(task_id)
        )
        return reply["status"]

    async def execution_arn(self, task_id: str) -> str:
        return (await self.table.item(task_id, "#task"))["execution"]["S"]

    def check_secrets(self, tokens: Collection[str]) -> None:
        """Nothing of AWS was told: no token of a workflow, no text, no name."""
        told = b"\n".join(self.told).decode()
        for secret in (*tokens, *NEVER_TOLD):
            assert secret not in told, secret


@dataclass(frozen=True)
class Site:
    """A deployed set of machines, a table, and the clients of AWS that all share."""

    aws: Aws
    machines: Mapping[str, str]
    """ARNs by tool."""

    @classmethod
    async def deployed(cls, aws: Aws) -> Site:
        """With the machines of the tools file and the table."""
        await create_table(aws.dynamodb, TABLE)
        return cls(aws, await deploy(aws.stepfunctions, load_catalog(TOOLS), TOOLS, {"TaskTable": TABLE}))

    @asynccontextmanager
    async def client(self, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Client]:
        """A client of an adapter of its own. Nothing secret was told by the end of the block."""
        clock = clock or Clock()
        tokens: set[str] = set()

        def note(parsed: dict[str, Any], **_: object) -> None:
            tokens.update(item["token"]["S"] for item in parsed.get("Items", []) if "token" in item)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(adapter.main, "open_aws", self._shared_clients)
            async with open_adapter(_settings(**settings), self._catalog(), clock=clock) as parts:
                client = Client(parts, self.aws, clock)
                self.aws.dynamodb.meta.events.register("after-call.dynamodb.Query", note)
                yield client
        self.aws.dynamodb.meta.events.unregister("after-call.dynamodb.Query", note)
        client.check_secrets(tokens)

    def _catalog(self) -> Catalog:
        tools = load_catalog(TOOLS)
        return Catalog([t.model_copy(update={"state_machine": self.machines[t.name]}) for t in tools])

    @asynccontextmanager
    async def _shared_clients(self) -> AsyncIterator[Aws]:
        yield self.aws


def _settings(**settings: Any) -> Settings:
    """Of a server that asks for nothing but speed."""
    fast = {"refresh_min": 0.02, "watch_max": 0.05, "describe_rate": 1_000, "describe_burst": 1_000}
    return Settings(**{"table": TABLE, "tools": TOOLS, "signing_keys": KEY, **fast, **settings})
