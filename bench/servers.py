"""The servers that are measured, each served the same way: `python -m bench.servers KIND ARGUMENT`.

* adapter TASKS: the adapter over an in-memory store and job system, with this many running tasks
* sdk TASKS: the same job on the official SDK
* constant BYTES: a Starlette endpoint whose reply is a constant of this size
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from bench.processes import allow_open_files


def adapter(tasks: int) -> ASGIApp:
    from bench.adapter_server import create

    return create(tasks)


def sdk(tasks: int) -> ASGIApp:
    from bench.sdk_server import create

    return create(tasks)


def constant(size: int) -> ASGIApp:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    body = b'{"constant":"' + b"x" * (size - 15) + b'"}'

    async def reply(_request: Request) -> Response:
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route("/mcp", reply, methods=["POST"])])


KINDS: dict[str, Callable[[int], ASGIApp]] = {"adapter": adapter, "sdk": sdk, "constant": constant}


async def serve(app: ASGIApp) -> None:
    """Writes the port, then serves until stdin ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
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
    config = KINDS[kind](int(argument))
    import uvloop

    uvloop.run(serve(config))


if __name__ == "__main__":
    main()
