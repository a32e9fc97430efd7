"""tasks/get and tasks/cancel: statuses, messages, and what stays cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.errors import EngineUnavailable
from adapter.tasks.engine import Snapshot
from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import Mcp, tool
from tests.support.legacy import RELATED, VERSIONS, LegacyClient

OBJECT = {"type": "object"}


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool())


async def begun(mcp: Mcp) -> tuple[LegacyClient, str]:
    client = await LegacyClient.opened(mcp)
    return client, await client.start()


# --- tasks/get ------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-45", "L-43", "L-44")
async def test_get_answers_the_flat_task_and_nothing_else(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)

    answer = await client.call("tasks/get", {"taskId": task_id})

    assert answer.headers["content-type"] == "application/json"
    members = {"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
    assert answer.result.keys() == members
    assert {type(answer.result[name]) for name in ("ttl", "pollInterval")} == {int}


@pytest.mark.requirement("L-44")
async def test_what_else_a_client_sends_along_is_ignored(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    other = await client.start()
    noise = {"task": {"ttl": 60_000}, "_meta": {RELATED: {"taskId": other}}}

    assert (await client.call("tasks/get", {"taskId": task_id, **noise})).result["taskId"] == task_id
    assert (await client.call("tasks/cancel", {"taskId": task_id, **noise})).result["taskId"] == task_id
    assert await client.status(other) == "working"


ENDINGS: list[Any] = [
    ({"output": '{"a":1}'}, "completed", None),
    ({"ending": Ending.FAILED, "error": "Boom", "cause": "it broke"}, "failed", "Boom: it broke"),
    ({"ending": Ending.TIMED_OUT}, "failed", "The execution timed out"),
    ({"ending": Ending.ABORTED, "cause": "by an operator"}, "cancelled", "by an operator"),
    ({"ending": Ending.LOST}, "failed", "The job could not be started"),
    ({"output": '{"content":[{"type":"text","text":"nope"}],"isError":true}'}, "failed", "nope"),
    (
        {"ending": Ending.FAILED, "error": "McpError", "cause": '{"code":-32602,"message":"No order"}'},
        "failed",
        "No order",
    ),
]


@pytest.mark.requirement("L-45", "L-53", "B-26")
@pytest.mark.era_rows("legacy", 33, 34)
@pytest.mark.parametrize(("how", "status", "message"), ENDINGS)
async def test_each_ending_has_its_status_and_its_message(
    mcp: Mcp, how: dict[str, Any], status: str, message: str | None
) -> None:
    client, task_id = await begun(mcp)
    mcp.end(task_id, **how)

    shown = await client.get(task_id)

    assert (shown["status"], shown.get("statusMessage")) == (status, message)
    assert not shown.keys() & {"result", "error", "inputRequests"}
    assert await client.get(task_id) == shown


@pytest.mark.requirement("L-53")
async def test_the_message_of_a_failure_is_short(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.end(task_id, ending=Ending.FAILED, error="Boom", cause="x" * 10_000)

    assert len((await client.get(task_id))["statusMessage"]) <= 301


@pytest.mark.requirement("L-45")
async def test_a_running_task_tells_how_far_it_is(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)

    mcp.report(task_id, 1, message="Loading", progress=2, total=8)
    assert (await client.get(task_id))["statusMessage"] == "Loading (2 of 8)"
    mcp.report(task_id, 2, message="Writing")
    assert (await client.get(task_id))["statusMessage"] == "Writing"


@pytest.mark.requirement("B-58")
async def test_a_task_that_runs_for_long_tells_for_how_long(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.report(task_id, 1, message="Waiting for the bank")
    shown = []
    for seconds in (599, 1, 49 * 60 + 59, 1):
        mcp.clock.advance(seconds)
        shown.append((await client.get(task_id))["statusMessage"])

    assert shown == [
        "Waiting for the bank",
        "Waiting for the bank (running for 10 min)",
        "Waiting for the bank (running for 59 min)",
        "Waiting for the bank (running for 1 h)",
    ]


@pytest.mark.requirement("B-26")
async def test_a_failure_is_told_with_its_own_message_and_not_with_the_last_report(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.report(task_id, 1, message="Loading", progress=2, total=8)
    assert (await client.get(task_id))["statusMessage"] == "Loading (2 of 8)"
    mcp.end(task_id, ending=Ending.FAILED, error="Boom", cause="it broke")

    shown = await client.get(task_id)

    assert (shown["status"], shown["statusMessage"]) == ("failed", "Boom: it broke")
    result = (await client.call("tasks/result", {"taskId": task_id})).result
    assert (result["isError"], result["content"][0]["text"]) == (True, "Boom: it broke")


@pytest.mark.requirement("B-42")
async def test_there_is_a_message_even_before_the_job_system_was_asked(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)

    assert (await client.get(task_id))["statusMessage"] == "Under way"


@pytest.mark.requirement("L-45")
async def test_the_state_that_runs_is_told_where_nothing_was_reported(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.engine.executions[mcp.execution(task_id)] = Snapshot(message="Running Aggregate")
    mcp.clock.advance(61)

    assert (await client.get(task_id))["statusMessage"] == "Running Aggregate"


@pytest.mark.requirement("L-45", "B-54")
async def test_a_job_system_that_cannot_be_asked_costs_no_poll(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, task_id = await begun(mcp)

    async def throttled(*_: object, **__: object) -> None:
        raise EngineUnavailable(throttled=True)

    monkeypatch.setattr(mcp.engine, "describe", throttled)
    mcp.clock.advance(61)

    shown = await client.get(task_id)

    assert shown["status"] == "working"
    assert shown["pollInterval"] > 5000


@pytest.mark.requirement("L-57", "L-62", "L-59", "B-38", "B-39")
@pytest.mark.era_rows("legacy", 39, 52)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
async def test_unknown_expired_and_foreign_tasks_look_the_same(mcp: Mcp, method: str) -> None:
    mine, foreign = await LegacyClient.opened(mcp, caller="ada"), await LegacyClient.opened(mcp, caller="mal")
    expired = await foreign.start()
    mcp.clock.advance(25 * 3600)
    task_id = await mine.start()

    answers = [
        await foreign.call(method, {"taskId": each})
        for each in (task_id, expired, "mcp-unknown", "", "x" * 5000)
    ]

    assert {answer.refusal for answer in answers} == {(200, -32602)}
    assert {answer.error["message"] for answer in answers} == {"Task not found"}
    assert mcp.engine.stopped == []


@pytest.mark.requirement("L-57")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
@pytest.mark.parametrize("params", [None, {}, {"taskId": 5}, {"taskId": ["mcp-1"]}])
async def test_a_task_id_is_required(mcp: Mcp, method: str, params: dict[str, Any] | None) -> None:
    client = await LegacyClient.opened(mcp)

    answer = await client.call(method, params)

    assert answer.refusal == (200, -32602)
    assert "params.taskId" in answer.error["message"]


@pytest.mark.requirement("L-41")
@pytest.mark.era_rows("legacy", 40)
@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"])
async def test_versions_without_tasks_have_no_task_methods(mcp: Mcp, version: str, method: str) -> None:
    client = await LegacyClient.opened(mcp, version, caller="ada")

    assert (await client.call(method, {"taskId": "mcp-1"})).refusal == (200, -32601)


# --- tasks/cancel ---------------------------------------------------------------------------------------


@pytest.mark.requirement("L-54", "L-44", "B-27")
@pytest.mark.era_rows("legacy", 35)
async def test_a_cancel_stops_the_work_and_answers_the_cancelled_task(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)

    result = (await client.call("tasks/cancel", {"taskId": task_id})).result

    assert (result["taskId"], result["status"]) == (task_id, "cancelled")
    assert result.keys() >= {"ttl", "createdAt", "lastUpdatedAt"}
    assert "_meta" not in result
    assert result["statusMessage"]
    assert mcp.engine.stopped == [mcp.execution(task_id)]
    assert await client.status(task_id) == "cancelled"


@pytest.mark.requirement("L-54")
@pytest.mark.era_rows("legacy", 36)
@pytest.mark.parametrize(("how", "status", "message"), ENDINGS)
async def test_a_task_that_has_ended_cannot_be_cancelled(
    mcp: Mcp, how: dict[str, Any], status: str, message: str | None
) -> None:
    client, task_id = await begun(mcp)
    mcp.end(task_id, **how)

    answer = await client.call("tasks/cancel", {"taskId": task_id})

    assert answer.refusal == (200, -32602)
    assert status in answer.error["message"]
    assert mcp.engine.stopped == []
    assert await client.status(task_id) == status


@pytest.mark.requirement("L-54")
async def test_a_second_cancel_is_refused_even_while_the_work_still_stops(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, task_id = await begun(mcp)
    monkeypatch.setattr(mcp.engine, "stop", ignored)

    first = await client.call("tasks/cancel", {"taskId": task_id})
    second = await client.call("tasks/cancel", {"taskId": task_id})

    assert first.result["status"] == "cancelled"
    assert second.refusal == (200, -32602)
    assert "cancelled" in second.error["message"]


async def ignored(*_: object, **__: object) -> None:
    """A job system that takes its time."""


LATE_ENDS = [
    Outcome(Ending.SUCCEEDED, output='"done after all"'),
    Outcome(Ending.FAILED, error="Boom", cause="it broke"),
    Outcome(Ending.TIMED_OUT),
    Outcome(Ending.ABORTED, cause="stopped"),
]


@pytest.mark.requirement("L-54", "L-55")
@pytest.mark.era_rows("legacy", 37, 38)
@pytest.mark.parametrize("outcome", LATE_ENDS, ids=lambda outcome: outcome.ending)
async def test_a_cancelled_task_stays_cancelled_however_its_work_ends(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    client, task_id = await begun(mcp)
    monkeypatch.setattr(mcp.engine, "stop", ignored)
    await client.call("tasks/cancel", {"taskId": task_id})
    assert await client.status(task_id) == "cancelled"

    ended_at = mcp.clock() + 1
    mcp.engine.end(mcp.execution(task_id), Outcome(outcome.ending, outcome.output, ended_at=ended_at))
    mcp.clock.advance(61)

    shown = await client.get(task_id)
    assert shown["status"] == "cancelled"
    assert mcp.store.tasks[task_id].outcome is not None, "the end of the work was seen"
    result = await client.call("tasks/result", {"taskId": task_id})
    assert result.error == {"code": -32603, "message": "Task was cancelled", "data": {"taskId": task_id}}


@pytest.mark.requirement("L-54")
@pytest.mark.era_rows("legacy", 37)
async def test_work_that_had_ended_before_the_cancel_wins(mcp: Mcp, monkeypatch: pytest.MonkeyPatch) -> None:
    client, task_id = await begun(mcp)
    done = Outcome(Ending.SUCCEEDED, output='"done"', ended_at=mcp.clock() + 1)
    mcp.clock.advance(1)
    monkeypatch.setattr(mcp.engine, "stop", ignored)
    mcp.engine.end(mcp.execution(task_id), done)

    answer = await client.call("tasks/cancel", {"taskId": task_id})

    assert answer.refusal == (200, -32602)
    assert "completed" in answer.error["message"]
    assert await client.status(task_id) == "completed"
    assert (await client.call("tasks/result", {"taskId": task_id})).text == "done"


@pytest.mark.requirement("L-54")
async def test_a_stop_that_does_not_get_through_is_told_and_tried_again(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, task_id = await begun(mcp)

    async def unavailable(*_: object, **__: object) -> None:
        raise EngineUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(mcp.engine, "stop", unavailable)
        answer = await client.call("tasks/cancel", {"taskId": task_id})

    assert answer.refusal == (200, -32603)
    assert "tasks/get" in answer.error["message"]
    assert await client.status(task_id) == "working"
    assert mcp.engine.stopped == [mcp.execution(task_id)]
    mcp.clock.advance(61)
    assert await client.status(task_id) == "cancelled"


@pytest.mark.requirement("L-54")
async def test_a_cancelled_task_asks_nothing_any_more(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp, capabilities={"elicitation": {}})
    task_id = await client.start()
    mcp.ask(task_id)

    await client.call("tasks/cancel", {"taskId": task_id})

    assert await client.asked(task_id) == []


# --- what cannot be read --------------------------------------------------------------------------------


@pytest.mark.requirement("L-45")
async def test_a_result_that_exists_but_cannot_be_read_is_an_error(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.end(task_id, output=None)

    for method in ("tasks/get", "tasks/result"):
        assert (await client.call(method, {"taskId": task_id})).refusal == (200, -32603)
