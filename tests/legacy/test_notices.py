"""What is told on the stream of tasks/result while the work runs: status, progress, log lines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.adapter import Json, Mcp, tool, until
from tests.support.legacy import FORMS, RELATED, VERSIONS, LegacyAnswer, LegacyClient, LegacyStream, timed
from tests.support.virtual_time import in_virtual_time

STATUS, PROGRESS, LOG = "notifications/tasks/status", "notifications/progress", "notifications/message"
KEY = "k" * 32
MINUTES = 60


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool(), signing_keys=(KEY,))


async def begun(mcp: Mcp, token: object = None, **options: Any) -> tuple[LegacyClient, str]:
    """A client with a task whose creating call gave a progress token."""
    client = await LegacyClient.opened(mcp, **options)
    params: Json = {"name": "job", "task": {}}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return client, (await client.call("tools/call", params)).result["task"]["taskId"]


def waiting(client: LegacyClient, task_id: str) -> Any:
    return client.stream(client.request("tasks/result", {"taskId": task_id}))


async def until_end(mcp: Mcp, stream: LegacyStream, task_id: str) -> LegacyAnswer:
    mcp.end(task_id)
    return await stream.rest()


# --- progress -------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-58", "L-44")
@pytest.mark.era_rows("legacy", 43, 41)
@pytest.mark.parametrize("token", ["t", "", 0, 7])
async def test_progress_keeps_the_token_of_the_creating_call(mcp: Mcp, token: object) -> None:
    client, task_id = await begun(mcp, token)
    async with waiting(client, task_id) as stream:
        await stream.event()
        mcp.report(task_id, 1, progress=1, total=4, message="Loading")
        first = await stream.next()
        answer = await until_end(mcp, stream, task_id)

    assert first["method"] == PROGRESS
    assert first["params"] == {
        "progressToken": token,
        "progress": 1,
        "total": 4,
        "message": "Loading",
        "_meta": {RELATED: {"taskId": task_id}},
    }
    assert type(first["params"]["progressToken"]) is type(token)
    assert len(answer.notified(PROGRESS)) == 1


@pytest.mark.requirement("L-58")
@pytest.mark.parametrize("token", [None, 1.5, True, [1], {}])
async def test_without_a_token_no_progress_is_sent(mcp: Mcp, token: object) -> None:
    client, task_id = await begun(mcp, token)
    mcp.report(task_id, 1, progress=1)
    async with waiting(client, task_id) as stream:
        answer = await until_end(mcp, stream, task_id)

    assert answer.notified(PROGRESS) == []


@pytest.mark.requirement("L-58")
@pytest.mark.parametrize("task", [{}, {"task": {}}], ids=["plain", "task"])
async def test_a_token_that_is_too_long_to_be_kept_is_refused(mcp: Mcp, task: Json) -> None:
    client = await LegacyClient.opened(mcp)
    params = {"name": "job", "_meta": {"progressToken": "x" * 1025}, **task}

    answer = await client.call("tools/call", params)

    assert answer.refusal == (200, -32602)
    assert "progressToken" in answer.error["message"]
    assert mcp.engine.started == []


@pytest.mark.requirement("L-58")
async def test_progress_outlives_the_creating_call_the_session_and_the_instance(mcp: Mcp) -> None:
    _, task_id = await begun(mcp, "t")
    mcp.clock.advance(30 * MINUTES)
    later = await LegacyClient.opened(mcp.sibling(tool(), signing_keys=(KEY,)))
    mcp.report(task_id, 1, progress=1)
    async with waiting(later, task_id) as stream:
        answer = await until_end(mcp, stream, task_id)

    assert [each["progressToken"] for each in answer.notified(PROGRESS)] == ["t"]


@pytest.mark.requirement("L-58")
async def test_progress_only_grows_and_each_report_is_told_once(mcp: Mcp) -> None:
    client, task_id = await begun(mcp, "t")
    for number, value in enumerate([1, 1, 0.5, 2, None, 3]):
        mcp.report(task_id, number, progress=value)
    async with waiting(client, task_id) as stream:
        answer = await until_end(mcp, stream, task_id)

    assert [each["progress"] for each in answer.notified(PROGRESS)] == [1, 2, 3]


@pytest.mark.requirement("L-58", "L-20")
@in_virtual_time
async def test_a_resumed_stream_tells_only_what_is_new_and_more() -> None:
    mcp = timed(tool(), legacy_hold=20)
    client, task_id = await begun(mcp, "t")
    mcp.report(task_id, 1, progress=1)
    mcp.report(task_id, 2, progress=5)
    first = await client.call("tasks/result", {"taskId": task_id})

    mcp.report(task_id, 3, progress=4)
    mcp.report(task_id, 4, progress=6)
    mcp.report(task_id, 5, kind="log", message="nearly")
    second = await client.resume(first.ids[-1])
    mcp.end(task_id)
    third = await client.resume(second.ids[-1])

    assert [each["progress"] for each in first.notified(PROGRESS)] == [1, 5]
    assert [each["progress"] for each in second.notified(PROGRESS)] == [6]
    assert [each["data"] for each in second.notified(LOG)] == ["nearly"]
    assert len(third.messages) == 1


@pytest.mark.requirement("L-58")
async def test_what_was_reported_just_before_the_end_is_told_too(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, task_id = await begun(mcp, "t")
    latch = mcp.store.latch

    async def report_late(task: str, *arguments: Any, **options: Any) -> Any:
        mcp.report(task, 9, progress=100)
        return await latch(task, *arguments, **options)

    monkeypatch.setattr(mcp.store, "latch", report_late)
    async with waiting(client, task_id) as stream:
        await stream.event()
        answer = await until_end(mcp, stream, task_id)

    assert [each["progress"] for each in answer.notified(PROGRESS)] == [100]
    assert "result" in answer.message


# --- log lines ------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-44")
@pytest.mark.era_rows("legacy", 50)
async def test_log_lines_from_info_on_are_told_with_their_task(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    for number, level in enumerate(["debug", "info", "error", "loud"]):
        mcp.report(task_id, number, kind="log", level=level, message=level, data='{"n":1}')
    async with waiting(client, task_id) as stream:
        answer = await until_end(mcp, stream, task_id)

    meta = {RELATED: {"taskId": task_id}}
    assert answer.notified(LOG) == [
        {"level": level, "data": {"n": 1}, "_meta": meta} for level in ("info", "error")
    ]


# --- status ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-58", "L-44", "L-48")
@pytest.mark.era_rows("legacy", 42)
async def test_a_change_of_status_is_told_with_the_whole_task(mcp: Mcp) -> None:
    client, task_id = await begun(mcp, capabilities=FORMS)
    async with waiting(client, task_id) as stream:
        reading = asyncio.create_task(stream.next())
        await until(lambda: mcp.followers > 0)
        mcp.ask(task_id)
        changed, question = await reading, await stream.next()
        await client.answer(question, {"action": "accept", "content": {"sure": True}})
        back = await stream.next()
        shown = await client.get(task_id)
        answer = await until_end(mcp, stream, task_id)

    assert (changed["method"], changed["params"]["status"]) == (STATUS, "input_required")
    assert back["params"] == shown
    assert back["params"]["status"] == "working"
    assert all("_meta" not in each for each in answer.notified(STATUS))
    assert len(answer.notified(STATUS)) == 2, "the end is told by the response"


@pytest.mark.requirement("L-58")
async def test_without_a_change_of_status_none_is_told(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    async with waiting(client, task_id) as stream:
        reading = asyncio.create_task(stream.next())
        await until(lambda: mcp.followers > 0)
        mcp.report(task_id, 1, message="Loading")
        mcp.ask(task_id)  # which this client cannot take
        mcp.end(task_id)
        await reading
        answer = await stream.rest()

    assert answer.notified(STATUS) == []


@pytest.mark.requirement("L-58", "L-44")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_plain_call_tells_progress_and_log_lines_without_naming_a_task(
    mcp: Mcp, version: str
) -> None:
    client = await LegacyClient.opened(mcp, version)
    params = {"name": "job", "_meta": {"progressToken": "t"}}
    calling = asyncio.create_task(client.call("tools/call", params))
    while not mcp.engine.started:
        await asyncio.wait({calling}, timeout=0.001)
    mcp.report(mcp.only_task, 1, progress=1)
    mcp.report(mcp.only_task, 2, kind="log", message="hello")
    mcp.end(mcp.only_task)

    answer = await calling

    assert answer.notified(PROGRESS) == [{"progressToken": "t", "progress": 1}]
    assert answer.notified(LOG) == [{"level": "info", "data": "hello"}]
    assert "_meta" not in answer.result
