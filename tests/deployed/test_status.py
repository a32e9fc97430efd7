"""How the table learns that an execution has ended while nobody asks: by an event, or by reconciliation.

The emulator gives an event up after one attempt of the function, so neither retries nor the dead-letter queue are here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .caller import Caller
from .deployment import Deployment

SECONDS = 30.0
"""Within which an event is written; the function's process may have to start."""
SCHEDULE_SECONDS = 150.0
"""Within which reconciliation ran: it is scheduled every minute, and takes some seconds."""
MINUTES = 5 * 60_000


class Records:
    """The records of tasks as they are in the table."""

    def __init__(self, deployment: Deployment) -> None:
        self._table = deployment.table
        self._client = deployment.administrator.client("dynamodb")

    def of(self, task_id: str) -> dict[str, Any]:
        reply = self._client.get_item(TableName=self._table, Key=_key(task_id), ConsistentRead=True)
        return {name: next(iter(value.values())) for name, value in reply["Item"].items()}

    async def until(self, task_id: str, attribute: str, within: float = SECONDS) -> dict[str, Any]:
        """The record, once it has this attribute."""
        await _until(lambda: attribute in self.of(task_id), within)
        return self.of(task_id)

    def age(self, task_id: str, milliseconds: int) -> None:
        """As if the task had been created that much earlier."""
        self._client.update_item(
            TableName=self._table,
            Key=_key(task_id),
            UpdateExpression="ADD createdAt :age",
            ExpressionAttributeValues={":age": {"N": str(-milliseconds)}},
        )


def _key(task_id: str) -> dict[str, Any]:
    return {"pk": {"S": task_id}, "sk": {"S": "#task"}}


async def _until(reached: Callable[[], bool], within: float) -> None:
    async with asyncio.timeout(within):
        while not reached():
            await asyncio.sleep(0.1)


@pytest.fixture
def records(deployment: Deployment) -> Records:
    return Records(deployment)


@pytest.fixture
def lost_events(deployment: Deployment) -> Iterator[None]:
    """The rule hands no event over."""
    events, rule = deployment.administrator.client("events"), deployment.resources["ExecutionStatusRule"]
    events.disable_rule(Name=rule)
    yield
    events.enable_rule(Name=rule)


async def test_a_success_is_written_by_the_rule_and_its_function(ada: Caller, records: Records) -> None:
    """Nobody looks at the task meanwhile, and `toldAt` is what only an event leaves behind."""
    task_id = await ada.start("import_ledger", {"file": "june.csv"})

    record = await records.until(task_id, "ending")

    assert record["ending"] == "succeeded"
    assert "toldAt" in record
    assert (await ada.get(task_id))["status"] == "completed"


async def test_an_end_that_its_event_does_not_tell_completely_is_looked_up_by_the_next_read(
    ada: Caller, deployment: Deployment, records: Records
) -> None:
    """Somebody else stops the execution, as in the console; such an event says neither error nor cause.

    The emulator ends no execution at its time limit, so there is no such event.
    """
    task_id = await ada.start("place_order", {"order_id": "A-1", "customer": "Ada", "amount": 250})
    await ada.questions(task_id)
    arn = deployment.resources["OrderApproval"].replace(":stateMachine:", ":execution:")
    deployment.administrator.client("stepfunctions").stop_execution(executionArn=f"{arn}:{task_id}")

    record = await records.until(task_id, "toldAt")

    assert "ending" not in record
    assert (await ada.get(task_id))["status"] == "cancelled"


@pytest.mark.usefixtures("lost_events")
async def test_an_end_whose_event_was_lost_is_found_by_the_scheduled_reconciliation(
    ada: Caller, deployment: Deployment, records: Records
) -> None:
    """Reconciliation leaves tasks alone in their first minute, so the test makes this one older."""
    task_id = await ada.start("import_ledger", {"file": "june.csv"})
    machine = deployment.resources["LedgerImport"]
    await _until(lambda: deployment.status(machine, task_id) == "SUCCEEDED", SECONDS)
    records.age(task_id, MINUTES)
    assert "ending" not in records.of(task_id)

    record = await records.until(task_id, "ending", within=SCHEDULE_SECONDS)

    assert record["ending"] == "succeeded"
    assert "toldAt" not in record
    assert (await ada.get(task_id))["status"] == "completed"
