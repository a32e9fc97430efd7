"""AWS for tests: the local engine, clients on it, and a count of the calls that are made."""

from __future__ import annotations

import atexit
import json
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import cache
from typing import Any

import pytest
from botocore.retries.standard import ExponentialBackoff

from adapter.aws import Aws, open_aws
from adapter.local.engine import LocalAws

REGION = "us-east-1"
ACCOUNT = "123456789012"
MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:work"


@cache
def local_engine() -> LocalAws:
    """One for all tests of a process."""
    engine = LocalAws.start()
    atexit.register(engine.close)
    return engine


@asynccontextmanager
async def aws_at(endpoint: str, *, patient: bool = True) -> AsyncIterator[Aws]:
    """Clients on an endpoint; the environment names it only while they are made.

    The local engine on a busy machine may need longer than AWS: `patient` clients give it a minute.
    """
    async with AsyncExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            point_at(endpoint, patch)
            if patient:
                patch.setattr("adapter.aws.CONNECT_TIMEOUT", 60.0)
                patch.setattr("adapter.aws.READ_TIMEOUT", 60.0)
            aws = await stack.enter_async_context(open_aws())
        yield aws


def point_at(endpoint: str, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AWS_ENDPOINT_URL", endpoint)
    patch.setenv("AWS_ACCESS_KEY_ID", "test")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    patch.setenv("AWS_DEFAULT_REGION", REGION)


def retry_without_pauses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0)


@contextmanager
def counted_calls(aws: Aws) -> Iterator[list[str]]:
    """The operations that are called inside, retries of the SDK not counted."""
    calls: list[str] = []

    def note(model: Any, **_: object) -> None:
        calls.append(model.name)

    clients = (aws.stepfunctions, aws.dynamodb)
    for client in clients:
        client.meta.events.register("before-call", note)
    try:
        yield calls
    finally:
        for client in clients:
            client.meta.events.unregister("before-call", note)


async def deploy(aws: Aws, definition: Mapping[str, Any]) -> str:
    """The ARN of a new state machine."""
    reply = await aws.stepfunctions.create_state_machine(
        name=f"machine-{secrets.token_hex(6)}",
        definition=json.dumps(definition),
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/any",
    )
    return reply["stateMachineArn"]
