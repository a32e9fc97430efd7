"""Requests that are being answered in this process, so that `notifications/cancelled` can end one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from .jsonrpc import RequestId

_Key = tuple[str, type, RequestId]


class Inflight:
    """By connection (a session or a stdio process) and request id; 1 and "1" are two ids."""

    def __init__(self) -> None:
        self._events: dict[_Key, asyncio.Event] = {}

    @contextmanager
    def track(self, connection: str | None, identifier: RequestId) -> Iterator[asyncio.Event]:
        """The event is set when the client cancels the request. Without a connection nobody can."""
        event = asyncio.Event()
        if connection is None:
            yield event
            return
        key = (connection, type(identifier), identifier)
        self._events[key] = event
        try:
            yield event
        finally:
            if self._events.get(key) is event:
                del self._events[key]

    def cancel(self, connection: str | None, identifier: object) -> None:
        """Unknown ids are ignored: the request may have been answered meanwhile."""
        if connection is not None and isinstance(identifier, (str, int)):
            event = self._events.get((connection, type(identifier), identifier))
            if event is not None:
                event.set()
