"""The reconcile function, on the local engine: an end that no event told is found."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapter.errors import StoreUnavailable
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.stores.table import create_table
from adapter.tasks.clock import system_clock
from adapter.tasks.model import Ending, TaskRecord
from lambdas.loop import Container
from lambdas.reconcile import app
from lambdas.table import open_store
from tests.lambdas.hosting import Context
from tests.support.aws import aws_at, deploy, local_engine, point_at
from tests.support.partition import HOUR, new_record

DONE = {"StartAt": "Done", "States": {"Done": {"Type": "Pass", "Result": {"ok": True}, "End": True}}}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its ARN; a tools file names it, and the table is new."""
    table = f"reconciled-{secrets.token_hex(4)}"

    async def prepare() -> str:
        async with aws_at(local_engine().endpoint) as aws:
            await create_table(aws.dynamodb, table)
            return await deploy(aws, DONE)

    arn = asyncio.run(prepare())
    (tmp_path / "tools.yaml").write_text(
        f"tools: [{{name: work, description: Works., state_machine: '{arn}'}}]"
    )
    point_at(local_engine().endpoint, monkeypatch)
    monkeypatch.setenv("LAMBDA_TASK_ROOT", str(tmp_path))
    monkeypatch.setenv("ADAPTER_TABLE", table)
    return arn


@pytest.fixture
def store(machine: str) -> Iterator[Container[DynamoTaskStore]]:
    with Container(open_store) as container:
        yield container


@pytest.fixture
def function(machine: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with Container(app.opened) as container:
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


def test_an_end_that_no_event_told_is_written(
    machine: str,
    store: Container[DynamoTaskStore],
    function: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = _lost(machine, store)
    report = app.handler({"detail-type": "Scheduled Event"}, Context(60))
    assert report == {
        "open": 1,
        "absent": 1,
        "described": 1,
        "stopped": 0,
        "redelivered": 0,
        "backlog": 0,
        "unlisted": 0,
    }
    task = store.run(lambda tasks: tasks.read(record.task_id))
    assert task is not None
    assert task.outcome is not None
    assert task.outcome.ending is Ending.SUCCEEDED

    (line,) = capsys.readouterr().out.splitlines()
    metric = json.loads(line)
    (directive,) = metric["_aws"]["CloudWatchMetrics"]
    assert {each["Name"]: metric[each["Name"]] for each in directive["Metrics"]} == {
        "OpenTasks": 1,
        "RefreshBacklog": 0,
    }
    assert directive["Namespace"] == "McpWorkflowAdapter"
    assert abs(metric["_aws"]["Timestamp"] - system_clock()) < 60_000

    assert app.handler({}, Context(60))["open"] == 0


def test_a_run_without_time_says_that_something_is_left(machine: str, function: None) -> None:
    assert app.handler({}, Context(4.9))["backlog"] == 1


def test_a_table_that_cannot_be_read_fails_the_run(
    machine: str, function: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADAPTER_TABLE", "no-such-table")
    with pytest.raises(StoreUnavailable):
        app.handler({}, Context(60))
