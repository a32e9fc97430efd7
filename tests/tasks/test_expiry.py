"""What happens to work that still runs when its task expires (D6)."""

from __future__ import annotations

import pytest

from adapter.errors import EngineUnavailable, ExecutionUnknown, TaskNotFound
from adapter.tasks.model import Ending
from tests.tasks.stepping import Operation, at_once, interleavings, stepped_process
from tests.tasks.world import DONE, HOUR_MS, OWNER, World, store_down


@pytest.mark.requirement("B-31")
async def test_work_that_ends_after_its_task_expired_is_no_failure(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    task = await world.create(ttl_ms=HOUR_MS)
    world.clock.advance(3601)

    world.end(task)
    await world.tell(task, DONE)
    await world.absent(task)

    assert caplog.records == []


async def test_work_is_left_alone_by_default(world: World) -> None:
    task = await world.create(ttl_ms=HOUR_MS)
    world.clock.advance(3600)

    assert await world.calls(lambda: world.absent(task)) == ["store.read"]


async def test_work_is_stopped_where_the_tool_says_so(world: World) -> None:
    task = await world.create(ttl_ms=HOUR_MS, on_expire="stop")
    world.clock.advance(3600)

    await world.absent(task)

    outcome = world.jobs.executions[task.record.execution].outcome
    assert outcome is not None
    assert (outcome.ending, outcome.error) == (Ending.ABORTED, "McpTaskExpired")


async def test_an_expired_task_is_stopped_once_per_lease_however_often_it_is_read(world: World) -> None:
    task = await world.create(ttl_ms=HOUR_MS, on_expire="stop")
    world.clock.advance(3600)
    await world.absent(task)
    for _ in range(20):
        assert await world.calls(lambda: world.absent(task)) == ["store.read"]
    assert len(world.jobs.stopped) == 1

    world.clock.advance(10)
    await world.absent(task)
    await world.absent(task)

    assert len(world.jobs.stopped) == 2


def test_two_readers_of_an_expired_task_stop_it_once() -> None:
    for world, readers in interleavings(_two_readers_of_an_expired_task):
        assert all(isinstance(reader.error, TaskNotFound) for reader in readers)
        assert len(world.jobs.stopped) == 1


async def test_somebody_else_cannot_stop_an_expired_task(world: World) -> None:
    task = await world.create(ttl_ms=HOUR_MS, on_expire="stop")
    world.clock.advance(3600)

    await world.absent(task, owner="mallory")

    assert world.jobs.stopped == []


async def test_work_that_ended_is_not_stopped(world: World) -> None:
    task = await world.create(ttl_ms=HOUR_MS, on_expire="stop")
    world.end(task)
    world.clock.advance(5)
    await world.get(task)
    world.clock.advance(3600)

    await world.absent(task)

    assert world.jobs.stopped == []


@pytest.mark.parametrize("problem", [ExecutionUnknown(), EngineUnavailable()], ids=["unknown", "unreachable"])
async def test_an_expired_task_that_cannot_be_stopped_is_not_found_all_the_same(
    world: World, problem: Exception
) -> None:
    task = await world.create(ttl_ms=HOUR_MS, on_expire="stop")
    world.clock.advance(3600)
    world.engine.fail("stop", problem)

    assert await world.absent(task) == await world.absent("mcp-nothing")


async def test_an_expired_task_that_cannot_be_claimed_is_not_found_all_the_same(world: World) -> None:
    task = await world.create(ttl_ms=HOUR_MS, on_expire="stop")
    world.clock.advance(3600)
    world.store.fail("claim_refresh", store_down())

    assert await world.absent(task) == await world.absent("mcp-nothing")


@pytest.mark.parametrize("request_name", ["answer", "cancel"])
async def test_answers_and_cancels_of_an_expired_task_are_not_found(world: World, request_name: str) -> None:
    task = await world.create(ttl_ms=HOUR_MS)
    question = world.ask(task)
    world.clock.advance(3600)

    with pytest.raises(Exception, match="Task not found"):
        await (world.cancel(task) if request_name == "cancel" else world.answer(task, {question.key: {}}))

    assert world.jobs.stopped == []
    assert world.jobs.answers == []


def _two_readers_of_an_expired_task() -> tuple[World, list[Operation]]:
    world = World()
    task = at_once(world.create(ttl_ms=HOUR_MS, on_expire="stop"))
    world.clock.advance(3600)
    return world, [Operation(stepped_process(world).get(task.record.task_id, OWNER)) for _ in range(2)]
