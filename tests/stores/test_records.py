from __future__ import annotations

import asyncio
import json

import pytest

from adapter.aws import Aws
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.tasks.model import Ending, Outcome
from tests.support.aws import counted_calls
from tests.support.faults import FaultyAws
from tests.support.partition import EXPIRES, HOUR, NOW, Partition, new_record

pytestmark = pytest.mark.asyncio(loop_scope="session")

DONE = Outcome(Ending.SUCCEEDED, output='{"rows":1}', ended_at=NOW + 9)
LONG = Outcome(Ending.SUCCEEDED, output=json.dumps("ä" * 20_000, ensure_ascii=False), ended_at=NOW + 9)


async def test_a_created_record_reads_back_as_it_was(store: DynamoTaskStore) -> None:
    record = new_record(on_expire="stop")
    assert await store.create(record, refresh_at=NOW + 2_000) is None
    task = await store.read(record.task_id)
    assert task is not None
    assert task.record == record
    assert (task.updated_at, task.refresh_at, task.claimed_until) == (NOW, NOW + 2_000, 0)
    assert (task.message, task.outcome, task.questions, task.events) == (None, None, (), ())


@pytest.mark.requirement("B-50")
async def test_a_record_carries_its_expiry_in_epoch_seconds_rounded_up(
    store: DynamoTaskStore, partition: Partition
) -> None:
    record = new_record(ttl_ms=HOUR + 1)
    await store.create(record, refresh_at=NOW)
    item = await partition.item(record.task_id, "#task")
    assert item["expiresAt"] == {"N": str(NOW // 1000 + 3601)}


async def test_an_expired_record_is_still_read(store: DynamoTaskStore) -> None:
    record = new_record(created_at=NOW - 365 * 24 * HOUR)
    await store.create(record, refresh_at=NOW)
    assert await store.read(record.task_id) is not None


async def test_creating_a_taken_id_changes_nothing_and_gives_the_standing_record(
    store: DynamoTaskStore,
) -> None:
    first = new_record(tool="first")
    await store.create(first, refresh_at=NOW)
    assert await store.create(new_record(task_id=first.task_id, tool="second"), refresh_at=NOW) == first
    task = await store.read(first.task_id)
    assert task is not None
    assert task.record.tool == "first"


async def test_an_unknown_task_reads_as_none(store: DynamoTaskStore) -> None:
    assert await store.read("mcp-nobody") is None


async def test_items_without_a_record_are_no_task(store: DynamoTaskStore, partition: Partition) -> None:
    await partition.ask("mcp-orphan")
    assert await store.read("mcp-orphan") is None


async def test_a_discarded_record_is_gone(store: DynamoTaskStore) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await store.discard(record.task_id)
    assert await store.read(record.task_id) is None


async def test_only_one_of_many_readers_gets_the_lease(store: DynamoTaskStore) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    claims = [store.claim_refresh(record.task_id, now=NOW, until=NOW + 10) for _ in range(6)]
    assert sorted(await asyncio.gather(*claims)) == [False] * 5 + [True]


async def test_a_lease_that_ran_out_can_be_taken_again(store: DynamoTaskStore) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    assert await store.claim_refresh(record.task_id, now=NOW, until=NOW + 10)
    assert not await store.claim_refresh(record.task_id, now=NOW + 9, until=NOW + 20)
    assert await store.claim_refresh(record.task_id, now=NOW + 10, until=NOW + 20)


async def test_a_task_that_is_not_due_cannot_be_claimed(store: DynamoTaskStore) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW + 1)
    assert not await store.claim_refresh(record.task_id, now=NOW, until=NOW + 10)


async def test_noting_a_refresh_releases_the_lease_and_sets_what_was_seen(store: DynamoTaskStore) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await store.claim_refresh(record.task_id, now=NOW, until=NOW + 10)
    await store.note_refresh(
        record.task_id, lease=NOW + 10, refresh_at=NOW + 5, message="Running", updated_at=NOW + 3
    )
    task = await store.read(record.task_id)
    assert task is not None
    assert (task.message, task.refresh_at, task.updated_at) == ("Running", NOW + 5, NOW + 3)
    assert await store.claim_refresh(record.task_id, now=NOW + 5, until=NOW + 15)


async def test_noting_a_refresh_without_a_message_removes_the_old_one(store: DynamoTaskStore) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await store.note_refresh(record.task_id, lease=0, refresh_at=NOW, message="Running", updated_at=NOW)
    await store.note_refresh(record.task_id, lease=0, refresh_at=NOW, message=None, updated_at=NOW)
    task = await store.read(record.task_id)
    assert task is not None
    assert task.message is None


@pytest.mark.parametrize(
    "outcome",
    [
        DONE,
        LONG,
        Outcome(Ending.SUCCEEDED, ended_at=NOW),
        Outcome(Ending.SUCCEEDED, output="", ended_at=NOW),
        Outcome(Ending.FAILED, error="Broken", cause="It broke", ended_at=NOW),
        Outcome(Ending.TIMED_OUT, ended_at=NOW),
        Outcome(Ending.ABORTED, cause="Stopped by hand", ended_at=NOW),
        Outcome(Ending.LOST, ended_at=NOW),
    ],
    ids=lambda outcome: f"{outcome.ending}-{len(outcome.output or '')}",
)
async def test_a_latched_outcome_reads_back_as_it_was(store: DynamoTaskStore, outcome: Outcome) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    assert await store.latch(record.task_id, outcome, expires_at=EXPIRES) == outcome
    task = await store.read(record.task_id)
    assert task is not None
    assert task.outcome == outcome
    assert task.updated_at == outcome.ended_at


@pytest.mark.requirement("B-32")
async def test_long_output_stands_beside_the_record_and_expires_with_it(
    store: DynamoTaskStore, partition: Partition
) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await store.latch(record.task_id, LONG, expires_at=EXPIRES)
    result = await partition.item(record.task_id, "~result")
    assert result["output"] == {"S": LONG.output}
    assert result["expiresAt"] == (await partition.item(record.task_id, "#task"))["expiresAt"]
    assert "output" not in await partition.item(record.task_id, "#task")


@pytest.mark.parametrize("first", [DONE, LONG], ids=["short", "long"])
async def test_the_first_latched_outcome_stands(store: DynamoTaskStore, first: Outcome) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await store.latch(record.task_id, first, expires_at=EXPIRES)
    later = Outcome(Ending.ABORTED, error="Late", ended_at=NOW + 99)
    assert await store.latch(record.task_id, later, expires_at=EXPIRES) == first
    task = await store.read(record.task_id)
    assert task is not None
    assert task.outcome == first


async def test_latches_that_race_agree_on_one_outcome(store: DynamoTaskStore) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    outcomes = [Outcome(Ending.FAILED, error=f"E{number}", ended_at=NOW) for number in range(5)]
    seen = await asyncio.gather(
        *(store.latch(record.task_id, outcome, expires_at=EXPIRES) for outcome in outcomes)
    )
    assert len(set(seen)) == 1
    task = await store.read(record.task_id)
    assert task is not None
    assert task.outcome == seen[0]


async def test_an_ended_task_is_neither_claimed_nor_noted_nor_cancelled(store: DynamoTaskStore) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await store.note_refresh(record.task_id, lease=0, refresh_at=NOW, message="Running", updated_at=NOW)
    await store.latch(record.task_id, DONE, expires_at=EXPIRES)
    assert not await store.claim_refresh(record.task_id, now=NOW + 1, until=NOW + 2)
    await store.note_refresh(
        record.task_id, lease=0, refresh_at=NOW + 77, message="Running again", updated_at=NOW + 77
    )
    await store.request_cancel(record.task_id, now=NOW + 77)
    task = await store.read(record.task_id)
    assert task is not None
    assert (task.message, task.refresh_at, task.cancel_requested_at) == (None, NOW, None)


async def test_a_cancel_is_recorded_once_and_makes_a_refresh_due(store: DynamoTaskStore) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW + HOUR)
    await store.request_cancel(record.task_id, now=NOW + 5)
    await store.request_cancel(record.task_id, now=NOW + 9)
    task = await store.read(record.task_id)
    assert task is not None
    assert (task.cancel_requested_at, task.refresh_at, task.updated_at) == (NOW + 5, NOW + 5, NOW + 5)


