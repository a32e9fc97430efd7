"""Record first, then start, then answer (D3)."""

from __future__ import annotations

import re

import pytest

from adapter.errors import StartRejected, StartUncertain, StoreUnavailable
from adapter.tasks.model import Ending
from tests.tasks.world import OWNER, World, new_task, store_down


@pytest.mark.requirement("R-110")
async def test_the_record_is_written_before_anything_starts_and_nothing_else_is_asked(world: World) -> None:
    assert await world.calls(world.create) == ["store.create", "engine.start"]


@pytest.mark.requirement("R-110")
async def test_a_new_task_can_be_read_at_once_and_is_working(world: World) -> None:
    created = await world.create()

    read = await world.get(created)

    assert created.outcome is None
    assert read == created
    assert world.jobs.describes == 0


async def test_the_execution_gets_the_name_of_the_task_and_exactly_its_input(world: World) -> None:
    task = await world.create(input_json=b'{"n": 1.50}')

    assert world.jobs.inputs == {f"machine:{task.record.task_id}": b'{"n": 1.50}'}
    assert task.record.execution == f"machine:{task.record.task_id}"


async def test_the_record_pins_what_the_caller_asked_for(world: World) -> None:
    new = new_task(on_expire="stop", result_settings='{"mode":"data"}', ttl_ms=5_000, poll_ms=70)

    record = (await world.service.create(new)).record

    pinned = (record.owner, record.tool, record.engine, record.target, record.on_expire)
    assert pinned == (OWNER, "report", "memory", "machine", "stop")
    assert (record.result_settings, record.ttl_ms, record.poll_ms) == ('{"mode":"data"}', 5_000, 70)
    assert record.created_at == world.clock()


@pytest.mark.requirement("R-122", "B-51")
async def test_task_ids_are_random_and_fit_for_headers_and_execution_names(world: World) -> None:
    ids = {(await world.create()).record.task_id for _ in range(200)}

    assert len(ids) == 200
    assert all(re.fullmatch(r"mcp-[A-Za-z0-9_-]{22,60}", task_id) for task_id in ids)


@pytest.mark.parametrize(
    "rejection",
    [
        StartRejected("busy", retryable=True),
        StartRejected("too long", caller_fault=True),
        StartRejected("no"),
    ],
    ids=["retryable", "caller's fault", "ours"],
)
async def test_a_proven_rejection_leaves_nothing_behind(world: World, rejection: StartRejected) -> None:
    world.engine.fail("start", rejection)

    with pytest.raises(StartRejected) as caught:
        await world.create()

    assert caught.value is rejection
    assert world.memory.tasks == {}


async def test_an_uncertain_start_keeps_the_handle(world: World) -> None:
    world.engine.fail("start", StartUncertain(), done=True)

    task = await world.create()
    world.end(task)
    world.clock.advance(5)

    assert (await world.get(task)).outcome == world.stored(task).outcome is not None


async def test_an_uncertain_start_that_did_not_happen_ends_as_lost(world: World) -> None:
    world.engine.fail("start", StartUncertain())

    task = await world.create()
    world.clock.advance(120)

    ended = await world.get(task)
    assert ended.outcome is not None
    assert ended.outcome.ending is Ending.LOST


async def test_a_rejection_is_told_even_where_the_record_cannot_be_removed(world: World) -> None:
    world.engine.fail("start", StartRejected("busy", retryable=True))
    world.store.fail("discard", store_down())

    with pytest.raises(StartRejected, match="busy"):
        await world.create()

    (left,) = world.memory.tasks
    world.clock.advance(121)
    ended = await world.get(left)
    assert ended.outcome is not None
    assert ended.outcome.ending is Ending.LOST


async def test_nothing_starts_without_a_record(world: World) -> None:
    world.store.fail("create", store_down())

    with pytest.raises(StoreUnavailable):
        await world.create()

    assert world.jobs.started == []


@pytest.mark.parametrize(("spent", "left"), [(0, 30.0), (12, 18.0), (29.5, 0.5), (31, 0.0)])
async def test_a_start_is_attempted_within_30_seconds_of_the_record_only(
    world: World, spent: float, left: float
) -> None:
    world.store.take("create", spent)

    await world.create()

    assert world.engine.arguments["start"] == {"within": left}
