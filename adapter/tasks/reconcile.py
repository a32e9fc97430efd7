"""What nobody's polling would find: ends whose event was lost, answers not delivered, stops not carried out (D7).

One run lists the running executions, a thousand a call, and describes only those open tasks that have been absent
from that list twice; the rest costs nothing. It is bounded by a time and by the service's describe budget.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from adapter.errors import AdapterError, EngineUnavailable, TaskNotFound

from .clock import Clock, system_clock
from .engine import Engine
from .service import TaskService
from .store import Open, OpenItem, TaskStore

logger = logging.getLogger(__name__)

YOUNG_MS = 60_000
"""A task that was created just now need not be listed as running yet."""
TWICE_MS = 30_000
"""Absent at two looks that are at least this far apart."""


@dataclass(slots=True)
class Report:
    """What a run found: `open` records, of which `absent` were not running, and were `described`; the `backlog` is
    what it did not get to."""

    open: int = 0
    absent: int = 0
    described: int = 0
    stopped: int = 0
    redelivered: int = 0
    backlog: int = 0
    unlisted: list[str] = field(default_factory=list)
    """Targets whose executions could not be listed."""


class Reconciler:
    """Looks after every open task of the table, whoever owns it."""

    def __init__(
        self, service: TaskService, store: TaskStore, engine: Engine, clock: Clock = system_clock
    ) -> None:
        self._service = service
        self._store = store
        self._engine = engine
        self._clock = clock

    async def run(self, targets: Iterable[str], *, until: int) -> Report:
        """One run, until everything has been looked at or the clock reads `until` (epoch milliseconds)."""
        report = Report()
        running = await self._running(targets, report)
        async for item in self._store.open_items():
            report.open += 1
            if self._clock() >= until:
                report.backlog += 1
                continue
            try:
                await self._look_at(item, running, report)
            except TaskNotFound:
                continue
            except AdapterError as problem:
                report.backlog += 1
                logger.warning("task %s: cannot be looked after now: %s", item.task_id, problem)
        return report

    async def _running(self, targets: Iterable[str], report: Report) -> set[str] | None:
        """The names of all running executions; None where a list is missing, since absence then means nothing."""
        names: set[str] = set()
        for target in dict.fromkeys(targets):
            try:
                names |= await self._engine.running(target)
            except EngineUnavailable:
                report.unlisted.append(target)
        return None if report.unlisted else names

    async def _look_at(self, item: OpenItem, running: set[str] | None, report: Report) -> None:
        if item.kind is Open.ANSWERED:
            await self._service.redeliver(item.task_id)
            report.redelivered += 1
        elif item.kind is Open.CANCELLING:
            await self._service.look(item.task_id)
            report.stopped += 1
        elif running is not None and item.task_id not in running:
            await self._absent(item, report)

    async def _absent(self, item: OpenItem, report: Report) -> None:
        now = self._clock()
        if now - item.created_at < YOUNG_MS:
            return
        report.absent += 1
        first = await self._store.mark_absent(item.task_id, now=now)
        if first is not None and now - first >= TWICE_MS:
            if await self._service.look(item.task_id):
                report.described += 1
            else:
                report.backlog += 1
