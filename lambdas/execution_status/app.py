"""The handler of `Step Functions Execution Status Change` events.

What it cannot write is retried by Lambda, and in the end kept in the dead-letter queue. What it does not know, such
as an execution that somebody else started, is dropped.
"""

from __future__ import annotations

import logging

from adapter.engines.events import NotAStatusEvent, StatusEvent, read_status_event
from adapter.tasks.clock import system_clock
from adapter.tasks.store import TaskStore
from lambdas.loop import Container
from lambdas.table import open_store

logging.getLogger("adapter").setLevel(logging.INFO)
logger = logging.getLogger(__name__)

_container = Container(open_store)


def handler(event: object, _context: object) -> dict[str, str]:
    """What became of the event: written, due, known (or no task of ours) or ignored.

    Raises StoreUnavailable, to be tried again.
    """
    try:
        status = read_status_event(event)
    except NotAStatusEvent:
        logger.warning("An event that is not an execution's status was dropped")
        return {"result": "ignored"}
    return {"result": _container.run(lambda store: written(store, status, system_clock()))}


async def written(store: TaskStore, event: StatusEvent, now: int) -> str:
    """As `handler`, `now` in epoch milliseconds. An end that was not told completely only makes the task due (D7)."""
    if event.outcome is None:
        return "ignored"
    if event.complete:
        return "written" if await store.latch_seen(event.name, event.execution, event.outcome) else "known"
    return "due" if await store.mark_due(event.name, event.execution, now=now, told=True) else "known"
