"""A real HTTP server around an adapter over memory, on a free port of the loopback interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import uvicorn

from adapter.http.app import create_app
from adapter.http.identity import Identify, anonymous
from adapter.mcp.endpoint import Endpoint
from tests.support.adapter import PATIENCE, Json, Mcp, routing_headers, until


class _Server(uvicorn.Server):
    """Ends when told to, not at its next tick."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.over = asyncio.Event()

    async def main_loop(self) -> None:
        await self.over.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals stay with the tests."""
        yield


class Site:
    """Where the server listens, and a client of it."""

    def __init__(self, mcp: Mcp, port: int, client: httpx.AsyncClient) -> None:
        self.mcp = mcp
        self.port = port
        self.client = client
        self.url = f"http://127.0.0.1:{port}/mcp"

    def headers(self, method: str, params: Json) -> dict[str, str]:
        routing = routing_headers(method, params)
        return {name: value for name, value in routing.items() if value is not None and name != "host"}

    async def post(self, method: str, params: Json | None = None, **options: Any) -> httpx.Response:
        """Send one request (options: those of `Mcp.request`), and take the whole reply."""
        request = self.mcp.request(method, params, **options)
        headers = {name: value for name, value in (request.headers or {}).items() if name != "host"}
        return await self.client.post(self.url, content=request.body, headers=headers)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A bare connection, for what no HTTP client would do."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()

    def raw(self, method: str, params: Json | None = None, **options: Any) -> bytes:
        """A whole request as bytes."""
        request = self.mcp.request(method, params, **options)
        lines = [f"{name}: {value}" for name, value in (request.headers or {}).items()]
        head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, f"content-length: {len(request.body)}", "", ""])
        return head.encode() + request.body


@asynccontextmanager
async def serving(
    mcp: Mcp, *, origins: Sequence[str] = (), identify: Identify = anonymous, path: str = "/mcp"
) -> AsyncIterator[Site]:
    """The adapter served until the end of the block."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Endpoint]:
        yield mcp.parts.endpoint

    app = create_app(opened, path=path, origins=origins, identify=identify)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, ws="none", lifespan="on")
    server = _Server(config)
    running = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or running.done())
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(timeout=PATIENCE, verify=False) as client:
            yield Site(mcp, port, client)
    finally:
        mcp.parts.watcher.close()
        server.over.set()
        async with asyncio.timeout(PATIENCE):
            await running
