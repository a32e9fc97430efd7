from __future__ import annotations

import json

import pytest

from .conftest import PASS, Lab, error_code

pytestmark = pytest.mark.asyncio(loop_scope="package")


@pytest.mark.requirement("B-59")
async def test_an_answer_resumes_the_state_that_waits(lab: Lab) -> None:
    execution = await lab.start(await lab.machine(lab.wait()))
    [token] = await lab.tokens(execution)
    await lab.answer(token, {"action": "accept"})
    ended = await lab.end(execution)
    assert (ended["status"], ended["output"]) == ("SUCCEEDED", '{"action":"accept"}')


@pytest.mark.requirement("B-59")
@pytest.mark.parametrize("shape", ["Parallel", "Map"])
async def test_two_waits_at_the_same_time_are_answered_one_by_one(lab: Lab, shape: str) -> None:
    branch = {"StartAt": "P", "States": {"P": lab.wait()}}
    inner = {"Branches": [branch, branch]} if shape == "Parallel" else {"ItemProcessor": branch}
    execution = await lab.start(await lab.machine({"Type": shape, "End": True, **inner}), ["x", "y"])
    first, second = await lab.tokens(execution, 2)
    await lab.answer(second, "second")
    assert await error_code(lab.answer(second)) == "TaskTimedOut"
    assert (await lab.describe(execution))["status"] == "RUNNING"
    await lab.answer(first, "first")
    assert sorted(json.loads((await lab.end(execution))["output"])) == ["first", "second"]


async def test_a_token_answers_once(lab: Lab) -> None:
    execution = await lab.start(await lab.machine(lab.wait()))
    [token] = await lab.tokens(execution)
    await lab.answer(token, "first")
    assert await error_code(lab.answer(token, "second")) == "TaskTimedOut"
    assert (await lab.end(execution))["output"] == '"first"'
    assert await error_code(lab.states.send_task_failure(taskToken=token)) == "TaskTimedOut"


async def test_an_unknown_token_is_invalid(lab: Lab) -> None:
    assert await error_code(lab.answer("never-issued")) == "InvalidToken"
    assert await error_code(lab.states.send_task_failure(taskToken="never-issued")) == "InvalidToken"


@pytest.mark.parametrize("output", ["{", json.dumps("x" * 262_143)])
async def test_output_that_is_not_json_or_too_long_is_refused_and_the_wait_goes_on(
    lab: Lab, output: str
) -> None:
    execution = await lab.start(await lab.machine(lab.wait()))
    [token] = await lab.tokens(execution)
    refused = lab.states.send_task_success(taskToken=token, output=output)
    assert await error_code(refused) == "InvalidOutput"
    await lab.answer(token)
    assert (await lab.end(execution))["status"] == "SUCCEEDED"


async def test_a_failed_task_keeps_error_and_cause(lab: Lab) -> None:
    execution = await lab.start(await lab.machine(lab.wait()))
    [token] = await lab.tokens(execution)
    await lab.states.send_task_failure(taskToken=token, error="Refused", cause="not today")
    ended = await lab.end(execution)
    assert (ended["status"], ended["error"], ended["cause"]) == ("FAILED", "Refused", "not today")


async def test_a_failed_task_can_be_caught(lab: Lab) -> None:
    catch = [{"ErrorEquals": ["Refused"], "Next": "B"}]
    execution = await lab.start(await lab.machine(lab.wait(Catch=catch), PASS))
    [token] = await lab.tokens(execution)
    await lab.states.send_task_failure(taskToken=token, error="Refused", cause="not today")
    assert (await lab.end(execution))["output"] == '{"Error":"Refused","Cause":"not today"}'


async def test_a_task_fails_also_without_error_and_cause(lab: Lab) -> None:
    execution = await lab.start(await lab.machine(lab.wait()))
    [token] = await lab.tokens(execution)
    await lab.states.send_task_failure(taskToken=token)
    ended = await lab.end(execution)
    assert ended["status"] == "FAILED"
    assert not {"error", "cause"} & set(ended)


@pytest.mark.requirement("B-58")
async def test_a_wait_past_its_time_limit_fails_and_takes_no_answer(lab: Lab) -> None:
    execution = await lab.start(await lab.machine(lab.wait(TimeoutSeconds=1)))
    [token] = await lab.tokens(execution)
    ended = await lab.end(execution)
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Timeout")
    assert await error_code(lab.answer(token)) == "TaskTimedOut"


async def test_a_silent_wait_with_a_heartbeat_fails_and_takes_no_answer(lab: Lab) -> None:
    execution = await lab.start(await lab.machine(lab.wait(TimeoutSeconds=60, HeartbeatSeconds=1)))
    [token] = await lab.tokens(execution)
    assert (await lab.end(execution))["status"] == "FAILED"
    assert await error_code(lab.answer(token)) == "TaskTimedOut"


@pytest.mark.requirement("B-59")
async def test_the_input_of_the_execution_is_still_there_after_a_wait(lab: Lab) -> None:
    later = {**PASS, "Parameters": {"input.$": "$$.Execution.Input", "answer.$": "$"}}
    machine = await lab.machine(lab.wait(Next="B"), later)
    execution = await lab.start(machine, {"documents": ["a", "b"]})
    [token] = await lab.tokens(execution)
    await lab.answer(token, {"action": "accept"})
    output = json.loads((await lab.end(execution))["output"])
    assert output == {"input": {"documents": ["a", "b"]}, "answer": {"action": "accept"}}


@pytest.mark.requirement("B-59")
async def test_each_attempt_has_a_token_of_its_own(lab: Lab) -> None:
    retry = [{"ErrorEquals": ["Again"], "IntervalSeconds": 1, "MaxAttempts": 1}]
    execution = await lab.start(await lab.machine(lab.wait(Retry=retry)))
    [first] = await lab.tokens(execution)
    await lab.states.send_task_failure(taskToken=first, error="Again")
    second = next(token for token in await lab.tokens(execution, 2) if token != first)
    assert await error_code(lab.answer(first)) == "TaskTimedOut"
    await lab.answer(second, "second")
    assert (await lab.end(execution))["output"] == '"second"'
