"""tools/call with `task`: a task or an error, never a plain result."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.errors import StartRejected, StartUncertain, StoreUnavailable
from tests.support.adapter import Mcp, tool
from tests.support.legacy import LATEST, RELATED, VERSIONS, LegacyClient

DAY: dict[str, Any] = {
    "type": "object",
    "properties": {"day": {"type": "string", "format": "date"}},
    "required": ["day"],
}
HOUR, DAYS = 3_600_000, 86_400_000
LEAST = HOUR + DAYS
"""The time to live of a tool with the default timeout and retention, in milliseconds."""


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool())


async def created(mcp: Mcp, task: Any, **params: Any) -> dict[str, Any]:
    client = await LegacyClient.opened(mcp)
    answer = await client.call("tools/call", {"name": "job", "task": task, **params})
    return dict(answer.result["task"])


# --- the handle -----------------------------------------------------------------------------------------


@pytest.mark.requirement("L-40", "L-42", "L-43", "L-44", "B-42")
@pytest.mark.era_rows("legacy", 20, 24, 26, 27, 44)
async def test_a_call_with_task_is_answered_with_a_nested_working_task(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp)

    result = (await client.call("tools/call", {"name": "job", "task": {}})).result

    task_id = mcp.only_task
    assert result == {
        "task": {
            "taskId": task_id,
            "status": "working",
            "createdAt": "2027-01-15T08:00:00.000Z",
            "lastUpdatedAt": "2027-01-15T08:00:00.000Z",
            "ttl": LEAST,
            "pollInterval": 5000,
            "statusMessage": "The job is starting",
        },
        "_meta": {RELATED: {"taskId": task_id}},
    }


@pytest.mark.requirement("L-42")
@pytest.mark.era_rows("legacy", 25)
async def test_the_handle_can_be_read_at_once(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp)

    assert await client.status(await client.start()) == "working"


@pytest.mark.requirement("L-59")
async def test_task_ids_cannot_be_guessed(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp)

    ids = {await client.start() for _ in range(50)}

    assert len(ids) == 50
    assert all(len(task_id.removeprefix("mcp-")) >= 22 for task_id in ids), "128 bits in base64"


@pytest.mark.requirement("B-31")
async def test_a_result_is_kept_after_a_run_that_is_longer_than_the_ttl_that_was_asked_for() -> None:
    mcp = Mcp(tool(timeout="20m", retention="1h"))
    client = await LegacyClient.opened(mcp)
    answer = await client.call("tools/call", {"name": "job", "task": {"ttl": 300_000}})
    task_id = answer.result["task"]["taskId"]

    mcp.clock.advance(20 * 60 - 61)
    mcp.end(task_id, '"done"')
    mcp.clock.advance(59 * 60)

    assert (await client.call("tasks/result", {"taskId": task_id})).text == "done"


@pytest.mark.requirement("L-43", "L-61", "B-31")
@pytest.mark.era_rows("legacy", 26)
@pytest.mark.parametrize(
    ("task", "ttl"),
    [
        ({}, LEAST),
        ({"ttl": None}, LEAST),
        ({"ttl": 0}, LEAST),
        ({"ttl": 60_000}, LEAST),
        ({"ttl": LEAST + 1}, LEAST + 1),
        ({"ttl": 3 * DAYS}, 3 * DAYS),
        ({"ttl": 7 * DAYS}, 7 * DAYS),
        ({"ttl": 10**15}, 7 * DAYS),
    ],
)
async def test_the_ttl_that_is_asked_for_is_raised_and_cut_and_the_real_one_is_told(
    task: dict[str, Any], ttl: int
) -> None:
    mcp = Mcp(tool(), max_ttl=7 * 86_400)

    shown = await created(mcp, task)

    assert shown["ttl"] == ttl
    assert mcp.store.tasks[mcp.only_task].record.ttl_ms == ttl


@pytest.mark.requirement("L-40", "L-32")
@pytest.mark.parametrize("ttl", ["60000", 1.5, 60000.0, -1, True, [], {}])
async def test_a_ttl_that_makes_no_sense_is_refused_by_its_path(mcp: Mcp, ttl: object) -> None:
    client = await LegacyClient.opened(mcp)

    answer = await client.call("tools/call", {"name": "job", "task": {"ttl": ttl}})

    assert answer.refusal == (200, -32602)
    assert "params.task.ttl" in answer.error["message"]
    assert mcp.engine.started == []


@pytest.mark.requirement("L-40")
@pytest.mark.parametrize("task", [[], "yes", 1, True, False])
async def test_a_task_wish_that_is_no_object_is_refused(mcp: Mcp, task: object) -> None:
    client = await LegacyClient.opened(mcp)

    answer = await client.call("tools/call", {"name": "job", "task": task})

    assert answer.refusal == (200, -32602)
    assert "params.task" in answer.error["message"]


@pytest.mark.requirement("L-40")
async def test_unknown_members_of_the_wish_are_ignored(mcp: Mcp) -> None:
    assert (await created(mcp, {"ttl": 1, "priority": "high"}))["status"] == "working"


@pytest.mark.requirement("L-40")
@pytest.mark.era_rows("legacy", 54)
@pytest.mark.parametrize("params", [{}, {"arguments": None}, {"arguments": {}}])
async def test_arguments_that_are_left_out_are_empty(mcp: Mcp, params: dict[str, Any]) -> None:
    await created(mcp, {}, **params)

    assert mcp.input(mcp.only_task) == {}


# --- what contradicts the tool --------------------------------------------------------------------------


@pytest.mark.requirement("L-41")
@pytest.mark.era_rows("legacy", 23)
async def test_a_tool_that_forbids_tasks_is_refused_as_one(mcp: Mcp) -> None:
    mcp = Mcp(tool(task_support="forbidden"))
    client = await LegacyClient.opened(mcp)

    answer = await client.call("tools/call", {"name": "job", "task": {}})

    assert answer.refusal == (200, -32601)
    assert mcp.engine.started == []


@pytest.mark.requirement("L-41", "B-30")
@pytest.mark.era_rows("legacy", 22)
async def test_a_tool_that_requires_a_task_is_refused_without_before_anything_starts() -> None:
    mcp = Mcp(tool(task_support="required"))
    client = await LegacyClient.opened(mcp)

    answer = await client.call("tools/call", {"name": "job"})

    assert answer.refusal == (200, -32601)
    assert mcp.engine.started == []
    assert (await client.call("tools/call", {"name": "job", "task": {}})).result["task"]


@pytest.mark.requirement("L-41", "B-30")
@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_versions_without_tasks_are_told_in_words_that_a_task_is_required(version: str) -> None:
    mcp = Mcp(tool(task_support="required"))
    client = await LegacyClient.opened(mcp, version)

    answer = await client.call("tools/call", {"name": "job", "task": {}})

    assert answer.result["isError"] is True
    assert version in answer.text
    assert mcp.engine.started == []


@pytest.mark.requirement("L-41")
@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_versions_without_tasks_ignore_the_wish_for_one(version: str) -> None:
    mcp = Mcp(tool(inline_wait="0s"))
    client = await LegacyClient.opened(mcp, version)

    answer = await client.call("tools/call", {"name": "job", "task": "nonsense"})

    assert answer.result.keys() == {"content", "isError"}


@pytest.mark.requirement("L-41")
async def test_a_wish_that_is_null_is_none(mcp: Mcp) -> None:
    mcp = Mcp(tool(inline_wait="0s"))
    client = await LegacyClient.opened(mcp)

    assert "content" in (await client.call("tools/call", {"name": "job", "task": None})).result


@pytest.mark.requirement("L-41")
async def test_companion_tools_do_not_run_as_tasks() -> None:
    client = await LegacyClient.opened(Mcp(tool(), companion_tools="on"))

    answer = await client.call("tools/call", {"name": "task_status", "arguments": {}, "task": {}})

    assert answer.refusal == (200, -32601)


# --- what cannot be started -----------------------------------------------------------------------------


@pytest.mark.requirement("L-32")
@pytest.mark.era_rows("legacy", 53)
@pytest.mark.parametrize("arguments", [{}, {"day": 5}, {"day": "soon"}])
async def test_arguments_that_break_the_schema_are_refused_by_their_path(arguments: dict[str, Any]) -> None:
    mcp = Mcp(tool(input_schema=DAY))
    client = await LegacyClient.opened(mcp)

    answer = await client.call("tools/call", {"name": "job", "arguments": arguments, "task": {}})

    assert answer.refusal == (200, -32602)
    assert "day" in answer.error["message"]
    assert mcp.engine.started == []


@pytest.mark.requirement("L-32")
@pytest.mark.era_rows("legacy", 53)
@pytest.mark.parametrize("version", VERSIONS)
async def test_without_a_task_such_arguments_are_an_error_result(version: str) -> None:
    mcp = Mcp(tool(input_schema=DAY))
    client = await LegacyClient.opened(mcp, version)

    answer = await client.call("tools/call", {"name": "job", "arguments": {"day": 5}})

    assert answer.result["isError"] is True
    assert "/day" in answer.text
    assert mcp.engine.started == []


@pytest.mark.requirement("L-32")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["unknown", "", "task_status", "JOB", "x" * 5000])
async def test_an_unknown_tool_is_an_error_of_the_request(mcp: Mcp, version: str, name: str) -> None:
    client = await LegacyClient.opened(mcp, version)

    for task in ({}, {"task": {}}):
        answer = await client.call("tools/call", {"name": name, **task})
        assert answer.refusal == (200, -32602)
        assert len(answer.error["message"]) < 300


@pytest.mark.requirement("L-32")
@pytest.mark.parametrize("params", [None, {}, {"name": 5}, {"name": "job", "arguments": "x"}])
async def test_malformed_params_are_an_error_of_the_request(mcp: Mcp, params: dict[str, Any] | None) -> None:
    client = await LegacyClient.opened(mcp)

    assert (await client.call("tools/call", params)).refusal == (200, -32602)


REJECTIONS = [
    (StartRejected("Too many executions; try again later", retryable=True), -32603, "try again later"),
    (StartRejected("The input is too long", caller_fault=True), -32602, "too long"),
    (StartRejected("The job could not be started"), -32603, "could not be started"),
    (StoreUnavailable(), -32603, "busy"),
]


@pytest.mark.requirement("L-42")
@pytest.mark.parametrize(("problem", "code", "words"), REJECTIONS, ids=lambda value: str(value)[:20])
async def test_a_start_that_fails_is_an_error_and_never_a_plain_result(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch, problem: Exception, code: int, words: str
) -> None:
    client = await LegacyClient.opened(mcp)

    async def start(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(mcp.engine, "start", start)

    answer = await client.call("tools/call", {"name": "job", "task": {}})

    assert answer.refusal == (200, code)
    assert words in answer.error["message"]


@pytest.mark.requirement("L-33")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("problem", "code", "words"), REJECTIONS[:2], ids=["busy", "input"])
async def test_a_plain_call_that_cannot_be_started_now_is_an_error_result(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch, version: str, problem: Exception, code: int, words: str
) -> None:
    client = await LegacyClient.opened(mcp, version)

    async def start(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(mcp.engine, "start", start)

    answer = await client.call("tools/call", {"name": "job"})

    assert answer.result["isError"] is True
    assert words in answer.text


@pytest.mark.requirement("L-42")
async def test_a_start_whose_reply_is_lost_gives_the_handle(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await LegacyClient.opened(mcp)

    async def start(*_: object, **__: object) -> None:
        raise StartUncertain

    monkeypatch.setattr(mcp.engine, "start", start)

    assert await client.status(await client.start()) == "working"


@pytest.mark.requirement("L-40")
async def test_a_client_that_takes_only_json_gets_its_task(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp)

    answer = await client.call(
        "tools/call", {"name": "job", "task": {}}, headers={"accept": "application/json"}
    )

    assert answer.headers["content-type"] == "application/json"
    assert answer.result["task"]["status"] == "working"


@pytest.mark.requirement("L-40")
async def test_a_client_that_takes_only_events_gets_its_task_as_one(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp)

    answer = await client.call(
        "tools/call", {"name": "job", "task": {}}, headers={"accept": "text/event-stream"}
    )

    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.result["task"]["status"] == "working"
    refused = await client.call(
        "tools/call", {"name": "job", "arguments": [], "task": {}}, headers={"accept": "text/event-stream"}
    )
    assert refused.refusal == (200, -32602)


@pytest.mark.requirement("L-43")
@pytest.mark.era_rows("legacy", 18)
async def test_every_tool_call_of_this_version_knows_no_modern_members(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp, LATEST)

    shown = await client.get(await client.start())

    assert not shown.keys() & {"ttlMs", "pollIntervalMs", "resultType", "inputRequests", "result", "error"}
