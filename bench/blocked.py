"""Many clients of 2025-11-25 blocked in `tasks/result`, several on each task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import uvloop

from adapter.settings import Settings
from bench.adapter_server import many
from bench.exchanges import legacy, legacy_session, wire
from bench.processes import LOAD_CORE, Child, allow_open_files, pinned, server
from bench.registry import Figure, measure
from bench.streams import DEADLINE, STEADY_SECONDS, WARM_UP, ask, close_streams, open_streams

CLIENTS = 1_000
TASKS = 100

_PRIMED = b"retry: "
_RESULT = b'"result":{"content"'


@dataclass(frozen=True, slots=True)
class Observed:
    """What happened, in bytes, seconds and counts."""

    bytes_per_client: float
    reads_per_second: float
    cpu_share: float
    given_the_result: int
    end_seconds: float
    end_reads: int


@measure("blocked")
def blocked() -> Iterator[Figure]:
    """Memory and reads of the store while nothing happens; then every task ends."""
    with pinned(LOAD_CORE) as worker, server("bench.servers", "adapter", str(TASKS)) as child:
        seen = worker.submit(observe, child).result()
    watch_max = Settings.model_validate({}).watch_max
    own_loops = CLIENTS / watch_max
    yield Figure("blocked: RSS per client, KiB", seen.bytes_per_client / 1024)
    yield Figure("blocked: reads of the store per second", seen.reads_per_second, TASKS / watch_max * 1.1)
    yield Figure("blocked: reads / those of a loop per client", seen.reads_per_second / own_loops)
    yield Figure("blocked: CPU in steady state, percent of a core", seen.cpu_share * 100)
    yield Figure("blocked: not given their result", CLIENTS - seen.given_the_result, 0)
    yield Figure("blocked: all given their result after, s", seen.end_seconds, watch_max * 2)
    yield Figure("blocked: reads of the store at the end, per client", seen.end_reads / CLIENTS)


def observe(child: Child) -> Observed:
    """Raises TimeoutError where replies do not begin or end in time."""
    allow_open_files(CLIENTS + 1_000)
    return uvloop.run(_observe(child))


async def _observe(child: Child) -> Observed:
    requests = _requests()
    await close_streams(await open_streams(child.port, requests[:WARM_UP], _PRIMED))
    resident = child.resident_bytes()
    waiting = await open_streams(child.port, requests, _PRIMED)
    # Every task's first pause has to be over before the reads are steady.
    await asyncio.sleep(Settings.model_validate({}).watch_max)
    grown = child.resident_bytes() - resident
    reads, cpu, since = await _reads(child), child.cpu_seconds(), time.monotonic()
    await asyncio.sleep(STEADY_SECONDS)
    seconds = time.monotonic() - since
    reads, cpu = await _reads(child) - reads, child.cpu_seconds() - cpu
    before_end, since = await _reads(child), time.monotonic()
    await ask(child.port, "POST", "end")
    async with asyncio.timeout(DEADLINE):
        given = await asyncio.gather(*(stream.read_to_end(_RESULT) for stream in waiting))
    end_seconds = time.monotonic() - since
    end_reads = await _reads(child) - before_end
    await close_streams(waiting)
    return Observed(grown / CLIENTS, reads / seconds, cpu / seconds, sum(given), end_seconds, end_reads)


def _requests() -> list[bytes]:
    """Each client has a session of its own."""
    task_ids = many(TASKS)
    return [
        wire(legacy("tasks/result", task_ids[number % TASKS], legacy_session())) for number in range(CLIENTS)
    ]


async def _reads(child: Child) -> int:
    return await ask(child.port, "GET", "reads")
