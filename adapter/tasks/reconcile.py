"""What nobody's polling would find: ends whose event was lost, answers not delivered, stops not carried out (D7).

One run lists the running executions, a thousand a call, and describes only those open tasks that have been absent
from that list twice; the rest costs nothing. Where some are absent for the first time, it lists once more. It is
bounded by a time and by the service's describe budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from adapter.errors import AdapterError, EngineUnavailable

from .clock import Clock, system_clock
from .engine import Engine
from .service import TaskService
from .store import Open, OpenItem, TaskStore

logger = logging.getLogger(__name__)

YOUNG_MS = 60_000
"""A task that was created just now need not be listed as running yet."""
TWICE_MS = 5_000
"""Absent at two looks that are at least this far apart."""
THROTTLED_SECONDS = 1.0
"""The pause before a list that was throttled is asked for again; 2 to 5 a second are granted."""
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
    """Targets whose executions could not be listed."""


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
        self._absent_now: dict[OpenItem, None] = {}

    async def run(self, targets: Iterable[str], *, until: int) -> Report:
        """One run, until everything has been looked at or the clock reads `until` (epoch milliseconds).

        Raises StoreUnavailable where the open tasks cannot be read.
        """
        report = Report()
        work: deque[OpenItem] = deque()
        patience = self._clock() + (until - self._clock()) // 2
        try:
            async with asyncio.timeout(max(until - self._clock(), 0) / 1000):
                self._absent_now.clear()
                running = await self._running(targets, report, patience)
                work.extend(await self._open(running, report))
                await self._look_after(work, running, report)
                if self._absent_now:
                    await asyncio.sleep(TWICE_MS / 1000)
                    work.extend(self._absent_now)
                    # Without patience: what is absent now has its second look in the next run.
                    await self._look_after(work, await self._running(targets, report, 0), report)
        except TimeoutError:
            report.backlog += len(work) or 1
        return report

    async def _running(self, targets: Iterable[str], report: Report, patience: int) -> set[str] | None:
        """The names of all running executions; None where a list is missing, since absence then means nothing."""
        names: set[str] = set()
        missing = []
        for target in dict.fromkeys(targets):
            try:
                names |= await self._listed(target, patience)
            except EngineUnavailable:
                missing.append(target)
        report.unlisted.extend(target for target in missing if target not in report.unlisted)
        return None if missing else names

    async def _listed(self, target: str, patience: int) -> set[str]:
        """Asks again while it is told to slow down, until the clock reads `patience`: lists have a quota of their own,
        and with many state machines a run uses it up.
        """
        while True:
            try:
                return await self._engine.running(target)
            except EngineUnavailable as problem:
                if not problem.throttled or self._clock() >= patience:
                    raise
            await asyncio.sleep(THROTTLED_SECONDS)

    async def _open(self, running: set[str] | None, report: Report) -> list[OpenItem]:
        """What is to be looked at, the most pressing first."""
        now = self._clock()
        expiries: dict[str, int] = {}
        work: list[OpenItem] = []
        async for item in self._store.open_items():
            report.open += 1
            if item.task_id in self._expiries:
                expiries[item.task_id] = self._expiries[item.task_id]
            absent = running is not None and item.task_id not in running
            if absent or item.kind not in _LIVE or self._may_be_over(item, now):
                work.append(item)
        self._expiries = expiries
        work.sort(key=lambda item: _ORDER.index(item.kind))
        return work

    def _may_be_over(self, item: OpenItem, now: int) -> bool:
        return item.kind is Open.EXPIRING and self._expiries.get(item.task_id, 0) <= now

    async def _look_after(self, work: deque[OpenItem], running: set[str] | None, report: Report) -> None:
        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(self._work(work, running, report))

    async def _work(self, work: deque[OpenItem], running: set[str] | None, report: Report) -> None:
        while work:
            item = work.popleft()
            try:
                await self._look_at(item, running, report)
            except AdapterError as problem:
                report.backlog += 1
                logger.info("task %s: cannot be looked after now: %s", item.task_id, problem)

    async def _look_at(self, item: OpenItem, running: set[str] | None, report: Report) -> None:
        if item.kind is Open.ANSWERED:
            await self._service.redeliver(item.task_id)
            report.redelivered += 1
        elif item.kind is Open.CANCELLING or await self._is_over(item):
            if await self._looked(item, report):
                report.stopped += 1
        elif running is not None and item.task_id not in running:
            await self._absent(item, report)

    async def _is_over(self, item: OpenItem) -> bool:
        """Its time to live is over, and it is to be stopped then. Each task is read for this once."""
        if item.kind is not Open.EXPIRING:
            return False
        if item.task_id not in self._expiries:
            task = await self._store.read(item.task_id)
            self._expiries[item.task_id] = 0 if task is None else task.record.expires_at
        return self._expiries[item.task_id] <= self._clock()

    async def _absent(self, item: OpenItem, report: Report) -> None:
        now = self._clock()
        if now - item.created_at < YOUNG_MS:
            return
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
