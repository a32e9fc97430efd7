"""What one request costs in the server: the adapter beside a constant reply and beside the official SDK, and a
legacy request beside a modern one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from adapter.mcp.exchange import Request
from bench import exchanges, load
from bench.processes import LOAD_CORE, Child, pinned, server
from bench.registry import Figure, measure, of_rounds, ratio_of_rounds

ROUNDS = 24
REQUESTS = 400
OF_CONSTANT = 1.8
OF_SDK = 0.25
LEGACY_OF_MODERN = 1.1
LEGACY_OF_SDK = 1 / 8

JOBS = {
    "tasks/get running": exchanges.tasks_get(exchanges.RUNNING),
    "tasks/get completed": exchanges.tasks_get(exchanges.COMPLETED),
    "tools/call as task": exchanges.tools_call(),
}
LEGACY_JOBS = {
    "legacy tasks/get running": exchanges.RUNNING,
    "legacy tasks/get completed": exchanges.COMPLETED,
}


@dataclass(slots=True)
class _Rounds:
    """What the rounds of one request to one server gave, in microseconds."""

    child: Child
    request: bytes
    worker: Executor
    cpu: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)

    def warm_up(self) -> bytes:
        """A round that does not count. Returns a reply."""
        return self._drive().body

    def run(self) -> None:
        before = self.child.cpu_seconds()
        report = self._drive()
        used = self.child.cpu_seconds() - before
        self.cpu.append(used / REQUESTS * 1e6)
        self.p50.append(report.percentile(50) * 1e6)
        self.p99.append(report.percentile(99) * 1e6)

    def _drive(self) -> load.Report:
        return self.worker.submit(load.drive, load.Plan(self.child.port, self.request, REQUESTS)).result()


@measure("dispatch")
def dispatch() -> Iterator[Figure]:
    """CPU per request, and latency with 8 requests in flight, for each job on each server."""
    for job, request in JOBS.items():
        yield from _figures(job, _measured(request))
    for job, task_id in LEGACY_JOBS.items():
        yield from _legacy_figures(job, _legacy_measured(task_id))


_Start = Callable[[str, str], Callable[[Request], _Rounds]]


@contextmanager
def _servers() -> Iterator[_Start]:
    """Starts servers, by kind and argument, that live as long as the context."""
    with ExitStack() as stack:
        worker = stack.enter_context(pinned(LOAD_CORE))

        def started(kind: str, argument: str) -> Callable[[Request], _Rounds]:
            child = stack.enter_context(server("bench.servers", kind, argument))
            return lambda request: _Rounds(child, exchanges.wire(request), worker)

        yield started


def _take_turns(rounds: Iterable[_Rounds]) -> None:
    taking_part = list(rounds)
    for one in taking_part:
        one.warm_up()
    for _ in range(ROUNDS):
        for one in taking_part:
            one.run()


def _measured(request: Request) -> dict[str, _Rounds]:
    with _servers() as started:
        adapter = started("adapter", "0")(request)
        reply = adapter.warm_up().decode()
        by_server = {
            "adapter": adapter,
            "constant JSON": started("json", reply)(request),
            "constant bytes": started("bytes", reply)(request),
            "official SDK": started("sdk", "0")(request),
        }
        _take_turns(by_server.values())
        return by_server


def _legacy_measured(task_id: str) -> dict[str, _Rounds]:
    legacy = exchanges.legacy("tasks/get", task_id, exchanges.legacy_session())
    with _servers() as started:
        adapter = started("adapter", "0")
        # Each of the adapter's rounds comes after one of another process, or the second would find the caches warm.
        by_way = {
            "adapter": adapter(legacy),
            "official SDK": started("sdk", "0")(legacy),
            "adapter, modern": adapter(exchanges.tasks_get(task_id)),
            "official SDK, events": started("sdk-events", "0")(legacy),
        }
        _take_turns(by_way.values())
        return by_way


def _figures(job: str, by_server: dict[str, _Rounds]) -> Iterator[Figure]:
    ours = by_server["adapter"].cpu
    yield ratio_of_rounds(f"{job}: CPU / constant JSON", ours, by_server["constant JSON"].cpu, OF_CONSTANT)
    yield ratio_of_rounds(f"{job}: CPU / constant bytes", ours, by_server["constant bytes"].cpu)
    yield ratio_of_rounds(f"{job}: CPU / official SDK", ours, by_server["official SDK"].cpu, OF_SDK)
    yield from _absolute(job, by_server)


def _legacy_figures(job: str, by_way: dict[str, _Rounds]) -> Iterator[Figure]:
    ours = by_way["adapter"].cpu
    yield ratio_of_rounds(f"{job}: CPU / modern", ours, by_way["adapter, modern"].cpu, LEGACY_OF_MODERN)
    for name in ("official SDK", "official SDK, events"):
        yield ratio_of_rounds(f"{job}: CPU / {name}", ours, by_way[name].cpu, LEGACY_OF_SDK)
    yield from _absolute(job, by_way)


def _absolute(job: str, by_name: dict[str, _Rounds]) -> Iterator[Figure]:
    for name, rounds in by_name.items():
        yield of_rounds(f"{job}: {name} CPU per request, us", rounds.cpu)
        yield of_rounds(f"{job}: {name} p50, us", rounds.p50)
        yield of_rounds(f"{job}: {name} p99, us", rounds.p99)
