"""Leases to send a question to a session, and what clients answer before a task exists."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from adapter.errors import StoreUnavailable
from adapter.stores._items import ASK_PREFIX
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.tasks.model import Question
from tests.support.faults import LOST_REPLY, FaultyAws, error
from tests.support.partition import EXPIRES, NOW, Partition, new_record

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEASE = 300_000


async def _asked(store: DynamoTaskStore, partition: Partition) -> tuple[str, Question]:
    """A task with one adopted question."""
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.ask(record.task_id)
    await store.adopt(record.task_id, [await _question(store, record.task_id)], expires_at=EXPIRES)
    return record.task_id, await _question(store, record.task_id)


async def _question(store: DynamoTaskStore, task_id: str) -> Question:
    task = await store.read(task_id)
    assert task is not None
    return task.questions[0]


async def _claim(
    store: DynamoTaskStore, task_id: str, question: Question, session: str = "one", now: int = NOW
) -> bool:
    return await store.claim_offer(task_id, question, session, now=now, until=now + LEASE)


# --- offers ---------------------------------------------------------------------------------------------


async def test_a_question_is_offered_to_a_session_once_per_lease(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)

    assert await _claim(store, task_id, question)
    assert not await _claim(store, task_id, question)
    assert not await _claim(store, task_id, question, now=NOW + LEASE - 1)
    assert await _claim(store, task_id, question, now=NOW + LEASE)
    assert (await _question(store, task_id)).offers == {"one": NOW + 2 * LEASE}


async def test_each_session_has_a_lease_of_its_own(store: DynamoTaskStore, partition: Partition) -> None:
    task_id, question = await _asked(store, partition)
    sessions = ["one", "two", "a.b", "-_x9"]

    assert [await _claim(store, task_id, question, session) for session in sessions] == [True] * 4
    assert (await _question(store, task_id)).offers == dict.fromkeys(sessions, NOW + LEASE)


async def test_of_many_readers_at_the_same_time_one_offers(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)

    won = await asyncio.gather(*(_claim(store, task_id, question) for _ in range(8)))

    assert sum(won) == 1


async def test_an_offer_whose_reply_was_lost_is_held(
    store: DynamoTaskStore, partition: Partition, faults: FaultyAws
) -> None:
    task_id, question = await _asked(store, partition)
    faults.script("UpdateItem", LOST_REPLY)

    assert await _claim(store, task_id, question)
    assert not await _claim(store, task_id, question)


async def test_an_answered_question_is_not_offered(store: DynamoTaskStore, partition: Partition) -> None:
    task_id, question = await _asked(store, partition)
    await store.record_answer(task_id, question, "{}", now=NOW, delivery_until=NOW)

    assert not await _claim(store, task_id, question)


async def test_a_closed_question_is_not_offered(store: DynamoTaskStore, partition: Partition) -> None:
    task_id, question = await _asked(store, partition)
    await store.close_question(task_id, question)

    assert not await _claim(store, task_id, question)


async def test_a_new_wait_on_the_same_item_is_offered_anew(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, first = await _asked(store, partition)
    await _claim(store, task_id, first)
    await partition.ask(task_id)

    second = await _question(store, task_id)

    assert second.offers == {}
    assert not await _claim(store, task_id, first), "the old wait is over"
    assert await _claim(store, task_id, second)


async def test_a_withdrawn_offer_is_made_again_at_once_to_that_session_only(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    await _claim(store, task_id, question, "one")
    await _claim(store, task_id, question, "two")

    await store.release_offer(task_id, question, "one")

    assert (await _question(store, task_id)).offers.keys() == {"two"}
    assert await _claim(store, task_id, question, "one")
    assert not await _claim(store, task_id, question, "two")


async def test_withdrawing_what_is_gone_changes_nothing(store: DynamoTaskStore, partition: Partition) -> None:
    task_id, first = await _asked(store, partition)
    await partition.ask(task_id)
    second = await _question(store, task_id)
    await _claim(store, task_id, second)

    await store.release_offer(task_id, first, "one")
    await store.release_offer("mcp-unknown", first, "one")

    assert (await _question(store, task_id)).offers.keys() == {"one"}


async def test_a_table_that_cannot_be_reached_is_told(
    store: DynamoTaskStore, partition: Partition, faults: FaultyAws
) -> None:
    task_id, question = await _asked(store, partition)
    faults.script("UpdateItem", *[error("AccessDeniedException")] * 2)

    with pytest.raises(StoreUnavailable):
        await _claim(store, task_id, question)
    with pytest.raises(StoreUnavailable):
        await store.release_offer(task_id, question, "one")


# --- replies --------------------------------------------------------------------------------------------


async def test_replies_are_kept_by_key_and_the_first_stays(store: DynamoTaskStore) -> None:
    ask = secrets.token_urlsafe(12)
    for key, reply in (("b", '{"n":1}'), ("a", "null"), ("b", '{"n":2}')):
        await store.write_reply(ask, key, reply, expires_at=EXPIRES)

    assert await store.replies(ask) == {"a": "null", "b": '{"n":1}'}
    assert await store.replies(ask + "x") == {}


async def test_replies_expire(store: DynamoTaskStore, partition: Partition) -> None:
    ask = secrets.token_urlsafe(12)
    await store.write_reply(ask, "a", "{}", expires_at=EXPIRES + 1)

    assert (await partition.item(ASK_PREFIX + ask, "a"))["expiresAt"] == {"N": str(EXPIRES // 1000 + 1)}


async def test_long_replies_are_all_read(store: DynamoTaskStore) -> None:
    ask, long = secrets.token_urlsafe(12), f'"{"x" * 250_000}"'
    for number in range(6):
        await store.write_reply(ask, str(number), long, expires_at=EXPIRES)

    assert await store.replies(ask) == {str(number): long for number in range(6)}


async def test_a_reply_whose_write_was_retried_stands(store: DynamoTaskStore, faults: FaultyAws) -> None:
    ask = secrets.token_urlsafe(12)
    faults.script("PutItem", LOST_REPLY)

    await store.write_reply(ask, "a", "{}", expires_at=EXPIRES)

    assert await store.replies(ask) == {"a": "{}"}


async def test_replies_that_cannot_be_written_or_read_are_told(
    store: DynamoTaskStore, faults: FaultyAws
) -> None:
    faults.script("PutItem", error("AccessDeniedException"))
    faults.script("Query", error("AccessDeniedException"))

    with pytest.raises(StoreUnavailable):
        await store.write_reply("ask", "a", "{}", expires_at=EXPIRES)
    with pytest.raises(StoreUnavailable):
        await store.replies("ask")
