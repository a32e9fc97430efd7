"""Whether the server's IAM actions are allowed: each is tried in a way that changes and starts nothing.

Writes carry a condition that no item meets; the executions and tokens that are named do not exist; the input
of the one start is not JSON. What AWS answers when permission was not the problem counts as allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from adapter.aws import execution_arn

from .findings import Finding

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient
    from types_aiobotocore_dynamodb.type_defs import UniversalAttributeValueTypeDef
    from types_aiobotocore_stepfunctions import SFNClient

_NOTHING = "mcp-adapter-check"
"""An execution name, partition and token that nothing has."""
_DENIALS = ("AccessDeniedException", "AccessDenied", "UnauthorizedOperation")
_HARMLESS = (
    "ConditionalCheckFailedException",
    "ExecutionAlreadyExists",
    "ExecutionDoesNotExist",
    "InvalidExecutionInput",
    "InvalidToken",
    "TaskDoesNotExist",
    "TaskTimedOut",
    "ValidationException",
)
_NEVER = "attribute_exists(pk)"


def is_denial(error: ClientError) -> bool:
    return error.response["Error"]["Code"] in _DENIALS


async def store_permissions(client: DynamoDBClient, table: str) -> list[Finding]:
    """The actions on the table, as one finding where all are allowed."""
    key: Mapping[str, UniversalAttributeValueTypeDef] = {"pk": {"S": _NOTHING}, "sk": {"S": "#task"}}
    tried = {
        "dynamodb:Query": client.query(
            TableName=table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": key["pk"]},
        ),
        "dynamodb:GetItem": client.get_item(TableName=table, Key=key),
        "dynamodb:PutItem": client.put_item(TableName=table, Item=key, ConditionExpression=_NEVER),
        "dynamodb:UpdateItem": client.update_item(TableName=table, Key=key, ConditionExpression=_NEVER),
        "dynamodb:DeleteItem": client.delete_item(TableName=table, Key=key, ConditionExpression=_NEVER),
    }
    return await _findings(f"permissions on table {table}", tried, table)


async def engine_permissions(client: SFNClient, target: str) -> list[Finding]:
    """The actions on one state machine, its executions and tokens."""
    execution = execution_arn(target, _NOTHING)
    tried = {
        "states:StartExecution": _not_started(client, target),
        "states:DescribeExecution": client.describe_execution(executionArn=execution),
        "states:GetExecutionHistory": client.get_execution_history(executionArn=execution),
        "states:StopExecution": client.stop_execution(executionArn=execution),
        "states:SendTaskSuccess": client.send_task_success(taskToken=_NOTHING, output="{}"),
        "states:SendTaskFailure": client.send_task_failure(taskToken=_NOTHING),
    }
    return await _findings(f"permissions on {target.split(':')[6]}", tried, target)


async def _not_started(client: SFNClient, target: str) -> None:
    """Emulators may take input that is not JSON; AWS refuses it."""
    started = await client.start_execution(stateMachineArn=target, name=_NOTHING, input="not JSON")
    if "executionArn" in started:
        await client.stop_execution(executionArn=started["executionArn"])


async def _findings(subject: str, tried: Mapping[str, Awaitable[object]], resource: str) -> list[Finding]:
    answers = await asyncio.gather(*map(_problem, tried.values()))
    problems = dict(zip(tried, answers, strict=True))
    denied = [action for action, problem in problems.items() if problem == "denied"]
    found = [Finding.bad(subject, f"allow {', '.join(denied)} for {resource}")] if denied else []
    found += [
        Finding.bad(subject, f"{action} answers {problem}")
        for action, problem in problems.items()
        if problem not in (None, "denied")
    ]
    return found or [Finding.good(subject, ", ".join(action.partition(":")[2] for action in tried))]


async def _problem(attempt: Awaitable[object]) -> str | None:
    try:
        await attempt
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if is_denial(error):
            return "denied"
        return None if code in _HARMLESS else code
    except BotoCoreError as error:
        return str(error)
    return None
