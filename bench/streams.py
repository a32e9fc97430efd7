"""Many open `subscriptions/listen` streams, each on a running task of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
import uvloop

from adapter.settings import Settings
from bench.adapter_server import many
from bench.exchanges import listen, wire
from bench.processes import LOAD_CORE, Child, allow_open_files, pinned, server
from bench.registry import Figure, measure

STREAMS = 2_000
STEADY_SECONDS = 10.0
WARM_UP = 50
DEADLINE = 60.0
AT_ONCE = 50
"""Streams that are being opened at the same time."""

_ACKNOWLEDGED = b"notifications/subscriptions/acknowledged"
_COMPLETED = b'"status":"completed"'
_END_OF_BODY = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Observed:
    """What happened, in bytes, seconds and counts."""

    bytes_per_stream: float
    open_seconds: float
    reads_per_second: float
    cpu_share: float
    told_of_the_end: int
    end_seconds: float


@measure("streams")
def streams() -> Iterator[Figure]:
    """Memory, reads and CPU while nothing happens; then every task ends, as told by status events."""
    with pinned(LOAD_CORE) as worker, server("bench.servers", "adapter", str(STREAMS)) as child:
        seen = worker.submit(observe, child).result()
    watch_max = Settings.model_validate({}).watch_max
    yield Figure("streams: RSS per stream, KiB", seen.bytes_per_stream / 1024)
    yield Figure("streams: all open after, s", seen.open_seconds)
    # A task is read once per pause, however many follow it; a tenth more for those that fall due at the edges.
    yield Figure("streams: reads per second", seen.reads_per_second, STREAMS / watch_max * 1.1)
    yield Figure("streams: CPU in steady state, percent of a core", seen.cpu_share * 100)
    yield Figure("streams: not told of the end of their task", STREAMS - seen.told_of_the_end, 0)
    yield Figure("streams: all told of the end after, s", seen.end_seconds, watch_max * 2)


def observe(child: Child) -> Observed:
    """Raises TimeoutError where streams do not open or end in time."""
    allow_open_files(STREAMS + 1_000)
    return uvloop.run(_observe(child))


async def _observe(child: Child) -> Observed:
    requests = [wire(listen([task_id])) for task_id in many(STREAMS)]
    await close_streams(await open_streams(child.port, requests[:WARM_UP], _ACKNOWLEDGED))
    resident = child.resident_bytes()
    started = time.monotonic()
    opened = await open_streams(child.port, requests, _ACKNOWLEDGED)
    open_seconds = time.monotonic() - started
    # Every stream's first pause has to be over before the reads are steady.
    await asyncio.sleep(Settings.model_validate({}).watch_max)
    grown = child.resident_bytes() - resident
    reads, cpu, since = await ask(child.port, "GET", "reads"), child.cpu_seconds(), time.monotonic()
    await asyncio.sleep(STEADY_SECONDS)
    seconds = time.monotonic() - since
    reads, cpu = await ask(child.port, "GET", "reads") - reads, child.cpu_seconds() - cpu
    since = time.monotonic()
    await ask(child.port, "POST", "end")
    async with asyncio.timeout(DEADLINE):
        told = await asyncio.gather(*(stream.read_to_end(_COMPLETED) for stream in opened))
    end_seconds = time.monotonic() - since
    await close_streams(opened)
    return Observed(grown / STREAMS, open_seconds, reads / seconds, cpu / seconds, sum(told), end_seconds)


class Stream:
    """One streamed reply that has begun."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def read_to_end(self, expected: bytes) -> bool:
        """Whether this was sent before the stream ended."""
        body = await self._reader.readuntil(_END_OF_BODY)
        return expected in body


async def open_streams(port: int, requests: list[bytes], begun: bytes) -> list[Stream]:
    """A connection per request, each read as far as `begun`. Raises TimeoutError."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(request: bytes) -> Stream:
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            await reader.readuntil(begun)
            return Stream(reader, writer)

    async with asyncio.timeout(DEADLINE):
        return list(await asyncio.gather(*map(one, requests)))


async def close_streams(opened: list[Stream]) -> None:
    for stream in opened:
        stream.writer.close()
    await asyncio.gather(*(stream.writer.wait_closed() for stream in opened))


async def ask(port: int, method: str, what: str) -> int:
    """The number that a path of `bench.adapter_server` replies with."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} /bench/{what} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode())
    _, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(orjson.loads(body))
