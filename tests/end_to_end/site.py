"""The adapter over the local engine, and a client of it that keeps everything it was told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

import adapter.main
from adapter.aws import Aws, open_aws
from adapter.local import deploy
from adapter.main import Parts, open_adapter
from adapter.mcp.exchange import Request
from adapter.settings import Settings
from adapter.stores.table import create_table
from adapter.tasks.clock import system_clock
from adapter.tools.file import load_catalog
from tests.support.adapter import Answer, Json, Mcp, Stream, accepted
from tests.support.aws import local_engine, point_at
from tests.support.partition import Partition

TOOLS = Path(__file__).parent / "pipelines" / "tools.yaml"
TABLE = "end-to-end"
KEY = "k" * 32
SECONDS = 15.0
"""After which something awaited counts as not happening."""
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
    """A client of an adapter over real parts. Messages are checked as they come, secrets when it closes."""

    def __init__(self, parts: Parts, aws: Aws, clock: Clock) -> None:
        self.parts = parts
        self.aws = aws
        self.shifted = clock
        self.table = Partition(aws.dynamodb, TABLE)
        self.told: list[bytes] = []
        self.tokens: set[str] = set()
        aws.dynamodb.meta.events.register("after-call.dynamodb.Query", self._note_tokens)

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
        """Waits until the execution has ended, past the adapter."""
        async with asyncio.timeout(SECONDS):
            while await self.status(task_id) == "RUNNING":
                await asyncio.sleep(0.02)

    async def status(self, task_id: str) -> str:
        reply = await self.aws.stepfunctions.describe_execution(executionArn=await self.execution_arn(task_id))
        return reply["status"]

    async def execution_arn(self, task_id: str) -> str:
        return (await self.table.item(task_id, "#task"))["execution"]["S"]

    def check_secrets(self) -> None:
        """Nothing of AWS was told: no token of a workflow, no text, no name."""
        told = b"\n".join(self.told).decode()
        for secret in (*self.tokens, *NEVER_TOLD):
            assert secret not in told, secret

    def _note_tokens(self, parsed: dict[str, Any], **_: object) -> None:
        self.tokens |= {item["token"]["S"] for item in parsed.get("Items", []) if "token" in item}


@dataclass(frozen=True)
class Site:
    """A deployed set of machines and a table on the local engine."""

    endpoint: str

    @asynccontextmanager
    async def client(self, *, endpoint: str | None = None, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Client]:
        """An adapter process of its own, in this process, and its client."""
        clock = clock or Clock()
        with pytest.MonkeyPatch.context() as patch:
            point_at(endpoint or self.endpoint, patch)
            opened = _noting_clients(patch)
            configuration = new_settings(**settings)
            async with open_adapter(configuration, load_catalog(TOOLS), clock=clock) as parts:
                client = Client(parts, opened[0], clock)
                yield client
        client.check_secrets()


def new_settings(**settings: Any) -> Settings:
    """Of a server that asks for nothing but speed."""
    fast = {"refresh_min": 0.02, "watch_max": 0.05, "describe_rate": 1_000, "describe_burst": 1_000}
    return Settings(**{"table": TABLE, "tools": TOOLS, "signing_keys": KEY, **fast, **settings})


def deployed() -> Site:
    """With the machines of the tools file and the table."""
    endpoint = local_engine().endpoint
    with pytest.MonkeyPatch.context() as patch:
        point_at(endpoint, patch)
        asyncio.run(_deploy())
    return Site(endpoint)


async def _deploy() -> None:
    async with open_aws() as aws:
        await create_table(aws.dynamodb, TABLE)
        await deploy.deploy(aws.stepfunctions, load_catalog(TOOLS), TOOLS, {"TaskTable": TABLE})


def _noting_clients(patch: pytest.MonkeyPatch) -> list[Aws]:
    opened: list[Aws] = []

    @asynccontextmanager
    async def noting() -> AsyncIterator[Aws]:
        async with open_aws() as aws:
            opened.append(aws)
            yield aws

    patch.setattr(adapter.main, "open_aws", noting)
    return opened


def environment(endpoint: str) -> dict[str, str]:
    """For another process on the same site."""
    with pytest.MonkeyPatch.context() as patch:
        point_at(endpoint, patch)
        return dict(os.environ)
