"""The handler: from a Lambda event to the endpoint and back, buffered."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from adapter.hosted import Hosted, open_hosted
from adapter.mcp import sse
from adapter.mcp.exchange import ANONYMOUS, Reply, Request
from lambdas.loop import Container

from .events import HttpEvent, UnknownEvent, read_event
from .identity import owner_of

logging.getLogger().setLevel(logging.INFO)
logger = logging.getLogger(__name__)

WELL_KNOWN = "/.well-known/oauth-protected-resource"
_MARGIN_SECONDS = 1.0
_JSON = {"content-type": "application/json"}


class Context(Protocol):
    """What Lambda tells about an invocation."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function is ended."""
        ...


_container = Container(open_hosted)


def handler(event: object, context: Context) -> dict[str, Any]:
    """The reply for one HTTP request of any of the four sources."""
    try:
        http = read_event(event)
    except UnknownEvent:
        logger.warning("An event that is not an HTTP request was ignored")
        return {"statusCode": 400, "headers": _JSON, "body": '{"error":"not an HTTP request"}'}
    seconds = context.get_remaining_time_in_millis() / 1000 - _MARGIN_SECONDS

    async def answered(hosted: Hosted) -> dict[str, Any]:
        return await answer(hosted, http, seconds)

    return _container.run(answered)


async def answer(hosted: Hosted, http: HttpEvent, seconds: float) -> dict[str, Any]:
    """`seconds`: how long the reply may take."""
    if WELL_KNOWN in http.path and hosted.metadata is not None:
        headers = {**_JSON, "access-control-allow-origin": "*", "cache-control": "max-age=3600"}
        return http.reply(200, headers, hosted.metadata)
    if not http.path.rstrip("/").endswith(hosted.settings.path):
        return http.reply(404, _JSON, b'{"jsonrpc":"2.0","error":{"code":-32601,"message":"Not found"}}')
    owner = owner_of(http.context)
    if owner is None and hosted.settings.require_identity:
        text = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"The gateway did not say who calls"}}'
        return http.reply(403, _JSON, text)
    request = Request(
        method=http.method,
        headers=http.headers,
        body=http.body,
        caller=owner or ANONYMOUS,
        seconds_left=max(seconds, 0.0),
    )
    return await _buffered(http, await hosted.endpoint.handle(request))


async def _buffered(http: HttpEvent, reply: Reply) -> dict[str, Any]:
    if isinstance(reply.body, bytes):
        return http.reply(reply.status, reply.headers, reply.body)
    chunks = [sse.encode(frame) async for frame in reply.body]
    return http.reply(reply.status, reply.headers, b"".join(chunks))
