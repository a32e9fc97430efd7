"""What a read answers, and when it asks the job system (D4, D7)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from adapter.errors import EngineUnavailable, StartUncertain, StoreUnavailable
from adapter.tasks.engine import Snapshot
from adapter.tasks.model import Ending, Outcome
from tests.tasks.stepping import Operation, interleavings, stepped_process
from tests.tasks.world import ANSWER, DONE, HOUR_MS, OWNER, World, new_task, store_down

READ = ["store.read"]
THROTTLED = EngineUnavailable(throttled=True)
UNREACHABLE = EngineUnavailable()


@pytest.mark.requirement("R-117", "R-122", "B-39")
async def test_unknown_foreign_and_expired_tasks_look_the_same(world: World) -> None:
    task = await world.create()
    unknown = await world.absent("mcp-nothing")
    foreign = await world.absent(task, owner="mallory")
    world.clock.advance(24 * 3600)

    assert unknown == foreign == await world.absent(task)


@pytest.mark.requirement("R-120")
async def test_a_task_can_be_read_until_its_time_to_live_has_passed(world: World) -> None:
    task = await world.create(ttl_ms=HOUR_MS)
    world.end(task)
    world.clock.advance(3599.999)
    assert (await world.get(task)).outcome is not None

    world.clock.advance(0.001)

    await world.absent(task)


async def test_a_read_before_the_next_look_is_due_asks_the_record_only(world: World) -> None:
    task = await world.create()
    world.clock.advance(1.999)

    assert await world.calls(lambda: world.get(task)) == READ


async def test_a_due_read_asks_the_job_system_once_under_a_claim(world: World) -> None:
    task = await world.create()
    world.clock.advance(2)

    calls = await world.calls(lambda: world.get(task))

    assert calls == ["store.read", "store.claim_refresh", "engine.describe", "store.note_refresh"]
    assert await world.calls(lambda: world.get(task)) == READ


@pytest.mark.requirement("R-112")
async def test_the_first_end_that_was_seen_stays_whatever_the_job_system_says_later(world: World) -> None:
    task = await world.create()
    world.end(task, Outcome(Ending.FAILED, error="Broken"))
    world.clock.advance(5)
    failed = await world.get(task)

    world.jobs.executions[task.record.execution] = Snapshot()  # redriven
    world.clock.advance(60)
    redriven = await world.get(task)
    world.end(task, DONE)
    world.clock.advance(60)
    after = await world.get(task)

    assert failed.outcome is not None
    assert failed.outcome.ending is Ending.FAILED
    assert failed.outcome == redriven.outcome == after.outcome


async def test_a_finished_task_is_read_without_asking_the_job_system(world: World) -> None:
    task = await world.create()
    world.end(task)
    world.clock.advance(5)
    await world.get(task)
    world.clock.advance(60)

    assert await world.calls(lambda: world.get(task)) == READ


async def test_two_readers_that_see_different_ends_give_the_same_answer(world: World) -> None:
    task = await world.create()
    world.clock.advance(5)
    world.end(task, Outcome(Ending.FAILED))
    slow = _read(world, task.record.task_id).reach("describe", done=True)

    world.end(task, DONE)
    world.clock.advance(10)
    fast = await world.get(task)
    slow.finish()

    assert slow.result.outcome == fast.outcome == world.stored(task).outcome
    assert fast.outcome is not None
    assert fast.outcome.ending is Ending.SUCCEEDED


@pytest.mark.requirement("B-54")
def test_any_number_of_readers_in_many_processes_cost_one_describe() -> None:
    for world, readers in interleavings(_two_readers):
        assert world.jobs.describes == 1
        assert [reader.error for reader in readers] == [None, None]


async def test_a_hundred_readers_at_once_cost_one_describe_and_one_token_of_the_budget(world: World) -> None:
    budget = world.new_budget(rate=1, burst=100)
    process = stepped_process(world, budget)
    task = await world.create()
    world.clock.advance(5)

    readers = [Operation(process.get(task.record.task_id, OWNER)) for _ in range(100)]
    while waiting := [reader for reader in readers if not reader.over]:
        for reader in waiting:
            reader.advance()

    assert world.jobs.describes == 1
    assert [budget.take(urgent=True) for _ in range(65)] == [True] * 64 + [False]


async def test_after_a_reader_died_with_the_claim_nobody_asks_until_its_lease_is_over(world: World) -> None:
    task = await world.create()
    world.end(task)
    world.clock.advance(5)
    _read(world, task.record.task_id).reach("describe").crash("killed")

    world.clock.advance(9.999)
    assert (await world.get(task)).outcome is None
    assert world.jobs.describes == 0

    world.clock.advance(0.001)
    assert (await world.get(task)).outcome is not None
    assert world.jobs.describes == 1


async def test_the_pause_between_two_looks_grows_with_the_age_of_the_task(world: World) -> None:
    task = await world.create()
    pauses = []
    for age in (2, 10, 100, 300, 1_000, 10_000):
        world.clock.now = task.record.created_at + age * 1000
        await world.get(task)
        pauses.append((world.stored(task).refresh_at - world.clock()) / 1000)

    assert pauses == [2, 2, 10, 30, 60, 60]


async def test_an_execution_that_is_not_known_yet_is_working(world: World) -> None:
    world.engine.fail("start", StartUncertain())
    task = await world.create()

    for _ in range(10):
        world.clock.advance(11.999)
        assert (await world.get(task)).outcome is None

    assert world.jobs.describes > 3


@pytest.mark.parametrize(("cancelled", "ending"), [(False, Ending.LOST), (True, Ending.ABORTED)])
async def test_an_execution_unknown_for_120_seconds_never_started(
    world: World, cancelled: bool, ending: Ending
) -> None:
    world.engine.fail("start", StartUncertain())
    task = await world.create()
    if cancelled:
        with pytest.raises(EngineUnavailable):
            await world.cancel(task)
    world.clock.advance(119.999)
    assert (await world.get(task)).outcome is None
    world.clock.advance(30)

    outcome = (await world.get(task)).outcome

    assert outcome == Outcome(ending, ended_at=world.clock())


async def test_what_the_job_system_says_of_the_running_step_is_kept_for_reads_that_do_not_ask(
    world: World,
) -> None:
    task = await world.create()
    world.jobs.executions[task.record.execution] = Snapshot(message="Packing")
    world.clock.advance(5)

    assert (await world.get(task)).message == "Packing"
    assert (await world.get(task)).message == "Packing"
    assert world.jobs.describes == 1


async def test_the_time_of_the_last_update_moves_with_what_changes_and_never_back(world: World) -> None:
    task = await world.create()
    times = [task.updated_at]
    for message in (None, "Packing", "Packing", "Sending"):
        world.jobs.executions[task.record.execution] = Snapshot(message=message)
        world.clock.advance(60)
        times.append((await world.get(task)).updated_at)
    created = task.record.created_at

    assert [(time - created) / 1000 for time in times] == [0, 0, 120, 120, 240]

    world.jobs.end(task.record.execution, replace(DONE, ended_at=created + 250_000))
    world.clock.advance(60)
    assert (await world.get(task)).updated_at == created + 250_000
    assert (await world.get(task)).updated_at == created + 250_000


@pytest.mark.requirement("B-54")
async def test_a_throttled_read_answers_with_what_is_known_and_asks_for_longer_pauses(world: World) -> None:
    task = await world.create()
    world.jobs.executions[task.record.execution] = Snapshot(message="Packing")
    world.clock.advance(5)
    calm = await world.get(task)
    world.engine.fail("describe", THROTTLED)
    world.clock.advance(5)

    throttled = await world.get(task)

    assert (throttled.outcome, throttled.message) == (None, "Packing")
    assert (calm.poll_ms, throttled.poll_ms) == (2_000, 4_000)


@pytest.mark.requirement("B-54")
async def test_a_read_that_finds_the_budget_used_up_neither_claims_nor_fails(world: World) -> None:
    world.service = world.new_process(world.new_budget(rate=0.1, burst=1))
    first, second = await world.create(), await world.create()
    world.clock.advance(2)
    await world.get(first)

    calls = await world.calls(lambda: world.get(second))

    assert calls == READ
    assert (await world.get(second)).poll_ms == 4_000


@pytest.mark.parametrize("problem", [THROTTLED, UNREACHABLE], ids=["throttled", "unreachable"])
async def test_a_failed_look_does_not_count_as_one_and_is_repeated_after_the_lease(
    world: World, problem: EngineUnavailable
) -> None:
    task = await world.create()
    world.end(task)
    world.clock.advance(1_000)
    world.engine.fail("describe", problem)

    assert (await world.get(task)).outcome is None
    assert (await world.get(task)).outcome is None
    world.clock.advance(10)

    assert (await world.get(task)).outcome is not None
    assert world.journal.count("engine.describe") == 2


async def test_a_read_says_that_the_job_system_was_not_reached_where_nothing_else_is_known(
    world: World,
) -> None:
    task = await world.create()
    world.clock.advance(5)
    world.engine.fail("describe", UNREACHABLE)

    assert (await world.get(task)).message == "The job system could not be asked just now"


@pytest.mark.requirement("B-41")
async def test_once_an_end_is_near_the_hint_is_short_whatever_the_tool_says(world: World) -> None:
    cancelled, told, other = [await world.create(poll_ms=60_000) for _ in range(3)]
    world.jobs.stop = _deaf  # type: ignore[method-assign]
    await world.cancel(cancelled)
    world.clock.advance(3_000)
    await world.tell(told)

    hints = [(await world.get(task)).poll_ms for task in (cancelled, told, other)]

    assert hints == [2_000, 2_000, 60_000]


async def _deaf(*_: object, **__: object) -> None:
    """A stop that is taken, and has no effect yet."""


@pytest.mark.requirement("B-41")
async def test_poll_hints_follow_the_tool_and_the_pause_but_not_beyond_ten_seconds(world: World) -> None:
    task = await world.create(poll_ms=3_000)
    hints = [task.poll_ms]
    for age in (10, 50, 10_000):
        world.clock.now = task.record.created_at + age * 1000
        hints.append((await world.get(task)).poll_ms)

    assert hints == [3_000, 3_000, 5_000, 10_000]


async def test_a_finished_task_reads_the_same_however_old_it_gets(world: World) -> None:
    task = await world.create()
    world.end(task)
    world.clock.advance(5)
    ended = await world.get(task)
    world.clock.advance(10_000)

    assert (await world.get(task)).poll_ms == ended.poll_ms == task.record.poll_ms


async def test_readers_on_one_event_loop_cost_one_describe(world: World) -> None:
    task = await world.create()
    world.clock.advance(5)

    await asyncio.gather(*(world.get(task) for _ in range(50)))

    assert world.jobs.describes == 1


def _read(world: World, task_id: str) -> Operation:
    return Operation(stepped_process(world).get(task_id, OWNER))


def _two_readers() -> tuple[World, list[Operation]]:
    world = World()
    Operation(stepped_process(world).create(new_task())).finish()
    world.clock.advance(5)
    (task_id,) = world.memory.tasks
    return world, [_read(world, task_id) for _ in range(2)]


@pytest.mark.parametrize("write", ["claim_refresh", "note_refresh", "latch", "claim_delivery"])
async def test_a_read_whose_writes_fail_answers_with_what_is_known(world: World, write: str) -> None:
    task = await world.asked("approve")
    world.engine.fail("answer", UNREACHABLE)
    await world.answer(task, {"approve": ANSWER})
    world.clock.advance(15)
    if write == "latch":
        world.end(task)
    world.store.fail(write, store_down())

    read = await world.get(task)

    assert read.outcome is None
    assert world.keys(read) == []
    assert f"store.{write}" in world.journal


async def test_a_read_that_cannot_be_made_says_so(world: World) -> None:
    task = await world.create()
    world.store.fail("read", store_down())

    with pytest.raises(StoreUnavailable):
        await world.get(task)
