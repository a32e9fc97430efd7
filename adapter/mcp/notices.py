"""What a workflow reported, as notifications about a request, each once (R-44)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from adapter.tasks.model import Event, Task
from adapter.tools.schema import too_deep

from . import jsonrpc
from .jsonrpc import JsonObject
from .meta import LOG_LEVELS


class Notices:
    """Progress for a token, strictly increasing, and log lines of a level and above; None for either: none."""

    def __init__(
        self,
        progress_token: str | int | None,
        log_level: str | None,
        *,
        after: str | None = None,
        meta: JsonObject | None = None,
    ) -> None:
        self._token = progress_token
        self._level = log_level
        self._meta = meta
        self._after = after
        self._seen: set[str] = set()
        self.last = after
        """The greatest key of the events that have been dealt with."""
        self._progress: float | None = None

    def new(self, task: Task) -> list[bytes]:
        if self._progress is None and self._after is not None:
            self._progress = _furthest(task.events, self._after)
        fresh = [event for event in task.events if self._is_new(event.key)]
        if fresh:
            self._seen.update(event.key for event in fresh)
            self.last = max(self.last or "", fresh[-1].key)
        return [message for message in map(self._message, fresh) if message is not None]

    def _is_new(self, key: str) -> bool:
        return key not in self._seen and (self._after is None or key > self._after)

    def _message(self, event: Event) -> bytes | None:
        return self._progressed(event) if event.kind == "progress" else self._logged(event)

    def _progressed(self, event: Event) -> bytes | None:
        if self._token is None or event.progress is None:
            return None
        if self._progress is not None and event.progress <= self._progress:
            return None
        self._progress = event.progress
        params: dict[str, Any] = {"progressToken": self._token, "progress": event.progress}
        if event.total is not None:
            params["total"] = event.total
        if event.message is not None:
            params["message"] = event.message
        return self._notification("notifications/progress", params)

    def _logged(self, event: Event) -> bytes | None:
        if self._level is None or event.level not in LOG_LEVELS:
            return None
        if LOG_LEVELS.index(event.level) < LOG_LEVELS.index(self._level):
            return None
        data = event.message if event.data is None else _json_or_text(event.data)
        return self._notification("notifications/message", {"level": event.level, "data": data})

    def _notification(self, method: str, params: dict[str, Any]) -> bytes:
        return jsonrpc.notification(method, params if self._meta is None else {**params, "_meta": self._meta})


def _furthest(events: Sequence[Event], last: str) -> float | None:
    """The progress that was told up to an event: what is told from then on has to be more."""
    told = [e.progress for e in events if e.kind == "progress" and e.progress is not None and e.key <= last]
    return max(told, default=None)


def _json_or_text(text: str) -> Any:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return text if too_deep(value) else value
