"""The mcp function as it runs in Lambda: the real runtime client, a process of its own, the local engine behind it."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest

from adapter.stores.table import create_table
from tests.lambdas.hosting import event, event_of
from tests.lambdas.runtime_api import PATIENCE, FunctionFailed, RunningFunction, running
from tests.support.adapter import VERSION, Json, Mcp
from tests.support.aws import aws_at, deploy, local_engine
from tests.support.wire import check_message

HANDLER = "lambdas.mcp.app.handler"
DONE = {"StartAt": "Done", "States": {"Done": {"Type": "Pass", "Result": {"rows": 3}, "End": True}}}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    table = f"runtime-{secrets.token_hex(4)}"

    async def prepare() -> str:
        async with aws_at(local_engine().endpoint) as aws:
            await create_table(aws.dynamodb, table)
            return await deploy(aws, DONE)

    root = tmp_path_factory.mktemp("task-root")
    machine = asyncio.run(prepare())
    (root / "tools.yaml").write_text(
        f"tools: [{{name: work, description: Works., state_machine: '{machine}'}}]"
    )
    return {
        **local_engine().environment,
        "LAMBDA_TASK_ROOT": str(root),
        "ADAPTER_TABLE": table,
        "ADAPTER_SIGNING_KEYS": secrets.token_hex(32),
        "ADAPTER_REFRESH_MIN": "0.05",
    }


@pytest.fixture(scope="module")
def function(environment: dict[str, str]) -> Iterator[RunningFunction]:
    with running(HANDLER, environment) as function:
        yield function


CLIENT = Mcp()


def _call(function: RunningFunction, method: str, params: Json | None = None, **options: Any) -> Json:
    payload = event_of(CLIENT.request(method, params, **options))
    returned = function.api.invoke(payload)
    assert returned["statusCode"] == 200, returned
    message: Json = json.loads(returned["body"])
    check_message(VERSION, message, request_method=method)
    return message


def _result(function: RunningFunction, method: str, params: Json | None = None) -> Json:
    result: Json = _call(function, method, params)["result"]
    return result


@pytest.mark.requirement("B-37")
def test_a_task_goes_its_way_over_several_invocations(function: RunningFunction) -> None:
    created = _result(function, "tools/call", {"name": "work", "arguments": {}})
    deadline = time.monotonic() + PATIENCE
    shown = created
    while shown["status"] == "working" and time.monotonic() < deadline:
        shown = _result(function, "tasks/get", {"taskId": created["taskId"]})
    assert shown["status"] == "completed"
    assert json.loads(shown["result"]["content"][0]["text"]) == {"rows": 3}


@pytest.mark.requirement("B-61")
def test_a_hundred_invocations_are_answered_by_one_process(function: RunningFunction) -> None:
    identifiers = [_call(function, "tools/list", identifier=number)["id"] for number in range(100)]
    assert identifiers == list(range(100))
    assert function.process.poll() is None


def test_invocations_after_one_that_is_no_request_are_answered(function: RunningFunction) -> None:
    assert function.api.invoke({"source": "aws.events"})["statusCode"] == 400
    assert function.api.invoke(event("rest_none"))["statusCode"] == 403
    assert _result(function, "tools/list")["tools"]


def test_an_invocation_that_has_no_time_is_given_up_and_the_next_is_answered(
    function: RunningFunction,
) -> None:
    request = CLIENT.request("tasks/get", {"taskId": "mcp-any"})
    assert function.api.invoke(event_of(request), seconds=0.2)["statusCode"] == 504
    assert _result(function, "tools/list")["tools"]


def test_a_function_that_cannot_start_says_why(environment: dict[str, str]) -> None:
    without_key = {name: value for name, value in environment.items() if name != "ADAPTER_SIGNING_KEYS"}
    with running(HANDLER, without_key) as function:
        assert function.process.wait(30) == 1
        assert function.api.init_error["errorType"] == "ConfigurationError"
        assert "no signing key is set" in function.api.init_error["errorMessage"]


def test_before_a_snapshot_nothing_is_opened_and_after_it_everything(environment: dict[str, str]) -> None:
    with running(HANDLER, environment, initialization="snap-start") as function:
        assert function.api.restored.wait(30)
        assert _result(function, "tools/list")["tools"]
    without_key = {name: value for name, value in environment.items() if name != "ADAPTER_SIGNING_KEYS"}
    with running(HANDLER, without_key, initialization="snap-start") as function:
        assert function.api.restored.wait(30)
        for _ in range(2):
            with pytest.raises(FunctionFailed, match="no signing key is set"):
                _call(function, "tools/list")
