"""One reader for everybody who follows a task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from itertools import pairwise
from typing import Any

import pytest

from adapter.errors import StoreUnavailable, TaskNotFound
from adapter.tasks.engine import Snapshot
from adapter.tasks.model import Task
from adapter.tasks.watcher import Watcher
from tests.support.virtual_time import LoopClock, in_virtual_time
from tests.tasks.world import ANSWER, OWNER, World, store_down


class Stage:
    """A world on the loop's time, with a watcher and the means to follow tasks."""

    def __init__(self, **settings: Any) -> None:
        self.world = World(LoopClock())
        self.watcher = Watcher(self.world.service, clock=self.world.clock, **settings)

    def follow(self, task: Task, owner: str = OWNER) -> AsyncGenerator[Task, None]:
        return self.watcher.changes(task.record.task_id, owner)

    def collect(self, task: Task) -> asyncio.Task[list[tuple[float, Task]]]:
        """Every state that a quick follower gets, and when, in seconds since the loop began."""
        return asyncio.create_task(self._collected(task))

    async def _collected(self, task: Task) -> list[tuple[float, Task]]:
        async with aclosing(self.follow(task)) as changes:
            return [(_now(), state) async for state in changes]

    @contextmanager
    def slow_reads(self) -> Iterator[asyncio.Event]:
        """Reads that begin in the block show the task as it was then, once the event is set."""
        get = self.world.service.get
        late = asyncio.Event()

        async def slow(task_id: str, owner: str) -> Task:
            seen = await get(task_id, owner)
            await late.wait()
            return seen

        self.world.service.get = slow  # type: ignore[method-assign]
        yield late
        self.world.service.get = get  # type: ignore[method-assign]

    async def reads_until(self, seconds: float) -> int:
        before = self.world.memory.reads
        await _at(seconds)
        return self.world.memory.reads - before


@in_virtual_time
async def test_a_follower_gets_the_task_now_then_each_change_and_last_its_end() -> None:
    stage = Stage()
    task = await stage.world.create()
    states = stage.collect(task)
    await _at(1)
    stage.world.ask(task)
    await _at(2)
    await stage.world.answer(task, {"approve": ANSWER})
    await _at(3)
    stage.world.report(task, "1", "Packing")
    await _at(7)
    stage.world.jobs.executions[task.record.execution] = Snapshot(message="Sending")
    await _at(10)
    stage.world.end(task)

    told = [
        (stage.world.keys(state), len(state.events), state.message, state.outcome is not None)
        for _, state in await states
    ]
    assert told == [
        ([], 0, None, False),
        (["approve"], 0, None, False),
        ([], 0, None, False),
        ([], 1, None, False),
        ([], 1, "Sending", False),
        ([], 1, "Sending", True),
    ]


@in_virtual_time
async def test_a_task_that_does_not_change_is_told_of_once() -> None:
    stage = Stage()
    task = await stage.world.create()
    states = stage.collect(task)
    await _at(100)

    stage.watcher.close()

    assert len(await states) == 1
    assert stage.world.memory.reads > 20


@in_virtual_time
async def test_a_task_that_the_caller_does_not_have_is_told_at_once() -> None:
    stage = Stage()
    task = await stage.world.create()

    with pytest.raises(TaskNotFound):
        await anext(stage.follow(task, owner="mallory"))


@in_virtual_time
async def test_a_finished_task_is_read_once_and_not_watched() -> None:
    stage = Stage()
    task = await stage.world.create()
    stage.world.end(task)
    await _at(5)

    ((_, state),) = await stage.collect(task)

    assert state.outcome is not None
    assert stage.world.memory.reads == 1


@in_virtual_time
async def test_a_hundred_followers_cost_no_more_reads_than_one() -> None:
    alone, crowd = Stage(), Stage()
    followed = []
    for stage, size in ((alone, 1), (crowd, 100)):
        task = await stage.world.create()
        followed.append((stage, [stage.collect(task) for _ in range(size)]))
    await _at(0.01)
    before = [stage.world.memory.reads for stage, _ in followed]
    await _at(300)
    after = [stage.world.memory.reads for stage, _ in followed]

    assert before == [1, 100]  # everybody's first
    assert after[0] - before[0] == after[1] - before[1] > 50
    for stage, followers in followed:
        stage.watcher.close()
        await asyncio.gather(*followers)


