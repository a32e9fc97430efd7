"""The runs that look after what nobody polls (D7). Time passes only where something waits, or a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any, cast

import pytest

from adapter.errors import EngineUnavailable, StoreUnavailable
from adapter.tasks.engine import Engine
from adapter.tasks.model import Ending, Task
from adapter.tasks.reconcile import WORKERS, Reconciler
from adapter.tasks.service import TaskService
from adapter.tasks.store import OpenItem, TaskStore
from tests.support.virtual_time import LoopClock, in_virtual_time
from tests.tasks.world import ANSWER, DONE, HOUR_MS, World, store_down


class Caretaker:
    """A world whose open tasks are looked after once a minute, by one process until there is another."""

    def __init__(self) -> None:
        self.world = World(LoopClock())
        self.listed: list[str] = []
        """Targets, in the order in which they were listed."""
        self._refused: set[str] = set()
        self._running = self.world.jobs.running
        self.world.jobs.running = self._list  # type: ignore[method-assign]
        self.start()

    async def _list(self, target: str) -> set[str]:
        self.listed.append(target)
        if target in self._refused:
            raise EngineUnavailable
        return await self._running(target)

    def start(self) -> None:
        """Another process goes on, which knows nothing yet."""
        self._reconciler = self._of(self.world.new_process())

    def refuse(self, *targets: str) -> None:
        """From now on these cannot be listed, and no others."""
        self._refused = set(targets)

    def _of(self, service: TaskService) -> Reconciler:
        store, engine = cast(TaskStore, self.world.store), cast(Engine, self.world.engine)
        return Reconciler(service, store, engine, self.world.clock)

    def afford(self, calls: int) -> None:
        """From now on no more may be described."""
        budget = self.world.new_budget(rate=1e-6, burst=max(1, 2 * (calls - 1)))  # of which it begins with
        self._reconciler = self._of(self.world.new_process(budget))

    async def run(self, *, after: float = 60, within: float = 50) -> dict[str, Any]:
        """What one run found; members that are zero or empty left out."""
        self.world.clock.advance(after)
        report = await self._reconciler.run(until=self.world.clock() + int(within * 1000))
        return {name: value for name, value in asdict(report).items() if value}

    async def running(self, *targets: str) -> list[Task]:
        """A task of each of them, already known to this process."""
        tasks = [await self.world.create(target=target) for target in targets]
        await self.run()
        self.listed.clear()
        return tasks

    async def ended(self, count: int = 1, target: str = "machine") -> list[Task]:
        """Tasks that have ended, of which no event told."""
        tasks = [await self.world.create(target=target) for _ in range(count)]
        for task in tasks:
            self.world.end(task)
        return tasks

    async def cancelled(self) -> Task:
        """A task whose stop did not get through."""
        task = await self.world.create()
        self.world.engine.fail("stop", EngineUnavailable())
        with pytest.raises(EngineUnavailable):
            await self.world.cancel(task)
        return task

    def ending(self, task: Task) -> Ending | None:
        outcome = self.world.stored(task).outcome
        return None if outcome is None else outcome.ending


# --- lost events -------------------------------------------------------------------------------------------


@in_virtual_time
async def test_running_tasks_cost_one_list_and_nothing_else() -> None:
    caretaker = Caretaker()
    await caretaker.running(*["machine"] * 50)
    reports: list[object] = []

    async def run() -> None:
        reports.append(await caretaker.run(after=600))

    assert await caretaker.world.calls(run) == ["engine.running"]
    assert reports == [{"open": 50}]


@in_virtual_time
async def test_a_process_that_knows_nothing_yet_reads_a_task_of_each_target_and_lists_it() -> None:
    caretaker = Caretaker()
    for target in ("a", "b") * 50:
        await caretaker.world.create(target=target)
    reports: list[object] = []

    async def run() -> None:
        reports.append(await caretaker.run())

    for _ in range(2):
        caretaker.start()
        calls = await caretaker.world.calls(run)
        assert calls == ["store.read", "engine.running"] * 2
    assert caretaker.listed == ["a", "b"] * 2
    assert reports == [{"open": 100}] * 2


@in_virtual_time
async def test_while_a_first_list_takes_time_no_more_tasks_are_read_than_there_are_workers() -> None:
    caretaker = Caretaker()
    for _ in range(100):
        await caretaker.world.create()
    listed = caretaker.world.jobs.running

    async def slowly(target: str) -> set[str]:
        await asyncio.sleep(4)
        return await listed(target)

    caretaker.world.jobs.running = slowly  # type: ignore[method-assign]
    calls = await caretaker.world.calls(caretaker.run)
    assert calls.count("store.read") == WORKERS
    assert calls.count("engine.running") == 1


@in_virtual_time
async def test_a_target_is_listed_while_tasks_of_it_are_open() -> None:
    """Tasks say what is listed: a tool that left the tools file, or that was added, needs nothing to be told."""
    caretaker = Caretaker()
    (old,) = await caretaker.running("old")
    await caretaker.world.create(target="new")
    assert await caretaker.run() == {"open": 2}
    caretaker.listed.clear()
    assert await caretaker.run() == {"open": 2}
    assert caretaker.listed == ["old", "new"]

    await caretaker.world.tell(old, DONE)
    await caretaker.run()
    caretaker.listed.clear()
    assert await caretaker.run() == {"open": 1}
    assert caretaker.listed == ["new"]


@in_virtual_time
async def test_a_task_that_is_listed_is_known_though_it_was_never_read() -> None:
    caretaker = Caretaker()
    (first, *_) = await caretaker.running("machine", "machine")
    await caretaker.world.tell(first, DONE)
    await caretaker.run()
    assert await caretaker.world.calls(caretaker.run) == ["engine.running"]


@in_virtual_time
async def test_a_young_task_is_not_read_before_it_is_missed() -> None:
    caretaker = Caretaker()
    await caretaker.world.create()
    assert await caretaker.world.calls(lambda: caretaker.run(after=59)) == []


@in_virtual_time
async def test_an_end_whose_event_was_lost_is_found_when_it_is_absent_from_two_lists() -> None:
    caretaker = Caretaker()
    (lost,) = await caretaker.ended()
    running = await caretaker.world.create()
    report: list[object] = []

    async def run() -> None:
        report.append(await caretaker.run())

    calls = await caretaker.world.calls(run)
    assert report == [{"open": 2, "absent": 1, "described": 1}]
    assert calls.count("engine.running") == 2
    assert calls.count("engine.describe") == 1
    assert caretaker.ending(lost) is Ending.SUCCEEDED
    assert caretaker.ending(running) is None
    assert await caretaker.run() == {"open": 1}


@in_virtual_time
async def test_what_was_absent_in_an_earlier_run_needs_no_second_list() -> None:
    caretaker = Caretaker()
    (lost,) = await caretaker.ended()
    await caretaker.world.memory.mark_absent(lost.record.task_id, now=caretaker.world.clock())
    assert await caretaker.run() == {"open": 1, "absent": 1, "described": 1}
    assert asyncio.get_running_loop().time() == 0


@in_virtual_time
async def test_what_is_listed_at_the_second_time_is_not_described() -> None:
    caretaker = Caretaker()
    world = caretaker.world
    task = await world.create()
    snapshot = world.jobs.executions.pop(task.record.execution)
    asyncio.get_running_loop().call_later(
        3, lambda: world.jobs.executions.update({task.record.execution: snapshot})
    )
    assert await caretaker.run() == {"open": 1, "absent": 1}
    assert world.jobs.describes == 0


@in_virtual_time
async def test_an_absence_before_it_was_seen_running_does_not_count() -> None:
    caretaker = Caretaker()
    world = caretaker.world
    task = await world.create()
    await world.memory.mark_absent(task.record.task_id, now=world.clock())
    world.clock.advance(5)
    await world.get(task)  # sees it running
    assert world.stored(task).absent_at is None


@in_virtual_time
async def test_a_young_task_need_not_be_listed_yet() -> None:
    caretaker = Caretaker()
    task = await caretaker.world.create()
    del caretaker.world.jobs.executions[task.record.execution]
    assert await caretaker.run(after=59) == {"open": 1}


@in_virtual_time
async def test_absence_means_nothing_where_the_list_failed() -> None:
    caretaker = Caretaker()
    (lost,) = await caretaker.ended()
    caretaker.refuse("machine")
    for _ in range(3):
        assert await caretaker.run() == {"open": 1, "unlisted": ["machine"]}
    assert caretaker.world.stored(lost).absent_at is None
    caretaker.refuse()
    assert await caretaker.run() == {"open": 1, "absent": 1, "described": 1}


@in_virtual_time
@pytest.mark.parametrize("starts_anew", [False, True])
async def test_a_target_that_cannot_be_listed_leaves_lost_events_of_the_others_found(
    starts_anew: bool,
) -> None:
    caretaker = Caretaker()
    hidden, *_ = await caretaker.running("hidden", "hidden", "machine")
    caretaker.world.end(hidden)
    (lost,) = await caretaker.ended()
    caretaker.refuse("hidden")
    if starts_anew:
        caretaker.start()
    found = {"open": 4, "absent": 1, "described": 1, "unlisted": ["hidden"]}
    assert await caretaker.run() == found
    assert caretaker.ending(lost) is Ending.SUCCEEDED
    assert caretaker.ending(hidden) is None


@in_virtual_time
async def test_tasks_that_cannot_be_listed_are_neither_read_again_nor_described() -> None:
    """Their state machine may not be exposed any more, so that nothing of it may be asked."""
    caretaker = Caretaker()
    for _ in range(5):
        await caretaker.world.create(target="hidden")
    caretaker.refuse("hidden")
    first = await caretaker.world.calls(caretaker.run)
    assert first.count("store.read") == 5
    for _ in range(3):
        assert await caretaker.world.calls(caretaker.run) == ["engine.running"]
    assert caretaker.world.jobs.describes == 0


@in_virtual_time
async def test_the_second_look_lists_only_what_something_is_missing_of() -> None:
    caretaker = Caretaker()
    await caretaker.running("a", "b", "c")
    await caretaker.ended(3, target="b")
    assert await caretaker.run() == {"open": 6, "absent": 3, "described": 3}
    assert caretaker.listed == ["a", "b", "c", "b"]


@in_virtual_time
async def test_what_was_absent_is_left_to_the_next_run_when_the_second_list_failed() -> None:
    caretaker = Caretaker()
    (lost,) = await caretaker.ended()
    asyncio.get_running_loop().call_later(
        3, lambda: caretaker.world.engine.fail("running", EngineUnavailable())
    )
    assert await caretaker.run() == {"open": 1, "absent": 1, "unlisted": ["machine"]}
    assert caretaker.ending(lost) is None
    assert await caretaker.run() == {"open": 1, "absent": 1, "described": 1}


@in_virtual_time
async def test_a_list_that_is_throttled_is_asked_for_again_since_without_it_no_lost_event_is_found() -> None:
    caretaker = Caretaker()
    (task,) = await caretaker.ended()
    for _ in range(5):
        caretaker.world.engine.fail("running", EngineUnavailable(throttled=True))
    assert await caretaker.run(after=600) == {"open": 1, "absent": 1, "described": 1}
    assert caretaker.ending(task) is Ending.SUCCEEDED


@in_virtual_time
async def test_lists_that_stay_throttled_leave_half_of_the_run_for_stops() -> None:
    caretaker = Caretaker()
    await caretaker.running("machine")
    task = await caretaker.cancelled()
    for _ in range(100):
        caretaker.world.engine.fail("running", EngineUnavailable(throttled=True))
    before = caretaker.world.clock()
    assert await caretaker.run() == {"open": 2, "stopped": 1, "unlisted": ["machine"]}
    assert caretaker.world.jobs.stopped == [task.record.execution]
    assert caretaker.world.clock() - before < 60_000 + 30_000


@in_virtual_time
async def test_a_task_that_ends_during_the_run_is_left_as_it_is() -> None:
    caretaker = Caretaker()
    (task,) = await caretaker.ended()
    store = caretaker.world.memory
    mark = store.mark_absent

    async def ended_just_before(task_id: str, *, now: int) -> int | None:
        await caretaker.world.tell(task, caretaker.world.jobs.executions[task.record.execution].outcome)
        return await mark(task_id, now=now)

    store.mark_absent = ended_just_before  # type: ignore[method-assign]
    assert await caretaker.run() == {"open": 1}
    assert caretaker.world.jobs.describes == 0


@in_virtual_time
async def test_a_task_that_the_index_still_shows_though_it_has_ended_is_left_as_it_is() -> None:
    caretaker = Caretaker()
    task = await caretaker.world.create()
    items = [item async for item in caretaker.world.memory.open_items()]
    await caretaker.world.tell(task, DONE)

    async def stale() -> AsyncIterator[OpenItem]:
        for item in items:
            yield item

    caretaker.world.memory.open_items = stale  # type: ignore[method-assign]
    assert await caretaker.world.calls(caretaker.run) == ["store.read"]


# --- stops and answers -------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_stop_that_did_not_get_through_is_carried_out() -> None:
    caretaker = Caretaker()
    task = await caretaker.cancelled()
    assert await caretaker.run(after=5) == {"open": 1, "stopped": 1}
    assert caretaker.world.jobs.stopped == [task.record.execution]
    await caretaker.run(after=5)
    assert caretaker.ending(task) is Ending.ABORTED
    assert await caretaker.run() == {}


@in_virtual_time
async def test_stops_are_carried_out_though_a_list_failed() -> None:
    caretaker = Caretaker()
    await caretaker.running("machine")
    await caretaker.cancelled()
    caretaker.refuse("machine")
    assert await caretaker.run() == {"open": 2, "stopped": 1, "unlisted": ["machine"]}


@in_virtual_time
async def test_an_answer_that_was_not_delivered_is_delivered() -> None:
    caretaker = Caretaker()
    world = caretaker.world
    task = await world.asked("approve")
    world.engine.fail("answer", EngineUnavailable())
    await world.answer(task, {"approve": ANSWER})
    assert await caretaker.run() == {"open": 2, "redelivered": 1}
    assert world.delivered() == [("token-approve", ANSWER)]
    assert await caretaker.run() == {"open": 1}


@in_virtual_time
async def test_work_to_be_stopped_at_its_expiry_is_stopped_though_it_runs() -> None:
    caretaker = Caretaker()
    world = caretaker.world
    task = await world.create(ttl_ms=HOUR_MS, on_expire="stop")
    other = await world.create(ttl_ms=HOUR_MS)
    assert await caretaker.run(after=3599) == {"open": 2}
    assert await caretaker.run(after=1) == {"open": 2, "stopped": 1}
    assert world.jobs.stopped == [task.record.execution]
    await caretaker.run()
    assert caretaker.ending(task) is Ending.ABORTED
    assert caretaker.ending(other) is None


@in_virtual_time
async def test_when_a_task_expires_is_read_once() -> None:
    caretaker = Caretaker()
    await caretaker.world.create(ttl_ms=HOUR_MS, on_expire="stop")
    assert await caretaker.world.calls(caretaker.run) == ["store.read", "engine.running"]
    assert await caretaker.world.calls(caretaker.run) == ["engine.running"]


@in_virtual_time
async def test_a_stop_at_expiry_that_fails_is_tried_again() -> None:
    caretaker = Caretaker()
    task = await caretaker.world.create(ttl_ms=HOUR_MS, on_expire="stop")
    caretaker.world.engine.fail("stop", EngineUnavailable())
    assert await caretaker.run(after=3600) == {"open": 1, "backlog": 1}
    assert await caretaker.run() == {"open": 1, "stopped": 1}
    assert caretaker.world.jobs.stopped == [task.record.execution]


@in_virtual_time
async def test_a_record_that_is_gone_already_is_nothing_to_stop() -> None:
    caretaker = Caretaker()
    task = await caretaker.world.create(ttl_ms=HOUR_MS, on_expire="stop")

    async def gone(_task_id: str) -> None:
        return None

    caretaker.world.memory.read = gone  # type: ignore[method-assign]
    await caretaker.run()
    assert caretaker.world.jobs.stopped == []
    assert caretaker.ending(task) is None


# --- bounds ------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_trouble_with_one_task_leaves_the_others_looked_after() -> None:
    caretaker = Caretaker()
    await caretaker.ended(5)
    caretaker.world.engine.fail("describe", EngineUnavailable())
    caretaker.world.store.fail("mark_due", store_down())
    assert await caretaker.run() == {"open": 5, "absent": 5, "described": 3, "backlog": 2}
    assert (await caretaker.run())["described"] == 2


@in_virtual_time
async def test_no_more_is_described_than_the_budget_allows() -> None:
    caretaker = Caretaker()
    await caretaker.ended(10)
    caretaker.afford(4)
    assert await caretaker.run() == {"open": 10, "absent": 10, "described": 4, "backlog": 6}
    assert caretaker.world.jobs.describes == 4


@in_virtual_time
async def test_what_the_budget_left_is_asked_for_by_the_next_reader() -> None:
    caretaker = Caretaker()
    tasks = await caretaker.ended(2)
    caretaker.afford(1)
    await caretaker.run()
    assert sorted(caretaker.ending(task) is None for task in tasks) == [False, True]
    assert all([(await caretaker.world.get(task)).outcome is not None for task in tasks])


@in_virtual_time
async def test_the_most_pressing_comes_first() -> None:
    caretaker = Caretaker()
    (absent,) = await caretaker.ended()
    await caretaker.world.memory.mark_absent(absent.record.task_id, now=caretaker.world.clock())
    await caretaker.cancelled()
    caretaker.afford(1)
    assert await caretaker.run() == {"open": 2, "absent": 1, "stopped": 1, "backlog": 1}


@in_virtual_time
async def test_a_table_that_cannot_be_read_is_told() -> None:
    caretaker = Caretaker()

    async def broken():  # type: ignore[no-untyped-def]  # noqa: ANN202
        raise StoreUnavailable
        yield

    caretaker.world.memory.open_items = broken  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await caretaker.run()


@in_virtual_time
async def test_a_run_ends_in_time_and_tells_what_it_did_not_get_to() -> None:
    caretaker = Caretaker()
    await caretaker.ended(40)
    world = caretaker.world
    look = world.jobs.describe

    async def slow(execution: str, *, with_step: bool = True) -> Any:
        await asyncio.sleep(20)
        return await look(execution, with_step=with_step)

    world.jobs.describe = slow  # type: ignore[method-assign]
    assert await caretaker.run() == {"open": 40, "absent": 40, "described": 16, "backlog": 16}
    assert asyncio.get_running_loop().time() == 50


@in_virtual_time
async def test_a_list_that_takes_too_long_is_told_as_backlog() -> None:
    caretaker = Caretaker()
    await caretaker.world.create()

    async def hangs(_target: str) -> set[str]:
        await asyncio.sleep(1_000)
        return set()

    caretaker.world.jobs.running = hangs  # type: ignore[method-assign]
    assert await caretaker.run() == {"open": 1, "backlog": 1}


@in_virtual_time
async def test_a_run_without_time_does_nothing() -> None:
    caretaker = Caretaker()
    (task,) = await caretaker.ended()
    read = caretaker.world.memory.read

    async def slowly(task_id: str) -> Task | None:
        await asyncio.sleep(0)
        return await read(task_id)

    caretaker.world.memory.read = slowly  # type: ignore[method-assign]
    assert await caretaker.run(after=120, within=-0.001) == {"open": 1, "backlog": 1}
    assert caretaker.listed == []
    assert caretaker.world.stored(task).absent_at is None
