"""A process dies, or a request is cancelled, before or after any call; or the reply of any call is lost.

Every such point of every operation is tried, and then the next reads must be right.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from adapter.errors import AdapterError
from adapter.tasks.model import Ending, Task
from adapter.tasks.service import TaskService
from tests.tasks.stepping import CRASHES, Operation, Step, at_once, stepped_process
from tests.tasks.world import ANSWER, DONE, OWNER, World, new_task

Prepare = Callable[[World], Coroutine[Any, Any, Task]]
Work = Callable[[TaskService, Task], Coroutine[Any, Any, Any]]
INTERRUPTIONS = (*CRASHES, "failed")


@dataclass(frozen=True)
class Interrupted:
    """What is left after one interruption."""

    world: World
    task: Task
    step: Step
    """Where it was interrupted."""
    how: str
    operation: Operation

    @property
    def acknowledged(self) -> bool:
        """Whether the client was told that it worked."""
        return self.how == "failed" and self.operation.error is None

    async def read(self) -> Task:
        return await self.world.get(self.task)

    async def read_on(self) -> Task:
        """As a client does that goes on polling for longer than any lease."""
        for _ in range(6):
            await self.read()
            self.world.clock.advance(5)
        return await self.read()


async def _new(world: World) -> Task:
    return await world.create()


async def _due(world: World) -> Task:
    task = await world.create()
    world.clock.advance(5)
    return task


async def _ended(world: World) -> Task:
    task = await _due(world)
    world.end(task)
    return task


async def _asking(world: World) -> Task:
    return await world.asked("one", "two")


async def _newly_asking(world: World) -> Task:
    task = await _due(world)
    world.ask(task, "one")
    world.ask(task, "odd", method="dance")
    world.report(task, "1", "Packing")
    return task


async def _undelivered(world: World) -> Task:
    task = await world.asked("one", "two")
    Operation(_answer_both(stepped_process(world), task)).reach("answer").crash("killed")
    world.clock.advance(10)
    return task


async def _cancelled_in_vain(world: World) -> Task:
    task = await _due(world)
    await world.memory.request_cancel(task.record.task_id, now=world.clock())
    return task


def _get(service: TaskService, task: Task) -> Coroutine[Any, Any, Any]:
    return service.get(task.record.task_id, OWNER)


def _answer_both(service: TaskService, task: Task) -> Coroutine[Any, Any, Any]:
    return service.answer(task.record.task_id, OWNER, {"one": ANSWER, "two": ANSWER})


def _cancel(service: TaskService, task: Task) -> Coroutine[Any, Any, Any]:
    return service.cancel(task.record.task_id, OWNER)


def every_interruption(prepare: Prepare, work: Work) -> Iterator[Interrupted]:
    """One after another: each way to interrupt, at each step of the work, on a new world."""
    for how in INTERRUPTIONS:
        for steps in range(1000):
            world = World()
            task = at_once(prepare(world))
            operation = Operation(work(stepped_process(world), task))
            for _ in range(steps):
                if not operation.over:
                    operation.advance()
            if operation.over:
                assert steps > 1
                break
            assert operation.step is not None
            step = operation.step
            if how == "failed":
                operation.fail()
                operation.finish()
            else:
                operation.crash(how)
            yield Interrupted(world, task, step, how, operation)


@pytest.mark.requirement("R-110")
def test_an_interrupted_create_starts_at_most_once_and_a_returned_handle_always_resolves() -> None:
    points = set()
    for how in INTERRUPTIONS:
        for steps in range(4):
            world = World()
            operation = Operation(stepped_process(world).create(new_task()))
            for _ in range(steps):
                operation.advance()
            assert operation.step is not None
            points.add((how, operation.step))
            if how == "failed":
                operation.fail()
                operation.finish()
            else:
                operation.crash(how)
            assert len(world.jobs.started) <= len(world.memory.tasks) <= 1
            world.clock.advance(150)
            if operation.result is not None:
                assert at_once(world.get(operation.result))
            for left in world.memory.tasks.values():
                outcome = at_once(world.get(left)).outcome
                started = left.record.execution in world.jobs.executions
                assert (outcome is None) == started
                assert outcome is None or outcome.ending is Ending.LOST
    assert len(points) == 12


def test_an_interrupted_read_of_running_work_changes_nothing_for_the_next_ones() -> None:
    for left in every_interruption(_due, _get):
        assert at_once(left.read()).outcome is None
        assert at_once(left.read_on()).outcome is None
        left.world.end(left.task)
        left.world.clock.advance(30)
        assert at_once(left.read()).outcome is not None


@pytest.mark.requirement("R-112")
def test_an_interrupted_read_that_saw_the_end_leaves_it_to_be_seen_and_never_to_be_changed() -> None:
    for left in every_interruption(_ended, _get):
        shown = left.operation.result.outcome if left.operation.result else None
        at_once(left.read())
        first = at_once(left.read_on()).outcome
        assert first is not None
        assert shown in (None, first)
        assert first.ending is Ending.SUCCEEDED
        left.world.end(left.task, DONE)
        left.world.clock.advance(120)
        assert at_once(left.read_on()).outcome == first


def test_an_interrupted_first_sight_of_questions_and_events_is_repeated() -> None:
    for left in every_interruption(_newly_asking, _get):
        read = at_once(left.read_on())
        assert left.world.keys(read) == ["one"]
        assert len(read.events) == 1
        assert [token for token, _ in left.world.jobs.answers] == ["token-odd"]
        assert set(left.world.memory.expiries) == {(left.task.record.task_id, key) for key in ("one", "1")}


@pytest.mark.requirement("R-114")
def test_an_interrupted_answer_is_delivered_once_if_it_was_durable_and_stays_open_if_not() -> None:
    for left in every_interruption(_asking, _answer_both):
        durable = {q.key for q in left.world.stored(left.task).questions if q.answer is not None}
        sent = {token.removeprefix("token-") for token, _ in left.world.jobs.answers}
        gone = sent | durable
        shown = at_once(left.read())
        assert left.world.keys(shown) == [key for key in ("one", "two") if key not in gone]
        if left.acknowledged:
            assert gone == {"one", "two"}

        again = at_once(left.read_on())
        assert left.world.keys(again) == [key for key in ("one", "two") if key not in gone]
        assert sorted(left.world.delivered()) == sorted((f"token-{key}", ANSWER) for key in gone)
        assert {q.key for q in left.world.stored(left.task).questions} == {"one", "two"} - gone

        at_once(_answer_both(left.world.service, left.task))
        assert sorted(left.world.delivered()) == [("token-one", ANSWER), ("token-two", ANSWER)]


def test_an_interrupted_redelivery_is_repeated_after_the_lease_and_arrives_once() -> None:
    for left in every_interruption(_undelivered, _get):
        assert "one" not in left.world.keys(at_once(left.read()))
        assert left.world.keys(at_once(left.read_on())) == ["two"]
        assert left.world.delivered() == [("token-one", ANSWER)]
        assert [q.key for q in left.world.stored(left.task).questions] == ["two"]


@pytest.mark.requirement("R-116")
def test_an_interrupted_cancel_is_carried_out_if_it_was_recorded() -> None:
    for left in every_interruption(_new, _cancel):
        recorded = left.world.stored(left.task).cancel_requested_at is not None
        assert recorded or not left.acknowledged
        assert recorded or left.world.jobs.stopped == []

        outcome = at_once(left.read_on()).outcome

        assert (outcome is not None) == recorded
        assert outcome is None or outcome.ending is Ending.ABORTED


def test_an_interrupted_cancel_hides_questions_from_the_moment_it_is_recorded() -> None:
    for left in every_interruption(_asking, _cancel):
        recorded = left.world.stored(left.task).cancel_requested_at is not None
        assert left.world.keys(at_once(left.read())) == ([] if recorded else ["one", "two"])


def test_an_interrupted_repetition_of_a_stop_is_repeated() -> None:
    for left in every_interruption(_cancelled_in_vain, _get):
        outcome = at_once(left.read_on()).outcome
        assert outcome is not None
        assert outcome.ending is Ending.ABORTED


@pytest.mark.parametrize("work", [_get, _cancel, _answer_both], ids=["get", "cancel", "answer"])
@pytest.mark.parametrize("prepare", [_asking, _newly_asking, _undelivered, _ended, _cancelled_in_vain])
def test_no_interruption_makes_anything_but_our_own_errors(prepare: Prepare, work: Work) -> None:
    for left in every_interruption(prepare, work):
        assert left.operation.error is None or isinstance(left.operation.error, AdapterError)
