"""The reconcile function, on the local engine: an end that no event told is found."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from adapter.aws import execution_arn
from adapter.engines.step_functions import StepFunctions
from adapter.errors import EngineUnavailable, StoreUnavailable
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.stores.table import create_table
from adapter.tasks.clock import system_clock
from adapter.tasks.model import Ending, TaskRecord
from lambdas.hosted import open_unattended
from lambdas.loop import Container
from lambdas.reconcile import app
from lambdas.table import open_store
from tests.lambdas.hosting import Context
from tests.support.aws import aws_at, deploy, local_engine, point_at
from tests.support.partition import HOUR, new_record

DONE = {"StartAt": "Done", "States": {"Done": {"Type": "Pass", "Result": {"ok": True}, "End": True}}}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> str:
    """Its ARN; no tools file names it, and the table is new."""
    table = f"reconciled-{secrets.token_hex(4)}"

    async def prepare() -> str:
        async with aws_at(local_engine().endpoint) as aws:
            await create_table(aws.dynamodb, table)
            return await deploy(aws, DONE)

    arn = asyncio.run(prepare())
    point_at(local_engine().endpoint, monkeypatch)
    monkeypatch.setenv("ADAPTER_TABLE", table)
    return arn


@pytest.fixture
def store(machine: str) -> Iterator[Container[DynamoTaskStore]]:
    with Container(open_store) as container:
        yield container


@pytest.fixture
def function(machine: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with Container(open_unattended) as container:
        monkeypatch.setattr(app, "_container", container)
        yield


def _lost(machine: str, store: Container[DynamoTaskStore]) -> TaskRecord:
    """A task that ended a while ago, of which no event told, and which was missing a minute ago."""
    task_id = f"mcp-{secrets.token_urlsafe(16)}"
    execution = machine.replace(":stateMachine:", ":execution:") + f":{task_id}"
    now = system_clock()
    record = new_record(
        task_id=task_id, target=machine, execution=execution, engine="step_functions", created_at=now - HOUR
    )

    async def start() -> None:
        async with aws_at(local_engine().endpoint) as aws:
            await aws.stepfunctions.start_execution(stateMachineArn=machine, name=task_id, input="{}")
            while True:
                reply = await aws.stepfunctions.describe_execution(executionArn=execution)
                if reply["status"] == "SUCCEEDED":
                    return

    asyncio.run(asyncio.wait_for(start(), 10))
    store.run(lambda tasks: tasks.create(record, refresh_at=now + HOUR))
    store.run(lambda tasks: tasks.mark_absent(task_id, now=now - 60_000))
    return record


def _told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one line of the log that a run leaves."""
    (line,) = capsys.readouterr().out.splitlines()
    told: dict[str, Any] = json.loads(line)
    return told


def _metrics(told: dict[str, Any]) -> dict[str, float]:
    (directive,) = told["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "McpWorkflowAdapter"
    assert directive["Dimensions"] == [["Table"]]
    assert isinstance(told["Table"], str)
    assert abs(told["_aws"]["Timestamp"] - system_clock()) < 60_000
    return {each["Name"]: told[each["Name"]] for each in directive["Metrics"]}


def test_an_end_that_no_event_told_is_written(
    machine: str,
    store: Container[DynamoTaskStore],
    function: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = _lost(machine, store)
    report = {
        "open": 1,
        "absent": 1,
        "described": 1,
        "stopped": 0,
        "redelivered": 0,
        "backlog": 0,
        "unlisted": [],
    }
    assert app.handler({"detail-type": "Scheduled Event"}, Context(60)) == report
    task = store.run(lambda tasks: tasks.read(record.task_id))
    assert task is not None
    assert task.outcome is not None
    assert task.outcome.ending is Ending.SUCCEEDED

    told = _told(capsys)
    assert report.items() <= told.items()
    assert _metrics(told) == {"OpenTasks": 1, "RefreshBacklog": 0, "UnlistedStateMachines": 0}

    assert app.handler({}, Context(60))["open"] == 0


def test_a_state_machine_that_cannot_be_listed_is_told_and_the_rest_is_done(
    machine: str,
    store: Container[DynamoTaskStore],
    function: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hidden, lost = f"{machine}-hidden", _lost(machine, store)
    record = new_record(target=hidden, execution=execution_arn(hidden, "mcp-1"), created_at=lost.created_at)
    store.run(lambda tasks: tasks.create(record, refresh_at=0))
    running = StepFunctions.running

    async def denied(engine: StepFunctions, target: str) -> set[str]:
        if target == hidden:
            raise EngineUnavailable
        return await running(engine, target)

    monkeypatch.setattr(StepFunctions, "running", denied)
    report = app.handler({}, Context(60))
    assert (report["described"], report["unlisted"]) == (1, [hidden])
    told = _told(capsys)
    assert told["unlisted"] == [hidden]
    assert _metrics(told)["UnlistedStateMachines"] == 1


def test_a_run_without_time_says_that_something_is_left(machine: str, function: None) -> None:
    assert app.handler({}, Context(4.9))["backlog"] == 1


def test_a_table_that_cannot_be_read_fails_the_run(
    machine: str, function: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADAPTER_TABLE", "no-such-table")
    with pytest.raises(StoreUnavailable):
        app.handler({}, Context(60))
