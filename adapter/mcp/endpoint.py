"""The one endpoint: what a request must be before its era matters, and which era it belongs to."""

from __future__ import annotations

import asyncio
from typing import Any

from . import headers, jsonrpc, legacy, sse
from .access import Access
from .exchange import Reply, Request
from .jsonrpc import INVALID_REQUEST, Message, RequestId, RpcError
from .legacy import Legacy
from .legacy_shapes import V_2025_03_26, VERSIONS
from .meta import modern_version_of
from .modern import VERSION, Modern

MAX_BATCH = 50


class Endpoint:
    """Transport-free: every transport hands requests to `handle`."""

    def __init__(self, access: Access, modern: Modern, legacy_: Legacy) -> None:
        self.access = access
        self._modern = modern
        self._legacy = legacy_

    async def handle(self, request: Request) -> Reply:
        """Never raises for what a client sends."""
        value: Any = None
        try:
            if request.method != "POST":
                return await self._without_body(request)
            if request.headers is not None:
                self.access.check(request.headers, request.body)
            value = jsonrpc.parse(request.body)
            if isinstance(value, list):
                return await self._batch(request, value)
            return await self._one(request, value)
        except Exception as problem:  # noqa: BLE001 - `told_as` logs what should not have happened
            return self._failed(request, value, problem)

    def _failed(self, request: Request, value: Any, problem: Exception) -> Reply:
        identifier = jsonrpc.request_id(value)
        null_id = identifier is None and self._legacy.takes_null_id(request)
        return error_reply(identifier, jsonrpc.told_as(problem), null_id=null_id)

    async def _without_body(self, request: Request) -> Reply:
        """GET comes back for the rest of a legacy `tasks/result`; nothing else but POST is served."""
        if (
            request.method == "GET"
            and request.headers is not None
            and legacy.RESUME_HEADER in request.headers
        ):
            self.access.check_source(request.headers)
            reply = await self._legacy.resume(request)
            if reply is not None:
                return reply
        return method_not_allowed()

    async def _one(self, request: Request, value: Any) -> Reply:
        said = headers.header(request.headers, headers.VERSION) if request.headers is not None else None
        if said != VERSION and _is_response(value):
            await self._legacy.answered(request, value)
            return accepted()
        message = jsonrpc.envelope(value)
        if self._is_modern(message, said):
            return accepted() if message.id is None else await self._modern.handle(request, message)
        if message.id is None:
            await self._legacy.notified(request, message)
            return accepted()
        return await self._legacy.handle(request, message)

    def _is_modern(self, message: Message, said: str | None) -> bool:
        """By how the request opens, not by its method (R-25, R-26)."""
        told = modern_version_of(message.params)
        if said == VERSION:
            return True
        if told is not None:
            return told not in VERSIONS or said not in (None, told)
        if said is not None and said not in VERSIONS and message.method != "initialize":
            raise self._modern.unsupported(said)
        return False

    async def _batch(self, request: Request, values: list[Any]) -> Reply:
        """2025-03-26 only (L-21): requests and notifications, or responses; answered as one array."""
        said = headers.header(request.headers, headers.VERSION) if request.headers is not None else None
        if said == VERSION or self._legacy.version_of(request) != V_2025_03_26 or not values:
            raise RpcError(INVALID_REQUEST, "Send exactly one JSON-RPC object", status=400)
        if len(values) > MAX_BATCH:
            raise RpcError(INVALID_REQUEST, f"A batch may hold at most {MAX_BATCH} messages", status=400)
        bodies = await asyncio.gather(
            *(self._in_batch(legacy.without_events(request), value) for value in values)
        )
        replies = [body for body in bodies if body]
        return sse.json(legacy.batch(replies)) if replies else accepted()

    async def _in_batch(self, request: Request, value: Any) -> bytes:
        try:
            if isinstance(value, dict) and value.get("method") == "initialize":
                raise RpcError(INVALID_REQUEST, "`initialize` must not be part of a batch")
            reply = await self._one(request, value)
        except Exception as problem:  # noqa: BLE001 - `told_as` logs what should not have happened
            return jsonrpc.error(jsonrpc.request_id(value), jsonrpc.told_as(problem), null_id=True)
        assert isinstance(reply.body, bytes), "nothing is streamed to who accepts no events"
        return reply.body


def _is_response(value: Any) -> bool:
    return isinstance(value, dict) and "method" not in value and ("result" in value or "error" in value)


def accepted() -> Reply:
    return Reply(202, {}, b"")


def error_reply(identifier: RequestId | None, problem: RpcError, *, null_id: bool = False) -> Reply:
    body = jsonrpc.error(identifier, problem, null_id=null_id)
    return Reply(problem.status, {"content-type": "application/json"}, body)


def method_not_allowed() -> Reply:
    reply = error_reply(None, RpcError(INVALID_REQUEST, "Only POST is served here", status=405))
    reply.headers["allow"] = "POST"
    return reply
