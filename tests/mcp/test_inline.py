"""A call of a client that takes no task: run within bounds, answered with the plain result."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from adapter.errors import EngineUnavailable, StoreUnavailable
from adapter.mcp import sse
from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import PREFIX, Answer, Json, Mcp, tool, until
from tests.support.memory import MemoryEngine
from tests.support.virtual_time import LoopClock, in_virtual_time

LEVEL = PREFIX + "logLevel"
NOTHING: Json = {}


def quick(**members: Any) -> Mcp:
    return Mcp(tool(**{"inline_wait": "10s", **members}))


def call(mcp: Mcp, **options: Any) -> asyncio.Task[Answer]:
    """A plain call on its way."""
    return asyncio.create_task(mcp.call("tools/call", {"name": "job"}, **{"caps": NOTHING, **options}))


async def started(mcp: Mcp) -> str:
    await until(lambda: bool(mcp.engine.started))
    return mcp.only_task


# --- the plain result -----------------------------------------------------------------------------------


@pytest.mark.requirement("R-102", "R-101", "R-104", "R-28", "R-33")
async def test_a_call_that_ends_in_time_gets_its_plain_result() -> None:
    mcp = quick()
    calling = call(mcp)
    mcp.end(await started(mcp), '{"a":1}')

    answer = await calling

    del answer.result["_meta"]
    assert answer.result == {"resultType": "complete", "content": [{"type": "text", "text": '{"a":1}'}]}
    assert mcp.engine.stopped == []


@pytest.mark.era_rows("modern", 23)
@pytest.mark.requirement("R-104")
async def test_a_tool_that_forbids_tasks_answers_plainly_to_every_caller() -> None:
    mcp = quick(task_support="forbidden")
    calling = call(mcp, caps=None)
    mcp.end(await started(mcp), '"done"')

    assert (await calling).text == "done"


@pytest.mark.requirement("R-111", "R-60")
@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"ending": Ending.FAILED, "error": "Boom", "cause": "it broke"}, "Boom: it broke"),
        ({"ending": Ending.TIMED_OUT}, "The execution timed out"),
        ({"ending": Ending.ABORTED, "cause": "by an operator"}, "by an operator"),
    ],
)
async def test_a_failure_is_an_error_result(how: dict[str, Any], text: str) -> None:
    mcp = quick()
    calling = call(mcp)
    mcp.end(await started(mcp), **how)

    answer = await calling

    assert (answer.result["isError"], answer.text) == (True, text)


@pytest.mark.requirement("R-13", "R-12")
@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["json", "events"])
async def test_a_json_rpc_error_of_the_workflow_is_one_here(meta: Json) -> None:
    mcp = quick()
    calling = call(mcp, meta=meta, identifier="x")
    cause = '{"code":4711,"message":"No order","data":[1]}'
    mcp.end(await started(mcp), ending=Ending.FAILED, error="McpError", cause=cause)

    answer = await calling

    assert answer.status == 200
    assert answer.error == {"code": 4711, "message": "No order", "data": [1]}


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["json", "events"])
async def test_a_result_that_cannot_be_read_is_an_error(meta: Json) -> None:
    mcp = quick()
    calling = call(mcp, meta=meta)
    mcp.end(await started(mcp), output=None)

    assert (await calling).error["code"] == -32603


# --- what takes too long --------------------------------------------------------------------------------


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["json", "events"])
async def test_what_takes_too_long_is_stopped_and_told_as_an_error_result(meta: Json) -> None:
    mcp = quick(inline_wait="20ms")

    answer = await call(mcp, meta=meta)

    assert answer.result["isError"] is True
    assert "did not finish within 0.02 s" in answer.text
    assert "tasks" in answer.text
    assert mcp.engine.stopped == [mcp.execution(mcp.only_task)]


@pytest.mark.parametrize(
    ("wait", "limit", "left", "waits"),
    [("3s", 25.0, None, 3), ("9s", 3.0, None, 3), ("9s", 25.0, 4.0, 3), ("9s", 25.0, 0.5, 0)],
)
@in_virtual_time
async def test_the_shortest_of_tool_server_and_transport_bounds_the_wait(
    wait: str, limit: float, left: float | None, waits: int
) -> None:
    mcp = Mcp(tool(inline_wait=wait), inline_wait_limit=limit, watch_max=1.0, clock=LoopClock())

    answer = await call(mcp, seconds_left=left)

    assert asyncio.get_running_loop().time() == pytest.approx(waits, abs=0.5)
    assert "did not finish within" in answer.text


async def test_a_job_that_wins_the_race_against_its_stop_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = quick(inline_wait="0s")

    async def stop(execution: str, **_: str) -> None:
        mcp.engine.end(execution, Outcome(Ending.SUCCEEDED, output='"just in time"'))

    monkeypatch.setattr(mcp.engine, "stop", stop)

    assert (await call(mcp)).text == "just in time"


async def test_a_stop_that_does_not_get_through_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = quick(inline_wait="0s")
    monkeypatch.setattr(mcp.engine, "stop", unavailable)

    answer = await call(mcp)

    assert "was told to stop" in answer.text
    assert mcp.store.tasks[mcp.only_task].cancel_requested_at is not None


async def unavailable(*_: object, **__: object) -> None:
    raise EngineUnavailable


async def test_a_stop_of_something_unknown_to_the_job_system_ends_the_call_all_the_same() -> None:
    mcp = quick(inline_wait="0s")

    async def forget(*_: object, **__: object) -> None:
        mcp.engine.executions.clear()

    mcp.engine.start = forget  # type: ignore[method-assign]

    assert (await call(mcp)).result["isError"] is True


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["json", "events"])
async def test_a_store_that_fails_is_told_as_a_busy_server(
    meta: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    mcp = quick()

    async def unreachable(_task_id: str) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(mcp.store, "read", unreachable)

    answer = await call(mcp, meta=meta)

    assert answer.error["code"] == -32603
    assert "busy" in answer.error["message"] or "cannot be reached" in answer.error["message"]


async def test_a_shutdown_ends_the_wait_and_leaves_the_job() -> None:
    mcp = quick()
    calling = call(mcp)
    await until(lambda: mcp.followers > 0)

    mcp.parts.watcher.close()

    assert (await calling).error["code"] == -32603
    assert mcp.engine.stopped == []


async def test_a_question_cannot_be_answered_inline_and_the_wait_goes_on() -> None:
    mcp = quick(inline_wait="50ms")
    calling = call(mcp, caps={"elicitation": {}})
    mcp.ask(await started(mcp))

    assert (await calling).result["isError"] is True


# --- events ---------------------------------------------------------------------------------------------


def live(mcp: Mcp, **options: Any) -> Any:
    return mcp.stream("tools/call", {"name": "job"}, **{"caps": NOTHING, **options})


def progress(messages: list[Json]) -> list[float]:
    return [m["params"]["progress"] for m in messages if m.get("method") == "notifications/progress"]


@pytest.mark.requirement("R-41", "R-44", "R-02")
async def test_progress_is_told_as_it_happens_and_the_response_comes_last() -> None:
    mcp = quick()
    async with live(mcp, meta={"progressToken": "t"}) as stream:
        reading = asyncio.create_task(stream.next())
        task_id = await started(mcp)
        mcp.report(task_id, 1, message="Loading", progress=1, total=3)
        first = await reading
        mcp.report(task_id, 2, progress=2.5)
        second = await stream.next()
        mcp.end(task_id, '"done"')
        rest = await stream.rest()

    assert first["params"] == {"progressToken": "t", "progress": 1, "total": 3, "message": "Loading"}
    assert second["params"] == {"progressToken": "t", "progress": 2.5}
    assert [m["result"]["content"][0]["text"] for m in rest] == ["done"]


@pytest.mark.requirement("R-44")
@pytest.mark.parametrize("token", [0, 7, "", "t"])
async def test_the_progress_token_keeps_its_type(token: object) -> None:
    (first, _) = await messages_of(quick(), {"progressToken": token}, [{"progress": 1}])

    assert first["params"]["progressToken"] == token
    assert type(first["params"]["progressToken"]) is type(token)


async def messages_of(mcp: Mcp, meta: Json, events: list[Json]) -> list[Json]:
    """All messages of a call whose workflow reported these events and then ended."""
    calling = call(mcp, meta=meta)
    task_id = await started(mcp)
    for number, event in enumerate(events):
        mcp.report(task_id, number, **event)
    mcp.end(task_id)
    return (await calling).messages


@pytest.mark.requirement("R-44")
async def test_progress_only_grows_and_each_report_is_told_once() -> None:
    values = [1, 1, 0.5, 2, None, 2, 100, 99]

    messages = await messages_of(quick(), {"progressToken": 1}, [{"progress": value} for value in values])

    assert progress(messages) == [1, 2, 100]
    assert "result" in messages[-1]


@pytest.mark.requirement("R-44", "R-41")
async def test_without_a_token_no_progress_and_without_a_level_no_log_is_sent() -> None:
    events = [{"progress": 1}, {"kind": "log", "message": "hello", "level": "emergency"}]

    nothing = await messages_of(quick(), {}, events)
    only_progress = await messages_of(quick(), {"progressToken": 1}, events)
    only_log = await messages_of(quick(), {LEVEL: "info"}, events)

    assert [len(nothing), len(only_progress), len(only_log)] == [1, 2, 2]
    assert only_progress[0]["method"] == "notifications/progress"
    assert only_log[0]["method"] == "notifications/message"


LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


@pytest.mark.era_rows("modern", 50)
@pytest.mark.requirement("R-44")
@pytest.mark.parametrize("wanted", LEVELS)
async def test_log_messages_below_the_wanted_level_are_left_out(wanted: str) -> None:
    events = [{"kind": "log", "message": level, "level": level} for level in [*LEVELS, "unknown"]]

    messages = await messages_of(quick(), {LEVEL: wanted}, events)

    told = [m["params"]["level"] for m in messages if m.get("method") == "notifications/message"]
    assert told == LEVELS[LEVELS.index(wanted) :]


@pytest.mark.requirement("R-44")
@pytest.mark.parametrize(
    ("event", "data"),
    [
        ({"message": "words"}, "words"),
        ({"data": '{"rows":[1,null]}'}, {"rows": [1, None]}),
        ({"message": "words", "data": "7"}, 7),
        ({"data": "no JSON"}, "no JSON"),
        ({}, None),
    ],
)
async def test_a_log_message_carries_its_data_or_its_words(event: Json, data: object) -> None:
    messages = await messages_of(quick(), {LEVEL: "info"}, [{"kind": "log", **event}])

    assert messages[0]["params"] == {"level": "info", "data": data}


@pytest.mark.requirement("R-41")
async def test_a_quiet_stream_is_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.005)
    mcp = quick()
    async with live(mcp, meta={"progressToken": 1}) as stream:
        chunks = [await stream.chunk() for _ in range(3)]
        mcp.end(mcp.only_task)
        await stream.rest()

    assert b":\r\n\r\n" in chunks
    assert all(chunk == b":\r\n\r\n" for chunk in chunks)


# --- a client that leaves -------------------------------------------------------------------------------


@pytest.mark.era_rows("modern", 12)
@pytest.mark.requirement("R-42")
@pytest.mark.parametrize("behaviour", ["stop", "continue"])
async def test_a_client_that_leaves_cancels_its_call_as_the_tool_says(
    behaviour: str, caplog: pytest.LogCaptureFixture
) -> None:
    mcp = quick(on_disconnect=behaviour)
    answer = await left_call(mcp)

    assert (answer.status, answer.messages) == (202, [])
    assert len(mcp.engine.stopped) == (behaviour == "stop")
    assert errors(caplog) == []
    await nobody_follows(mcp)


async def left_call(mcp: Mcp) -> Answer:
    """What a call comes to whose client leaves while it waits."""
    gone = asyncio.Event()

    async def disconnected() -> None:
        await gone.wait()

    calling = call(mcp, disconnected=disconnected)
    await until(lambda: mcp.followers > 0)
    gone.set()
    return await calling


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def nobody_follows(mcp: Mcp) -> None:
    await until(lambda: not mcp.parts.watcher._watched)


@pytest.mark.requirement("R-42")
@pytest.mark.parametrize("behaviour", ["stop", "continue"])
async def test_a_client_that_closes_its_stream_gets_nothing_more(
    behaviour: str, caplog: pytest.LogCaptureFixture
) -> None:
    mcp = quick(on_disconnect=behaviour)
    async with live(mcp, meta={"progressToken": 1}) as stream:
        reading = asyncio.create_task(stream.rest())
        await until(lambda: mcp.followers > 0)
        stream.leave()
        rest = await reading

    assert rest == []
    assert len(mcp.engine.stopped) == (behaviour == "stop")
    assert errors(caplog) == []
    await nobody_follows(mcp)


async def test_a_stream_that_the_transport_drops_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.005)
    mcp = quick()
    async with live(mcp, meta={"progressToken": 1}) as stream:
        await stream.chunk()

    await nobody_follows(mcp)
    assert errors(caplog) == []


@pytest.mark.requirement("R-42")
async def test_a_client_that_leaves_while_the_job_cannot_be_stopped_leaves_a_wish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mcp = quick()
    monkeypatch.setattr(mcp.engine, "stop", unavailable)

    assert (await left_call(mcp)).status == 202
    assert mcp.store.tasks[mcp.only_task].cancel_requested_at is not None


@pytest.mark.requirement("R-42")
async def test_a_client_that_leaves_never_touches_a_task() -> None:
    mcp = quick()

    async def gone_already() -> None:
        return

    task_id = await mcp.start(disconnected=gone_already)
    await mcp.call("tasks/get", {"taskId": task_id}, disconnected=gone_already)

    assert mcp.engine.stopped == []
    assert (await mcp.get(task_id))["status"] == "working"


@pytest.mark.requirement("R-44")
async def test_what_was_reported_just_before_the_end_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = quick()
    latch = mcp.store.latch

    async def report_late(task_id: str, outcome: Outcome, **options: Any) -> Outcome:
        mcp.report(task_id, 9, progress=100)
        return await latch(task_id, outcome, **options)

    monkeypatch.setattr(mcp.store, "latch", report_late)

    messages = await messages_of(mcp, {"progressToken": 1}, [{"progress": 1}])

    assert progress(messages) == [1, 100]
    assert "result" in messages[-1]


@pytest.mark.parametrize(("meta", "messages"), [({}, 1), ({"progressToken": 1}, 2)], ids=["json", "events"])
async def test_a_transport_without_headers_takes_either_form(meta: Json, messages: int) -> None:
    mcp = quick()
    request = mcp.request("tools/call", {"name": "job"}, caps=NOTHING, meta=meta)
    request.headers = None
    calling = asyncio.create_task(mcp.send(request))
    task_id = await started(mcp)
    mcp.report(task_id, 1, progress=1)
    mcp.end(task_id)

    assert len((await calling).messages) == messages


async def test_many_calls_at_once_each_get_their_own_result() -> None:
    engine = MemoryEngine(ends_at_once=lambda given: Outcome(Ending.SUCCEEDED, output=given.decode()))
    mcp = Mcp(tool(inline_wait="10s", input_schema={"type": "object"}), engine=engine)

    async def one(number: int) -> bool:
        answer = await mcp.call(
            "tools/call", {"name": "job", "arguments": {"n": number}}, caps={}, identifier=number
        )
        return answer.text == f'{{"n":{number}}}'

    calls = [asyncio.create_task(one(number)) for number in range(30)]
    await until(lambda: len(engine.started) == 30)
    mcp.clock.advance(61)

    assert all(await asyncio.gather(*calls))