@in_virtual_time
async def test_a_slow_follower_gets_only_the_newest_change() -> None:
    stage = Stage()
    task = await stage.world.create()
    async with aclosing(stage.follow(task)) as changes:
        await anext(changes)
        for key in ("1", "2", "3"):
            stage.world.report(task, key, "Packing")
            await _at(_now() + 1)

        assert len((await anext(changes)).events) == 3


@in_virtual_time
async def test_a_slow_follower_does_not_miss_the_end() -> None:
    stage = Stage()
    task = await stage.world.create()
    async with aclosing(stage.follow(task)) as changes:
        await anext(changes)
        stage.world.report(task, "1", "Packing")
        await anext(changes)
        stage.world.end(task)
        await _at(30)

        assert [state.outcome is not None async for state in changes] == [True]


@in_virtual_time
async def test_what_happens_before_a_new_follower_takes_its_second_state_is_not_missed() -> None:
    stage = Stage()
    task = await stage.world.create()
    async with aclosing(stage.follow(task)) as idle, aclosing(stage.follow(task)) as changes:
        await anext(idle)
        await anext(changes)
        stage.world.ask(task)
        await _at(10)
        assert stage.world.keys(await anext(changes)) == ["approve"]

        stage.world.end(task)
        await _at(30)
        assert (await anext(changes)).outcome is not None


@in_virtual_time
async def test_who_joins_while_another_has_not_taken_the_end_yet_gets_the_end_too() -> None:
    stage = Stage()
    task = await stage.world.create()
    async with aclosing(stage.follow(task)) as idle:
        await anext(idle)
        with stage.slow_reads() as late:
            states = stage.collect(task)
            await _at(_now() + 0.01)
        stage.world.end(task)
        await _at(10)
        late.set()

        assert [state.outcome is not None for _, state in await states] == [False, True]


@in_virtual_time
async def test_a_read_that_began_before_a_follower_joined_never_takes_it_back_in_time() -> None:
    stage = Stage()
    task = await stage.world.create()
    first = stage.collect(task)
    await _at(1)
    with stage.slow_reads() as late:
        await _at(2)
    stage.world.ask(task)
    second = stage.collect(task)
    await _at(3)
    late.set()
    await _at(10)
    stage.watcher.close()

    assert [stage.world.keys(state) for _, state in await first] == [[], ["approve"]]
    assert [stage.world.keys(state) for _, state in await second] == [["approve"]]


@in_virtual_time
async def test_a_question_that_passes_its_deadline_is_a_change() -> None:
    stage = Stage()
    task = await stage.world.create()
    stage.world.ask(task, deadline=stage.world.clock() + 5_000)
    states = stage.collect(task)
    await _at(10)
    stage.watcher.close()

    told = [(when >= 5, len(state.questions), stage.world.keys(state)) for when, state in await states]
    assert told[0][:2] == (False, 1)
    assert told[1] == (True, 1, [])
    assert len(told) == 2


@in_virtual_time
async def test_a_follower_ends_when_its_task_expires() -> None:
    stage = Stage()
    task = await stage.world.create(ttl_ms=20_000)

    states = await stage.collect(task)

    assert len(states) == 1
    assert 20 <= _now() < 30


@in_virtual_time
async def test_closing_ends_every_follower_and_lets_new_ones_see_the_task_once() -> None:
    stage = Stage()
    tasks = [await stage.world.create() for _ in range(3)]
    states = [stage.collect(task) for task in tasks]
    async with aclosing(stage.follow(tasks[0])) as idle:
        await anext(idle)
        await _at(1)

        stage.watcher.close()

        assert [len(told) for told in await asyncio.gather(*states)] == [1, 1, 1]
        assert len(await stage.collect(tasks[0])) == 1
        assert await stage.reads_until(60) == 0
        assert [state async for state in idle] == []


@in_virtual_time
async def test_a_store_that_is_down_for_a_while_ends_nobody() -> None:
    stage = Stage()
    task = await stage.world.create()
    states = stage.collect(task)
    await _at(1)
    stage.world.store.fail("read", store_down(), times=10)
    await _at(20)
    stage.world.end(task)

    assert [state.outcome is not None for _, state in await states] == [False, True]


