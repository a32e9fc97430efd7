"""Progress and log lines that a workflow appends."""

from __future__ import annotations

from tests.tasks.world import World, store_down


async def test_events_are_shown_in_their_order_and_stamped_with_the_expiry_of_the_task_once(
    world: World,
) -> None:
    task = await world.create()
    world.report(task, "1", "Packing")
    world.report(task, "2", "Sending")

    assert await world.calls(lambda: world.get(task)) == ["store.read", "store.adopt"]
    assert [event.message for event in (await world.get(task)).events] == ["Packing", "Sending"]
    assert await world.calls(lambda: world.get(task)) == ["store.read"]
    assert set(world.memory.expiries.values()) == {task.record.expires_at}


async def test_events_and_questions_of_one_read_are_stamped_together(world: World) -> None:
    task = await world.create()
    world.report(task, "1", "Packing")
    world.ask(task)

    assert await world.calls(lambda: world.get(task)) == ["store.read", "store.adopt"]
    assert len(world.memory.expiries) == 2


async def test_events_are_shown_though_they_cannot_be_stamped_yet(world: World) -> None:
    task = await world.create()
    world.report(task, "1", "Packing")
    world.store.fail("adopt", store_down())

    assert [event.message for event in (await world.get(task)).events] == ["Packing"]


async def test_events_stay_with_a_finished_task(world: World) -> None:
    task = await world.create()
    world.report(task, "1", "Packing")
    world.end(task)
    world.clock.advance(5)

    ended = await world.get(task)

    assert ended.outcome is not None
    assert len(ended.events) == 1


async def test_an_event_that_is_first_seen_after_the_end_is_stamped_too(world: World) -> None:
    task = await world.create()
    world.end(task)
    world.clock.advance(5)
    await world.get(task)
    world.report(task, "1", "Done")

    await world.get(task)

    assert world.memory.expiries == {(task.record.task_id, "1"): task.record.expires_at}
