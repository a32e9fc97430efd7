"""What a task is. All times are epoch milliseconds; JSON travels as text, never as floats or Decimals.

Nothing here is changed after it was made. Tasks and records, of which every request makes some, are not frozen all
the same: a frozen dataclass takes several times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class Ending(StrEnum):
    """How an execution ended. Each protocol era derives its own task status from this (D8)."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    ABORTED = "aborted"
    LOST = "lost"
    """The job system never came to know the execution: its start did not happen (D3)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The first terminal state seen. `output` is JSON text, None where there is none or it is not available."""

    ending: Ending
    output: str | None = None
    error: str | None = None
    cause: str | None = None
    ended_at: int = 0


@dataclass(slots=True, kw_only=True)
class TaskRecord:
    """What is pinned when a task is created, so that an open task survives an edit of the tools file (D2)."""

    task_id: str
    owner: str
    tool: str
    engine: str
    target: str
    """What was started: a state machine (or version, or alias) ARN."""
    execution: str
    created_at: int
    ttl_ms: int
    poll_ms: int
    on_expire: Literal["leave", "stop"] = "leave"
    result_settings: str = "{}"
    input_digest: str | None = None
    """Of what a confirmation was used for; None where there was none."""
    progress_token: str | None = None
    """JSON text of the token that the creating call gave for progress; it stays valid for the task's life."""

    @property
    def expires_at(self) -> int:
        return self.created_at + self.ttl_ms


@dataclass(slots=True, kw_only=True)
class Question:
    """An input request that a workflow waits on. `token` answers it at the job system and never leaves the server."""

    key: str
    """Shown to clients; never reused within a task."""
    item: str
    """Where the store keeps it."""
    token: str
    method: str
    params: str
    """JSON text, as the workflow wrote it."""
    asked_at: int
    deadline: int | None = None
    answer: str | None = None
    """JSON text: written durably, not yet known to be delivered."""
    delivery_until: int = 0
    """Until when somebody is delivering the answer."""
    adopted: bool = False
    """The server has seen it before, checked it and stamped its expiry."""
    offers: Mapping[str, int] = field(default_factory=dict)
    """To which sessions it has been sent as a request, and until when it is not sent there again."""

    def __repr__(self) -> str:
        return f"Question(key={self.key!r}, method={self.method!r})"

    def is_open(self, now: int) -> bool:
        return self.answer is None and (self.deadline is None or now < self.deadline)

    def may_be_offered(self, session: str, now: int) -> bool:
        return self.is_open(now) and self.offers.get(session, 0) <= now

    def needs_delivery(self, now: int) -> bool:
        return self.answer is not None and self.delivery_until <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Progress or a log line that a workflow appended. `key` orders events."""

    key: str
    kind: Literal["progress", "log"]
    message: str | None = None
    progress: float | None = None
    total: float | None = None
    level: str = "info"
    data: str | None = None
    """JSON text of a log line's data."""
    adopted: bool = False


@dataclass(slots=True, kw_only=True)
class Task:
    """A task as one read saw it: the record, what is stored beside it, and the outcome once there is one."""

    record: TaskRecord
    updated_at: int
    message: str | None = None
    """Which state runs, as last told by the job system."""
    refresh_at: int = 0
    """From when the job system may be asked again."""
    claimed_until: int = 0
    cancel_requested_at: int | None = None
    stopped_at: int | None = None
    """When the job system took the stop, if its end could not be seen at once."""
    told_at: int | None = None
    """When an event told that the execution has ended."""
    absent_at: int | None = None
    """Since when it has been missing among the running executions."""
    outcome: Outcome | None = None
    questions: tuple[Question, ...] = ()
    events: tuple[Event, ...] = ()
    poll_ms: int = 0
    """When to ask again, in milliseconds; set by the service."""

    def refresh_due(self, now: int) -> bool:
        return self.outcome is None and self.refresh_at <= now and self.claimed_until <= now

    def open_questions(self, now: int) -> tuple[Question, ...]:
        """Unanswered, in time, of a task that runs and has not been told to stop; in the order asked."""
        if self.outcome is not None or self.cancel_requested_at is not None:
            return ()
        return tuple(q for q in self.questions if q.adopted and q.is_open(now))
