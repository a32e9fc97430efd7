"""An owner's list: places that are written before the records."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import pytest

from adapter.errors import StoreUnavailable
from adapter.stores._items import OWNER_PREFIX
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.tasks.model import TaskRecord
from adapter.tasks.store import place_of, task_at
from tests.support.faults import FaultyAws, error
from tests.support.partition import EXPIRES, NOW, Partition, new_record

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _owner() -> str:
    return f"owner-{secrets.token_hex(6)}"


async def _listed(store: DynamoTaskStore, owner: str, *created_at: int) -> Sequence[TaskRecord]:
    records = [new_record(owner=owner, created_at=time) for time in created_at]
    for record in records:
        await store.create(record, refresh_at=NOW, listed=True)
    return records


async def test_places_are_newest_first(store: DynamoTaskStore) -> None:
    owner = _owner()
    first, third, second = await _listed(store, owner, NOW, NOW + 2, NOW + 1)

    places = await store.places(owner, before=None, limit=10)

    assert [task_at(place) for place in places] == [each.task_id for each in (third, second, first)]
    assert places == [place_of(record) for record in (third, second, first)]


async def test_a_page_begins_after_the_place_that_ended_the_last(store: DynamoTaskStore) -> None:
    owner = _owner()
    await _listed(store, owner, *(NOW + number for number in range(5)))
    whole = await store.places(owner, before=None, limit=10)

    first = await store.places(owner, before=None, limit=2)
    second = await store.places(owner, before=first[-1], limit=2)
    third = await store.places(owner, before=second[-1], limit=2)

    assert [first, second, third] == [whole[:2], whole[2:4], whole[4:]]
    assert await store.places(owner, before=third[-1], limit=2) == []


async def test_nobody_sees_another_owners_places(store: DynamoTaskStore) -> None:
    ada, mal = _owner(), _owner()
    await _listed(store, ada, NOW)

    assert await store.places(mal, before=None, limit=10) == []
    assert await store.places("", before=None, limit=10) == []


async def test_what_is_not_to_be_listed_has_no_place(store: DynamoTaskStore) -> None:
    owner = _owner()
    await store.create(new_record(owner=owner), refresh_at=NOW)

    assert await store.places(owner, before=None, limit=10) == []


@pytest.mark.requirement("B-32")
async def test_a_place_expires_with_its_task(store: DynamoTaskStore, partition: Partition) -> None:
    owner = _owner()
    (record,) = await _listed(store, owner, NOW)

    item = await partition.item(OWNER_PREFIX + owner, place_of(record))

    assert item["expiresAt"] == {"N": str(EXPIRES // 1000)}


async def test_whatever_can_be_read_is_listed(
    store: DynamoTaskStore, faults: FaultyAws, partition: Partition
) -> None:
    """The place is written first: where the record fails, the place means nothing."""
    owner = _owner()
    record = new_record(owner=owner)
    faults.script("PutItem", error("AccessDeniedException"))
    with pytest.raises(StoreUnavailable):
        await store.create(record, refresh_at=NOW, listed=True)
    assert await store.read(record.task_id) is None
    assert await store.places(owner, before=None, limit=10) == []

    await partition.update(OWNER_PREFIX + owner, place_of(record), {"op": {"S": "earlier"}})
    assert await store.create(record, refresh_at=NOW, listed=True) is None
    assert [task_at(place) for place in await store.places(owner, before=None, limit=10)] == [record.task_id]


async def test_the_progress_token_of_the_creating_call_is_kept(store: DynamoTaskStore) -> None:
    with_token, without = new_record(progress_token='"t"'), new_record()
    for record in (with_token, without):
        await store.create(record, refresh_at=NOW)

    for record in (with_token, without):
        task = await store.read(record.task_id)
        assert task is not None
        assert task.record == record


async def test_a_list_that_cannot_be_read_is_told(store: DynamoTaskStore, faults: FaultyAws) -> None:
    faults.script("Query", error("AccessDeniedException"))

    with pytest.raises(StoreUnavailable):
        await store.places(_owner(), before=None, limit=10)
