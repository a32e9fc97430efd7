"""Status events are written through: best effort, in any order, perhaps twice (D7)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import pytest

from adapter.errors import StoreUnavailable
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.tasks.model import Ending, Task, TaskRecord
from lambdas.execution_status import app
from lambdas.loop import Container
from lambdas.table import open_store
from tests.lambdas.hosting import event
from tests.support.partition import HOUR, NOW, new_record

EXECUTION = "arn:aws:states:eu-central-1:123456789012:execution:nightly-report:"


@dataclass
class Recorded:
    """A task of the table, and the function that is told of its execution."""

    container: Container[DynamoTaskStore]
    record: TaskRecord

    def told(self, fixture: str, **detail: Any) -> str:
        """What the function makes of that event, for this execution."""
        payload = event(fixture)
        mine = {"name": self.record.task_id, "executionArn": self.record.execution}
        payload["detail"] |= {**mine, **detail}
        return app.handler(payload, None)["result"]

    @property
    def task(self) -> Task:
        task = self.container.run(lambda store: store.read(self.record.task_id))
        assert task is not None
        return task

    @property
    def ending(self) -> Ending | None:
        outcome = self.task.outcome
        return None if outcome is None else outcome.ending

    @property
    def is_due(self) -> bool:
        return self.task.refresh_due(NOW + 10 * HOUR) and self.task.refresh_at != NOW + HOUR


@pytest.fixture
def recorded(container: Container[DynamoTaskStore], monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr(app, "_container", container)
    task_id = f"mcp-{secrets.token_urlsafe(16)}"
    record = new_record(task_id=task_id, execution=EXECUTION + task_id)
    container.run(lambda store: store.create(record, refresh_at=NOW + HOUR))
    return Recorded(container, record)


# --- what is written ---------------------------------------------------------------------------------------


def test_a_success_is_written_with_its_output(recorded: Recorded) -> None:
    assert recorded.told("states_succeeded") == "written"
    outcome = recorded.task.outcome
    assert outcome is not None
    assert outcome.ending is Ending.SUCCEEDED
    assert outcome.output == '{"rows":1834,"url":"https://reports.example.com/2027-01-14"}'
    assert outcome.ended_at == 1_800_000_321_457


def test_a_long_output_is_written_whole(recorded: Recorded) -> None:
    output = '{"text":"' + "x" * 200_000 + '"}'
    assert recorded.told("states_succeeded", output=output) == "written"
    outcome = recorded.task.outcome
    assert outcome is not None
    assert outcome.output == output


def test_a_failure_with_its_error_is_written(recorded: Recorded) -> None:
    assert recorded.told("states_failed_with_error") == "written"
    outcome = recorded.task.outcome
    assert outcome is not None
    assert (outcome.ending, outcome.error, outcome.cause) == (
        Ending.FAILED,
        "ReportBroken",
        "No orders on 2027-01-14",
    )


def test_a_time_out_which_has_no_error_is_written(recorded: Recorded) -> None:
    assert recorded.told("states_timed_out") == "written"
    assert recorded.ending is Ending.TIMED_OUT


# --- what only makes the task due --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["states_failed", "states_aborted", "states_succeeded_without_output"])
def test_an_end_without_its_output_or_error_makes_the_task_due(recorded: Recorded, name: str) -> None:
    assert not recorded.is_due
    assert recorded.told(name) == "due"
    assert recorded.ending is None
    assert recorded.is_due


def test_an_end_that_was_made_due_is_written_by_a_later_event_that_tells_more(recorded: Recorded) -> None:
    recorded.told("states_failed")
    assert recorded.told("states_failed_with_error") == "written"
    assert recorded.ending is Ending.FAILED


# --- order and repetition ----------------------------------------------------------------------------------


def test_an_event_that_comes_twice_is_written_once(recorded: Recorded) -> None:
    assert [recorded.told("states_succeeded") for _ in range(3)] == ["written", "known", "known"]


@pytest.mark.parametrize("name", ["states_running", "states_redriven"])
def test_a_start_is_ignored_whenever_it_comes(recorded: Recorded, name: str) -> None:
    assert recorded.told(name) == "ignored"
    assert not recorded.is_due
    recorded.told("states_succeeded")
    assert recorded.told(name) == "ignored"
    assert recorded.ending is Ending.SUCCEEDED


def test_the_first_end_stays_though_the_execution_is_redriven(recorded: Recorded) -> None:
    recorded.told("states_failed_with_error")
    recorded.told("states_redriven")
    assert recorded.told("states_succeeded") == "known"
    assert recorded.told("states_succeeded_without_output") == "known"
    assert recorded.ending is Ending.FAILED


# --- what is not ours --------------------------------------------------------------------------------------


@pytest.mark.requirement("B-31")
@pytest.mark.parametrize("name", ["states_succeeded", "states_failed", "states_timed_out"])
def test_an_unknown_execution_is_dropped(recorded: Recorded, name: str) -> None:
    assert recorded.told(name, name="mcp-unknown", executionArn=EXECUTION + "mcp-unknown") == "known"
    assert recorded.container.run(lambda store: store.read("mcp-unknown")) is None


@pytest.mark.parametrize("name", ["states_succeeded", "states_failed"])
def test_an_execution_of_another_state_machine_with_the_same_name_is_dropped(
    recorded: Recorded, name: str
) -> None:
    other = recorded.record.execution.replace("nightly-report", "other")
    assert recorded.told(name, executionArn=other) == "known"
    assert recorded.ending is None
    assert not recorded.is_due


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        {},
        event("rest_cognito"),
        {"source": "aws.states", "detail": None},
        {"source": "aws.batch", "detail": event("states_succeeded")["detail"]},
        {"source": "aws.states", "detail": {"name": "mcp-a", "status": "SUCCEEDED"}},
        {"source": "aws.states", "detail": {"name": 1, "executionArn": "a", "status": "SUCCEEDED"}},
    ],
)
def test_other_events_are_dropped(recorded: Recorded, payload: object) -> None:
    assert app.handler(payload, None) == {"result": "ignored"}


# --- trouble -----------------------------------------------------------------------------------------------


def test_trouble_with_the_table_is_raised_so_that_the_event_comes_again(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADAPTER_TABLE", "no-such-table")
    with Container(open_store) as broken:
        monkeypatch.setattr(app, "_container", broken)
        for name in ("states_succeeded", "states_failed"):
            with pytest.raises(StoreUnavailable):
                recorded.told(name)
    monkeypatch.setattr(app, "_container", recorded.container)
    assert recorded.told("states_succeeded") == "written"
