"""What one request costs in the server: the adapter beside a constant reply and beside the official SDK."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field

from adapter.mcp.exchange import Request
from bench import exchanges, load
from bench.processes import LOAD_CORE, Child, pinned, server
from bench.registry import Figure, measure, of_rounds, ratio_of_rounds

ROUNDS = 24
REQUESTS = 400
OF_CONSTANT = 1.8
OF_SDK = 0.25

JOBS = {
    "tasks/get running": exchanges.tasks_get(exchanges.RUNNING),
    "tasks/get completed": exchanges.tasks_get(exchanges.COMPLETED),
    "tools/call as task": exchanges.tools_call(),
}


@dataclass(slots=True)
class _Rounds:
    """What the rounds of one server gave, in microseconds."""

    child: Child
    worker: Executor
    cpu: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)

    def warm_up(self, request: bytes) -> bytes:
        """A round that does not count. Returns a reply."""
        return self._drive(request).body

    def run(self, request: bytes) -> None:
        before = self.child.cpu_seconds()
        report = self._drive(request)
        used = self.child.cpu_seconds() - before
        self.cpu.append(used / REQUESTS * 1e6)
        self.p50.append(report.percentile(50) * 1e6)
        self.p99.append(report.percentile(99) * 1e6)

    def _drive(self, request: bytes) -> load.Report:
        return self.worker.submit(load.drive, load.Plan(self.child.port, request, REQUESTS)).result()


@measure("dispatch")
def dispatch() -> Iterator[Figure]:
    """CPU per request, and latency with 8 requests in flight, for each job on each server."""
    for job, request in JOBS.items():
        yield from _figures(job, _measured(request))


def _measured(request: Request) -> dict[str, _Rounds]:
    sent = exchanges.wire(request)
    with ExitStack() as stack:
        worker = stack.enter_context(pinned(LOAD_CORE))

        def started(kind: str, argument: str) -> _Rounds:
            return _Rounds(stack.enter_context(server("bench.servers", kind, argument)), worker)

        adapter = started("adapter", "0")
        reply = adapter.warm_up(sent).decode()
        by_server = {
            "adapter": adapter,
            "constant JSON": started("json", reply),
            "constant bytes": started("bytes", reply),
            "official SDK": started("sdk", "0"),
        }
        for rounds in by_server.values():
            rounds.warm_up(sent)
        for _ in range(ROUNDS):
            for rounds in by_server.values():
                rounds.run(sent)
        return by_server


def _figures(job: str, by_server: dict[str, _Rounds]) -> Iterator[Figure]:
    ours = by_server["adapter"].cpu
    yield ratio_of_rounds(f"{job}: CPU / constant JSON", ours, by_server["constant JSON"].cpu, OF_CONSTANT)
    yield ratio_of_rounds(f"{job}: CPU / constant bytes", ours, by_server["constant bytes"].cpu)
    yield ratio_of_rounds(f"{job}: CPU / official SDK", ours, by_server["official SDK"].cpu, OF_SDK)
    for name, rounds in by_server.items():
        yield of_rounds(f"{job}: {name} CPU per request, us", rounds.cpu)
        yield of_rounds(f"{job}: {name} p50, us", rounds.p50)
        yield of_rounds(f"{job}: {name} p99, us", rounds.p99)
