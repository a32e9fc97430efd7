"""Writes of those who look after tasks from outside: status events, and whoever goes through the open ones."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from adapter.aws import Aws
from adapter.errors import StoreUnavailable
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.stores.table import create_table
from adapter.tasks.model import Ending, Outcome, TaskRecord
from adapter.tasks.store import Open, OpenItem
from tests.support.aws import counted_calls
from tests.support.faults import LOST_REPLY, FaultyAws, reply
from tests.support.partition import EXPIRES, HOUR, NOW, Partition, new_record

pytestmark = pytest.mark.asyncio(loop_scope="session")

DONE = Outcome(Ending.SUCCEEDED, output='{"rows":1}', ended_at=NOW + 9)
LONG = Outcome(Ending.SUCCEEDED, output=json.dumps("x" * 40_000), ended_at=NOW + 9)
FORGED = replace(LONG, output=json.dumps("forged" * 10_000))
OTHER = "arn:aws:states:us-east-1:123456789012:execution:other:"


async def _created(store: DynamoTaskStore, **changes: object) -> TaskRecord:
    record = new_record(**changes)
    await store.create(record, refresh_at=NOW + HOUR)
    return record


async def _outcome(store: DynamoTaskStore, record: TaskRecord) -> Outcome | None:
    task = await store.read(record.task_id)
    assert task is not None
    return task.outcome


# --- ends that were told -----------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [DONE, LONG, Outcome(Ending.TIMED_OUT, ended_at=NOW)])
async def test_an_end_that_was_told_is_written_once(store: DynamoTaskStore, outcome: Outcome) -> None:
    record = await _created(store)
    assert await store.latch_seen(record.task_id, record.execution, outcome)
    assert not await store.latch_seen(record.task_id, record.execution, Outcome(Ending.FAILED, error="Late"))
    assert await _outcome(store, record) == outcome
    task = await store.read(record.task_id)
    assert task is not None
    assert task.told_at == outcome.ended_at


@pytest.mark.parametrize("outcome", [DONE, LONG])
async def test_an_end_of_another_execution_is_not_written(store: DynamoTaskStore, outcome: Outcome) -> None:
    record = await _created(store)
    assert not await store.latch_seen(record.task_id, OTHER + record.task_id, outcome)
    assert not await store.latch_seen("mcp-unknown", OTHER + "mcp-unknown", outcome)
    assert await _outcome(store, record) is None


async def test_long_output_of_another_execution_is_never_taken_for_the_right_one(
    store: DynamoTaskStore, partition: Partition
) -> None:
    record = await _created(store)
    await store.latch_seen(record.task_id, OTHER + record.task_id, FORGED)
    assert await partition.item(record.task_id, "~result") == {}
    await store.latch(record.task_id, LONG, expires_at=EXPIRES)
    assert await _outcome(store, record) == LONG


async def test_long_output_of_a_redriven_execution_leaves_nothing(
    store: DynamoTaskStore, partition: Partition
) -> None:
    record = await _created(store)
    await store.latch(record.task_id, Outcome(Ending.FAILED, error="First"), expires_at=EXPIRES)
    assert not await store.latch_seen(record.task_id, record.execution, LONG)
    assert await partition.item(record.task_id, "~result") == {}


async def test_long_output_that_was_told_expires_with_the_record(
    store: DynamoTaskStore, partition: Partition
) -> None:
    record = await _created(store)
    await store.latch_seen(record.task_id, record.execution, LONG)
    item = await partition.item(record.task_id, "~result")
    assert item["expiresAt"] == {"N": str(EXPIRES // 1000)}


async def test_a_told_end_whose_reply_was_lost_counts_as_written(
    store: DynamoTaskStore, faults: FaultyAws
) -> None:
    record = await _created(store)
    faults.script("UpdateItem", LOST_REPLY)
    assert await store.latch_seen(record.task_id, record.execution, DONE)


async def test_a_record_that_cannot_be_read_is_no_place_for_long_output(
    store: DynamoTaskStore, partition: Partition
) -> None:
    await partition.update("mcp-garbage", "#task", {"execution": {"S": "any"}})
    with pytest.raises(StoreUnavailable):
        await store.latch_seen("mcp-garbage", "any", LONG)


# --- made due ----------------------------------------------------------------------------------------------


async def test_a_task_is_made_due_whatever_pause_or_lease_there_is(store: DynamoTaskStore) -> None:
    record = await _created(store)
    await store.mark_due(record.task_id, record.execution, now=NOW, told=False)
    assert await store.claim_refresh(record.task_id, now=NOW, until=NOW + 10_000)
    assert await store.mark_due(record.task_id, record.execution, now=NOW + 1, told=True)
    assert await store.claim_refresh(record.task_id, now=NOW + 1, until=NOW + 10_001)


@pytest.mark.parametrize(("told", "told_at"), [(True, NOW), (False, None)])
async def test_only_an_event_leaves_its_time(store: DynamoTaskStore, told: bool, told_at: int | None) -> None:
    record = await _created(store)
    await store.mark_due(record.task_id, record.execution, now=NOW, told=told)
    task = await store.read(record.task_id)
    assert task is not None
    assert task.told_at == told_at


async def test_neither_another_execution_nor_an_ended_task_is_made_due(
    store: DynamoTaskStore, partition: Partition
) -> None:
    record = await _created(store)
    assert not await store.mark_due(record.task_id, OTHER + record.task_id, now=NOW, told=True)
    await store.latch(record.task_id, DONE, expires_at=EXPIRES)
    assert not await store.mark_due(record.task_id, record.execution, now=NOW, told=True)
    assert not await store.mark_due("mcp-unknown", "any", now=NOW, told=True)
    assert await partition.item("mcp-unknown", "#task") == {}


async def test_what_was_seen_before_an_end_was_told_does_not_put_the_next_look_off(
    store: DynamoTaskStore,
) -> None:
    record = await _created(store)
    await store.mark_due(record.task_id, record.execution, now=NOW, told=False)
    await store.claim_refresh(record.task_id, now=NOW, until=NOW + 10_000)
    await store.mark_due(record.task_id, record.execution, now=NOW + 50, told=True)
    await store.note_refresh(
        record.task_id, lease=NOW + 10_000, refresh_at=NOW + HOUR, message="Running", updated_at=NOW
    )
    assert await store.claim_refresh(record.task_id, now=NOW + 60, until=NOW + 10_060)


async def test_what_was_seen_before_a_cancel_does_not_put_the_next_look_off(store: DynamoTaskStore) -> None:
    record = await _created(store)
    await store.mark_due(record.task_id, record.execution, now=NOW, told=False)
    await store.claim_refresh(record.task_id, now=NOW, until=NOW + 10_000)
    await store.request_cancel(record.task_id, now=NOW + 50)
    await store.note_refresh(
        record.task_id, lease=NOW + 10_000, refresh_at=NOW + HOUR, message="Running", updated_at=NOW
    )
    assert await store.claim_refresh(record.task_id, now=NOW + 60, until=NOW + 10_060)


# --- absent ------------------------------------------------------------------------------------------------


async def test_absence_counts_from_the_first_time_and_ends_when_it_is_seen_running(
    store: DynamoTaskStore,
) -> None:
    record = await _created(store)
    assert await store.mark_absent(record.task_id, now=NOW) == NOW
    assert await store.mark_absent(record.task_id, now=NOW + 60) == NOW
    task = await store.read(record.task_id)
    assert task is not None
    assert task.absent_at == NOW
    await store.note_refresh(record.task_id, lease=0, refresh_at=NOW, message=None, updated_at=NOW)
    assert await store.mark_absent(record.task_id, now=NOW + 120) == NOW + 120


async def test_an_ended_or_unknown_task_is_not_absent(store: DynamoTaskStore, partition: Partition) -> None:
    record = await _created(store)
    await store.mark_absent(record.task_id, now=NOW)
    await store.latch(record.task_id, DONE, expires_at=EXPIRES)
    assert await store.mark_absent(record.task_id, now=NOW + 60) is None
    assert await store.mark_absent("mcp-unknown", now=NOW) is None
    assert await partition.item("mcp-unknown", "#task") == {}


# --- the index of open work --------------------------------------------------------------------------------


async def test_open_work_is_listed_by_kind_until_it_is_done(aws: Aws) -> None:
    await create_table(aws.dynamodb, "open-work")
    store = DynamoTaskStore(aws.dynamodb, "open-work")
    running, ended, cancelled, answered = [await _created(store) for _ in range(4)]
    expiring = await _created(store, on_expire="stop")
    await store.latch(ended.task_id, DONE, expires_at=EXPIRES)
    await store.request_cancel(cancelled.task_id, now=NOW)
    await Partition(aws.dynamodb, "open-work").ask(answered.task_id)
    task = await store.read(answered.task_id)
    assert task is not None
    (question,) = task.questions
    await store.adopt(answered.task_id, [question], expires_at=EXPIRES)
    await store.record_answer(answered.task_id, question, "{}", now=NOW + 7, delivery_until=NOW)

    work = {item async for item in store.open_items()}
    assert work == {
        OpenItem(running.task_id, NOW, Open.RUNNING),
        OpenItem(expiring.task_id, NOW, Open.EXPIRING),
        OpenItem(cancelled.task_id, NOW, Open.CANCELLING),
        OpenItem(answered.task_id, NOW, Open.RUNNING),
        OpenItem(answered.task_id, NOW + 7, Open.ANSWERED),
    }

    await store.close_question(answered.task_id, replace(question, adopted=True))
    for record in (running, expiring, cancelled, answered):
        await store.latch(record.task_id, DONE, expires_at=EXPIRES)
    assert [item async for item in store.open_items()] == []


@pytest.mark.requirement("B-02")
async def test_open_work_of_more_than_one_page_is_listed_whole(
    store: DynamoTaskStore, faults: FaultyAws
) -> None:
    def page(number: int, last: bool) -> dict[str, object]:
        item = {
            "pk": {"S": f"mcp-{number}"},
            "sk": {"S": "#task"},
            "openShard": {"N": "0"},
            "createdAt": {"N": str(NOW)},
        }
        return {"Items": [item], **({} if last else {"LastEvaluatedKey": item})}

    faults.script("Query", reply(**page(1, last=False)), reply(**page(2, last=True)))
    items = store.open_items()
    assert [(await anext(items)).task_id for _ in range(2)] == ["mcp-1", "mcp-2"]
    await items.aclose()  # type: ignore[attr-defined]
    assert faults.requests[1][1]["ExclusiveStartKey"]["pk"] == {"S": "mcp-1"}


async def test_a_record_to_be_stopped_outlives_its_time_so_that_somebody_can_still_stop_it(
    store: DynamoTaskStore, partition: Partition
) -> None:
    record = await _created(store, on_expire="stop")
    item = await partition.item(record.task_id, "#task")
    assert int(item["expiresAt"]["N"]) * 1000 == record.expires_at + HOUR


async def test_looking_after_tasks_costs_as_few_calls_as_promised(store: DynamoTaskStore, aws: Aws) -> None:
    short, long = await _created(store), await _created(store)
    with counted_calls(aws) as calls:
        await store.mark_absent(short.task_id, now=NOW)
        await store.mark_due(short.task_id, short.execution, now=NOW, told=True)
        await store.latch_seen(short.task_id, short.execution, DONE)
        assert calls == ["UpdateItem"] * 3
        await store.latch_seen(long.task_id, long.execution, LONG)
        assert calls[3:] == ["GetItem", "PutItem", "UpdateItem"]
