from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from botocore.exceptions import ClientError

from adapter.aws import Aws
from adapter.stores.table import create_table
from tests.support.aws import aws_at, deploy, local_engine

T = TypeVar("T")

PASS = {"Type": "Pass", "End": True}


async def eventually(look: Callable[[], Awaitable[T | None]], seconds: float = 60) -> T:
    """What `look` finds, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := await look()):
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.01)
    return found


async def error_code(call: Awaitable[object]) -> str:
    with pytest.raises(ClientError) as caught:
        await call
    return str(caught.value.response["Error"]["Code"])


class Lab:
    """State machines, executions and task tokens on the local engine."""

    def __init__(self, aws: Aws, table: str) -> None:
        self.states = aws.stepfunctions
        self.dynamodb = aws.dynamodb
        self.table = table
        self._aws = aws

    def wait(self, **fields: Any) -> dict[str, Any]:
        """A state that writes its token to the table and waits for the answer."""
        return {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:dynamodb:updateItem.waitForTaskToken",
            "Parameters": {
                "TableName": self.table,
                "Key": {
                    "pk": {"S.$": "$$.Execution.Name"},
                    "sk": {"S.$": "States.Format('input#{}', States.UUID())"},
                },
                "UpdateExpression": "SET #token = :token",
                "ExpressionAttributeNames": {"#token": "token"},
                "ExpressionAttributeValues": {":token": {"S.$": "$$.Task.Token"}},
            },
            **({} if "Next" in fields else {"End": True}),
            **fields,
        }

    async def deploy(self, definition: Mapping[str, Any]) -> str:
        return await deploy(self._aws, definition)

    async def machine(self, *states: Mapping[str, Any], **fields: Any) -> str:
        """The ARN of a state machine of states named A, B, … that starts at A."""
        named = {chr(ord("A") + number): state for number, state in enumerate(states)}
        return await self.deploy({"StartAt": "A", "States": named, **fields})

    async def start(self, machine: str, value: object = None) -> str:
        """The ARN of a new execution."""
        name = f"mcp-{secrets.token_hex(16)}"
        text = json.dumps({} if value is None else value)
        return (await self.states.start_execution(stateMachineArn=machine, name=name, input=text))[
            "executionArn"
        ]

    async def items(self, execution: str) -> list[dict[str, Any]]:
        """What an execution wrote, in the order of its sort keys, attribute types left out."""
        reply = await self.dynamodb.query(
            TableName=self.table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": execution.rpartition(":")[2]}},
            ConsistentRead=True,
        )
        return [{name: next(iter(v.values())) for name, v in item.items()} for item in reply["Items"]]

    async def tokens(self, execution: str, count: int = 1) -> list[str]:
        """The tokens that its states have written, once there are `count`."""

        async def look() -> list[str] | None:
            tokens = [item["token"] for item in await self.items(execution) if "token" in item]
            return tokens if len(tokens) >= count else None

        return await eventually(look)

    async def answer(self, token: str, value: object = None) -> None:
        await self.states.send_task_success(taskToken=token, output=json.dumps(value))

    async def describe(self, execution: str) -> Mapping[str, Any]:
        return await self.states.describe_execution(executionArn=execution)

    async def end(self, execution: str) -> Mapping[str, Any]:
        """How it ended, once it has."""

        async def look() -> Mapping[str, Any] | None:
            found = await self.describe(execution)
            return None if found["status"] == "RUNNING" else found

        return await eventually(look)

    async def run(self, *states: Mapping[str, Any], value: object = None) -> Mapping[str, Any]:
        return await self.end(await self.start(await self.machine(*states), value))

    async def events(self, execution: str, **options: Any) -> Sequence[Mapping[str, Any]]:
        return (await self.states.get_execution_history(executionArn=execution, **options))["events"]


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def lab() -> AsyncIterator[Lab]:
    async with aws_at(local_engine().endpoint) as aws:
        await create_table(aws.dynamodb, "lab")
        yield Lab(aws, "lab")
