"""The one endpoint: what a request must be before its era matters, and which era it belongs to."""

from __future__ import annotations

import logging
from typing import Any

from . import headers, jsonrpc, legacy
from .access import Access
from .exchange import Reply, Request
from .jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Message, RequestId, RpcError
from .legacy import Legacy
from .legacy_shapes import V_2025_03_26, V_2025_06_18, VERSIONS
from .meta import modern_version_of
from .modern import VERSION, Modern

logger = logging.getLogger(__name__)


class Endpoint:
    """Transport-free: every transport hands requests to `handle`."""

    def __init__(self, access: Access, modern: Modern, legacy_: Legacy) -> None:
        self.access = access
        self._modern = modern
        self._legacy = legacy_

    async def handle(self, request: Request) -> Reply:
        """Never raises for what a client sends."""
        identifier: RequestId | None = None
        try:
            if request.method != "POST":
                return await self._without_body(request)
            if request.headers is not None:
                self.access.check(request.headers, request.body)
            value = jsonrpc.parse(request.body)
            identifier = jsonrpc.request_id(value)
            if isinstance(value, list):
                return await self._batch(request, value)
            return await self._one(request, value)
        except RpcError as problem:
            return error_reply(identifier, problem, null_id=_wants_null_id(request))
        except Exception:
            logger.exception("A request failed")
            return error_reply(identifier, RpcError(INTERNAL_ERROR, "The server failed; its log says why"))

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
        if said is not None and said not in VERSIONS:
            raise self._modern.unsupported(said)
        return False

    async def _batch(self, request: Request, values: list[Any]) -> Reply:
        """2025-03-26 only (L-21): requests and notifications, or responses; answered as one array."""
        said = headers.header(request.headers, headers.VERSION) if request.headers is not None else None
        if said == VERSION or self._legacy.version_of(request) != V_2025_03_26 or not values:
            raise RpcError(INVALID_REQUEST, "Send exactly one JSON-RPC object", status=400)
        replies = []
        for value in values:
            identifier = jsonrpc.request_id(value)
            try:
                if isinstance(value, dict) and value.get("method") == "initialize":
                    raise RpcError(INVALID_REQUEST, "`initialize` must not be part of a batch")
                body = await _whole(await self._one(request, value))
            except RpcError as problem:
                body = jsonrpc.error(identifier, problem, null_id=True)
            if body:
                replies.append(body)
        if not replies:
            return accepted()
        return Reply(200, {"content-type": "application/json"}, legacy.batch(replies))


async def _whole(reply: Reply) -> bytes:
    """The response of a reply, also of a streamed one."""
    if isinstance(reply.body, bytes):
        return reply.body
    last = b""
    async for frame in reply.body:
        last = frame.message or last
    return last


def _is_response(value: Any) -> bool:
    return isinstance(value, dict) and "method" not in value and ("result" in value or "error" in value)


def _wants_null_id(request: Request) -> bool:
    """Before 2025-11-25 an error whose request had no readable id carries a null (L-22)."""
    if request.headers is None:
        return False
    return request.headers.get(headers.VERSION) in (V_2025_03_26, V_2025_06_18)


def accepted() -> Reply:
    return Reply(202, {}, b"")


def error_reply(identifier: RequestId | None, problem: RpcError, *, null_id: bool = False) -> Reply:
    body = jsonrpc.error(identifier, problem, null_id=null_id)
    return Reply(problem.status, {"content-type": "application/json"}, body)


def method_not_allowed() -> Reply:
    reply = error_reply(None, RpcError(INVALID_REQUEST, "Only POST is served here", status=405))
    reply.headers["allow"] = "POST"
    return reply
