"""tools/call: arguments, tasks or plain results, and what happens when nothing can be started."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from typing import Any

import pytest

from adapter.errors import StartRejected, StartUncertain, StoreUnavailable
from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import ACCOUNT, EXTENSION, FORMS, PATIENCE, TASKS, Answer, Mcp, tool
from tests.support.memory import MemoryEngine

DAY = {
    "type": "object",
    "properties": {"day": {"type": "string", "format": "date"}, "n": {"type": "integer", "maximum": 9}},
    "required": ["day"],
}


def done(_input: bytes) -> Outcome:
    return Outcome(Ending.SUCCEEDED, output='"fine"')


@pytest.mark.era_rows("modern", 54)
@pytest.mark.requirement("R-56")
@pytest.mark.parametrize("params", [{}, {"arguments": {}}, {"arguments": None}])
async def test_absent_arguments_are_an_empty_object(params: dict[str, Any]) -> None:
    mcp = Mcp(tool())

    answer = await mcp.call("tools/call", {"name": "job", **params})

    assert mcp.input(answer.result["taskId"]) == {}


@pytest.mark.requirement("R-57", "R-12")
@pytest.mark.parametrize("arguments", [[], "text", 5, True, [{}]])
async def test_arguments_that_are_no_object_are_32602(arguments: object) -> None:
    mcp = Mcp(tool())

    answer = await mcp.call("tools/call", {"name": "job", "arguments": arguments})

    assert answer.refusal == (200, -32602)
    assert mcp.engine.started == []


@pytest.mark.requirement("R-57", "R-55", "R-12")
@pytest.mark.parametrize("name", ["nothing", "", "Job", "job ", "jöb", "x" * 5000])
async def test_an_unknown_tool_is_32602(name: str) -> None:
    answer = await Mcp(tool()).call("tools/call", {"name": name}, headers=encoded(name))

    assert answer.refusal == (200, -32602)
    assert answer.error["message"].startswith("Unknown tool")
    assert len(answer.error["message"]) < 300


def encoded(name: str) -> dict[str, str | None]:
    return {"mcp-name": f"=?base64?{b64encode(name.encode()).decode()}?="}


@pytest.mark.era_rows("modern", 53)
@pytest.mark.requirement("R-58", "R-59", "R-15")
@pytest.mark.parametrize(
    ("arguments", "place", "rule"),
    [
        ({}, "", "day"),
        ({"day": "yesterday"}, "/day", "date"),
        ({"day": "2026-07-28", "n": 10}, "/n", "9"),
        ({"day": "2026-07-28", "n": 1.5}, "/n", "integer"),
        ({"day": None}, "/day", "string"),
        ({"day": "2026-07-28", "n": "1"}, "/n", "integer"),
    ],
)
@pytest.mark.parametrize("caps", [TASKS, {}], ids=["task", "plain"])
async def test_bad_arguments_are_an_error_result_that_names_place_and_rule_and_start_nothing(
    arguments: dict[str, Any], place: str, rule: str, caps: dict[str, Any]
) -> None:
    mcp = Mcp(tool(input_schema=DAY))

    answer = await mcp.call("tools/call", {"name": "job", "arguments": arguments}, caps=caps)

    assert answer.result["resultType"] == "complete"
    assert answer.result["isError"] is True
    assert place in answer.text
    assert rule in answer.text
    assert (mcp.engine.started, mcp.store.tasks) == ([], {})


@pytest.mark.requirement("R-58", "R-59", "R-15")
@pytest.mark.parametrize("depth", [63, 300, 1000])
async def test_arguments_nested_without_bounds_are_an_error_result(depth: int) -> None:
    mcp = Mcp(tool(input_schema={"type": "object"}))
    request = mcp.request("tools/call", {"name": "job", "arguments": {"deep": "PLACE"}})
    request.body = request.body.replace(b'"PLACE"', b'{"a":' * depth + b"{}" + b"}" * depth)

    answer = await mcp.send(request)

    assert "deeper" in answer.text
    assert answer.result["isError"] is True
    assert mcp.engine.started == []


@pytest.mark.requirement("R-56", "R-59")
async def test_arguments_reach_the_execution_as_they_were_sent() -> None:
    arguments = {"text": "Zürich \u0000 \n", "n": 2**63, "f": 0.1, "null": None, "deep": [{"a": [True, []]}]}
    mcp = Mcp(tool(input_schema={"type": "object"}))

    task_id = await mcp.start(arguments=arguments)

    assert mcp.input(task_id) == arguments


@pytest.mark.era_rows("modern", 24, 26, 27, 44)
@pytest.mark.requirement("R-106", "R-105", "R-109", "R-101", "R-120", "B-42")
async def test_a_task_handle_is_flat_and_says_how_long_and_how_often() -> None:
    mcp = Mcp(tool(timeout="2h", retention="22h", poll_interval="250ms"), refresh_min=0.1)

    result = (await mcp.call("tools/call", {"name": "job"}, caps=TASKS)).result

    task_id = result["taskId"]
    del result["_meta"]
    assert result == {
        "resultType": "task",
        "taskId": task_id,
        "status": "working",
        "createdAt": "2027-01-15T08:00:00.000Z",
        "lastUpdatedAt": "2027-01-15T08:00:00.000Z",
        "ttlMs": 86_400_000,
        "pollIntervalMs": 250,
        "statusMessage": "The job is starting",
    }


@pytest.mark.era_rows("modern", 25)
@pytest.mark.requirement("R-110")
async def test_a_handle_resolves_at_once_also_where_the_job_system_does_not_know_it_yet() -> None:
    mcp = Mcp(tool())
    task_id = await mcp.start()
    mcp.engine.executions.clear()

    assert (await mcp.get(task_id))["status"] == "working"
    mcp.clock.advance(60)
    assert (await mcp.get(task_id))["status"] == "working"


@pytest.mark.requirement("R-122")
async def test_task_ids_are_long_random_and_not_made_from_the_call() -> None:
    mcp = Mcp(tool())

    ids = [await mcp.start(identifier="same") for _ in range(200)]

    assert len(set(ids)) == 200
    assert all(each.startswith("mcp-") and len(each) >= 4 + 22 for each in ids)
    prefixes = {each[4:8] for each in ids}
    assert len(prefixes) > 190


@pytest.mark.requirement("B-51")
async def test_the_execution_has_the_name_of_its_task_however_long_that_of_the_tool_is() -> None:
    mcp = Mcp(tool("t" * 128), tool("t" * 127 + "u"))

    ids = [await mcp.start(name, identifier="i" * 500) for name in mcp.targets for _ in range(50)]

    assert [execution.rpartition(":")[2] for execution in mcp.engine.started] == ids
    assert len(set(ids)) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,80}", each) for each in ids)


@pytest.mark.era_rows("modern", 20)
@pytest.mark.requirement("R-104", "R-102")
@pytest.mark.parametrize(
    ("support", "caps", "kind"),
    [
        ("optional", TASKS, "task"),
        ("optional", {}, "complete"),
        ("required", TASKS, "task"),
        ("forbidden", TASKS, "complete"),
        ("forbidden", {}, "complete"),
    ],
)
async def test_the_server_decides_between_handle_and_plain_result(
    support: str, caps: dict[str, Any], kind: str
) -> None:
    mcp = Mcp(tool(task_support=support), engine=MemoryEngine(ends_at_once=done), refresh_min=0.001)

    answer = await called(mcp, caps)

    assert answer.result["resultType"] == kind
    assert kind == "task" or answer.text == "fine"


async def called(mcp: Mcp, caps: dict[str, Any]) -> Answer:
    """A call while time moves on, so that the end of its execution is seen."""
    calling = asyncio.create_task(mcp.call("tools/call", {"name": "job"}, caps=caps))
    async with asyncio.timeout(PATIENCE):
        while not calling.done():
            await asyncio.sleep(0)
            mcp.clock.advance(0.1)
    return calling.result()


@pytest.mark.era_rows("modern", 22)
@pytest.mark.requirement("R-102", "R-09", "R-28", "R-12", "B-30")
async def test_a_tool_that_needs_a_task_is_refused_before_anything_starts() -> None:
    mcp = Mcp(tool(task_support="required"))

    answer = await mcp.call("tools/call", {"name": "job"}, caps={"elicitation": {}})

    assert answer.refusal == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    assert mcp.engine.started == []


@pytest.mark.requirement("R-59", "R-12")
async def test_a_start_that_the_caller_can_mend_or_repeat_is_told_to_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mcp = Mcp(tool())
    for members in ({"caller_fault": True}, {"retryable": True}):
        fail_start(mcp, monkeypatch, StartRejected("The input is too large", **members))

        answer = await mcp.call("tools/call", {"name": "job"})

        assert (answer.result["isError"], answer.text) == (True, "The input is too large")
        assert mcp.store.tasks == {}


@pytest.mark.requirement("R-12")
async def test_a_start_that_we_cannot_do_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = Mcp(tool())
    fail_start(mcp, monkeypatch, StartRejected("The job system refused the start"))

    answer = await mcp.call("tools/call", {"name": "job"})

    assert answer.refusal == (200, -32603)
    assert answer.error["message"] == "The job system refused the start"
    assert mcp.store.tasks == {}


@pytest.mark.requirement("R-110")
async def test_a_start_whose_reply_was_lost_still_gives_a_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = Mcp(tool())
    fail_start(mcp, monkeypatch, StartUncertain("lost"))

    task_id = await mcp.start()

    assert (await mcp.get(task_id))["status"] == "working"


def fail_start(mcp: Mcp, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def start(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(mcp.engine, "start", start)


@pytest.mark.requirement("R-12")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "job"}),
        ("tasks/get", {"taskId": "mcp-1"}),
        ("tasks/cancel", {"taskId": "mcp-1"}),
    ],
)
async def test_a_store_that_cannot_be_reached_is_a_busy_server(
    monkeypatch: pytest.MonkeyPatch, method: str, params: dict[str, Any]
) -> None:
    mcp = Mcp(tool())

    async def unreachable(*_: object, **__: object) -> None:
        raise StoreUnavailable(f"table in account {ACCOUNT}")

    for operation in ("create", "read"):
        monkeypatch.setattr(mcp.store, operation, unreachable)

    answer = await mcp.call(method, params)

    assert answer.refusal == (200, -32603)
    assert answer.error["message"] == "The server is busy; try again"


@pytest.mark.requirement("R-08")
async def test_another_instance_serves_a_task_that_it_did_not_create() -> None:
    mcp = Mcp(tool())
    task_id = await mcp.start()
    other = mcp.sibling(tool())

    mcp.end(task_id, '"done"')

    assert (await other.get(task_id))["result"]["content"][0]["text"] == "done"


async def test_a_task_survives_the_removal_of_its_tool() -> None:
    mcp = Mcp(tool(output_schema={"type": "object"}))
    task_id = await mcp.start()
    mcp.end(task_id, '{"a":1}')

    without = mcp.sibling(tool("other"))

    assert (await without.get(task_id))["result"]["structuredContent"] == {"a": 1}


@pytest.mark.requirement("R-80")
async def test_a_tool_that_asks_nothing_ignores_answers_and_states() -> None:
    mcp = Mcp(tool())

    answer = await mcp.call(
        "tools/call", {"name": "job", "inputResponses": {"x": 1}, "requestState": 7}, caps=FORMS
    )

    assert answer.result["resultType"] == "task"
