"""The protocols before 2026-07-28: 2025-11-25 with its experimental tasks, 2025-06-18, 2025-03-26."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from . import jsonrpc, sse
from .exchange import ANONYMOUS, Frame, Reply, Request
from .following import first_of
from .headers import VERSION as VERSION_HEADER
from .inflight import Inflight
from .jsonrpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    JsonObject,
    Message,
    RequestId,
    RpcError,
    invalid_params,
)
from .legacy_call import LegacyCall
from .legacy_shapes import V_2025_03_26, V_2025_06_18, V_2025_11_25, VERSIONS
from .legacy_tasks import LegacyTasks
from .legacy_tools import LegacyTools
from .meta import LOG_LEVELS, SERVER_INFO, SERVER_INFO_KEY
from .offers import Offers
from .resumption import Resumptions
from .session import Session, Sessions, UnknownSession

SESSION_HEADER = "mcp-session-id"
RESUME_HEADER = "last-event-id"

Handler = Callable[[LegacyCall], Awaitable[dict[str, Any] | Reply]]


class Legacy:
    """Serves one message of these protocols. `by_session`: a session owns its tasks where nobody is known (D12)."""

    def __init__(
        self,
        tools: LegacyTools,
        tasks: LegacyTasks,
        offers: Offers,
        sessions: Sessions,
        resumptions: Resumptions,
        *,
        by_session: bool,
    ) -> None:
        self._offers = offers
        self._tools = tools
        self._tasks = tasks
        self._resumptions = resumptions
        self._sessions = sessions
        self._by_session = by_session
        self._inflight = Inflight()
        self._handlers: dict[str, Handler] = {
            "ping": _empty,
            "logging/setLevel": _set_level,
            "tools/list": tools.list,
            "tools/call": tools.call,
        }
        self._task_handlers: dict[str, Handler] = {
            "tasks/get": tasks.get,
            "tasks/result": tasks.result,
            "tasks/cancel": tasks.cancel,
            "tasks/list": tasks.list,
        }

    def version_of(self, request: Request) -> str:
        """The version that a request is in, apart from `initialize`. Raises RpcError (400, or 404 for a session)."""
        return self._session(request).version

    def takes_null_id(self, request: Request) -> bool:
        """Whether an error about an unreadable id carries a null: before 2025-11-25 it has to (L-22)."""
        said, version = self._said(request)
        if version is None:
            try:
                session = self._sessions.read(said, request.caller)
            except UnknownSession:
                return False
            version = session.version if session is not None else None
        return version in (V_2025_03_26, V_2025_06_18)

    async def handle(self, request: Request, message: Message) -> Reply:
        """Raises RpcError, TaskNotFound, StoreUnavailable."""
        assert message.id is not None
        if message.method == "initialize":
            return self._initialize(request, message)
        session = self._session(request)
        self._take_ownership(request, session)
        handler = self._handlers.get(message.method)
        if handler is None and session.version == V_2025_11_25:
            handler = self._task_handlers.get(message.method)
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {jsonrpc.shown(message.method)}")
        return await self._answer(handler, request, message.id, message.params or {}, session)

    async def _answer(
        self, handler: Handler, request: Request, identifier: RequestId, params: JsonObject, session: Session
    ) -> Reply:
        if request.headers is None:  # a line of stdio: its transport knows what is cancelled
            call = LegacyCall(request, identifier, params, session, request.disconnected, request.cancelled)
            return await _reply(handler, call)
        cancelled = self._inflight.begin(session.nonce, identifier)
        over = partial(self._inflight.end, session.nonce, identifier, cancelled)
        gone = partial(first_of, cancelled.wait, request.disconnected)
        call = LegacyCall(request, identifier, params, session, gone, cancelled.is_set)
        streamed = False
        try:
            reply = await _reply(handler, call)
            if not isinstance(reply.body, bytes):
                reply.body, streamed = _until_over(reply.body, over), True
            return reply
        finally:
            if not streamed:
                over()

    async def notified(self, request: Request, message: Message) -> None:
        """A notification: only a cancellation means anything here (L-60)."""
        session = self._session(request)
        if message.method == "notifications/cancelled":
            self._inflight.cancel(session.nonce, (message.params or {}).get("requestId"))

    async def answered(self, request: Request, response: dict[str, Any]) -> None:
        """A response to one of our requests (L-10). What is not is ignored."""
        session = self._session(request)
        self._take_ownership(request, session)
        await self._offers.take(response, request.caller)

    async def resume(self, request: Request) -> Reply | None:
        """A GET that comes back for the rest of a reply; None where its event id is none of ours. Raises RpcError."""
        assert request.headers is not None
        session = self._session(request)
        self._take_ownership(request, session)
        unfinished = self._resumptions.read(request.headers[RESUME_HEADER].strip(), request.caller)
        if unfinished is None:
            return None
        if session.nonce is None:  # only 2025-11-25 lets a server close early
            session = Session(V_2025_11_25)
        resume = self._tasks.resume if unfinished.kind == "result" else self._tools.resume
        return await self._answer(partial(resume, unfinished), request, unfinished.id, {}, session)

    def _initialize(self, request: Request, message: Message) -> Reply:
        params = message.params or {}
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise invalid_params("params.protocolVersion is required and must be a string")
        capabilities = params.get("capabilities")
        if not isinstance(capabilities, dict):
            capabilities = {}
        version = asked if asked in VERSIONS else VERSIONS[0]
        identifier = self._sessions.issue(version, capabilities, request.caller)
        result: dict[str, Any] = {
            "protocolVersion": version,
            "capabilities": self._capabilities(version, request.caller),
            "serverInfo": SERVER_INFO[SERVER_INFO_KEY],
        }
        assert message.id is not None
        headers = {"content-type": "application/json", SESSION_HEADER: identifier}
        return Reply(200, headers, jsonrpc.result(message.id, result))

    def _capabilities(self, version: str, owner: str) -> dict[str, Any]:
        capabilities: dict[str, Any] = {"tools": {}, "logging": {}}
        if version == V_2025_11_25:
            tasks: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
            if owner != ANONYMOUS or self._by_session:
                tasks["list"] = {}
            capabilities["tasks"] = tasks
        return capabilities

    def _session(self, request: Request) -> Session:
        """What the client settled with `initialize`, or what its headers say (L-12, L-15)."""
        said, version = self._said(request)
        if version is not None and version not in VERSIONS:
            text = f"Protocol version {jsonrpc.shown(version)} is not supported; supported: {', '.join(VERSIONS)}"
            raise RpcError(INVALID_REQUEST, text, status=400)
        try:
            session = self._sessions.read(said, request.caller)
        except UnknownSession:
            text = "This session is not known here or has expired: initialize again"
            raise RpcError(INVALID_REQUEST, text, status=404) from None
        if session is None:
            return Session(version or V_2025_03_26)
        return session if version in (None, session.version) else replace(session, version=version)

    def _said(self, request: Request) -> tuple[str | None, str | None]:
        """Session id and version, unchecked."""
        if request.headers is None:
            return request.connection, None
        return request.headers.get(SESSION_HEADER), request.headers.get(VERSION_HEADER)

    def _take_ownership(self, request: Request, session: Session) -> None:
        if self._by_session and request.caller == ANONYMOUS and session.nonce is not None:
            request.caller = f"session:{session.nonce}"


async def _reply(handler: Handler, call: LegacyCall) -> Reply:
    result = await handler(call)
    return result if isinstance(result, Reply) else sse.json(jsonrpc.result(call.id, result))


async def _until_over(
    frames: AsyncGenerator[Frame, None], over: Callable[[], None]
) -> AsyncGenerator[Frame, None]:
    try:
        async with aclosing(frames):
            async for frame in frames:
                yield frame
    finally:
        over()


async def _empty(_call: LegacyCall) -> dict[str, Any]:
    return {}


async def _set_level(call: LegacyCall) -> dict[str, Any]:
    if call.text("level") not in LOG_LEVELS:
        raise invalid_params(f"params.level must be one of {', '.join(LOG_LEVELS)}")
    return {}


def without_events(request: Request) -> Request:
    """The same client, for whom everything has to be in one JSON reply, as for a part of a batch."""
    given = request.headers
    if given is None:  # stdio
        given = {} if request.connection is None else {SESSION_HEADER: request.connection}
    return replace(request, headers={**given, "accept": "application/json"})


def batch(replies: list[bytes]) -> bytes:
    """The replies to a batch (2025-03-26 only)."""
    return orjson.dumps([orjson.Fragment(reply) for reply in replies])
