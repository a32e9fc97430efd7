"""A closed-loop HTTP client that costs little: raw sockets, one request in flight per connection."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from time import perf_counter
from typing import cast

import httptools
import uvloop


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send: the same bytes, `count` times in all, giving up after `seconds`."""

    port: int
    request: bytes
    count: int
    connections: int = 8
    seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Report:
    """What came back. Latencies are seconds, sorted."""

    latencies: list[float]
    body: bytes
    """The last reply."""

    def percentile(self, percent: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * percent / 100))]


def drive(plan: Plan) -> Report:
    """Raises RuntimeError for a reply that is no success, and TimeoutError."""
    return uvloop.run(_drive(plan))


async def _drive(plan: Plan) -> Report:
    run = _Run(plan, asyncio.get_running_loop().create_future())
    connect = asyncio.get_running_loop().create_connection
    opened = [
        await connect(lambda: _Connection(run), "127.0.0.1", plan.port) for _ in range(plan.connections)
    ]
    try:
        async with asyncio.timeout(plan.seconds):
            for _, connection in opened:
                connection.send()
            await run.done
    finally:
        for transport, _ in opened:
            transport.close()
    return Report(sorted(run.latencies), run.body)


class _Run:
    """What the connections share."""

    def __init__(self, plan: Plan, done: asyncio.Future[None]) -> None:
        self.request = plan.request
        self.count = plan.count
        self.unsent = plan.count
        self.latencies: deque[float] = deque()
        self.body = b""
        self.done = done

    def failed(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(reason))

    def answered(self, seconds: float, status: int, body: bytes) -> None:
        if status != 200 or b'"error"' in body:
            self.failed(f"reply {status}: {body[:500]!r}")
        self.latencies.append(seconds)
        self.body = body
        if len(self.latencies) == self.count and not self.done.done():
            self.done.set_result(None)


class _Connection(asyncio.Protocol):
    def __init__(self, run: _Run) -> None:
        self._run = run
        self._parser = httptools.HttpResponseParser(self)
        self._body = b""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        if self._run.unsent > 0:
            self._run.unsent -= 1
            self._sent_at = perf_counter()
            self._transport.write(self._run.request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.failed(f"the server closed a connection: {exc}")

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        self._run.answered(perf_counter() - self._sent_at, status, self._body)
        self.send()
