"""tasks/get, tasks/update and tasks/cancel, in every state of a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from adapter.tasks.engine import Snapshot
from adapter.tasks.model import Ending
from tests.support.adapter import PREFIX, TASKS, Mcp, accepted, tool

METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
TASK_MEMBERS = {
    "taskId",
    "status",
    "createdAt",
    "lastUpdatedAt",
    "ttlMs",
    "pollIntervalMs",
    "resultType",
    "_meta",
}


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool())


def params(method: str, task_id: object) -> dict[str, Any]:
    return {"taskId": task_id, **({"inputResponses": {}} if method == "tasks/update" else {})}


# How to bring a task into each of its states; the value is what tasks/get says then.


async def working(mcp: Mcp) -> str:
    return await mcp.start()


async def asking(mcp: Mcp) -> str:
    task_id = await mcp.start()
    mcp.ask(task_id)
    return task_id


async def cancelling(mcp: Mcp) -> str:
    task_id = await mcp.start()
    await mcp.store.request_cancel(task_id, now=mcp.clock())
    return task_id


def ended(**how: Any) -> Callable[[Mcp], Awaitable[str]]:
    async def end(mcp: Mcp) -> str:
        task_id = await mcp.start()
        mcp.end(task_id, **how)
        return task_id

    return end


STATES: dict[str, tuple[Callable[[Mcp], Awaitable[str]], str, str | None]] = {
    "working": (working, "working", None),
    "input_required": (asking, "input_required", "inputRequests"),
    "cancelling": (cancelling, "working", None),
    "succeeded": (ended(output='{"a":1}'), "completed", "result"),
    "failed": (ended(ending=Ending.FAILED, error="Boom", cause="it broke"), "completed", "result"),
    "timed out": (ended(ending=Ending.TIMED_OUT), "completed", "result"),
    "aborted": (ended(ending=Ending.ABORTED, cause="stopped"), "cancelled", None),
    "protocol error": (
        ended(ending=Ending.FAILED, error="McpError", cause='{"code":-32602,"message":"Bad"}'),
        "failed",
        "error",
    ),
    "lost": (ended(ending=Ending.LOST), "failed", "error"),
}
in_each_state = pytest.mark.parametrize("state", STATES)


@pytest.mark.era_rows("modern", 28, 38)
@pytest.mark.requirement("R-105", "R-107", "R-111", "R-109")
@in_each_state
async def test_a_task_has_exactly_the_member_of_its_status(mcp: Mcp, state: str) -> None:
    bring, status, member = STATES[state]
    task_id = await bring(mcp)

    task = await mcp.get(task_id)

    assert task["status"] == status
    assert task.keys() - TASK_MEMBERS - {"statusMessage"} == ({member} if member else set())
    assert task["taskId"] == task_id
    assert task["ttlMs"] == 90_000_000


@pytest.mark.era_rows("modern", 35, 36)
@pytest.mark.requirement("R-114", "R-115", "R-116")
@in_each_state
@pytest.mark.parametrize("method", ["tasks/update", "tasks/cancel"])
async def test_update_and_cancel_are_acknowledged_empty_in_every_state(
    mcp: Mcp, state: str, method: str
) -> None:
    task_id = await STATES[state][0](mcp)
    await mcp.get(task_id)

    result = (await mcp.call(method, params(method, task_id))).result

    assert result.keys() == {"resultType", "_meta"}


@pytest.mark.requirement("R-112")
@pytest.mark.parametrize("state", ["succeeded", "failed", "timed out", "aborted", "protocol error"])
async def test_a_terminal_task_stays_as_it_was_whatever_happens(mcp: Mcp, state: str) -> None:
    task_id = await STATES[state][0](mcp)
    before = await mcp.get(task_id)

    await mcp.call("tasks/cancel", {"taskId": task_id})
    mcp.end(task_id, '"something else"')
    await mcp.call("tasks/update", {"taskId": task_id, "inputResponses": {"q": accepted(sure=True)}})
    after = await mcp.get(task_id)

    assert {**after, "pollIntervalMs": 0} == {**before, "pollIntervalMs": 0}
    assert (mcp.engine.stopped, mcp.engine.answers) == ([], [])


@pytest.mark.era_rows("modern", 41)
@pytest.mark.requirement("R-108")
async def test_the_inner_result_is_a_whole_tool_result(mcp: Mcp) -> None:
    meta = {PREFIX + "related-task": {"taskId": "x"}, "own": 1}
    output = {"content": [{"type": "text", "text": "hi"}], "_meta": meta}
    task_id = await mcp.start()
    mcp.end(task_id, orjson.dumps(output).decode())

    task = await mcp.get(task_id)

    assert task["result"] == {
        "resultType": "complete",
        "content": [{"type": "text", "text": "hi"}],
        "_meta": {"own": 1},
    }


@pytest.mark.era_rows("modern", 33)
@pytest.mark.requirement("R-111", "B-25")
@pytest.mark.parametrize("state", ["failed", "timed out"])
async def test_a_tool_that_fails_is_a_completed_task_with_an_error_result_and_a_message(
    mcp: Mcp, state: str
) -> None:
    task_id = await STATES[state][0](mcp)

    task = await mcp.get(task_id)

    assert (task["status"], task["result"]["isError"]) == ("completed", True)
    assert task["statusMessage"] == task["result"]["content"][0]["text"]


@pytest.mark.era_rows("modern", 34)
@pytest.mark.requirement("R-111", "R-13")
async def test_a_workflow_may_end_in_a_json_rpc_error(mcp: Mcp) -> None:
    task_id = await mcp.start()
    cause = '{"code": 4711, "message": "No such order", "data": {"order": 1.5}}'
    mcp.end(task_id, ending=Ending.FAILED, error="McpError", cause=cause)

    task = await mcp.get(task_id)

    assert task["error"] == {"code": 4711, "message": "No such order", "data": {"order": 1.5}}
    assert task["statusMessage"] == "No such order"


async def test_a_result_that_cannot_be_read_now_is_an_error_of_the_read_and_not_of_the_task(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.end(task_id, output=None)

    answer = await mcp.call("tasks/get", {"taskId": task_id})

    assert answer.refusal == (200, -32603)
    assert "cannot be read now" in answer.error["message"]


# --- ids and owners -------------------------------------------------------------------------------------


@pytest.mark.era_rows("modern", 39, 52)
@pytest.mark.requirement("R-117", "R-122", "R-12", "B-39")
@pytest.mark.parametrize("method", METHODS)
async def test_unknown_foreign_and_expired_tasks_look_the_same(mcp: Mcp, method: str) -> None:
    mine = await mcp.start()
    foreign = await mcp.start(caller="someone else")
    unknown = [
        await mcp.call(method, params(method, i)) for i in ("mcp-unknown", "", "#task", "x" * 3000, foreign)
    ]

    mcp.clock.advance(90_000)
    expired = await mcp.call(method, params(method, mine))

    assert {each.refusal for each in (*unknown, expired)} == {(200, -32602)}
    assert {each.error["message"] for each in (*unknown, expired)} == {"Task not found"}
    assert mcp.engine.stopped == []


@pytest.mark.requirement("R-120")
async def test_a_task_can_be_read_until_its_time_to_live_is_over(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.end(task_id)
    mcp.clock.now = mcp.store.tasks[task_id].record.created_at + 89_999_999

    assert (await mcp.get(task_id))["status"] == "completed"


@pytest.mark.requirement("R-117", "R-114")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task_id", [None, 5, [], {}, True])
async def test_a_task_id_that_is_no_string_is_32602(mcp: Mcp, method: str, task_id: object) -> None:
    answer = await mcp.call(method, params(method, task_id))

    assert answer.refusal == (200, -32602)
    assert "params.taskId" in answer.error["message"]


@pytest.mark.era_rows("modern", 40)
@pytest.mark.requirement("R-103", "R-09", "R-102")
@pytest.mark.parametrize("method", METHODS)
async def test_without_the_extension_in_this_request_no_task_is_touched(mcp: Mcp, method: str) -> None:
    task_id = await asking(mcp)

    answer = await mcp.call(method, params(method, task_id), caps={"elicitation": {}})

    assert answer.refusal == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": TASKS}
    assert mcp.engine.stopped == []


@pytest.mark.requirement("R-80", "R-109")
@pytest.mark.parametrize("method", METHODS)
async def test_task_methods_ignore_what_belongs_to_calls(mcp: Mcp, method: str) -> None:
    task_id = await mcp.start()

    answer = await mcp.call(
        method, {**params(method, task_id), "requestState": "x", "task": {"ttl": 1}, "name": "job"}
    )

    assert answer.result["resultType"] == "complete"
    assert "requestState" not in answer.result


# --- times and messages ---------------------------------------------------------------------------------


@pytest.mark.requirement("R-105")
async def test_times_are_iso_8601_in_utc_and_tell_the_last_change(mcp: Mcp) -> None:
    mcp.clock.now = 1_800_000_000_007
    task_id = await mcp.start()
    mcp.end(task_id, ended_at=1_800_000_012_340)

    task = await mcp.get(task_id)

    assert task["createdAt"] == "2027-01-15T08:00:00.007Z"
    assert task["lastUpdatedAt"] == "2027-01-15T08:00:12.340Z"


async def test_the_end_is_never_told_as_earlier_than_the_beginning(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.end(task_id, ended_at=5)

    task = await mcp.get(task_id)

    assert task["lastUpdatedAt"] == task["createdAt"]


@pytest.mark.requirement("B-42")
async def test_there_is_a_message_even_before_the_job_system_was_asked(mcp: Mcp) -> None:
    task_id = await mcp.start()

    assert (await mcp.get(task_id))["statusMessage"] == "Under way"


@pytest.mark.requirement("B-58")
@pytest.mark.parametrize(
    ("minutes", "age"),
    [
        (9.9, ""),
        (12, " (running for 12 min)"),
        (48 * 60 - 1, " (running for 47 h)"),
        (48 * 60, " (running for 2 days)"),
    ],
)
async def test_a_task_that_runs_for_long_tells_for_how_long(minutes: float, age: str) -> None:
    mcp = Mcp(tool(timeout="30d"))
    task_id = await mcp.start()
    mcp.engine.executions[mcp.execution(task_id)] = Snapshot(message="Running Wait for the bank")
    mcp.clock.advance(minutes * 60)

    assert (await mcp.get(task_id))["statusMessage"] == f"Running Wait for the bank{age}"


async def test_the_message_is_what_the_workflow_reported_last(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.report(task_id, 1, message="Loading", progress=1234567, total=2e7)
    first = await mcp.get(task_id)
    mcp.report(task_id, 2, kind="log", data="{}")
    silent = await mcp.get(task_id)
    mcp.report(task_id, 3, message="Sorting " + "x" * 400, progress=2.5)
    long = await mcp.get(task_id)

    assert first["statusMessage"] == silent["statusMessage"] == "Loading (1234567 of 20000000)"
    assert long["statusMessage"].startswith("Sorting xx")
    assert len(long["statusMessage"]) <= 300


@pytest.mark.era_rows("modern", 35)
async def test_a_task_that_is_told_to_stop_says_so_until_it_has_stopped(mcp: Mcp) -> None:
    task_id = await cancelling(mcp)

    assert (await mcp.get(task_id))["statusMessage"] == "Cancelling"
    mcp.clock.advance(10)
    assert (await mcp.get(task_id))["status"] == "cancelled"


# --- cancelling -----------------------------------------------------------------------------------------


@pytest.mark.requirement("R-116", "R-112", "B-27")
async def test_a_cancel_stops_the_execution_and_the_task_ends_cancelled(mcp: Mcp) -> None:
    task_id = await mcp.start()

    await mcp.call("tasks/cancel", {"taskId": task_id})

    assert mcp.engine.stopped == [mcp.execution(task_id)]
    task = await mcp.get(task_id)
    assert (task["status"], task["statusMessage"]) == ("cancelled", "Cancelled by the MCP client")


@pytest.mark.era_rows("modern", 37)
@pytest.mark.requirement("R-116")
async def test_a_cancel_that_comes_too_late_leaves_the_result(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.end(task_id, '"done"')

    await mcp.call("tasks/cancel", {"taskId": task_id})

    assert (await mcp.get(task_id))["status"] == "completed"


@pytest.mark.requirement("R-119")
async def test_a_cancelled_notification_cancels_no_task(mcp: Mcp) -> None:
    task_id = await mcp.start(identifier=7)

    notice = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 7, "taskId": task_id},
    }
    assert (await mcp.post(notice)).status == 202

    assert mcp.engine.stopped == []
    assert (await mcp.get(task_id))["status"] == "working"
