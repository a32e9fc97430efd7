"""From ASGI to the endpoint and back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adapter.mcp import sse
from adapter.mcp.cors import Cors
from adapter.mcp.endpoint import Endpoint, error_reply
from adapter.mcp.exchange import Frame, Reply, Request
from adapter.mcp.headers import joined

from .identity import Identify


class McpTransport:
    """An ASGI application for the one MCP path."""

    def __init__(self, endpoint: Endpoint, identify: Identify) -> None:
        self._endpoint = endpoint
        self._identify = identify

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._read_body(receive)
        if body is None:
            return
        headers = _headers(scope)
        if len(body) > self._endpoint.access.max_body_bytes:
            reply = error_reply(None, self._endpoint.access.too_large())
        else:
            request = Request(
                method=scope["method"],
                headers=headers,
                body=body,
                caller=self._identify(scope),
                disconnected=_Disconnection(receive),
            )
            reply = await self._endpoint.handle(request)
        await _send_reply(reply, send)

    async def _read_body(self, receive: Receive) -> bytes | None:
        """The body, read no further than shows that it is too large; None if the client left meanwhile."""
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            return bytes(message.get("body", b""))
        chunks, size = [], 0
        while message["type"] == "http.request":
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self._endpoint.access.max_body_bytes or not message.get("more_body"):
                return b"".join(chunks)
            message = await receive()
        return None


class _Disconnection:
    """Awaits the client's leaving; only asked where a request waits."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    async def __call__(self) -> None:
        message: Message = {"type": ""}
        while message["type"] != "http.disconnect":
            message = await self._receive()


class Browsers:
    """An ASGI middleware that answers preflights, and says in every reply which web pages may read it."""

    def __init__(self, app: ASGIApp, cors: Cors) -> None:
        self._app = app
        self._cors = cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        added = self._cors.headers(headers)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_missing(added, message["headers"])]
            await send(message)

        preflight = self._cors.preflight(scope["method"], headers)
        if preflight is None:
            await self._app(scope, receive, send_with_headers)
        else:
            await _send_reply(preflight, send_with_headers)


def _missing(added: Mapping[str, str], present: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    names = {name for name, _ in present}
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in added.items()]
    return [(name, value) for name, value in encoded if name not in names]


def _headers(scope: Scope) -> dict[str, str]:
    """Names in lower case; values of a name sent twice are joined, as RFC 9110 says."""
    raw = list(scope["headers"])
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    if len(headers) == len(raw):
        return headers
    return joined((name.decode("latin-1"), value.decode("latin-1")) for name, value in raw)


async def _send_reply(reply: Reply, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers.items()]
    if isinstance(reply.body, bytes):
        headers.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})
        return
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await _send_frames(reply.body, send)
    await send({"type": "http.response.body", "body": b""})


async def _send_frames(frames: AsyncGenerator[Frame, None], send: Send) -> None:
    async with aclosing(frames):
        async for frame in frames:
            await send({"type": "http.response.body", "body": sse.encode(frame), "more_body": True})
