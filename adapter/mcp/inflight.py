"""Requests that are being answered in this process, so that `notifications/cancelled` can end one."""

from __future__ import annotations

import asyncio

from .jsonrpc import RequestId

_Key = tuple[str, type, RequestId]


class Inflight:
    """By connection (a session or a stdio process) and request id; 1 and "1" are two ids."""

    def __init__(self) -> None:
        self._events: dict[_Key, asyncio.Event] = {}

    def begin(self, connection: str | None, identifier: RequestId) -> asyncio.Event:
        """The event is set when the client cancels the request. Without a connection nobody can."""
        event = asyncio.Event()
        if connection is not None:
            self._events[connection, type(identifier), identifier] = event
        return event

    def end(self, connection: str | None, identifier: RequestId, event: asyncio.Event) -> None:
        """The request is answered; a later one with the same id is not touched."""
        if connection is not None:
            key = (connection, type(identifier), identifier)
            if self._events.get(key) is event:
                del self._events[key]

    def cancel(self, connection: str | None, identifier: object) -> None:
        """Unknown ids are ignored: the request may have been answered meanwhile."""
        if connection is not None and isinstance(identifier, (str, int)):
            event = self._events.get((connection, type(identifier), identifier))
            if event is not None:
                event.set()
