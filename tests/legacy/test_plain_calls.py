"""tools/call without `task`: a bounded wait, questions on a live stream, coming back, and giving up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapter.errors import StoreUnavailable
from adapter.tasks.model import Ending
from tests.support.adapter import Json, form, tool, until
from tests.support.legacy import FORMS, LATEST, VERSIONS, LegacyClient
from tests.support.virtual_time import in_virtual_time

from .plain import CALL, EARLY, KEY, YES, calling, finish, now, quick, slow, started

# --- the plain result -----------------------------------------------------------------------------------


@pytest.mark.requirement("L-33", "L-40", "L-19")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_call_that_ends_in_time_gets_its_result_as_json(version: str) -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp, version)
    call = asyncio.create_task(client.call("tools/call", CALL))
    mcp.end(await started(mcp), '"done"')

    answer = await call

    assert answer.headers["content-type"] == "application/json"
    assert answer.result == {"content": [{"type": "text", "text": "done"}]}


@pytest.mark.requirement("L-33")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_json_rpc_error_of_the_workflow_is_one_here(version: str) -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp, version)
    call = asyncio.create_task(client.call("tools/call", CALL))
    cause = '{"code":4711,"message":"No order"}'
    mcp.end(await started(mcp), ending=Ending.FAILED, error="McpError", cause=cause)

    assert (await call).error == {"code": 4711, "message": "No order"}


@pytest.mark.requirement("L-33")
@pytest.mark.parametrize("accept", ["application/json", None])
async def test_a_client_that_takes_no_events_gets_the_result_alone(accept: str | None) -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp, capabilities=FORMS)
    call = asyncio.create_task(client.call("tools/call", CALL, identifier="call", headers={"accept": accept}))
    task_id = await started(mcp)
    mcp.report(task_id, 1, kind="log", message="hello")
    mcp.ask(task_id)
    await until(lambda: mcp.store.tasks[task_id].events[0].adopted)
    assert mcp.store.tasks[task_id].questions[0].offers == {}, "what cannot be delivered is not offered"
    mcp.end(task_id, '"done"')

    assert [message["id"] for message in (await call).messages] == ["call"]


@pytest.mark.requirement("L-33")
@in_virtual_time
async def test_a_client_that_takes_no_events_waits_as_long_as_the_tool_may() -> None:
    mcp = slow()
    client = await LegacyClient.opened(mcp)

    answer = await client.call("tools/call", CALL, headers={"accept": "application/json"})

    assert now() == pytest.approx(20, abs=0.1)
    assert "still running" in answer.text


# --- questions on a live stream -------------------------------------------------------------------------


@pytest.mark.requirement("L-48", "L-44", "L-19")
@pytest.mark.era_rows("legacy", 14)
@pytest.mark.parametrize("version", [LATEST, "2025-06-18"])
async def test_a_question_is_asked_on_the_stream_of_the_call_without_naming_a_task(version: str) -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp, version, FORMS)
    call = asyncio.create_task(_asked_once(client, YES))
    mcp.ask(await started(mcp), params=form("Go on?", sure="boolean"))
    await until(lambda: bool(mcp.given))
    mcp.end(mcp.only_task, '"done"')

    question, answer = await call

    assert question["params"] == form("Go on?", sure="boolean")
    assert mcp.given == {"q": YES}
    assert (answer.message["id"], answer.text) == ("call", "done")


async def _asked_once(client: LegacyClient, answer: Json) -> Any:
    async with calling(client) as stream:
        question = await stream.next()
        await client.answer(question, answer)
        return question, await stream.rest()


@pytest.mark.requirement("L-48", "L-51")
async def test_a_model_is_asked_in_the_version_that_knows_nothing_else() -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp, "2025-03-26", {"sampling": {}, "elicitation": {}})
    sampled = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}
    call = asyncio.create_task(_asked_once(client, sampled))
    task_id = await started(mcp)
    mcp.ask(task_id, "form")
    mcp.ask(task_id, "model", {"messages": [], "maxTokens": 9}, "sampling/createMessage")
    await until(lambda: bool(mcp.given))
    mcp.end(task_id)

    question, _ = await call

    assert question["method"] == "sampling/createMessage"
    assert mcp.given == {"model": sampled}


@pytest.mark.requirement("L-51")
async def test_without_a_session_nothing_is_asked() -> None:
    mcp = quick()
    client = LegacyClient(mcp)
    call = asyncio.create_task(client.call("tools/call", CALL))
    mcp.ask(await started(mcp))
    await until(lambda: mcp.store.tasks[mcp.only_task].questions[0].adopted)
    mcp.end(mcp.only_task)

    assert (await call).requests == []


@pytest.mark.requirement("L-52")
async def test_a_choice_of_several_values_is_not_asked_of_a_version_that_has_none() -> None:
    several = form(properties={"days": {"type": "array", "items": {"type": "string", "enum": ["mo", "tu"]}}})
    mcp = quick()
    client = await LegacyClient.opened(mcp, "2025-06-18", FORMS)
    call = asyncio.create_task(client.call("tools/call", CALL))
    mcp.ask(await started(mcp), params=several)
    await until(lambda: mcp.store.tasks[mcp.only_task].questions[0].adopted)
    mcp.end(mcp.only_task)

    assert (await call).requests == []


# --- coming back ----------------------------------------------------------------------------------------


@pytest.mark.requirement("L-20", "L-18")
@pytest.mark.era_rows("legacy", 11)
@in_virtual_time
async def test_a_long_call_lets_the_client_come_back_at_any_instance() -> None:
    mcp = slow()
    client = await LegacyClient.opened(mcp)
    elsewhere = client.at(
        mcp.sibling(tool(inline_wait="20s"), signing_keys=(KEY,), legacy_hold=5, companion_tools="on")
    )

    first = await client.call("tools/call", CALL, identifier="call")
    assert (now(), first.responses, len(first.ids)) == (pytest.approx(5, abs=0.1), [], 1)
    second = await elsewhere.resume(first.ids[-1], "tools/call")
    assert second.responses == []
    finish(mcp)
    third = await client.resume(second.ids[-1], "tools/call")

    assert (third.message["id"], third.text) == ("call", "done")
    assert "_meta" not in third.result


@pytest.mark.requirement("L-20")
@in_virtual_time
async def test_coming_back_ends_when_the_tools_time_is_over() -> None:
    mcp = slow()
    client = await LegacyClient.opened(mcp)
    answer = await client.call("tools/call", CALL, identifier="call")
    rounds = 1
    while not answer.responses:
        answer = await client.resume(answer.ids[-1], "tools/call")
        rounds += 1

    assert (rounds, now()) == (4, pytest.approx(20, abs=0.2))
    assert "still running after 20 s" in answer.text
    assert mcp.engine.stopped == []


@pytest.mark.requirement("L-19", "L-20")
@pytest.mark.parametrize("version", EARLY)
@in_virtual_time
async def test_earlier_versions_wait_on_one_stream_to_the_end(version: str) -> None:
    mcp = slow()
    client = await LegacyClient.opened(mcp, version)

    answer = await client.call("tools/call", CALL)

    assert now() == pytest.approx(20, abs=0.1)
    assert answer.ids == []
    assert len(answer.responses) == 1


@pytest.mark.requirement("L-20")
@in_virtual_time
async def test_before_anything_is_sent_the_client_learns_how_to_come_back() -> None:
    mcp = slow(inline_wait="1m", legacy_hold=60, inline_wait_limit=60)
    client = await LegacyClient.opened(mcp)
    call = asyncio.create_task(client.call("tools/call", {**CALL, "_meta": {"progressToken": "t"}}))
    while not mcp.engine.started:
        await asyncio.sleep(0)
    mcp.report(mcp.only_task, 1, progress=1)
    await asyncio.sleep(10)
    mcp.report(mcp.only_task, 2, progress=2)
    await asyncio.sleep(10)
    finish(mcp)

    answer = await call

    assert answer.events[0].id
    assert [event.id is not None for event in answer.events].count(True) == 1
    assert [each["progress"] for each in answer.notified("notifications/progress")] == [1, 2]


@pytest.mark.requirement("L-20")
@in_virtual_time
async def test_a_quiet_stream_opens_with_how_to_come_back() -> None:
    mcp = slow(inline_wait="1m", legacy_hold=60, inline_wait_limit=60)
    client = await LegacyClient.opened(mcp)
    async with calling(client) as stream:
        events = [await stream.event() for _ in range(3)]

    assert now() == pytest.approx(45, abs=0.1)
    assert [bool(event.id) for event in events] == [True, False, False]


@pytest.mark.requirement("L-18", "L-20")
@in_virtual_time
async def test_a_call_whose_stream_broke_is_resumed_and_misses_nothing() -> None:
    mcp = slow(inline_wait="1m", legacy_hold=60, inline_wait_limit=60)
    client = await LegacyClient.opened(mcp, capabilities=FORMS)
    async with calling(client, _meta={"progressToken": "t"}) as stream:
        first = await stream.event()
        mcp.report(mcp.only_task, 1, progress=1)
        stream.leave()
        await stream.rest(bare=True)
    mcp.ask(mcp.only_task)
    finish_later = asyncio.get_running_loop().call_later(10, finish, mcp)

    answer = await client.resume(first.id, "tools/call")

    assert finish_later.when() <= now()
    assert len(answer.requests) == 1
    assert [each["progress"] for each in answer.notified("notifications/progress")] == [1]
    assert (answer.message["id"], answer.text) == ("call", "done")


@pytest.mark.requirement("L-18", "L-20")
@in_virtual_time
async def test_what_was_not_sent_before_a_stream_broke_is_sent_on_the_next() -> None:
    mcp = slow()
    client = await LegacyClient.opened(mcp)
    request = client.request("tools/call", {**CALL, "_meta": {"progressToken": "t"}})
    opening = asyncio.create_task(mcp.parts.endpoint.handle(request))
    while not mcp.engine.started:
        await asyncio.sleep(0)
    mcp.report(mcp.only_task, 1, progress=1)
    body = (await opening).body
    assert not isinstance(body, bytes)
    first = await anext(body)
    await body.aclose()

    answer = await client.resume(first.event_id or "", "tools/call")

    assert [each["progress"] for each in answer.notified("notifications/progress")] == [1]


@pytest.mark.requirement("L-18")
@in_virtual_time
async def test_coming_back_for_what_is_gone_is_told_on_the_stream() -> None:
    mcp = slow()
    client = await LegacyClient.opened(mcp)
    first = await client.call("tools/call", CALL, identifier="call")
    without = client.at(mcp.sibling(tool("other"), signing_keys=(KEY,)))

    removed = await without.resume(first.ids[-1], "tools/call")
    mcp.clock.advance(25 * 3600)
    expired = await client.resume(first.ids[-1], "tools/call")

    for answer in (removed, expired):
        assert (answer.message["id"], answer.error["code"]) == ("call", -32603)
    assert "'job' is no longer served" in removed.error["message"]
    assert "no longer kept" in expired.error["message"]


@pytest.mark.requirement("L-20")
@in_virtual_time
async def test_a_store_that_fails_lets_the_client_come_back() -> None:
    mcp = slow()
    client = await LegacyClient.opened(mcp)
    read = mcp.store.read

    async def unreachable(_task_id: str) -> None:
        raise StoreUnavailable

    first = await client.call("tools/call", CALL, identifier="call")
    mcp.store.read = unreachable  # type: ignore[method-assign, assignment]
    second = await client.resume(first.ids[-1], "tools/call")
    mcp.store.read = read  # type: ignore[method-assign]
    async with client.stream(client.coming_back(second.ids[-1]), "tools/call") as stream:
        reading = asyncio.create_task(stream.rest())
        await asyncio.sleep(1)
        mcp.store.read = unreachable  # type: ignore[method-assign, assignment]
        third = await reading
    mcp.store.read = read  # type: ignore[method-assign]
    finish(mcp)
    last = await client.resume(third.ids[-1], "tools/call")

    assert (second.retries, third.responses) == ([60_000], [])
    assert last.text == "done"


@pytest.mark.requirement("L-20")
@pytest.mark.parametrize("version", EARLY)
async def test_where_a_client_cannot_come_back_a_failing_store_is_told(version: str) -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp, version)

    async def unreachable(_task_id: str) -> None:
        raise StoreUnavailable

    mcp.store.read = unreachable  # type: ignore[method-assign, assignment]

    answer = await client.call("tools/call", CALL)

    assert answer.error["code"] == -32603
    assert "was started" in answer.error["message"]


# --- buffered replies -----------------------------------------------------------------------------------


@pytest.mark.requirement("L-47", "L-48")
@in_virtual_time
async def test_a_buffered_reply_closes_after_a_question_and_the_client_comes_back() -> None:
    mcp = slow()
    client = await LegacyClient.opened(mcp, capabilities=FORMS)
    client.seconds_left = 29.0
    call = asyncio.create_task(client.call("tools/call", CALL, identifier="call"))
    while not mcp.engine.started:
        await asyncio.sleep(0)
    mcp.ask(mcp.only_task)

    first = await call
    assert now() <= 2, "the next look at the task"
    await client.answer(first.requests[0], YES)
    finish(mcp)
    second = await client.resume(first.ids[-1], "tools/call")

    assert (len(first.requests), first.responses) == (1, [])
    assert (second.message["id"], second.text) == ("call", "done")


@pytest.mark.requirement("L-47")
@pytest.mark.parametrize(("companions", "asked"), [("on", 1), ("off", 0)])
@in_virtual_time
async def test_a_buffered_reply_that_is_the_last_asks_only_what_can_still_be_answered(
    companions: str, asked: int
) -> None:
    mcp = slow(companion_tools=companions)
    client = await LegacyClient.opened(mcp, "2025-06-18", FORMS)
    client.seconds_left = 29.0
    call = asyncio.create_task(client.call("tools/call", CALL))
    while not mcp.engine.started:
        await asyncio.sleep(0)
    mcp.ask(mcp.only_task)

    answer = await call

    assert len(answer.requests) == asked
    assert len(mcp.engine.stopped) == (companions == "off")
    assert now() < 3 if companions == "on" else now() == pytest.approx(20, abs=0.5)
