"""The one endpoint: what a request must be before its era matters, and which era it belongs to."""

from __future__ import annotations

import logging

from . import headers, jsonrpc
from .access import Access
from .exchange import Reply, Request
from .jsonrpc import INTERNAL_ERROR, Message, RequestId, RpcError
from .meta import modern_version_of
from .modern import VERSION, Modern

logger = logging.getLogger(__name__)


class Endpoint:
    """Transport-free: every transport hands requests to `handle`."""

    def __init__(self, access: Access, modern: Modern) -> None:
        self.access = access
        self._modern = modern

    async def handle(self, request: Request) -> Reply:
        """Never raises for what a client sends."""
        if request.method != "POST":
            return method_not_allowed()
        identifier: RequestId | None = None
        try:
            if request.headers is not None:
                self.access.check(request.headers, request.body)
            value = jsonrpc.parse(request.body)
            identifier = jsonrpc.request_id(value)
            message = jsonrpc.envelope(value)
            if message.id is None:
                return Reply(202, {}, b"")
            return await self._serve(request, message)
        except RpcError as problem:
            return error_reply(identifier, problem)
        except Exception:
            logger.exception("A request failed")
            return error_reply(identifier, RpcError(INTERNAL_ERROR, "The server failed; its log says why"))

    async def _serve(self, request: Request, message: Message) -> Reply:
        """Selects the era by how the request opens, not by its method (R-25)."""
        said = headers.header(request.headers, headers.VERSION) if request.headers is not None else None
        if modern_version_of(message.params) is not None or said == VERSION:
            return await self._modern.handle(request, message)
        if message.method == "initialize" or said:
            raise self._modern.unsupported(_requested(message, said))
        return await self._modern.handle(request, message)


def _requested(message: Message, said: str | None) -> str:
    asked = (message.params or {}).get("protocolVersion")
    return asked if isinstance(asked, str) else said or "unknown"


def error_reply(identifier: RequestId | None, problem: RpcError) -> Reply:
    body = jsonrpc.error(identifier, problem)
    return Reply(problem.status, {"content-type": "application/json"}, body)


def method_not_allowed() -> Reply:
    reply = error_reply(None, RpcError(jsonrpc.INVALID_REQUEST, "Only POST is served here", status=405))
    reply.headers["allow"] = "POST"
    return reply