@in_virtual_time
async def test_a_defect_in_one_read_ends_its_followers_and_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    broken, fine = await stage.world.create(), await stage.world.create()
    states = [stage.collect(broken), stage.collect(fine)]
    await _at(1)
    stage.world.store.fail("read", KeyError("defect"))
    with caplog.at_level(logging.ERROR):
        assert len(await states[0]) == 1
    stage.world.end(fine)

    assert (await states[1])[-1][1].outcome is not None
    assert "cannot be read" in caplog.text


@in_virtual_time
async def test_a_store_that_is_down_at_the_first_read_is_told() -> None:
    stage = Stage()
    task = await stage.world.create()
    stage.world.store.fail("read", store_down())

    with pytest.raises(StoreUnavailable):
        await anext(stage.follow(task))


@in_virtual_time
async def test_leaving_and_coming_back_does_not_double_the_reads() -> None:
    stage = Stage()
    task, other = await stage.world.create(), await stage.world.create()
    steady = [stage.collect(task), stage.collect(other)]
    await _at(100)
    undisturbed = await stage.reads_until(200)
    steady[0].cancel()
    await asyncio.wait({steady[0]})
    for _ in range(20):
        changes = stage.follow(task)
        await anext(changes)
        await changes.aclose()
    returned = stage.collect(task)
    await _at(201)

    assert await stage.reads_until(301) <= undisturbed
    stage.watcher.close()
    await asyncio.gather(steady[1], returned)


@in_virtual_time
async def test_nothing_is_read_once_the_last_follower_has_left() -> None:
    stage = Stage()
    task = await stage.world.create()
    async with aclosing(stage.follow(task)) as changes:
        await anext(changes)
        assert await stage.reads_until(10) > 0

    assert await stage.reads_until(60) == 0


@in_virtual_time
async def test_a_read_that_ends_after_everybody_has_left_changes_nothing() -> None:
    stage = Stage()
    task = await stage.world.create()
    get = stage.world.service.get

    async def slow(task_id: str, owner: str) -> Task:
        await _at(_now() + 5)
        return await get(task_id, owner)

    async with aclosing(stage.follow(task)) as changes:
        await anext(changes)
        stage.world.service.get = slow  # type: ignore[method-assign]
        await _at(1)
    stage.world.end(task)

    assert await stage.reads_until(60) == 1


@in_virtual_time
async def test_the_pause_between_reads_grows_with_the_age_of_the_task_up_to_a_limit() -> None:
    stage = Stage(shortest=0.5, longest=4.0)
    task = await stage.world.create()
    times = _note_reads(stage)
    states = stage.collect(task)
    await _at(200)
    stage.watcher.close()
    await states

    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[:5] == pytest.approx([0.5] * 5)
    assert pauses[-5:] == pytest.approx([4.0] * 5)
    assert all(later >= earlier - 1e-6 for earlier, later in pairwise(pauses))


@in_virtual_time
async def test_reads_at_once_are_limited() -> None:
    stage = Stage(concurrency=3)
    tasks = [await stage.world.create() for _ in range(20)]
    get = stage.world.service.get
    reading = most = 0

    async def slow(task_id: str, owner: str) -> Task:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        await _at(_now() + 0.05)
        reading -= 1
        return await get(task_id, owner)

    stage.world.service.get = slow  # type: ignore[method-assign]
    states = [stage.collect(task) for task in tasks]
    await _at(20)
    stage.watcher.close()
    await asyncio.gather(*states)

    assert most == 3


@in_virtual_time
async def test_followers_of_different_owners_do_not_see_each_others_tasks() -> None:
    stage = Stage()
    task = await stage.world.create()
    states = stage.collect(task)

    with pytest.raises(TaskNotFound):
        await anext(stage.follow(task, owner="mallory"))

    stage.world.end(task)
    assert (await states)[-1][1].outcome is not None


def _note_reads(stage: Stage) -> list[float]:
    times: list[float] = []
    get = stage.world.service.get

    async def noted(task_id: str, owner: str) -> Task:
        times.append(_now())
        return await get(task_id, owner)

    stage.world.service.get = noted  # type: ignore[method-assign]
    return times


async def _at(seconds: float) -> None:
    """Until the loop's time is this."""
    await asyncio.sleep(seconds - _now())


def _now() -> float:
    return asyncio.get_running_loop().time()
