"""A confirmation used twice gives one task (D13), whatever became of the first attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapter.errors import EngineUnavailable, StartRejected, StartUncertain, TaskNotFound
from adapter.tasks.model import Ending, Task
from tests.tasks.stepping import CRASHES, Operation, interleavings, stepped_process
from tests.tasks.world import World, new_task

NONCE = "n" * 22
CONFIRMED = new_task(nonce=NONCE)
TASK = f"mcp-{NONCE}"
EXECUTION = f"machine:{TASK}"


@pytest.mark.requirement("R-84")
async def test_a_replay_returns_the_same_task_and_the_same_execution(world: World) -> None:
    first = await world.service.create(CONFIRMED)
    world.clock.advance(3)
    second = await world.new_process().create(CONFIRMED)

    assert second.record == first.record
    assert list(world.jobs.executions) == [EXECUTION]


async def test_a_replay_after_the_end_starts_nothing_and_shows_the_end(world: World) -> None:
    first = await world.service.create(CONFIRMED)
    world.end(first)
    world.clock.advance(5)
    ended = await world.get(first)

    replayed = await world.service.create(CONFIRMED)

    assert replayed.outcome == ended.outcome is not None
    assert world.jobs.started == [EXECUTION]


async def test_a_replay_after_the_start_window_starts_nothing(world: World) -> None:
    await world.service.create(CONFIRMED)
    world.clock.advance(30)

    replayed = await world.service.create(CONFIRMED)

    assert replayed.record.task_id == TASK
    assert world.jobs.started == [EXECUTION]


async def test_a_replay_after_a_cancel_starts_nothing(world: World) -> None:
    world.engine.fail("start", StartUncertain())
    task = await world.service.create(CONFIRMED)
    with pytest.raises(EngineUnavailable):
        await world.cancel(task)

    await world.service.create(CONFIRMED)

    assert world.jobs.started == []


async def test_a_confirmation_used_again_with_other_answers_is_refused(world: World) -> None:
    await world.service.create(CONFIRMED)

    with pytest.raises(StartRejected, match="other answers"):
        await world.service.create(replace(CONFIRMED, input_json=b'{"other": 1}'))

    assert len(world.jobs.started) == 1


async def test_a_confirmation_of_somebody_else_is_not_found(world: World) -> None:
    await world.service.create(CONFIRMED)

    with pytest.raises(TaskNotFound):
        await world.service.create(new_task(nonce=NONCE, owner="mallory"))

    assert world.jobs.started == [EXECUTION]


@pytest.mark.parametrize("how", CRASHES)
@pytest.mark.parametrize("steps", range(4))
async def test_a_replay_mends_a_create_that_crashed_at_any_point(world: World, steps: int, how: str) -> None:
    crashed = Operation(stepped_process(world).create(CONFIRMED))
    for _ in range(steps):
        crashed.advance()
    crashed.crash(how)
    world.clock.advance(29)

    task = await world.service.create(CONFIRMED)

    assert list(world.jobs.executions) == [EXECUTION]
    assert await world.get(task)


async def test_a_start_that_was_missed_for_good_ends_as_lost(world: World) -> None:
    crashed = Operation(stepped_process(world).create(CONFIRMED))
    crashed.advance()
    crashed.crash("killed")
    world.clock.advance(31)

    task = await world.service.create(CONFIRMED)
    assert task.outcome is None
    world.clock.advance(89)

    ended = await world.get(task)
    assert ended.outcome is not None
    assert ended.outcome.ending is Ending.LOST
    assert world.jobs.started == []


async def test_a_rejected_replay_does_not_forget_a_start_that_happened(world: World) -> None:
    world.engine.fail("start", StartUncertain(), done=True)
    await world.service.create(CONFIRMED)
    world.engine.fail("start", StartRejected("busy", retryable=True))

    task = await world.service.create(CONFIRMED)

    world.end(task)
    world.clock.advance(5)
    assert (await world.get(task)).outcome is not None


async def test_a_rejected_confirmation_can_be_used_again(world: World) -> None:
    world.engine.fail("start", StartRejected("busy", retryable=True))
    with pytest.raises(StartRejected):
        await world.service.create(CONFIRMED)

    task = await world.service.create(CONFIRMED)

    assert list(world.jobs.executions) == [task.record.execution]


def test_confirmations_used_at_the_same_time_give_one_execution_and_one_handle() -> None:
    runs = 0
    for world, operations in interleavings(_two_at_once):
        runs += 1
        ids = {operation.result.record.task_id for operation in operations}
        assert ids == {TASK} == set(world.memory.tasks)
        assert list(world.jobs.executions) == [EXECUTION]
    assert runs > 40


@pytest.mark.parametrize("rejected", [0, 1], ids=["first", "second"])
def test_a_rejection_of_one_of_two_at_once_never_takes_the_handle_of_the_other(rejected: int) -> None:
    runs = 0
    for world, operations in interleavings(lambda: _two_at_once(rejected_start=rejected)):
        runs += 1
        handles = [o.result for o in operations if isinstance(o.result, Task)]
        assert all(isinstance(o.error, StartRejected) for o in operations if o.error)
        assert all(handle.record.task_id in world.memory.tasks for handle in handles)
        if world.jobs.executions:
            assert handles
            assert TASK in world.memory.tasks
    assert runs > 40


def _two_at_once(rejected_start: int | None = None) -> tuple[World, list[Operation]]:
    world = World()
    start, attempts = world.jobs.start, iter(range(10))

    async def sometimes(*arguments: object, **named: object) -> None:
        if next(attempts) == rejected_start:
            raise StartRejected("busy", retryable=True)
        await start(*arguments, **named)  # type: ignore[arg-type]

    world.jobs.start = sometimes  # type: ignore[method-assign]
    return world, [Operation(stepped_process(world).create(CONFIRMED)) for _ in range(2)]
