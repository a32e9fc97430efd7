"""task_status, task_result, task_answer, task_cancel: plain tools by which any host goes on with a job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapter.errors import ConfigurationError, EngineUnavailable, StoreUnavailable
from adapter.mcp.companions import RESERVED
from adapter.tasks.model import Ending
from adapter.tools.schema import Schema
from tests.support.adapter import FORMS, Json, Mcp, accepted, form, tool, until
from tests.support.legacy import LegacyClient, timed
from tests.support.virtual_time import in_virtual_time

from .host import ERAS, NAMES, Host, background, begun, text

YES = accepted(sure=True)
APPROVE = form("Approve order 7?", ["sure"], sure="boolean")


# --- listed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_they_are_listed_last_and_the_same_for_everybody(era: str) -> None:
    mcp = background(tool("b"), tool("a"))

    listed = [await Host(mcp, era, caller).tools() for caller in ("ada", "mal")]

    assert [each["name"] for each in listed[0]] == ["b", "a", *NAMES]
    assert listed[0] == listed[1]


async def test_they_say_what_they_do_to_the_world() -> None:
    tools = {each["name"]: each for each in await Host(background()).tools()}

    hints = {name: tools[name]["annotations"] for name in NAMES}
    assert [hints[name]["readOnlyHint"] for name in NAMES] == [True, True, False, False]
    assert [hints[name]["destructiveHint"] for name in NAMES] == [False, False, False, True]
    assert all(not hints[name]["openWorldHint"] for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
async def test_each_has_schemas_and_a_description_that_a_model_can_follow(name: str) -> None:
    found = {each["name"]: each for each in await Host(background()).tools()}[name]

    takes, gives = Schema(found["inputSchema"]), Schema(found["outputSchema"])
    assert takes.violation({}) is not None
    assert gives.violation({"task_id": "x", "status": "working", "seconds_running": 3}) is None
    assert found["inputSchema"]["additionalProperties"] is False
    assert found["outputSchema"]["type"] == "object"
    assert all(p["description"] for p in found["inputSchema"]["properties"].values())
    assert len(found["description"].split()) > 10
    assert found["title"]


@pytest.mark.requirement("L-30")
async def test_in_2025_11_25_they_forbid_tasks() -> None:
    tools = await Host(background(), "2025-11-25").tools()

    assert {each["execution"]["taskSupport"] for each in tools if each["name"] in NAMES} == {"forbidden"}


@pytest.mark.parametrize("era", ERAS)
async def test_switched_off_they_do_not_exist(era: str) -> None:
    mcp = Mcp(tool())
    host = Host(mcp, era)

    assert [each["name"] for each in await host.tools()] == ["job"]
    for name in NAMES:
        refused = await host._send("tools/call", {"name": name, "arguments": {"task_id": "x"}})
        assert refused.error["code"] == -32602


@pytest.mark.parametrize("name", RESERVED)
def test_their_names_are_reserved_unless_they_are_off(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{name}'.*companion"):
        background(tool(name))
    assert Mcp(tool(name)).parts


async def test_switched_on_or_off_cursors_of_the_other_list_are_refused() -> None:
    tools = [tool("a"), tool("b")]
    on, off = [
        Mcp(*tools, companion_tools=value, page_size=1, signing_keys=("k" * 32,)) for value in ("on", "off")
    ]

    cursor = (await off.call("tools/list")).result["nextCursor"]

    assert (await on.call("tools/list", {"cursor": cursor})).error["code"] == -32602


# --- task_status ----------------------------------------------------------------------------------------


@pytest.mark.requirement("B-58")
@pytest.mark.parametrize("era", ERAS)
async def test_status_tells_how_far_a_job_is(era: str) -> None:
    mcp = background()
    host, task_id = await begun(mcp, era)
    mcp.report(task_id, 1, message="Loading", progress=2, total=8)
    mcp.clock.advance(42)

    result = await host.call("task_status", task_id=task_id)

    assert text(result) == "Status: working after 42 s.\nLoading (2 of 8)"
    if era != "2025-03-26":
        assert result["structuredContent"] == {
            "task_id": task_id,
            "status": "working",
            "message": "Loading (2 of 8)",
            "seconds_running": 42,
        }


ENDINGS: list[Any] = [
    ({"output": '"done"'}, "completed", "Status: completed."),
    ({"ending": Ending.FAILED, "error": "Boom", "cause": "why"}, "failed", "Status: failed.\nBoom: why"),
    ({"ending": Ending.ABORTED, "cause": "by hand"}, "cancelled", "Status: cancelled.\nby hand"),
    (
        {"ending": Ending.FAILED, "error": "McpError", "cause": '{"message":"No order"}'},
        "failed",
        "Status: failed.\nNo order",
    ),
    (
        {"output": '{"content":[{"type":"text","text":"nope"}],"isError":true}'},
        "failed",
        "Status: failed.\nnope",
    ),
    ({"output": None}, "completed", "Status: completed.\nThe result exists, but it cannot be read now"),
]


@pytest.mark.parametrize(("how", "status", "words"), ENDINGS)
async def test_status_tells_how_a_job_ended(how: Json, status: str, words: str) -> None:
    mcp = background()
    host, task_id = await begun(mcp)
    mcp.clock.advance(5)
    mcp.end(task_id, ended_at=mcp.clock(), **how)

    result = await host.call("task_status", task_id=task_id)

    assert text(result) == words
    assert result["structuredContent"]["status"] == status
    assert result["structuredContent"]["seconds_running"] == 5, "the time of its end counts"


async def test_status_answers_at_once_and_never_waits() -> None:
    mcp = background()
    host, task_id = await begun(mcp)
    reads = mcp.store.reads

    await host.call("task_status", task_id=task_id)

    assert mcp.store.reads == reads + 1


# --- task_result ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_result_waits_for_the_end_and_gives_what_the_call_would_have_given(era: str) -> None:
    mcp = background()
    host, task_id = await begun(mcp, era)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(host.call("task_result", task_id=task_id))
        await until(lambda: bool(mcp.parts.watcher._watched))
        mcp.end(task_id, '{"rows":3}')

    assert text(waiting.result()) == '{"rows":3}'


@pytest.mark.parametrize(("left", "waits"), [(None, 25), (12.0, 11), (0.5, 0)])
@in_virtual_time
async def test_result_waits_within_its_limit_and_then_says_to_ask_again(
    left: float | None, waits: int
) -> None:
    mcp = timed(tool(inline_wait="0s"), companion_tools="on")
    host, task_id = await begun(mcp)
    host.seconds_left = left
    client = LegacyClient(mcp, seconds_left=left)
    before = asyncio.get_running_loop().time()

    params = {"name": "task_result", "arguments": {"task_id": task_id}}
    answer = await client.call("tools/call", params)

    assert asyncio.get_running_loop().time() - before == pytest.approx(waits, abs=0.5)
    assert "task_result again with the same task id" in answer.text
    assert answer.result["structuredContent"]["status"] == "working"


async def test_result_of_an_error_is_one() -> None:
    mcp = background()
    host, task_id = await begun(mcp)
    mcp.end(task_id, ending=Ending.FAILED, error="Boom", cause="it broke")

    result = await host.call("task_result", task_id=task_id)

    assert (result["isError"], text(result)) == (True, "Boom: it broke")


@pytest.mark.parametrize(("how", "status", "words"), [ENDINGS[2], ENDINGS[3]])
async def test_without_a_result_it_is_an_error_that_tells_the_end(how: Json, status: str, words: str) -> None:
    mcp = background()
    host, task_id = await begun(mcp)
    mcp.end(task_id, **how)

    result = await host.call("task_result", task_id=task_id)

    assert (result["isError"], text(result)) == (True, words)
    assert result["structuredContent"]["status"] == status


async def test_a_result_that_cannot_be_read_is_told() -> None:
    mcp = background()
    host, task_id = await begun(mcp)
    mcp.end(task_id, output=None)

    result = await host.call("task_result", task_id=task_id)

    assert result["isError"] is True
    assert "cannot be read now" in text(result)


async def test_result_stops_waiting_for_a_job_that_asks() -> None:
    mcp = background()
    host, task_id = await begun(mcp)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(host.call("task_result", task_id=task_id))
        await until(lambda: bool(mcp.parts.watcher._watched))
        mcp.ask(task_id, params=APPROVE)

    result = waiting.result()
    assert result["structuredContent"]["status"] == "input_required"
    assert "Approve order 7?" in text(result)


@pytest.mark.parametrize("era", ERAS)
async def test_a_host_that_leaves_while_it_waits_is_no_failure(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    mcp = background()
    _, task_id = await begun(mcp, era)
    call = {"name": "task_result", "arguments": {"task_id": task_id}}

    async def gone() -> None:
        await until(lambda: bool(mcp.parts.watcher._watched))

    if era == ERAS[0]:
        await mcp.call("tools/call", call, caps={}, disconnected=gone)
    else:
        client = LegacyClient(mcp, era)
        request = client.request("tools/call", call)
        request.disconnected = gone
        await client.send(request)

    assert mcp.engine.stopped == []
    assert not caplog.records
    await until(lambda: not mcp.parts.watcher._watched)


# --- task_cancel ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_cancel_stops_the_job(era: str) -> None:
    mcp = background()
    host, task_id = await begun(mcp, era)

    result = await host.call("task_cancel", task_id=task_id)

    assert mcp.engine.stopped == [mcp.execution(task_id)]
    assert "Status: cancelled" in text(result)


async def test_cancel_of_what_has_ended_tells_its_end() -> None:
    mcp = background()
    host, task_id = await begun(mcp)
    mcp.end(task_id, '"done"')
    await host.call("task_status", task_id=task_id)

    assert "Status: completed" in text(await host.call("task_cancel", task_id=task_id))
    assert mcp.engine.stopped == []


async def test_a_stop_that_does_not_get_through_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = background()
    host, task_id = await begun(mcp)

    async def unavailable(*_: object, **__: object) -> None:
        raise EngineUnavailable

    monkeypatch.setattr(mcp.engine, "stop", unavailable)

    result = await host.call("task_cancel", task_id=task_id)

    assert result["isError"] is True
    assert "Call task_cancel again" in text(result)


# --- all of them ----------------------------------------------------------------------------------------

ARGUMENTS: dict[str, Json] = {
    "task_status": {},
    "task_result": {},
    "task_answer": {"question": "q", "action": "decline"},
    "task_cancel": {},
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", NAMES)
async def test_somebody_elses_unknown_and_expired_jobs_do_not_exist(era: str, name: str) -> None:
    mcp = background()
    expired = await mcp.start(caller="mal")
    mcp.clock.advance(25 * 3600)
    foreign = await mcp.start(caller="ada")
    host = Host(mcp, era, "mal")

    for task_id in (foreign, expired, "mcp-unknown", ""):
        result = await host.call(name, task_id=task_id, **ARGUMENTS[name])
        assert result["isError"] is True
        assert "no such task" in text(result)
    assert mcp.engine.stopped == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("odd", [{}, {"task_id": 5}, {"task_id": "x", "extra": 1}])
async def test_arguments_that_do_not_fit_are_told(name: str, odd: Json) -> None:
    result = await Host(background()).call(name, **odd)

    assert result["isError"] is True
    assert "do not match the input schema" in text(result)


@pytest.mark.parametrize("name", NAMES)
async def test_a_busy_store_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = background()

    async def unreachable(_task_id: str) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(mcp.store, "read", unreachable)

    result = await Host(mcp).call(name, task_id="mcp-1", **ARGUMENTS[name])

    assert result["isError"] is True
    assert "busy" in text(result)


async def test_a_task_that_a_client_made_is_followed_by_a_host_without_tasks() -> None:
    mcp = background(tool())
    task_id = await mcp.start(caps=FORMS)

    result = await Host(mcp).call("task_status", task_id=task_id)

    assert result["structuredContent"]["status"] == "working"
