"""Writes whose reply is lost, and a table that cannot be reached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
import pytest_asyncio

from adapter.errors import StoreUnavailable
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.tasks.model import Ending, Outcome, Question, TaskRecord
from tests.support.faults import LOST_REPLY, LOST_REQUEST, SERVER_ERROR, Fault, FaultyAws, error
from tests.support.partition import EXPIRES, NOW, Partition, new_record

pytestmark = pytest.mark.asyncio(loop_scope="session")

DONE = Outcome(Ending.SUCCEEDED, output="{}", ended_at=NOW)
LONG = Outcome(Ending.SUCCEEDED, output=json.dumps("x" * 40_000), ended_at=NOW)


@pytest_asyncio.fixture(loop_scope="session")
async def record(store: DynamoTaskStore, partition: Partition) -> TaskRecord:
    """Of a task with an adopted question."""
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.ask(record.task_id)
    await store.adopt(record.task_id, [await _question(store, record)], expires_at=EXPIRES)
    return record


async def _question(store: DynamoTaskStore, record: TaskRecord) -> Question:
    task = await store.read(record.task_id)
    assert task is not None
    return task.questions[0]


@pytest.mark.parametrize("fault", [LOST_REPLY, LOST_REQUEST, SERVER_ERROR])
async def test_a_record_whose_write_was_retried_counts_as_written(
    store: DynamoTaskStore, faults: FaultyAws, fault: Fault
) -> None:
    faults.script("PutItem", fault)
    assert await store.create(new_record(), refresh_at=NOW) is None
    assert faults.operations == ["PutItem", "PutItem"]


async def test_a_claim_whose_reply_was_lost_is_held(
    store: DynamoTaskStore, faults: FaultyAws, record: TaskRecord
) -> None:
    faults.script("UpdateItem", LOST_REPLY)
    assert await store.claim_refresh(record.task_id, now=NOW, until=NOW + 10)
    assert not await store.claim_refresh(record.task_id, now=NOW, until=NOW + 10)


@pytest.mark.parametrize(
    "outcome", [Outcome(Ending.FAILED, error="E", ended_at=NOW), LONG], ids=["short", "long"]
)
async def test_a_latch_whose_reply_was_lost_stands(
    store: DynamoTaskStore, faults: FaultyAws, record: TaskRecord, outcome: Outcome
) -> None:
    faults.script("UpdateItem", LOST_REPLY)
    assert await store.latch(record.task_id, outcome, expires_at=EXPIRES) == outcome
    task = await store.read(record.task_id)
    assert task is not None
    assert task.outcome == outcome


async def test_long_output_whose_write_was_retried_stands(
    store: DynamoTaskStore, faults: FaultyAws, record: TaskRecord
) -> None:
    faults.script("PutItem", LOST_REPLY)
    assert await store.latch(record.task_id, LONG, expires_at=EXPIRES) == LONG
    task = await store.read(record.task_id)
    assert task is not None
    assert task.outcome == LONG


async def test_a_crash_between_long_output_and_latch_leaves_the_task_open_and_latchable(
    store: DynamoTaskStore, faults: FaultyAws, record: TaskRecord
) -> None:
    faults.script("UpdateItem", *[LOST_REQUEST] * 3)
    with pytest.raises(StoreUnavailable):
        await store.latch(record.task_id, LONG, expires_at=EXPIRES)
    task = await store.read(record.task_id)
    assert task is not None
    assert task.outcome is None
    assert await store.latch(record.task_id, LONG, expires_at=EXPIRES) == LONG


async def test_an_answer_whose_reply_was_lost_is_recorded_once(
    store: DynamoTaskStore, faults: FaultyAws, record: TaskRecord
) -> None:
    question = await _question(store, record)
    faults.script("UpdateItem", LOST_REPLY)
    assert await store.record_answer(record.task_id, question, '"a"', now=NOW, delivery_until=NOW + 10)
    assert not await store.record_answer(record.task_id, question, '"b"', now=NOW, delivery_until=NOW + 10)
    assert (await _question(store, record)).answer == '"a"'


async def test_a_delivery_claim_whose_reply_was_lost_is_held(
    store: DynamoTaskStore, faults: FaultyAws, record: TaskRecord
) -> None:
    question = await _question(store, record)
    await store.record_answer(record.task_id, question, "{}", now=NOW, delivery_until=NOW)
    faults.script("UpdateItem", LOST_REPLY)
    assert await store.claim_delivery(record.task_id, question, now=NOW, until=NOW + 10)


async def test_a_question_whose_closing_was_retried_is_closed(
    store: DynamoTaskStore, faults: FaultyAws, record: TaskRecord
) -> None:
    faults.script("UpdateItem", LOST_REPLY)
    await store.close_question(record.task_id, await _question(store, record))
    task = await store.read(record.task_id)
    assert task is not None
    assert task.questions == ()


Use = Callable[[DynamoTaskStore, TaskRecord, Question], Awaitable[object]]
USES: dict[str, tuple[str, Use]] = {
    "create": ("PutItem", lambda store, record, _: store.create(new_record(), refresh_at=NOW)),
    "discard": ("DeleteItem", lambda store, record, _: store.discard(record.task_id)),
    "read": ("Query", lambda store, record, _: store.read(record.task_id)),
    "claim_refresh": (
        "UpdateItem",
        lambda store, record, _: store.claim_refresh(record.task_id, now=NOW, until=NOW),
    ),
    "note_refresh": (
        "UpdateItem",
        lambda store, record, _: store.note_refresh(
            record.task_id, lease=0, refresh_at=NOW, message="Running", updated_at=NOW
        ),
    ),
    "latch_seen": (
        "UpdateItem",
        lambda store, record, _: store.latch_seen(record.task_id, record.execution, DONE),
    ),
    "latch_seen long": (
        "GetItem",
        lambda store, record, _: store.latch_seen(record.task_id, record.execution, LONG),
    ),
    "mark_due": (
        "UpdateItem",
        lambda store, record, _: store.mark_due(record.task_id, record.execution, now=NOW, told=True),
    ),
    "mark_absent": ("UpdateItem", lambda store, record, _: store.mark_absent(record.task_id, now=NOW)),
    "latch": ("PutItem", lambda store, record, _: store.latch(record.task_id, LONG, expires_at=EXPIRES)),
    "request_cancel": ("UpdateItem", lambda store, record, _: store.request_cancel(record.task_id, now=NOW)),
    "adopt": (
        "UpdateItem",
        lambda store, record, question: store.adopt(record.task_id, [question], expires_at=EXPIRES),
    ),
    "record_answer": (
        "UpdateItem",
        lambda store, record, question: store.record_answer(
            record.task_id, question, "{}", now=NOW, delivery_until=NOW
        ),
    ),
    "claim_delivery": (
        "UpdateItem",
        lambda store, record, question: store.claim_delivery(record.task_id, question, now=NOW, until=NOW),
    ),
    "close_question": (
        "UpdateItem",
        lambda store, record, question: store.close_question(record.task_id, question),
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "fault",
    [
        error("ThrottlingException"),
        error("ProvisionedThroughputExceededException"),
        error("AccessDeniedException", "User arn:aws:iam::123456789012:user/x may not"),
        error("ResourceNotFoundException"),
        SERVER_ERROR,
        LOST_REQUEST,
    ],
    ids=["throttle", "throughput", "denied", "no-table", "500", "reset"],
)
async def test_a_table_that_cannot_be_used_is_told_without_what_aws_says(
    store: DynamoTaskStore, faults: FaultyAws, record: TaskRecord, use: str, fault: Fault
) -> None:
    operation, call = USES[use]
    question = await _question(store, record)
    faults.script(operation, *[fault] * 3)
    with pytest.raises(StoreUnavailable) as raised:
        await call(store, record, question)
    assert str(raised.value) == "The task store cannot be reached now"


async def test_the_other_items_are_adopted_before_trouble_with_one_is_told(
    store: DynamoTaskStore, faults: FaultyAws, record: TaskRecord, partition: Partition
) -> None:
    for name in ("a", "b"):
        await partition.ask(record.task_id, name)
    task = await store.read(record.task_id)
    assert task is not None
    faults.script("UpdateItem", error("AccessDeniedException"))
    with pytest.raises(StoreUnavailable):
        await store.adopt(record.task_id, task.questions[1:], expires_at=EXPIRES)
    assert not [task for task in asyncio.all_tasks() if "Store._adopt" in repr(task.get_coro())]
    again = await store.read(record.task_id)
    assert again is not None
    assert sorted(question.adopted for question in again.questions) == [False, True, True]
