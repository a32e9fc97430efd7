"""A task on the wire of the extension io.modelcontextprotocol/tasks (2026-07-28)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from adapter.tasks.clock import Clock
from adapter.tasks.model import Event, Question, Task

from .jsonrpc import JsonObject
from .meta import can_take
from .results import render

STARTING = "The job is starting"
_MAX_MESSAGE = 300
_LONG_MINUTES = 10
"""From then on a status tells how long it has been so: what it waits for may be lost."""


class TaskShapes:
    """Shows tasks as clients of this era see them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def created(self, task: Task) -> dict[str, Any]:
        """A CreateTaskResult: flat, without what `tasks/get` adds (R-106)."""
        return {"resultType": "task", **_fields(task, "working", STARTING)}

    def detailed(self, task: Task, capabilities: JsonObject) -> dict[str, Any]:
        """The task with the one member that its status needs (R-107).

        Questions that the client did not declare it can take stay hidden (D9). Raises RpcError -32603 where a
        result exists but is not available.
        """
        if task.outcome is not None:
            return _ended(task)
        now = self._clock()
        asked = task.open_questions(now)
        shown = {q.key: input_request(q) for q in asked}
        takes = {k: r for k, r in shown.items() if can_take(capabilities, r["method"], r.get("params", {}))}
        if takes:
            message = "Waiting for input"
            return {**_fields(task, "input_required", message), "inputRequests": takes}
        return _fields(task, "working", working_text(task, now, asked))


def _ended(task: Task) -> dict[str, Any]:
    assert task.outcome is not None
    rendered = render(task.outcome, task.record.result_settings)
    if rendered.failure is not None:
        return {**_fields(task, "failed", rendered.message), "error": rendered.failure.error()}
    if rendered.result is not None:
        result = {**rendered.result, "resultType": "complete"}
        return {**_fields(task, "completed", rendered.message), "result": result}
    return _fields(task, "cancelled", rendered.message)


def _fields(task: Task, status: str, message: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "taskId": task.record.task_id,
        "status": status,
        "createdAt": timestamp(task.record.created_at),
        "lastUpdatedAt": timestamp(max(task.updated_at, task.record.created_at)),
        "ttlMs": task.record.ttl_ms,
        "pollIntervalMs": task.poll_ms,
    }
    if message:
        fields["statusMessage"] = message
    return fields


def input_request(question: Question) -> dict[str, Any]:
    return {"method": question.method, "params": orjson.loads(question.params)}


def working_text(task: Task, now: int, hidden: Sequence[Question] = ()) -> str:
    """What a task that runs is doing, and since when if that is long; there is always something to show."""
    text = progress_text(task, hidden) or "Under way"
    minutes = (now - task.record.created_at) // 60_000
    return text if minutes < _LONG_MINUTES else f"{text} (running for {_age(minutes)})"


def _age(minutes: int) -> str:
    hours = minutes // 60
    if hours < 1:
        return f"{minutes} min"
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def progress_text(task: Task, hidden: Sequence[Question] = ()) -> str | None:
    """What a task that runs is doing; `hidden`: questions that the client cannot be shown."""
    if task.cancel_requested_at is not None:
        return "Cancelling"
    if hidden:
        return f"Waiting for input that this client cannot give: {', '.join(map(_told, hidden))}"
    reported = next((e for e in reversed(task.events) if e.message), None)
    return _event_text(reported) if reported is not None else task.message


def _told(question: Question) -> str:
    message = orjson.loads(question.params).get("message")
    return f"{question.method} ({message[:_MAX_MESSAGE]})" if isinstance(message, str) else question.method


def _event_text(event: Event) -> str:
    text = (event.message or "")[:_MAX_MESSAGE]
    if event.progress is None or event.total is None:
        return text
    return f"{text} ({event.progress:.12g} of {event.total:.12g})"


@lru_cache(maxsize=4096)  # a task that is polled shows the same two times again and again
def timestamp(ms: int) -> str:
    """ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
