from __future__ import annotations

import asyncio
import json
import secrets
from datetime import datetime

import pytest

from .conftest import PASS, Lab, error_code

pytestmark = pytest.mark.asyncio(loop_scope="package")


@pytest.mark.requirement("B-51")
@pytest.mark.parametrize("name", ["bad name", "a*b", "a/b", "a:b", "a\x01b", "x" * 81])
async def test_a_name_that_aws_forbids_is_refused(lab: Lab, name: str) -> None:
    machine = await lab.machine(PASS)
    start = lab.states.start_execution(stateMachineArn=machine, name=name, input="{}")
    assert await error_code(start) == "InvalidName"


@pytest.mark.parametrize("text", ["{", "", json.dumps("x" * 262_143)])
async def test_input_that_is_not_json_or_too_long_is_refused(lab: Lab, text: str) -> None:
    machine = await lab.machine(PASS)
    start = lab.states.start_execution(stateMachineArn=machine, name=secrets.token_hex(8), input=text)
    assert await error_code(start) == "InvalidExecutionInput"


async def test_the_longest_input_is_taken(lab: Lab) -> None:
    execution = await lab.start(await lab.machine(PASS), "x" * 262_142)
    assert len((await lab.describe(execution))["input"]) == 262_144


async def test_an_execution_without_a_name_gets_one_of_its_own(lab: Lab) -> None:
    machine = await lab.machine(PASS)
    first, second = [await lab.states.start_execution(stateMachineArn=machine, input="{}") for _ in range(2)]
    assert first["executionArn"] != second["executionArn"]


async def test_starts_of_one_name_at_the_same_time_are_one_execution(lab: Lab) -> None:
    machine = await lab.machine(lab.wait())
    name = secrets.token_hex(8)
    start = [lab.states.start_execution(stateMachineArn=machine, name=name, input="{}") for _ in range(10)]
    assert len({reply["executionArn"] for reply in await asyncio.gather(*start)}) == 1
    running = await lab.states.list_executions(stateMachineArn=machine, statusFilter="RUNNING")
    assert len(running["executions"]) == 1


async def test_a_used_name_with_another_input_is_refused(lab: Lab) -> None:
    machine = await lab.machine(lab.wait())
    execution = await lab.start(machine)
    name = execution.rpartition(":")[2]
    start = lab.states.start_execution(stateMachineArn=machine, name=name, input="[]")
    assert await error_code(start) == "ExecutionAlreadyExists"


async def test_start_and_entry_times_are_json_in_utc(lab: Lab) -> None:
    times = {"started.$": "$$.Execution.StartTime", "entered.$": "$$.State.EnteredTime"}
    ended = await lab.run({**PASS, "Parameters": times})
    output = json.loads(ended["output"])
    assert datetime.fromisoformat(output["started"]) == ended["startDate"]
    assert datetime.fromisoformat(output["entered"]) >= ended["startDate"]
    assert output["started"].endswith("Z")
    assert output["entered"].endswith("Z")


async def test_executions_of_one_definition_do_not_share_their_retries(lab: Lab) -> None:
    retry = [{"ErrorEquals": ["Again"], "IntervalSeconds": 1, "MaxAttempts": 1}]
    machine = await lab.machine(lab.wait(Retry=retry))
    executions = [await lab.start(machine) for _ in range(3)]
    for execution in executions:
        [token] = await lab.tokens(execution)
        await lab.states.send_task_failure(taskToken=token, error="Again")
    for execution in executions:
        assert len(await lab.tokens(execution, 2)) == 2


async def test_many_executions_wait_and_are_answered_at_the_same_time(lab: Lab) -> None:
    machine = await lab.machine(lab.wait())

    async def one(number: int) -> str:
        execution = await lab.start(machine)
        [token] = await lab.tokens(execution)
        await lab.answer(token, number)
        return str((await lab.end(execution))["output"])

    numbers = range(40)
    assert await asyncio.gather(*map(one, numbers)) == [str(number) for number in numbers]
