"""The handler. A workflow invokes it with `.waitForTaskToken` and this payload:

    {"taskId.$": "$$.Execution.Name", "token.$": "$$.Task.Token", "enteredAt.$": "$$.State.EnteredTime",
     "method": "elicitation/create", "params": {"message": "…", "requestedSchema": {…}}, "timeoutSeconds": 3600}

`method` defaults to elicitation/create; `enteredAt` and `timeoutSeconds` are optional and tell when the question
is over. A question that no client could show fails the state with `InvalidInputRequest`; an unknown task with
`UnknownTask`: both can be caught.
"""

from __future__ import annotations

import os
import time
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
import orjson
from botocore.config import Config
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from adapter.errors import first_problem
from adapter.mcp.inputs import QuestionPolicy
from adapter.stores.questions import EXPIRY, expiry_of, new_question, record_key
from adapter.timeouts import ATTEMPTS, CONNECT_TIMEOUT, READ_TIMEOUT
from lambdas.context import may_open_now

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_dynamodb.type_defs import AttributeValueTypeDef

    Item = dict[str, AttributeValueTypeDef]


_MAX_NAME = 80


class InvalidInputRequest(Exception):
    """The payload is not a question that a client could show."""


class UnknownTask(Exception):
    """There is no such task: the execution was not started by the adapter, or its time to live is over."""


class Payload(BaseModel):
    """What a workflow sends."""

    model_config = ConfigDict(extra="forbid")

    task_id: str = Field(alias="taskId", min_length=1)
    token: str = Field(min_length=1, max_length=2048)
    method: str = "elicitation/create"
    params: dict[str, Any] = Field(default_factory=dict)
    entered_at: str | None = Field(None, alias="enteredAt")
    timeout_seconds: int | None = Field(None, alias="timeoutSeconds", strict=True, gt=0, le=99_999_999)

    @field_validator("entered_at")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                datetime.fromisoformat(value)
            except ValueError:
                raise ValueError("give `$$.State.EnteredTime`") from None
        return value


def handler(event: object, _context: object) -> dict[str, str]:
    """Write the question under its task. Raises InvalidInputRequest, UnknownTask."""
    payload, params = _checked(event)
    if len(payload.task_id) > _MAX_NAME:
        raise UnknownTask("taskId is longer than the name of any execution")
    table = os.environ["ADAPTER_TABLE"]
    reply = _dynamodb().get_item(
        TableName=table,
        Key=record_key(payload.task_id),
        ConsistentRead=True,
        ProjectionExpression=EXPIRY,
    )
    expires_at = expiry_of(reply.get("Item", {}))
    if expires_at <= time.time():
        raise UnknownTask(f"{payload.task_id!r} is not a task of this adapter, or is over")
    _register(table, _item(payload, params, expires_at))
    return {"status": "registered"}


def _register(table: str, item: Item) -> None:
    """Once: a retried invocation must not bring back a question that has been answered meanwhile."""
    client = _dynamodb()
    try:
        client.put_item(TableName=table, Item=item, ConditionExpression="attribute_not_exists(pk)")
    except client.exceptions.ConditionalCheckFailedException:
        return


def _checked(event: object) -> tuple[Payload, str]:
    """The payload, and its `params` as the JSON text that the server will check again."""
    try:
        orjson.dumps(event)
    except TypeError as error:
        raise InvalidInputRequest(f"payload: cannot be kept as JSON: {error}") from None
    try:
        payload = Payload.model_validate(event)
    except ValidationError as error:
        where, rule = first_problem(error)
        raise InvalidInputRequest(f"{where or 'payload'}: {rule}") from None
    params = orjson.dumps(payload.params).decode()
    problem = QuestionPolicy().request_problem(payload.method, params)
    if problem is not None:
        raise InvalidInputRequest(problem)
    return payload, params


def _item(payload: Payload, params: str, expires_at: int) -> Item:
    return new_question(
        payload.task_id,
        token=payload.token,
        method=payload.method,
        params=params,
        entered_at=payload.entered_at,
        timeout_seconds=payload.timeout_seconds,
        expires_at=expires_at,
    )


@cache
def _dynamodb() -> DynamoDBClient:
    """One client per container, as patient as all others: the default would outlast the function."""
    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
    )
    client: DynamoDBClient = boto3.client("dynamodb", config=config)
    return client


if may_open_now():
    _dynamodb()
