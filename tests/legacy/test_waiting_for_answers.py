"""Calls that wait for the answers to what was asked before the start."""

from __future__ import annotations

import asyncio

import pytest

from adapter.errors import StoreUnavailable
from adapter.mcp import asking, sse
from tests.mcp.asking import CONFIRM, SAMPLE, YES
from tests.support.adapter import Json, tool, until
from tests.support.legacy import VERSIONS, timed
from tests.support.virtual_time import in_virtual_time

from .asking_first import PLAIN, TASK, able, asking_first, calling, refusal


@pytest.fixture(autouse=True)
def answers_are_looked_for_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_SHORTEST_PAUSE", 0.001)


@pytest.mark.requirement("L-48")
@pytest.mark.parametrize("params", [PLAIN, TASK], ids=["plain", "task"])
@in_virtual_time
async def test_without_an_answer_the_call_ends_after_ten_minutes(params: Json) -> None:
    mcp = timed(tool(before_start=[CONFIRM]))
    client = await able(mcp)
    before = asyncio.get_running_loop().time()

    answer = await client.call("tools/call", {"name": "job", **params})

    assert "no answer came in time" in refusal(answer, params)
    waited = asyncio.get_running_loop().time() - before
    assert waited == pytest.approx(asking.ANSWER_SECONDS, abs=3)
    quiet = [event for event in answer.events if event.message is None]
    assert len(quiet) == pytest.approx(waited / sse.KEEP_ALIVE_SECONDS, rel=0.2), "the line is kept open"


@pytest.mark.requirement("L-60", "L-19")
@pytest.mark.parametrize("params", [PLAIN, TASK], ids=["plain", "task"])
@pytest.mark.parametrize("how", ["cancels", "leaves"])
async def test_a_client_that_is_gone_before_it_answers_has_started_nothing(how: str, params: Json) -> None:
    mcp = asking_first(CONFIRM)
    client = await able(mcp)
    async with calling(client, params) as stream:
        request = await stream.next()
        if how == "cancels":
            await client.notify("notifications/cancelled", {"requestId": "call"})
        else:
            stream.leave()
        answer = await stream.rest(bare=True)
        await client.answer(request, YES)

    assert answer.responses == []
    assert mcp.engine.started == []


@pytest.mark.requirement("L-48")
async def test_a_store_that_fails_for_a_moment_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = asking_first(CONFIRM)
    client = await able(mcp)
    replies, failures = mcp.store.replies, 2

    async def flaky(ask: str) -> dict[str, str]:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise StoreUnavailable
        return await replies(ask)

    monkeypatch.setattr(mcp.store, "replies", flaky)
    async with calling(client, TASK) as stream:
        await client.answer(await stream.next(), YES)
        answer = await stream.rest()

    assert "task" in answer.result


@pytest.mark.requirement("L-10")
async def test_an_answer_that_cannot_be_written_is_refused_and_may_be_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mcp = asking_first(CONFIRM)
    client = await able(mcp)

    async def unreachable(*_: object, **__: object) -> None:
        raise StoreUnavailable

    async with calling(client, TASK) as stream:
        request = await stream.next()
        with monkeypatch.context() as patch:
            patch.setattr(mcp.store, "write_reply", unreachable)
            refused = await client.post({"jsonrpc": "2.0", "id": request["id"], "result": YES})
        await client.answer(request, YES)
        answer = await stream.rest()

    assert refused.status == 503
    assert "task" in answer.result


@pytest.mark.requirement("L-48")
@pytest.mark.parametrize("params", [PLAIN, TASK], ids=["plain", "task"])
async def test_a_failure_after_something_was_sent_is_told_on_the_stream(
    params: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    mcp = asking_first(CONFIRM)
    client = await able(mcp)

    async def unreachable(*_: object, **__: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(mcp.store, "create", unreachable)
    async with calling(client, params) as stream:
        await client.answer(await stream.next(), YES)
        answer = await stream.rest()

    assert answer.message["id"] == "call"
    assert answer.error["code"] == -32603
    assert "busy" in answer.error["message"]


@pytest.mark.requirement("L-48")
@pytest.mark.parametrize("version", VERSIONS)
async def test_nobody_waits_any_more_once_the_stream_is_dropped(version: str) -> None:
    mcp = asking_first(SAMPLE)
    client = await able(mcp, version)
    async with calling(client, PLAIN) as stream:
        await stream.next()

    await until(lambda: len(asyncio.all_tasks()) == 1)
