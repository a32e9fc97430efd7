"""`tasks/get` with the real store and AWS client, beside one bare Query by the same client."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import uvloop
from types_aiobotocore_dynamodb import DynamoDBClient

from adapter.aws import open_aws
from adapter.main import assemble
from adapter.mcp.endpoint import Endpoint
from adapter.settings import Settings
from adapter.stores.dynamodb import DynamoTaskStore
from bench.exchanges import CATALOG, COMPLETED, RUNNING, SIGNING_KEY, TARGET, TOOL, tasks_get
from bench.processes import LOAD_CORE, SERVER_CORE, pinned, server
from bench.registry import Figure, measure, of_rounds, ratio_of_rounds
from tests.support.memory import MemoryEngine

ROUNDS = 40
CALLS = 50
OF_QUERY = 1.25


@dataclass(slots=True)
class Costs:
    """Microseconds per call, one entry for each round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


@measure("end to end")
def end_to_end() -> Iterator[Figure]:
    """CPU and wall time of one call at a time, in a process of its own beside that of the stub."""
    with pinned(SERVER_CORE) as worker, server("bench.dynamodb_stub", core=LOAD_CORE) as stub:
        for kind, task_id in (("running", RUNNING), ("completed", COMPLETED)):
            query, get = worker.submit(compare, stub.port, task_id).result()
            name = f"tasks/get {kind}, DynamoDB"
            yield ratio_of_rounds(f"{name}: CPU / bare Query", get.cpu, query.cpu, OF_QUERY)
            yield ratio_of_rounds(f"{name}: time / bare Query", get.wall, query.wall, OF_QUERY)
            yield of_rounds(f"{name}: CPU, us", get.cpu)
            yield of_rounds(f"{name}: time, us", get.wall)
            yield of_rounds(f"{name}: bare Query CPU, us", query.cpu)
            yield of_rounds(f"{name}: bare Query time, us", query.wall)


def compare(port: int, task_id: str) -> tuple[Costs, Costs]:
    """What a bare Query costs, and what `tasks/get` does."""
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "example",
    }
    return uvloop.run(_compare(task_id))


async def _compare(task_id: str) -> tuple[Costs, Costs]:
    request = tasks_get(task_id)
    query, get = Costs(), Costs()
    async with _parts() as (client, endpoint):

        async def bare() -> None:
            page = await client.query(
                TableName="mcp-tasks",
                KeyConditionExpression="pk = :pk AND sk < :result",
                ExpressionAttributeValues={":pk": {"S": task_id}, ":result": {"S": "~result"}},
                ConsistentRead=True,
            )
            assert page["Items"][0]["pk"]["S"] == task_id

        async def full() -> None:
            reply = await endpoint.handle(request)
            assert isinstance(reply.body, bytes)
            assert b'"result"' in reply.body, reply.body

        for one in (bare, full):
            await _round(Costs(), one)
        for _ in range(ROUNDS):
            await _round(query, bare)
            await _round(get, full)
    return query, get


@asynccontextmanager
async def _parts() -> AsyncIterator[tuple[DynamoDBClient, Endpoint]]:
    settings = Settings.model_validate({})
    async with open_aws() as aws:
        store = DynamoTaskStore(aws.dynamodb, settings.table)
        parts = assemble(
            settings, CATALOG, {TOOL.name: TARGET}, store, MemoryEngine(), keys=(SIGNING_KEY.encode(),)
        )
        yield aws.dynamodb, parts.endpoint
        parts.watcher.close()


async def _round(costs: Costs, call: Callable[[], Awaitable[None]]) -> None:
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(CALLS):
        await call()
    costs.cpu.append((time.process_time_ns() - cpu) / CALLS / 1000)
    costs.wall.append((time.perf_counter_ns() - wall) / CALLS / 1000)
