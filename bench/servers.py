"""The servers that are measured, each served the same way: `python -m bench.servers KIND ARGUMENT`.

* adapter TASKS: the adapter over an in-memory store and job system, with this many running tasks
* sdk TASKS: the same job on the official SDK, which replies with JSON
* sdk-events TASKS: the same with its default, an event stream per reply
* json REPLY: a Starlette endpoint that returns this constant JSON
* bytes REPLY: the same with the JSON made beforehand
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bench.processes import allow_open_files


def adapter(tasks: str) -> Starlette:
    from bench.adapter_server import create  # each process loads its own server only

    return create(int(tasks))


def sdk(tasks: str) -> Starlette:
    from bench.sdk_server import create

    return create(int(tasks))


def sdk_events(tasks: str) -> Starlette:
    from bench.sdk_server import create

    return create(int(tasks), json_response=False)


def constant_json(reply: str) -> Starlette:
    document = json.loads(reply)

    async def endpoint(_request: Request) -> Response:
        return JSONResponse(document)

    return Starlette(routes=[Route("/mcp", endpoint, methods=["POST"])])


def constant_bytes(reply: str) -> Starlette:
    body = reply.encode()

    async def endpoint(_request: Request) -> Response:
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route("/mcp", endpoint, methods=["POST"])])


KINDS: dict[str, Callable[[str], Starlette]] = {
    "adapter": adapter,
    "sdk": sdk,
    "sdk-events": sdk_events,
    "json": constant_json,
    "bytes": constant_bytes,
}


async def serve(app: Starlette) -> None:
    """Writes the port, then serves until stdin ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    config = uvicorn.Config(
        app,
        http="httptools",
        access_log=False,
        server_header=False,
        log_level="warning",
        timeout_graceful_shutdown=2,
        backlog=4096,
    )
    server = uvicorn.Server(config)

    def stop() -> None:
        server.should_exit = True
        asyncio.get_running_loop().remove_reader(sys.stdin)

    asyncio.get_running_loop().add_reader(sys.stdin, stop)
    print(listener.getsockname()[1], flush=True)
    await server.serve(sockets=[listener])


def main() -> None:
    kind, argument = sys.argv[1:]
    allow_open_files(10_000)
    uvloop.run(serve(KINDS[kind](argument)))


if __name__ == "__main__":
    main()
