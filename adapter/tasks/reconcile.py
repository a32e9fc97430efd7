"""What nobody's polling would find: ends whose event was lost, answers not delivered, stops not carried out (D7).

One run lists the running executions, a thousand a call, and describes only those open tasks that have been absent
from that list twice; the rest costs nothing. What is listed are the targets of the open tasks, as their records tell:
one task of each is read for that, not the tools file, which may have changed since they started. Where some are absent
for the first time, it lists once more. It is bounded by a time and by the service's describe budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field

from adapter.errors import AdapterError

from .clock import Clock, system_clock
from .engine import Engine
from .running import RunningLists
from .service import TaskService
from .store import Open, OpenItem, TaskStore

logger = logging.getLogger(__name__)

YOUNG_MS = 60_000
"""A task that was created just now need not be listed as running yet."""
TWICE_MS = 5_000
"""Absent at two looks that are at least this far apart."""
WORKERS = 8
_LIVE = (Open.RUNNING, Open.EXPIRING)
_ORDER = (Open.CANCELLING, Open.EXPIRING, Open.ANSWERED, Open.RUNNING)


@dataclass(slots=True)
class Report:
    """What a run found: of the `open` items, `absent` ones were not running, and what became of them. The
    `backlog` is what it did not get to.
    """

    open: int = 0
    absent: int = 0
    described: int = 0
    stopped: int = 0
    redelivered: int = 0
    backlog: int = 0
    unlisted: list[str] = field(default_factory=list)
    """Targets of open tasks whose executions could not be listed: what ended there is not found."""


class Reconciler:
    """Looks after every open task of the table, whoever owns it. Kept from run to run, it reads less."""

    def __init__(
        self, service: TaskService, store: TaskStore, engine: Engine, clock: Clock = system_clock
    ) -> None:
        self._service = service
        self._store = store
        self._engine = engine
        self._clock = clock
        self._expiries: dict[str, int] = {}
        self._targets: dict[str, str] = {}
        self._absent_now: dict[OpenItem, None] = {}

    async def run(self, *, until: int) -> Report:
        """One run, until everything has been looked at or the clock reads `until` (epoch milliseconds).

        Raises StoreUnavailable where the open tasks cannot be read.
        """
        report = Report()
        work: deque[OpenItem] = deque()
        patience = self._clock() + (until - self._clock()) // 2
        try:
            async with asyncio.timeout(max(until - self._clock(), 0) / 1000):
                self._absent_now.clear()
                running = RunningLists(self._engine, self._clock, patience)
                for target in dict.fromkeys(self._targets.values()):
                    await self._listed(target, running, report)
                work.extend(await self._open(running, report))
                await self._look_after(work, running, report)
                if self._absent_now:
                    await asyncio.sleep(TWICE_MS / 1000)
                    work.extend(self._absent_now)
                    # Without patience: what is absent now has its second look in the next run.
                    await self._look_after(work, RunningLists(self._engine, self._clock, 0), report)
        except TimeoutError:
            report.backlog += len(work) or 1
        return report

    async def _listed(self, target: str, running: RunningLists, report: Report) -> bool:
        if await running.lists(target):
            return True
        if target not in report.unlisted:
            report.unlisted.append(target)
        return False

    async def _open(self, running: RunningLists, report: Report) -> list[OpenItem]:
        """What is to be looked at, the most pressing first. Forgets what is not open any more."""
        now = self._clock()
        expiries: dict[str, int] = {}
        targets: dict[str, str] = {}
        work: list[OpenItem] = []
        async for item in self._store.open_items():
            report.open += 1
            if item.task_id in self._expiries:
                expiries[item.task_id] = self._expiries[item.task_id]
            runs = running.target_of(item.task_id)
            target = runs or self._targets.get(item.task_id)
            if target is not None:
                targets[item.task_id] = target
            if runs is None or item.kind not in _LIVE or self._may_be_over(item, now):
                work.append(item)
        self._expiries, self._targets = expiries, targets
        work.sort(key=lambda item: _ORDER.index(item.kind))
        return work

    def _may_be_over(self, item: OpenItem, now: int) -> bool:
        return item.kind is Open.EXPIRING and self._expiries.get(item.task_id, 0) <= now

    async def _look_after(self, work: deque[OpenItem], running: RunningLists, report: Report) -> None:
        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(self._work(work, running, report))

    async def _work(self, work: deque[OpenItem], running: RunningLists, report: Report) -> None:
        while work:
            item = work.popleft()
            try:
                await self._look_at(item, running, report)
            except AdapterError as problem:
                report.backlog += 1
                logger.info("task %s: cannot be looked after now: %s", item.task_id, problem)

    async def _look_at(self, item: OpenItem, running: RunningLists, report: Report) -> None:
        if item.kind is Open.ANSWERED:
            await self._service.redeliver(item.task_id)
            report.redelivered += 1
        elif item.kind is Open.CANCELLING or await self._is_over(item):
            if await self._looked(item, report):
                report.stopped += 1
        elif await self._is_absent(item, running, report):
            await self._absent(item, report)

    async def _is_over(self, item: OpenItem) -> bool:
        """Its time to live is over, and it is to be stopped then."""
        if item.kind is not Open.EXPIRING:
            return False
        if item.task_id not in self._expiries:
            await self._read(item)
        return self._expiries[item.task_id] <= self._clock()

    async def _is_absent(self, item: OpenItem, running: RunningLists, report: Report) -> bool:
        """Old enough to be listed, and not among what runs of its target; that nothing is known of is not absent."""
        if running.target_of(item.task_id) is not None or self._clock() - item.created_at < YOUNG_MS:
            return False
        if item.task_id not in self._targets:
            await self._read(item)
        target = self._targets.get(item.task_id)
        if target is None or not await self._listed(target, running, report):
            return False
        return running.target_of(item.task_id) is None

    async def _read(self, item: OpenItem) -> None:
        """Learn from its record what does not change; each task is read for this once."""
        task = await self._store.read(item.task_id)
        self._expiries[item.task_id] = 0 if task is None else task.record.expires_at
        if task is not None and task.outcome is None:
            self._targets[item.task_id] = task.record.target

    async def _absent(self, item: OpenItem, report: Report) -> None:
        now = self._clock()
        first = await self._store.mark_absent(item.task_id, now=now)
        if first is None:
            return
        if item not in self._absent_now:
            report.absent += 1
        if now - first < TWICE_MS:
            self._absent_now[item] = None
        elif await self._looked(item, report):
            report.described += 1

    async def _looked(self, item: OpenItem, report: Report) -> bool:
        if await self._service.look(item.task_id):
            return True
        report.backlog += 1
        return False
