"""From lines to the endpoint and back. Requests are answered as they finish, in any order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson

from adapter.mcp.endpoint import Endpoint
from adapter.mcp.exchange import ANONYMOUS, Reply, Request
from adapter.mcp.following import first_of
from adapter.mcp.jsonrpc import RequestId, request_id
from adapter.mcp.legacy import SESSION_HEADER

logger = logging.getLogger(__name__)

ReadLine = Callable[[], Awaitable[bytes]]
"""The next line, empty at the end of input."""
WriteLine = Callable[[bytes], Awaitable[None]]
"""Writes a message and its end of line."""

_Id = tuple[type, RequestId]
_LAST_SECONDS = 5.0


class StdioTransport:
    """One client on one pair of pipes; `run` returns when its input ends."""

    def __init__(self, endpoint: Endpoint, read_line: ReadLine, write: WriteLine) -> None:
        self._endpoint = endpoint
        self._read_line = read_line
        self._write = write
        self._session: str | None = None
        self._ended = asyncio.Event()
        self._cancelled: dict[_Id, asyncio.Event] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until the input ends; whatever still waits then is given up, as when a client disconnects."""
        while line := await self._read_line():
            if line.strip():
                self._take(line)
        self._ended.set()
        if self._running:
            await asyncio.wait(self._running, timeout=_LAST_SECONDS)

    def _take(self, line: bytes) -> None:
        value = _parsed(line)
        if value.get("method") == "notifications/cancelled" and "id" not in value:
            self._cancel(value)
        identifier = request_id(value) if "method" in value else None
        key = None if identifier is None else (type(identifier), identifier)
        cancelled = asyncio.Event()
        if key is not None:
            self._cancelled[key] = cancelled
        task = asyncio.create_task(self._answer(line, key, cancelled))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _cancel(self, value: dict[str, Any]) -> None:
        """Unknown ids are ignored: the request may have been answered meanwhile (R-142)."""
        params = value.get("params")
        identifier = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(identifier, (str, int)) and (
            event := self._cancelled.get((type(identifier), identifier))
        ):
            event.set()

    async def _answer(self, line: bytes, key: _Id | None, cancelled: asyncio.Event) -> None:
        request = Request(
            method="POST",
            headers=None,
            body=line,
            caller=ANONYMOUS,
            disconnected=partial(first_of, cancelled.wait, self._ended.wait),
            cancelled=cancelled.is_set,
            connection=self._session,
        )
        try:
            await self._send(await self._endpoint.handle(request), cancelled)
        except (BrokenPipeError, ConnectionResetError):
            logger.info("the client has closed our output")
        finally:
            if key is not None and self._cancelled.get(key) is cancelled:
                del self._cancelled[key]

    async def _send(self, reply: Reply, cancelled: asyncio.Event) -> None:
        if SESSION_HEADER in reply.headers:
            self._session = reply.headers[SESSION_HEADER]
        if isinstance(reply.body, bytes):
            if reply.body and not cancelled.is_set():
                await self._write(reply.body)
            return
        async for frame in reply.body:
            if frame.message is not None and not cancelled.is_set():
                await self._write(frame.message)


def _parsed(line: bytes) -> dict[str, Any]:
    """The message, as far as this transport needs to understand it; the endpoint tells what is wrong with it."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
