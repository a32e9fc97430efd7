"""The Starlette application: the MCP path, a health check, and JSON-RPC bodies for everything else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from adapter.mcp.cors import Cors
from adapter.mcp.endpoint import Endpoint, error_reply
from adapter.mcp.jsonrpc import METHOD_NOT_FOUND, RpcError

from .identity import Identify, anonymous
from .transport import Browsers, McpTransport

OpenEndpoint = Callable[[], AbstractAsyncContextManager[Endpoint]]


def create_app(
    open_endpoint: OpenEndpoint,
    *,
    path: str,
    origins: Sequence[str] = (),
    identify: Identify = anonymous,
) -> Starlette:
    """The application; `open_endpoint` is entered when the server starts and left when it stops."""
    entrance = _Entrance(path)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with open_endpoint() as endpoint:
            entrance.transport = McpTransport(endpoint, identify)
            yield

    app = _App(
        routes=[
            Route(path, entrance, methods=None),
            Route(f"{path.rstrip('/')}/", entrance, methods=None),
            Route("/healthz", _healthy, methods=["GET"]),
        ],
        lifespan=lifespan,
        middleware=[Middleware(Browsers, Cors(origins))] if origins else [],
        exception_handlers={404: _not_found},
    )
    # Its redirects name the address that the request came to, which behind a balancer is a plain http one.
    app.router.redirect_slashes = False
    if not origins:
        app.short_cut = path, entrance
    return app


class _App(Starlette):
    """Starlette with a short cut to one path: to find that by middleware and routes is a fifth of a request."""

    short_cut: tuple[str, ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.short_cut is not None and scope.get("path") == self.short_cut[0] and scope["type"] == "http":
            await self.short_cut[1](scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class _Entrance:
    """The ASGI application behind the MCP path; a class, so that Starlette leaves request and reply to it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.transport: McpTransport | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.transport is not None, "the application's lifespan has not started"
        await self.transport(scope, receive, send)


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok")


async def _not_found(_request: Request, _error: Exception) -> Response:
    """With a JSON-RPC body, or clients take this for a server of the old HTTP+SSE transport (R-45)."""
    assert isinstance(_error, HTTPException)
    reply = error_reply(None, RpcError(METHOD_NOT_FOUND, "There is nothing at this path", status=404))
    assert isinstance(reply.body, bytes)
    return Response(reply.body, reply.status, reply.headers)
