"""Looking at an execution for a reason: an event told of its end, it is missing, or it is to be stopped (D7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapter.errors import EngineUnavailable, ExecutionUnknown
from adapter.tasks.engine import Refusal
from adapter.tasks.model import Ending, Outcome, Task
from adapter.tasks.pacing import DescribeBudget, EventFlow
from adapter.tasks.service import TaskService
from tests.tasks.stepping import Operation, stepped_process
from tests.tasks.world import DONE, HOUR_MS, OWNER, World, new_task

ASKED = ["store.read", "store.claim_refresh", "engine.describe", "store.note_refresh"]


@pytest.fixture
def events(world: World) -> EventFlow:
    return EventFlow(on=True, clock=lambda: world.clock() / 1000)


@pytest.fixture
def process(world: World, events: EventFlow) -> TaskService:
    """An instance that counts on events: it looks at a task every 30 seconds or more."""
    return world.new_process(events=events)


def _without_routine_calls(world: World) -> DescribeBudget:
    budget = world.new_budget(rate=0.001, burst=2)
    assert budget.take()
    assert not budget.take()
    return budget


# --- an event told of an end -------------------------------------------------------------------------------


async def test_while_events_flow_a_task_is_looked_at_every_half_minute_at_most(
    world: World, process: TaskService
) -> None:
    task = await process.create(new_task())
    world.clock.advance(29)
    await process.get(task.record.task_id, OWNER)
    assert world.jobs.describes == 0
    world.clock.advance(1)
    await process.get(task.record.task_id, OWNER)
    assert world.jobs.describes == 1


async def test_an_end_that_was_told_completely_costs_no_look(world: World, process: TaskService) -> None:
    task = await process.create(new_task())
    await world.tell(task, DONE)
    shown = await process.get(task.record.task_id, OWNER)
    assert shown.outcome == DONE
    assert world.jobs.describes == 0


async def test_an_end_that_was_not_told_completely_is_asked_for_by_the_next_read(
    world: World, process: TaskService
) -> None:
    task = await process.create(new_task())
    world.end(task, Outcome(Ending.FAILED, error="Broken"))
    await world.tell(task)
    shown = await process.get(task.record.task_id, OWNER)
    assert shown.outcome is not None
    assert shown.outcome.error == "Broken"


async def test_a_job_system_that_lags_behind_its_event_is_asked_again_soon(
    world: World, process: TaskService
) -> None:
    task = await process.create(new_task())
    await world.tell(task)
    assert (await process.get(task.record.task_id, OWNER)).outcome is None
    world.end(task)
    world.clock.advance(2)
    assert (await process.get(task.record.task_id, OWNER)).outcome is not None


async def test_an_execution_that_was_redriven_after_its_end_was_told_is_looked_at_as_usual(
    world: World, process: TaskService
) -> None:
    task = await process.create(new_task())
    await world.tell(task)
    world.clock.advance(60)
    await process.get(task.record.task_id, OWNER)
    world.clock.advance(29)
    await process.get(task.record.task_id, OWNER)
    assert world.jobs.describes == 1


async def test_a_look_that_began_before_the_event_does_not_hide_the_end(world: World) -> None:
    process = stepped_process(world)
    task = await world.create()
    world.clock.advance(5)
    look = Operation(process.get(task.record.task_id, OWNER)).reach("describe", done=True)
    world.end(task)
    await world.tell(task)
    assert look.finish().result.outcome is None
    assert (await world.get(task)).outcome is not None


async def test_a_look_that_began_before_a_cancel_does_not_put_off_the_next(world: World) -> None:
    task = await world.create()
    world.clock.advance(5)
    look = Operation(stepped_process(world).get(task.record.task_id, OWNER)).reach("describe", done=True)
    world.engine.fail("describe", EngineUnavailable())
    await world.cancel(task)
    look.finish()
    assert (await world.get(task)).outcome is not None


async def test_what_seems_to_have_ended_is_asked_for_when_routine_looks_have_used_up_their_share(
    world: World,
) -> None:
    routine, told, absent, cancelled = [await world.create() for _ in range(4)]
    world.clock.advance(5)
    await world.tell(told)
    await world.memory.mark_absent(absent.record.task_id, now=world.clock())
    world.engine.fail("stop", EngineUnavailable())
    with pytest.raises(EngineUnavailable):
        await world.cancel(cancelled)

    async def looks(task: Task) -> int:
        before = world.jobs.describes
        await world.new_process(_without_routine_calls(world)).get(task.record.task_id, OWNER)
        return world.jobs.describes - before

    assert [await looks(task) for task in (routine, told, absent, cancelled)] == [0, 1, 1, 1]


async def test_the_look_after_a_cancel_counts_as_a_call(world: World) -> None:
    budget = world.new_budget(rate=0.001, burst=1)
    process = world.new_process(budget)
    first, second = await world.create(), await world.create()
    for task in (first, second):
        await process.cancel(task.record.task_id, OWNER)
    assert world.jobs.describes == 1
    assert len(world.jobs.stopped) == 2
    assert world.stored(first).outcome is not None
    assert world.stored(second).outcome is None


# --- whether events are seen to flow -----------------------------------------------------------------------


async def _found_late(world: World, process: TaskService, *, told: bool) -> None:
    task = await process.create(new_task())
    world.end(task)
    if told:
        await world.tell(task)
    world.clock.advance(31)
    assert (await process.get(task.record.task_id, OWNER)).outcome is not None


async def test_ends_that_no_event_told_end_the_trust_in_events(
    world: World, process: TaskService, events: EventFlow
) -> None:
    for _ in range(4):
        assert events.flowing
        await _found_late(world, process, told=False)
    assert not events.flowing
    task = await process.create(new_task())
    assert task.refresh_at == world.clock() + 2_000


async def test_ends_whose_event_did_not_say_how_keep_the_trust(
    world: World, process: TaskService, events: EventFlow
) -> None:
    for _ in range(8):
        await _found_late(world, process, told=True)
    assert events.flowing


async def test_ends_that_were_told_bring_the_trust_back(
    world: World, process: TaskService, events: EventFlow
) -> None:
    for _ in range(4):
        await _found_late(world, process, told=False)
    for _ in range(4):
        task = await process.create(new_task())
        await world.tell(task, replace(DONE, ended_at=world.clock()))
        await process.get(task.record.task_id, OWNER)
    assert events.flowing


async def test_an_end_that_is_read_again_and_again_was_told_once(
    world: World, process: TaskService, events: EventFlow
) -> None:
    for _ in range(4):
        await _found_late(world, process, told=False)
    for _ in range(3):
        task = await process.create(new_task())
        await world.tell(task, replace(DONE, ended_at=world.clock()))
        for _ in range(20):
            await process.get(task.record.task_id, OWNER)
        assert not events.flowing


async def test_reading_an_end_that_was_found_by_asking_again_and_again_brings_no_trust_back(
    world: World, process: TaskService, events: EventFlow
) -> None:
    for _ in range(4):
        await _found_late(world, process, told=False)
    task = await process.create(new_task())
    world.end(task)
    world.clock.advance(2)
    for _ in range(20):
        await process.get(task.record.task_id, OWNER)
    assert not events.flowing


async def test_a_cancel_that_takes_its_time_is_no_missed_event(
    world: World, process: TaskService, events: EventFlow
) -> None:
    for _ in range(5):
        task = await process.create(new_task())
        world.engine.fail("describe", EngineUnavailable())
        await process.cancel(task.record.task_id, OWNER)
        world.clock.advance(60)
        assert (await process.get(task.record.task_id, OWNER)).outcome is not None
    assert events.flowing


# --- look --------------------------------------------------------------------------------------------------


async def test_a_look_asks_though_it_is_not_due_and_somebody_holds_the_lease(world: World) -> None:
    task = await world.create()
    world.end(task)
    await world.memory.claim_refresh(
        task.record.task_id, now=world.clock() + 2_000, until=world.clock() + 9_000
    )
    assert await world.service.look(task.record.task_id)
    assert world.stored(task).outcome is not None


async def test_an_unknown_and_an_ended_task_need_no_look(world: World) -> None:
    task = await world.create()
    await world.tell(task, DONE)
    assert await world.service.look("mcp-unknown")
    assert await world.service.look(task.record.task_id)
    assert world.jobs.describes == 0


async def test_a_task_that_ends_while_it_is_read_needs_no_look(world: World) -> None:
    task = await world.create()
    look = Operation(stepped_process(world).look(task.record.task_id)).reach("read", done=True)
    await world.tell(task, DONE)
    assert look.finish().result is True
    assert world.jobs.describes == 0


async def test_without_a_call_left_the_next_reader_asks_instead(world: World) -> None:
    task = await world.create()
    world.end(task)
    poor = world.new_process(world.new_budget(rate=0.001, burst=1))
    other = await world.create()
    assert await poor.look(other.record.task_id)
    assert not await poor.look(task.record.task_id)
    assert world.stored(task).outcome is None
    assert (await world.get(task)).outcome is not None


async def test_a_look_that_fails_says_so_and_gives_the_lease_its_time(world: World) -> None:
    task = await world.create()
    world.end(task)
    world.engine.fail("describe", EngineUnavailable(throttled=True))
    with pytest.raises(EngineUnavailable):
        await world.service.look(task.record.task_id)
    assert (await world.get(task)).outcome is None
    world.clock.advance(10)
    assert (await world.get(task)).outcome is not None


async def test_work_to_be_stopped_at_its_expiry_is_stopped_and_then_seen_to_end(world: World) -> None:
    task = await world.create(ttl_ms=HOUR_MS, on_expire="stop")
    world.clock.advance(3600)
    assert await world.service.look(task.record.task_id)
    assert world.jobs.stopped == [task.record.execution]
    assert await world.service.look(task.record.task_id)
    outcome = world.stored(task).outcome
    assert outcome is not None
    assert (outcome.ending, outcome.error) == (Ending.ABORTED, "McpTaskExpired")
    assert len(world.jobs.stopped) == 1


async def test_work_to_be_left_at_its_expiry_is_left(world: World) -> None:
    task = await world.create(ttl_ms=HOUR_MS)
    world.clock.advance(3600)
    assert await world.service.look(task.record.task_id)
    assert world.jobs.stopped == []


async def test_expired_work_that_the_job_system_has_forgotten_counts_as_stopped(world: World) -> None:
    task = await world.create(ttl_ms=HOUR_MS, on_expire="stop")
    world.clock.advance(3600)
    world.engine.fail("describe", ExecutionUnknown())
    assert await world.service.look(task.record.task_id)
    outcome = world.stored(task).outcome
    assert outcome is not None
    assert outcome.ending is Ending.ABORTED


async def test_a_look_that_sees_it_running_ends_its_absence(world: World) -> None:
    task = await world.create()
    await world.memory.mark_absent(task.record.task_id, now=world.clock())
    assert await world.calls(lambda: world.service.look(task.record.task_id)) == [
        "store.read",
        "store.mark_due",
        *ASKED[1:],
    ]
    assert world.stored(task).absent_at is None


# --- redeliver ---------------------------------------------------------------------------------------------


async def _undelivered(world: World) -> Task:
    """A task with an answer that the job system could not take."""
    task = await world.asked("approve")
    world.engine.fail("answer", EngineUnavailable())
    await world.answer(task, {"approve": {"value": "yes"}})
    assert world.delivered() == []
    return task


async def test_an_answer_is_delivered_again_once_its_lease_is_over(world: World) -> None:
    task = await _undelivered(world)
    await world.service.redeliver(task.record.task_id)
    assert world.delivered() == []
    world.clock.advance(10)
    await world.service.redeliver(task.record.task_id)
    assert world.delivered() == [("token-approve", {"value": "yes"})]
    assert world.stored(task).questions == ()


async def test_answers_of_an_ended_task_are_closed(world: World) -> None:
    task = await _undelivered(world)
    await world.tell(task, DONE)
    await world.service.redeliver(task.record.task_id)
    assert world.stored(task).questions == ()
    assert world.delivered() == []


async def test_an_unknown_task_has_nothing_to_deliver(world: World) -> None:
    assert await world.calls(lambda: world.service.redeliver("mcp-unknown")) == ["store.read"]


async def test_a_question_that_nobody_could_be_shown_is_refused_on_the_way(world: World) -> None:
    task = await _undelivered(world)
    world.ask(task, "bad", method="guess")
    world.clock.advance(10)
    await world.service.redeliver(task.record.task_id)
    assert [type(answer) for _, answer in world.jobs.answers] == [Refusal, str]
