"""What a record tells of its execution without asking: whether it seems to have ended, or is to be stopped."""

from __future__ import annotations

from .model import Outcome, Task

EVENT_GRACE_MS = 15_000
"""How long after an end its event may take to arrive."""
TOLD_MS = 60_000
"""How long after an event told of an end the job system may take to say so too; later it was redriven."""
CANCEL = ("McpCancelled", "Cancelled by the MCP client")
"""Error and cause of a stop."""
EXPIRY = ("McpTaskExpired", "Its time to live is over")


def was_told(task: Task, now: int) -> bool:
    """An event has just told of an end, but not how."""
    return task.told_at is not None and now - task.told_at < TOLD_MS


def ends_soon(task: Task, now: int) -> bool:
    """It has been told to stop, or seems to have ended."""
    return task.cancel_requested_at is not None or was_told(task, now)


def is_urgent(task: Task, now: int) -> bool:
    """It seems to have ended, or is to be seen ending."""
    return task.absent_at is not None or ends_soon(task, now)


def is_recent(outcome: Outcome, now: int) -> bool:
    """Its event may still be under way."""
    return now - outcome.ended_at <= EVENT_GRACE_MS


def why_to_stop(task: Task, now: int) -> tuple[str, str] | None:
    """Error and cause, if it is to be stopped."""
    if task.cancel_requested_at is not None:
        return CANCEL
    if task.record.on_expire == "stop" and now >= task.record.expires_at:
        return EXPIRY
    return None