async def test_no_late_write_brings_a_deleted_record_back(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id = new_record().task_id
    await store.note_refresh(task_id, lease=0, refresh_at=NOW, message="Running", updated_at=NOW)
    await store.request_cancel(task_id, now=NOW)
    assert not await store.claim_refresh(task_id, now=NOW, until=NOW + 1)
    assert await store.latch(task_id, DONE, expires_at=EXPIRES) == DONE
    assert await store.latch(task_id, LONG, expires_at=EXPIRES) == LONG

    assert await partition.item(task_id, "#task") == {}


async def test_open_tasks_are_in_the_sparse_index_until_they_end(
    store: DynamoTaskStore, aws: Aws, table: str
) -> None:
    records = [new_record() for _ in range(3)]
    for record in records:
        await store.create(record, refresh_at=NOW)
    await store.latch(records[0].task_id, DONE, expires_at=EXPIRES)
    reply = await aws.dynamodb.scan(TableName=table, IndexName="open-tasks")
    shards = {item["pk"]["S"]: int(item["openShard"]["N"]) for item in reply["Items"]}
    assert [record.task_id in shards for record in records] == [False, True, True]
    assert {shards[record.task_id] for record in records[1:]} <= set(range(16))


@pytest.mark.requirement("B-02")
async def test_a_task_of_more_than_one_page_is_read_whole(
    store: DynamoTaskStore, partition: Partition, aws: Aws
) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    for number in range(4):
        attributes = {"kind": {"S": "log"}, "data": {"S": "x" * 390_000}}
        await partition.update(record.task_id, f"event#{number}", attributes)
    with counted_calls(aws) as calls:
        task = await store.read(record.task_id)
    assert calls == ["Query", "Query"]
    assert task is not None
    assert [event.key for event in task.events] == ["0", "1", "2", "3"]


async def test_every_read_is_strongly_consistent(store: DynamoTaskStore, faults: FaultyAws) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await store.latch(record.task_id, LONG, expires_at=EXPIRES)
    faults.reset()
    await store.read(record.task_id)
    assert [(operation, request["ConsistentRead"]) for operation, request in faults.requests] == [
        ("Query", True),
        ("GetItem", True),
    ]


async def test_calls_per_operation_are_as_few_as_promised(store: DynamoTaskStore, aws: Aws) -> None:
    record, long = new_record(), new_record()
    with counted_calls(aws) as calls:
        await store.create(record, refresh_at=NOW)
        await store.read(record.task_id)
        await store.claim_refresh(record.task_id, now=NOW, until=NOW + 1)
        await store.note_refresh(
            record.task_id, lease=NOW + 1, refresh_at=NOW, message="Running", updated_at=NOW
        )
        await store.request_cancel(record.task_id, now=NOW)
        await store.latch(record.task_id, DONE, expires_at=EXPIRES)
        await store.read(record.task_id)
        assert calls == ["PutItem", "Query", *["UpdateItem"] * 4, "Query"]
    await store.create(long, refresh_at=NOW)
    with counted_calls(aws) as calls:
        await store.latch(long.task_id, LONG, expires_at=EXPIRES)
        await store.read(long.task_id)
        assert calls == ["PutItem", "UpdateItem", "Query", "GetItem"]
