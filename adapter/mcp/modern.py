"""Protocol 2026-07-28: the order of checks, the table of methods, and how errors are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from . import headers, jsonrpc, sse
from .call import Call
from .exchange import Reply, Request
from .jsonrpc import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION, Message, RpcError
from .listen import Listen
from .meta import MODERN_VERSION, TASKS_EXTENSION, VERSION_KEY, complete, read_meta, required_meta
from .task_methods import TaskMethods
from .tool_methods import ToolMethods

VERSION = MODERN_VERSION

Handler = Callable[[Call], Awaitable[dict[str, Any] | Reply]]

# The member of params that Mcp-Name repeats, and whether the header must be there.
_NAMED = {
    "tools/call": ("name", True),
    "tasks/get": ("taskId", False),
    "tasks/update": ("taskId", False),
    "tasks/cancel": ("taskId", False),
}


class Modern:
    """Serves one request of this era; knows nothing of earlier ones (R-08)."""

    def __init__(
        self,
        tools: ToolMethods,
        tasks: TaskMethods,
        listen: Listen,
        *,
        supported: tuple[str, ...],
        list_ttl_ms: int,
    ) -> None:
        self.supported = supported
        """Every version that is served, newest first (R-26)."""
        self._list_ttl_ms = list_ttl_ms
        self._handlers: dict[str, Handler] = {
            "server/discover": self._discover,
            "tools/list": tools.list,
            "tools/call": tools.call,
            "tasks/get": tasks.get,
            "tasks/update": tasks.update,
            "tasks/cancel": tasks.cancel,
            "subscriptions/listen": listen.listen,
        }

    async def handle(self, request: Request, message: Message) -> Reply:
        """Raises RpcError, TaskNotFound, StoreUnavailable."""
        assert message.id is not None
        handler, call = self._checked(request, message)
        result = await handler(call)
        if isinstance(result, Reply):
            return result
        return sse.json(jsonrpc.result(message.id, complete(result)))

    def unsupported(self, requested: str) -> RpcError:
        """The error for a version that is not served (R-20, R-27)."""
        text = f"Protocol version {jsonrpc.shown(requested)} is not supported; supported: {', '.join(self.supported)}"
        data = {"supported": list(self.supported), "requested": requested}
        return RpcError(UNSUPPORTED_PROTOCOL_VERSION, text, data=data, status=400)

    def _checked(self, request: Request, message: Message) -> tuple[Handler, Call]:
        said = required_meta(message.params)
        version = said[VERSION_KEY]
        if request.headers is not None:
            headers.check_version(request.headers, version)
        if version != VERSION:
            raise self.unsupported(version)
        meta = read_meta(said)
        if request.headers is not None:
            headers.check_method(request.headers, message.method)
        handler = self._handlers.get(message.method)
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {jsonrpc.shown(message.method)}", status=404)
        params = message.params or {}
        if request.headers is not None and message.method in _NAMED:
            member, required = _NAMED[message.method]
            headers.check_name(request.headers, params.get(member), required=required)
        assert message.id is not None
        return handler, Call(request, message.id, params, meta)

    async def _discover(self, call: Call) -> dict[str, Any]:
        return {
            "supportedVersions": list(self.supported),
            "capabilities": {"tools": {}, "extensions": {TASKS_EXTENSION: {}}},
            "ttlMs": self._list_ttl_ms,
            "cacheScope": "public",
        }
