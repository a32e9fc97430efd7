"""One HTTP server process: its socket, its signals, its end."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from adapter.errors import ConfigurationError
from adapter.http.app import create_app
from adapter.main import Parts
from adapter.mcp.endpoint import Endpoint
from adapter.settings import Settings
from adapter.stdio.pipes import serve_stdio
from adapter.tasks.watcher import Watcher

from .signals import handled
from .wishes import Wishes

_BACKLOG = 2048
_STREAMS_END_SECONDS = 2
_KEEP_ALIVE_SECONDS = 75
"""Longer than the 60 s for which load balancers keep connections: who closes first must not be the server."""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ConfigurationError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (while ")[0]
        raise ConfigurationError(
            f"cannot listen on {host} port {port}: {reason}; choose another with --port"
        ) from None


def url_of(listener: socket.socket, path: str) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def log_to_stderr(level: int) -> None:
    logging.basicConfig(
        level=level,
        stream=sys.stderr,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
        force=True,
    )
    for noisy in ("uvicorn", "botocore", "aiobotocore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def run(main: Coroutine[None, None, None]) -> None:
    """Run to its end on uvloop, where there is one."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop


async def serve(
    parts: Parts,
    settings: Settings,
    listener: socket.socket,
    *,
    origins: Sequence[str],
    on_ready: Callable[[], None],
) -> None:
    """Serve `parts` until a signal; `on_ready` is called once requests are taken."""

    @asynccontextmanager
    async def endpoint() -> AsyncIterator[Endpoint]:
        yield parts.endpoint

    config = uvicorn.Config(
        create_app(endpoint, path=settings.path, origins=origins),
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_STREAMS_END_SECONDS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    await _Server(config, parts.watcher, on_ready).serve([listener])


async def serve_pipes(parts: Parts) -> None:
    """Serve `parts` over standard input and output until the input ends, or a signal comes."""
    wishes = Wishes()
    with wishes.heard():
        await serve_stdio(parts.endpoint, wishes.to_end)


class _Server(uvicorn.Server):
    """Tells when it is ready, and lets open streams end with their result before it waits for connections."""

    def __init__(self, config: uvicorn.Config, watcher: Watcher, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._watcher = watcher
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._watcher.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """As uvicorn's own, but a signal that ended the server is not raised again."""
        with handled(self.handle_exit):
            yield
