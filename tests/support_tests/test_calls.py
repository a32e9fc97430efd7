"""The record of what the product calls in AWS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from adapter.engines.events import NotAStatusEvent
from lambdas.execution_status import app
from tests.support.aws import aws_at, local_engine
from tests.support.calls import Call, Calls, excess

Scan = Callable[[Any], Awaitable[object]]


async def _scan(client: Any) -> object:
    return await client.scan(TableName="any")


def _of(module: str) -> Scan:
    """`_scan`, written in another module."""
    names: dict[str, Any] = {"__name__": module}
    exec("async def scan(client): return await client.scan(TableName='any')", names)
    scan: Scan = names["scan"]
    return scan


def _scanned(scan: Scan) -> None:
    async def scanned() -> None:
        async with aws_at(local_engine().endpoint) as aws:
            with pytest.raises(ClientError):
                await scan(aws.dynamodb)

    asyncio.run(scanned())


def test_what_the_product_calls_beyond_the_list_is_told(calls: Calls) -> None:
    _scanned(_of("adapter.stores.dynamodb"))
    assert excess(calls.made) == ["dynamodb:Scan on table by the server is more than the policy allows"]
    calls.made.clear()


def test_what_a_handler_calls_is_its_functions(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: object) -> None:
        _scanned(_of("adapter.stores.dynamodb"))
        raise NotAStatusEvent

    monkeypatch.setattr(app, "read_status_event", read)
    assert app.handler({}, None) == {"result": "ignored"}
    assert calls.of("ExecutionStatus") == {"table": {"dynamodb:Scan"}}
    calls.made.clear()


@pytest.mark.parametrize("scan", [_scan, _of("adapter.cli.probes"), _of("adapter.local.deploy")])
def test_what_tests_and_operators_call_is_not_recorded(calls: Calls, scan: Scan) -> None:
    _scanned(scan)
    assert calls.made == set()


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        (Call("Reconcile", "states:ListExecutions", "state machines"), True),
        (Call("Mcp", "states:ListExecutions", "state machines"), False),
        (Call(None, "states:ListExecutions", "state machines"), True),
        (Call("Mcp", "states:StopExecution", "executionArn arn:aws:states:…:execution:work:other"), False),
        (Call("Unlisted", "dynamodb:Query", "table"), False),
        (Call("ExecutionStatus", "sqs:SendMessage", "dead letters"), False),
    ],
)
def test_a_call_is_held_against_the_list_of_its_function(call: Call, allowed: bool) -> None:
    assert (excess([call]) == []) is allowed
