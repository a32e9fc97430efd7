"""The handler: from a Lambda event to the endpoint and back, buffered."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from adapter.mcp import jsonrpc, sse
from adapter.mcp.endpoint import error_reply, method_not_allowed
from adapter.mcp.exchange import ANONYMOUS, KEEP_ALIVE, Frame, Reply, Request
from adapter.mcp.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError
from adapter.mcp.legacy import RESUME_HEADER
from lambdas.context import Context
from lambdas.deadline import Deadline
from lambdas.hosted import Hosted, open_hosted
from lambdas.loop import Container

from .events import HttpEvent, UnknownEvent, read_event
from .identity import owner_of

logging.getLogger("adapter").setLevel(logging.INFO)
logger = logging.getLogger(__name__)

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MAX_REPLY_BYTES = 6_000_000
_WAITS_END_SECONDS = 1.0
"""How long before the function's own end a reply that waits for something is given."""
_REPLIES_END_SECONDS = 0.3
"""How long before it any reply is given up."""

_container = Container(open_hosted)
_deadline = Deadline()


def handler(event: object, context: Context) -> dict[str, Any]:
    """The reply for one HTTP request of any of the four sources."""
    try:
        http = read_event(event)
    except UnknownEvent:
        logger.warning("An event that is not an HTTP request was ignored")
        return {"statusCode": 400, "body": "This is not an HTTP request"}

    async def answered(hosted: Hosted) -> dict[str, Any]:
        # Read here, not before: a container that is opened within the invocation takes a part of the time.
        return await answer(hosted, http, context.get_remaining_time_in_millis() / 1000)

    return _container.run(answered)


async def answer(hosted: Hosted, http: HttpEvent, seconds: float) -> dict[str, Any]:
    """`seconds`: how long the function may take."""
    reply, body = await _given(hosted, http, seconds)
    return http.reply(reply.status, {**hosted.cors.headers(http.headers), **reply.headers}, body)


async def _given(hosted: Hosted, http: HttpEvent, seconds: float) -> tuple[Reply, bytes]:
    try:
        reply, body = await _deadline.within(
            seconds - _REPLIES_END_SECONDS, _whole_reply(hosted, http, seconds)
        )
    except TimeoutError:
        logger.exception("A request was given up: its time is over")
        return _failed(http, 504, "There was not enough time to answer")
    if not _fits(body):
        return _failed(http, 500, "The reply is too large; ask for fewer tasks at once")
    return reply, body


async def _whole_reply(hosted: Hosted, http: HttpEvent, seconds: float) -> tuple[Reply, bytes]:
    # Before anybody is asked for: a browser sends a preflight without credentials.
    preflight = hosted.cors.preflight(http.method, http.headers)
    reply = preflight or await _reply(hosted, http, seconds)
    return reply, reply.body if isinstance(reply.body, bytes) else await _joined(reply.body)


async def _reply(hosted: Hosted, http: HttpEvent, seconds: float) -> Reply:
    if f"{WELL_KNOWN}/" in f"{http.path}/":
        return _metadata(hosted, http)
    if not http.path.rstrip("/").endswith(hosted.settings.path):
        return _refused(404, METHOD_NOT_FOUND, "There is nothing at this path")
    if http.method != "POST" and RESUME_HEADER not in http.headers:  # a probe, told so whoever asks
        return method_not_allowed()
    owner = owner_of(http.context)
    if owner is None and hosted.settings.require_identity:
        return _refused(403, INVALID_REQUEST, "The gateway did not say who calls")
    request = Request(
        method=http.method,
        headers=http.headers,
        body=http.body,
        caller=owner or ANONYMOUS,
        seconds_left=max(seconds - _WAITS_END_SECONDS, 0),
    )
    return await hosted.endpoint.handle(request)


def _metadata(hosted: Hosted, http: HttpEvent) -> Reply:
    """For everybody: where to get a token (RFC 9728)."""
    if hosted.metadata is None:
        return _refused(404, METHOD_NOT_FOUND, "There is nothing at this path")
    if http.method != "GET":
        return _refused(405, INVALID_REQUEST, "Only GET is served here")
    headers = {
        "content-type": "application/json",
        "access-control-allow-origin": "*",
        "cache-control": "max-age=3600",
    }
    return Reply(200, headers, hosted.metadata)


def _refused(status: int, code: int, message: str) -> Reply:
    return error_reply(None, RpcError(code, message, status=status))


def _failed(http: HttpEvent, status: int, message: str) -> tuple[Reply, bytes]:
    """The reply to a request that could have been answered."""
    try:
        identifier = jsonrpc.request_id(jsonrpc.parse(http.body))
    except RpcError:
        identifier = None
    body = jsonrpc.error(identifier, RpcError(INTERNAL_ERROR, message))
    return Reply(status, {"content-type": "application/json"}, body), body


async def _joined(stream: AsyncGenerator[Frame, None]) -> bytes:
    async with aclosing(stream) as frames:
        return b"".join([sse.encode(frame) async for frame in frames if frame != KEEP_ALIVE])


def _fits(body: bytes) -> bool:
    """Lambda counts the reply as a JSON string, in which some characters take two bytes."""
    if 2 * len(body) <= MAX_REPLY_BYTES:
        return True
    return len(body) + sum(body.count(escaped) for escaped in (b'"', b"\\", b"\n")) <= MAX_REPLY_BYTES
