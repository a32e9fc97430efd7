"""Real executions on the local engine."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from adapter.aws import Aws
from adapter.engines.step_functions import StepFunctions
from adapter.errors import ExecutionUnknown, QuestionClosed, StartRejected
from adapter.tasks.engine import Refusal, Snapshot
from adapter.tasks.model import Ending, Outcome
from tests.support.aws import counted_calls, deploy
from tests.support.faults import FaultyAws

pytestmark = pytest.mark.asyncio(loop_scope="session")

T = TypeVar("T")


def _machine(*states: tuple[str, dict[str, Any]], **settings: Any) -> dict[str, Any]:
    """Of states that follow each other."""
    chain = {
        name: state
        if state["Type"] == "Fail"
        else {**state, **({"Next": states[place][0]} if place < len(states) else {"End": True})}
        for place, (name, state) in enumerate(states, 1)
    }
    return {"StartAt": states[0][0], "States": chain, **settings}


WAIT = {"Type": "Wait", "Seconds": 3600}


def _name() -> str:
    return f"mcp-{secrets.token_urlsafe(16)}"


async def _started(engine: StepFunctions, machine: str, work: object = None) -> str:
    name = _name()
    await engine.start(machine, name, json.dumps(work or {}).encode(), within=30)
    return engine.execution_of(machine, name)


async def _until(look: Callable[[], Awaitable[T | None]]) -> T:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (found := await look()) is not None:
            return found
    raise AssertionError("it did not come")


async def _outcome(engine: StepFunctions, execution: str) -> Outcome:
    async def look() -> Outcome | None:
        return (await engine.describe(execution, with_step=False)).outcome

    return await _until(look)


async def test_work_that_succeeds_gives_its_output_as_json_text(aws: Aws, engine: StepFunctions) -> None:
    machine = await deploy(aws, _machine(("Pass", {"Type": "Pass"})))
    before = int(time.time() * 1000)
    outcome = await _outcome(engine, await _started(engine, machine, {"day": "ä", "rows": [1]}))
    assert outcome.ending is Ending.SUCCEEDED
    assert json.loads(outcome.output or "") == {"day": "ä", "rows": [1]}
    assert before - 1_000 <= outcome.ended_at <= int(time.time() * 1000) + 1_000


async def test_work_that_fails_gives_error_and_cause(aws: Aws, engine: StepFunctions) -> None:
    fail = {"Type": "Fail", "Error": "CardDeclined", "Cause": "No money"}
    outcome = await _outcome(engine, await _started(engine, await deploy(aws, _machine(("Fail", fail)))))
    assert (outcome.ending, outcome.error, outcome.cause) == (Ending.FAILED, "CardDeclined", "No money")
    assert outcome.output is None


async def test_work_that_takes_too_long_has_timed_out(aws: Aws, engine: StepFunctions) -> None:
    machine = await deploy(aws, _machine(("Wait", WAIT), TimeoutSeconds=1))
    outcome = await _outcome(engine, await _started(engine, machine))
    assert outcome.ending is Ending.TIMED_OUT


async def test_the_running_state_is_told(aws: Aws, engine: StepFunctions) -> None:
    machine = await deploy(aws, _machine(("Prepare", {"Type": "Pass"}), ("Charge card", WAIT)))
    execution = await _started(engine, machine)

    async def look() -> bool | None:
        return await engine.describe(execution) == Snapshot(message='Running state "Charge card"') or None

    assert await _until(look)
    assert await engine.describe(execution, with_step=False) == Snapshot()
    await engine.stop(execution, error="Done", cause="")


async def test_starting_twice_under_one_name_starts_one(aws: Aws, engine: StepFunctions) -> None:
    machine = await deploy(aws, _machine(("Wait", WAIT)))
    name = _name()
    starts = [engine.start(machine, name, b'{"a": 1}', within=30) for _ in range(3)]
    await asyncio.gather(*starts)
    await engine.start(machine, name, b'{"another": 2}', within=30)
    reply = await aws.stepfunctions.list_executions(stateMachineArn=machine)
    assert [execution["name"] for execution in reply["executions"]] == [name]
    assert reply["executions"][0]["executionArn"] == engine.execution_of(machine, name)
    await engine.stop(engine.execution_of(machine, name), error="Done", cause="")


async def test_the_input_arrives_byte_for_byte(aws: Aws, engine: StepFunctions, faults: FaultyAws) -> None:
    machine = await deploy(aws, _machine(("Pass", {"Type": "Pass"})))
    text = '{ "b":1.0 ,"a":"\\u00e4ä\\n",  "big":12345678901234567890}'
    await engine.start(machine, _name(), text.encode(), within=30)
    assert [request["input"] for operation, request in faults.requests if operation == "StartExecution"] == [
        text
    ]


@pytest.mark.requirement("B-55")
async def test_stopped_work_is_aborted_with_the_reason_given(aws: Aws, engine: StepFunctions) -> None:
    execution = await _started(engine, await deploy(aws, _machine(("Wait", WAIT))))
    await engine.stop(execution, error="McpCancelled", cause="Cancelled by the client")
    outcome = await _outcome(engine, execution)
    assert (outcome.ending, outcome.error) == (Ending.ABORTED, "McpCancelled")
    assert outcome.cause == "Cancelled by the client"


@pytest.mark.requirement("B-55")
async def test_stopping_what_has_ended_is_no_error(aws: Aws, engine: StepFunctions) -> None:
    execution = await _started(engine, await deploy(aws, _machine(("Pass", {"Type": "Pass"}))))
    outcome = await _outcome(engine, execution)
    await engine.stop(execution, error="McpCancelled", cause="")
    assert await _outcome(engine, execution) == outcome


@pytest.mark.requirement("B-55")
async def test_an_execution_that_never_was_is_unknown(aws: Aws, engine: StepFunctions) -> None:
    machine = await deploy(aws, _machine(("Pass", {"Type": "Pass"})))
    execution = engine.execution_of(machine, _name())
    with pytest.raises(ExecutionUnknown):
        await engine.describe(execution)
    with pytest.raises(ExecutionUnknown):
        await engine.stop(execution, error="McpCancelled", cause="")


async def test_a_machine_that_does_not_exist_starts_nothing(aws: Aws, engine: StepFunctions) -> None:
    with pytest.raises(StartRejected) as raised:
        await _started(engine, "arn:aws:states:us-east-1:123456789012:stateMachine:nothing")
    assert (raised.value.retryable, raised.value.caller_fault) == (False, False)


async def _asked(aws: Aws, engine: StepFunctions) -> tuple[str, str]:
    """An execution that waits for an answer, and the token to give it with."""
    table = f"tokens-{secrets.token_hex(6)}"
    await aws.dynamodb.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    key = {"pk": {"S": "question"}}
    ask = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:dynamodb:updateItem.waitForTaskToken",
        "Parameters": {
            "TableName": table,
            "Key": key,
            "UpdateExpression": "SET answerWith = :token",
            "ExpressionAttributeValues": {":token": {"S.$": "$$.Task.Token"}},
        },
    }
    execution = await _started(engine, await deploy(aws, _machine(("Ask", ask))))

    async def look() -> str | None:
        reply = await aws.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)
        return reply["Item"]["answerWith"]["S"] if "Item" in reply else None

    return execution, await _until(look)


async def test_an_answer_becomes_the_output_of_the_waiting_state(aws: Aws, engine: StepFunctions) -> None:
    execution, token = await _asked(aws, engine)
    await engine.answer(token, '{"action":"accept"}')
    outcome = await _outcome(engine, execution)
    assert (outcome.ending, json.loads(outcome.output or "")) == (Ending.SUCCEEDED, {"action": "accept"})


async def test_a_refusal_fails_the_waiting_state(aws: Aws, engine: StepFunctions) -> None:
    execution, token = await _asked(aws, engine)
    await engine.answer(token, Refusal("McpInvalidInputRequest", "no method"))
    outcome = await _outcome(engine, execution)
    assert (outcome.ending, outcome.error, outcome.cause) == (
        Ending.FAILED,
        "McpInvalidInputRequest",
        "no method",
    )


@pytest.mark.parametrize("ended_by", ["answer", "stop"])
async def test_a_question_that_waits_no_longer_is_closed(
    aws: Aws, engine: StepFunctions, ended_by: str
) -> None:
    execution, token = await _asked(aws, engine)
    if ended_by == "answer":
        await engine.answer(token, "1")
    else:
        await engine.stop(execution, error="McpCancelled", cause="")
    await _outcome(engine, execution)
    for answer in ("2", Refusal("Late", "")):
        with pytest.raises(QuestionClosed):
            await engine.answer(token, answer)


async def test_each_use_is_one_call_and_a_running_describe_two(aws: Aws, engine: StepFunctions) -> None:
    machine = await deploy(aws, _machine(("Wait", WAIT)))
    with counted_calls(aws) as calls:
        execution = await _started(engine, machine)
        await engine.describe(execution, with_step=False)
        await engine.describe(execution)
        await engine.stop(execution, error="Done", cause="")
        assert calls == [
            "StartExecution",
            "DescribeExecution",
            "DescribeExecution",
            "GetExecutionHistory",
            "StopExecution",
        ]
    await _outcome(engine, execution)
    with counted_calls(aws) as calls:
        await engine.describe(execution)
        assert calls == ["DescribeExecution"]
