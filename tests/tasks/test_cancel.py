"""A cancel is recorded, then carried out, and carried out again until the work has ended."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from adapter.errors import EngineUnavailable, StartUncertain, StoreUnavailable, TaskNotFound
from adapter.tasks.engine import Snapshot
from adapter.tasks.model import Ending
from tests.tasks.stepping import Operation, stepped_process
from tests.tasks.world import ANSWER, OWNER, World, store_down


@pytest.mark.requirement("R-116")
async def test_a_cancel_is_recorded_before_the_work_is_stopped(world: World) -> None:
    task = await world.create()

    calls = await world.calls(lambda: world.cancel(task))

    assert calls == [
        "store.read",
        "store.request_cancel",
        "engine.stop",
        "engine.describe",
        "store.latch",
    ]


@pytest.mark.requirement("R-116", "R-112")
async def test_a_cancelled_task_is_aborted_with_the_next_read(world: World) -> None:
    task = await world.create()

    await world.cancel(task)

    outcome = (await world.get(task)).outcome
    assert outcome is not None
    assert (outcome.ending, outcome.error) == (Ending.ABORTED, "McpCancelled")


async def test_work_that_won_the_race_is_shown_as_completed(world: World) -> None:
    task = await world.create()
    world.end(task)

    await world.cancel(task)

    outcome = (await world.get(task)).outcome
    assert outcome is not None
    assert outcome.ending is Ending.SUCCEEDED


@pytest.mark.requirement("R-116")
async def test_a_cancel_of_a_finished_task_changes_and_asks_nothing(world: World) -> None:
    task = await world.create()
    world.end(task)
    world.clock.advance(5)
    ended = await world.get(task)

    assert await world.calls(lambda: world.cancel(task)) == ["store.read"]
    assert (await world.get(task)).outcome == ended.outcome


@pytest.mark.requirement("R-117", "R-122")
async def test_nobody_else_can_cancel_a_task(world: World) -> None:
    task = await world.create()

    with pytest.raises(TaskNotFound):
        await world.cancel(task, owner="mallory")

    assert world.jobs.stopped == []
    assert world.stored(task).cancel_requested_at is None


async def test_questions_vanish_as_soon_as_the_cancel_is_recorded(world: World) -> None:
    task = await world.asked("approve")
    assert world.keys(task) == ["approve"]
    cancel = Operation(stepped_process(world).cancel(task.record.task_id, OWNER))
    cancel.reach("request_cancel", done=True)

    assert world.keys(await world.get(task)) == []
    await world.answer(task, {"approve": ANSWER})
    assert world.jobs.answers == []


async def test_a_cancel_that_does_not_get_through_is_told_and_recorded_and_done_by_a_later_read(
    world: World,
) -> None:
    task = await world.create()
    world.engine.fail("stop", EngineUnavailable())

    with pytest.raises(EngineUnavailable):
        await world.cancel(task)

    assert world.stored(task).cancel_requested_at == world.clock()
    assert world.jobs.stopped == []
    await world.get(task)
    assert world.jobs.stopped == [task.record.execution]


@pytest.mark.requirement("B-27")
async def test_every_later_look_that_still_sees_the_work_running_stops_it_again(world: World) -> None:
    task = await world.create()
    world.clock.advance(3_000)
    world.jobs.stop = _deaf(world)  # type: ignore[method-assign]
    await world.cancel(task)

    for stops in range(2, 8):
        world.clock.advance(2)
        assert (await world.get(task)).outcome is None
        assert world.jobs.stopped.count(task.record.execution) == stops

    world.end(task)
    world.clock.advance(2)
    ended = await world.get(task)
    assert ended.outcome is not None
    assert ended.outcome.ending is Ending.SUCCEEDED


async def test_a_stop_that_cannot_be_repeated_now_leaves_the_read_an_answer(world: World) -> None:
    task = await world.create()
    world.engine.fail("stop", EngineUnavailable(), times=2)
    with pytest.raises(EngineUnavailable):
        await world.cancel(task)

    read = await world.get(task)

    assert (read.outcome, read.cancel_requested_at) == (None, world.clock())
    world.clock.advance(10)
    await world.get(task)
    assert world.jobs.stopped == [task.record.execution]


@pytest.mark.parametrize("part", ["describe", "latch"])
async def test_a_stop_that_got_through_is_acknowledged_though_its_effect_cannot_be_seen_now(
    world: World, part: str
) -> None:
    task = await world.create()
    if part == "describe":
        world.engine.fail("describe", EngineUnavailable(throttled=True))
    else:
        world.store.fail("latch", store_down())

    await world.cancel(task)

    ended = (await world.get(task)).outcome
    assert ended is not None
    assert ended.ending is Ending.ABORTED


async def test_a_cancel_that_cannot_be_recorded_stops_nothing(world: World) -> None:
    task = await world.create()
    world.store.fail("request_cancel", store_down())

    with pytest.raises(StoreUnavailable):
        await world.cancel(task)

    assert world.jobs.stopped == []


async def test_cancelling_twice_keeps_the_first_time_and_stops_again(world: World) -> None:
    task = await world.create()
    world.jobs.stop = _deaf(world)  # type: ignore[method-assign]
    await world.cancel(task)
    first = world.stored(task).cancel_requested_at
    world.clock.advance(1)

    await world.cancel(task)

    assert world.stored(task).cancel_requested_at == first
    assert len(world.jobs.stopped) == 2


async def test_a_start_that_comes_through_after_the_cancel_is_stopped_by_the_next_look(world: World) -> None:
    world.engine.fail("start", StartUncertain())
    task = await world.create()
    with pytest.raises(EngineUnavailable):
        await world.cancel(task)
    world.jobs.executions[task.record.execution] = Snapshot()
    world.clock.advance(2)

    await world.get(task)
    world.clock.advance(2)

    ended = (await world.get(task)).outcome
    assert ended is not None
    assert ended.ending is Ending.ABORTED


async def test_answers_that_wait_for_delivery_are_dropped_by_a_cancel(world: World) -> None:
    task = await world.asked("approve")
    world.engine.fail("answer", EngineUnavailable())
    await world.answer(task, {"approve": ANSWER})
    world.engine.fail("stop", EngineUnavailable())
    with pytest.raises(EngineUnavailable):
        await world.cancel(task)
    world.clock.advance(10)

    await world.get(task)

    assert world.jobs.answers == []


def _deaf(world: World) -> Callable[..., Coroutine[Any, Any, None]]:
    async def stop(execution: str, *, error: str, cause: str) -> None:
        world.jobs.stopped.append(execution)

    return stop
