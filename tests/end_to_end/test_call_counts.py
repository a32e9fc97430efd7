"""What each operation costs in calls of AWS, exactly (retries of the SDK not counted)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest
import pytest_asyncio

from tests.end_to_end.site import YES, Client, Site
from tests.support.aws import counted_calls

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUERY, GET, PUT, UPDATE = "Query", "GetItem", "PutItem", "UpdateItem"
START, STOP, DESCRIBE, HISTORY = "StartExecution", "StopExecution", "DescribeExecution", "GetExecutionHistory"
ANSWER = "SendTaskSuccess"
CLAIM = LATCH = NOTE = ADOPT = CANCEL = RECORD = CLOSE = UPDATE
LARGE = {"text": "x" * 40_000}
SMALL = {"text": "x"}
MINUTE = 61.0


@pytest_asyncio.fixture(loop_scope="session")
async def client(site: Site) -> AsyncIterator[Client]:
    """Looks at an execution once a minute, and no minute passes but by a test."""
    async with site.client(refresh_min=60, refresh_max=60) as client:
        yield client


async def _calls(client: Client, work: Awaitable[object]) -> list[str]:
    with counted_calls(client.aws) as calls:
        await work
    return calls


async def test_a_create_costs_two_calls(client: Client) -> None:
    assert await _calls(client, client.start("long_wait")) == [PUT, START]


async def test_a_read_that_is_not_due_costs_one(client: Client) -> None:
    task_id = await client.start("long_wait")

    assert await _calls(client, client.get(task_id)) == [QUERY]


async def test_a_read_that_looks_at_running_work_costs_five(client: Client) -> None:
    task_id = await client.start("long_wait")
    client.shifted.advance(MINUTE)

    assert await _calls(client, client.get(task_id)) == [QUERY, CLAIM, DESCRIBE, HISTORY, NOTE]
    assert await _calls(client, client.get(task_id)) == [QUERY]


@pytest.mark.parametrize(
    ("arguments", "seen", "after"),
    [
        (SMALL, [QUERY, CLAIM, DESCRIBE, LATCH], [QUERY]),
        (LARGE, [QUERY, CLAIM, DESCRIBE, PUT, LATCH], [QUERY, GET]),
    ],
    ids=["small", "large"],
)
async def test_the_end_costs_four_or_five_once_and_one_or_two_from_then_on(
    client: Client, arguments: dict[str, str], seen: list[str], after: list[str]
) -> None:
    task_id = await client.start("echo", arguments)
    await client.done(task_id)
    client.shifted.advance(MINUTE)

    assert await _calls(client, client.get(task_id)) == seen
    client.shifted.advance(MINUTE)
    assert await _calls(client, client.get(task_id)) == after


async def test_the_first_sight_of_a_question_costs_one_more(client: Client) -> None:
    task_id = await client.start("approval")
    await client.waiting(task_id)

    assert await _calls(client, client.get(task_id)) == [QUERY, ADOPT]
    assert await _calls(client, client.get(task_id)) == [QUERY]


async def test_an_answer_costs_one_and_three_per_key(client: Client) -> None:
    task_id = await client.start("pair")
    keys = await client.questions(task_id, 2)
    answers = {key: {"action": "decline"} for key in keys}

    calls = await _calls(client, client.update(task_id, answers))

    assert calls == [QUERY, RECORD, ANSWER, CLOSE, RECORD, ANSWER, CLOSE]


async def test_an_answer_with_nothing_to_answer_costs_one(client: Client) -> None:
    task_id = await client.start("long_wait")

    assert await _calls(client, client.update(task_id, {"nothing": YES})) == [QUERY]


async def test_a_cancel_costs_five(client: Client) -> None:
    task_id = await client.start("long_wait")

    assert await _calls(client, client.cancel(task_id)) == [QUERY, CANCEL, STOP, DESCRIBE, LATCH]
    assert await _calls(client, client.cancel(task_id)) == [QUERY]


async def test_a_cancel_that_lost_against_large_output_costs_six(client: Client) -> None:
    task_id = await client.start("echo", LARGE)
    await client.done(task_id)

    assert await _calls(client, client.cancel(task_id)) == [QUERY, CANCEL, STOP, DESCRIBE, PUT, LATCH]
    assert (await client.get(task_id))["status"] == "completed"


async def test_readers_in_two_processes_cost_one_look(client: Client, site: Site) -> None:
    task_id = await client.start("long_wait")
    client.shifted.advance(MINUTE)
    async with site.client(client.shifted, refresh_min=60, refresh_max=60) as other:
        with counted_calls(site.aws) as calls:
            await asyncio.gather(*(reader.get(task_id) for reader in (client, other) * 5))

    assert calls.count(DESCRIBE) == 1


async def test_an_unknown_task_costs_one_call_whatever_is_asked(client: Client) -> None:
    nothing = {"taskId": "mcp-nothing"}

    for method in ("tasks/get", "tasks/cancel"):
        assert await _calls(client, client.call(method, nothing)) == [QUERY]
    assert await _calls(client, client.update("mcp-nothing", {})) == [QUERY]
