from __future__ import annotations

import asyncio

import pytest

from .conftest import PASS, Lab, error_code

pytestmark = pytest.mark.asyncio(loop_scope="package")

CATCH_ALL = [{"ErrorEquals": ["States.ALL"], "Next": "B"}]
RETRY_ALL = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "MaxAttempts": 3}]


def waits(lab: Lab, shape: str) -> tuple[dict, object, int]:
    """A state that waits for tokens, the input it needs, and how many tokens."""
    branch = {"StartAt": "P", "States": {"P": lab.wait()}}
    match shape:
        case "task":
            return lab.wait(), {}, 1
        case "parallel":
            return {"Type": "Parallel", "End": True, "Branches": [branch, branch]}, {}, 2
        case _:
            return {"Type": "Map", "End": True, "ItemProcessor": branch}, [1, 2], 2


@pytest.mark.requirement("B-59")
@pytest.mark.parametrize("shape", ["task", "parallel", "map"])
async def test_a_stop_during_a_token_wait_is_an_abort_at_once(lab: Lab, shape: str) -> None:
    state, value, count = waits(lab, shape)
    execution = await lab.start(await lab.machine(state), value)
    tokens = await lab.tokens(execution, count)
    stopped = await lab.states.stop_execution(executionArn=execution, error="McpCancelled", cause="why")
    ended = await lab.describe(execution)
    assert (ended["status"], ended["error"], ended["cause"]) == ("ABORTED", "McpCancelled", "why")
    assert ended["stopDate"] >= ended["startDate"]
    assert stopped["stopDate"] >= ended["startDate"]
    for token in tokens:
        assert await error_code(lab.answer(token)) == "TaskTimedOut"
    assert (await lab.events(execution))[-1]["type"] == "ExecutionAborted"


async def test_neither_retry_nor_catch_survives_a_stop(lab: Lab) -> None:
    machine = await lab.machine(lab.wait(Retry=RETRY_ALL, Catch=CATCH_ALL), PASS)
    execution = await lab.start(machine)
    await lab.tokens(execution)
    await lab.states.stop_execution(executionArn=execution)
    ended = await lab.describe(execution)
    assert ended["status"] == "ABORTED"
    assert not {"output", "error", "cause"} & set(ended)
    kinds = [event["type"] for event in await lab.events(execution)]
    assert kinds[-2:] == ["TaskSubmitted", "ExecutionAborted"]


@pytest.mark.requirement("B-55")
async def test_a_stop_of_a_finished_execution_leaves_it_as_it_is(lab: Lab) -> None:
    execution = await lab.start(await lab.machine({**PASS, "Result": 1}))
    before = await lab.end(execution)
    stopped = await lab.states.stop_execution(executionArn=execution, error="Late", cause="too late")
    after = await lab.describe(execution)
    assert stopped["stopDate"] == before["stopDate"]
    assert {**before, "ResponseMetadata": None} == {**after, "ResponseMetadata": None}


async def test_a_second_stop_does_not_replace_the_first(lab: Lab) -> None:
    execution = await lab.start(await lab.machine(lab.wait()))
    await lab.states.stop_execution(executionArn=execution, error="First")
    await lab.states.stop_execution(executionArn=execution, error="Second")
    assert (await lab.describe(execution))["error"] == "First"


async def test_a_stop_at_once_after_the_start_is_an_abort(lab: Lab) -> None:
    machine = await lab.machine(lab.wait(Next="B"), PASS)
    executions = [await lab.start(machine) for _ in range(5)]
    for execution in executions:
        await lab.states.stop_execution(executionArn=execution)
        assert (await lab.describe(execution))["status"] == "ABORTED"


async def test_a_stop_ends_a_plain_wait(lab: Lab) -> None:
    execution = await lab.start(await lab.machine({"Type": "Wait", "Seconds": 3600, "End": True}))
    await lab.states.stop_execution(executionArn=execution)
    assert (await lab.describe(execution))["status"] == "ABORTED"


async def test_the_time_limit_of_an_execution_has_neither_error_nor_cause(lab: Lab) -> None:
    execution = await lab.start(await lab.machine(lab.wait(), TimeoutSeconds=3))
    [token] = await lab.tokens(execution)
    ended = await lab.end(execution)
    assert ended["status"] == "TIMED_OUT"
    assert ended["stopDate"] > ended["startDate"]
    assert not {"output", "error", "cause"} & set(ended)
    assert await error_code(lab.answer(token)) == "TaskTimedOut"
    assert (await lab.events(execution))[-1]["type"] == "ExecutionTimedOut"


async def test_a_failed_branch_closes_the_waits_of_the_others(lab: Lab) -> None:
    state, value, _ = waits(lab, "parallel")
    execution = await lab.start(await lab.machine(state), value)
    first, second = await lab.tokens(execution, 2)
    await lab.states.send_task_failure(taskToken=first, error="Broken", cause="branch")
    ended = await lab.end(execution)
    assert (ended["status"], ended["error"], ended["cause"]) == ("FAILED", "Broken", "branch")
    assert await error_code(lab.answer(second)) == "TaskTimedOut"


async def test_output_is_there_as_soon_as_the_status_is(lab: Lab) -> None:
    machine = await lab.machine({**PASS, "Result": {"n": 1}})
    executions = await asyncio.gather(*(lab.start(machine) for _ in range(20)))
    ends = await asyncio.gather(*(lab.end(execution) for execution in executions))
    assert {end.get("output") for end in ends} == {'{"n":1}'}
