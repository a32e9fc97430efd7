"""What the record store keeps: only what the job system cannot (D5). Every write is conditional and repeatable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from .model import Event, Outcome, Question, Task, TaskRecord


def place_of(record: TaskRecord) -> str:
    """Where a task stands in its owner's list: sorts by creation, and ends with the task's id."""
    return f"{record.created_at:015d}#{record.task_id}"


def task_at(place: str) -> str:
    """The id of the task at a place."""
    return place.partition("#")[2]


class Open(StrEnum):
    """Why an item is in the index of open work."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    """To be stopped; it may still run."""
    ANSWERED = "answered"
    """An answer that is not known to be delivered."""
    EXPIRING = "expiring"
    """Running, and to be stopped once its time to live is over."""


@dataclass(frozen=True, slots=True)
class OpenItem:
    """One entry of the index of open work."""

    task_id: str
    created_at: int
    kind: Open


class TaskStore(Protocol):
    """Every method may raise StoreUnavailable. A retried write that had succeeded counts as success."""

    async def create(self, record: TaskRecord, *, refresh_at: int, listed: bool = False) -> TaskRecord | None:
        """Write a new record. None when written; the record that stands when the id is taken already.

        `listed`: its place in the owner's list is written before, so that whatever can be read is listed.
        """
        ...

    async def discard(self, task_id: str) -> None:
        """Remove a record whose execution certainly never started."""
        ...

    async def read(self, task_id: str) -> Task | None:
        """The task with its questions, events and (also large) outcome, strongly consistent; expired or not."""
        ...

    async def claim_refresh(self, task_id: str, *, now: int, until: int) -> bool:
        """Take the lease to ask the job system. False: not due, taken by another, or ended."""
        ...

    async def note_refresh(
        self, task_id: str, *, lease: int, refresh_at: int, message: str | None, updated_at: int
    ) -> None:
        """Record a successful look at a running execution, made under the lease that ends at `lease`; release it.

        Does nothing once ended, or where that lease is gone: what was seen may be older than what was told since.
        """
        ...

    async def latch(self, task_id: str, outcome: Outcome, *, expires_at: int) -> Outcome:
        """Record the first terminal state of a task that expires at `expires_at` (epoch milliseconds).

        Returns the one that stands, which may be an earlier one (D4).
        """
        ...

    async def latch_seen(self, task_id: str, execution: str, outcome: Outcome) -> bool:
        """As `latch`, for an end that an event told: only where the record is of that execution.

        False: there is no such record, or it has ended already.
        """
        ...

    async def mark_due(self, task_id: str, execution: str, *, now: int, told: bool) -> bool:
        """Let the next read ask the job system, whatever pause or lease there is. `told`: an event told of an end.

        False as for `latch_seen`.
        """
        ...

    async def mark_absent(self, task_id: str, *, now: int) -> int | None:
        """Note that the execution is not among the running ones; since when that is so. None once ended."""
        ...

    def open_items(self) -> AsyncIterator[OpenItem]:
        """All open work, from an index: eventually consistent, in no order."""
        ...

    async def request_cancel(self, task_id: str, *, now: int) -> None:
        """Record that the task is to be stopped, which hides its questions, and let the next read ask the job
        system; does nothing once ended."""
        ...

    async def note_stopped(self, task_id: str, *, now: int) -> None:
        """Record that the job system has taken the stop, though its end is not seen yet; nothing once ended."""
        ...

    async def adopt(self, task_id: str, items: Sequence[Question | Event], *, expires_at: int) -> None:
        """Stamp the expiry (epoch milliseconds) on items that a workflow wrote itself."""
        ...

    async def record_answer(
        self, task_id: str, question: Question, answer: str, *, now: int, delivery_until: int
    ) -> bool:
        """Write an answer durably. False: answered before, replaced by another wait, or past its deadline."""
        ...

    async def claim_delivery(self, task_id: str, question: Question, *, now: int, until: int) -> bool:
        """Take the lease to deliver a recorded answer again. False: delivered, or taken by another."""
        ...

    async def claim_offer(
        self, task_id: str, question: Question, session: str, *, now: int, until: int
    ) -> bool:
        """Take the lease to send a question to a session as a request. False: sent before, or not open."""
        ...

    async def release_offer(self, task_id: str, question: Question, session: str) -> None:
        """Let a question be sent to that session again at once."""
        ...

    async def places(self, owner: str, *, before: str | None, limit: int) -> list[str]:
        """Places of an owner's tasks (see `place_of`), newest first, from after `before` on; strongly consistent.

        A place whose task does not exist (any more) is possible and means nothing.
        """
        ...

    async def write_reply(self, ask: str, key: str, reply: str, *, expires_at: int) -> None:
        """Keep what a client answered to question `key` of `ask` (asked before a task exists); the first stays."""
        ...

    async def replies(self, ask: str) -> dict[str, str]:
        """What has been answered to `ask` so far, by key; strongly consistent."""
        ...

    async def close_question(self, task_id: str, question: Question) -> None:
        """Shrink a question to a tombstone: delivered, or closed at the job system."""
        ...
