"""What one request costs in the server: the adapter beside a constant reply and beside the official SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from adapter.mcp.exchange import Request
from bench import exchanges, load
from bench.processes import LOAD_CORE, Child, run_pinned, server
from bench.registry import Figure, measure, of_rounds, ratio_of_rounds

ROUNDS = 7
REQUESTS = 2_500
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
    cpu: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)

    def run(self, request: bytes, *, counts: bool = True) -> bytes:
        plan = load.Plan(self.child.port, request, REQUESTS if counts else REQUESTS // 5)
        before = self.child.cpu_seconds()
        report = run_pinned(LOAD_CORE, load.drive, plan)
        used = self.child.cpu_seconds() - before
        if counts:
            self.cpu.append(used / plan.count * 1e6)
            self.p50.append(report.percentile(50) * 1e6)
            self.p99.append(report.percentile(99) * 1e6)
        return report.body


@measure("dispatch")
def dispatch() -> Iterator[Figure]:
    """CPU per request, and latency with 8 requests in flight, for each job on each server."""
    for job, request in JOBS.items():
        yield from _figures(job, _measured(request))


def _measured(request: Request) -> dict[str, _Rounds]:
    sent = exchanges.wire(request)
    with ExitStack() as stack:
        ours = _Rounds(stack.enter_context(server("bench.servers", "adapter", "0")))
        size = str(len(ours.run(sent, counts=False)))
        constant = _Rounds(stack.enter_context(server("bench.servers", "constant", size)))
        sdk = _Rounds(stack.enter_context(server("bench.servers", "sdk", "0")))
        for one in (constant, sdk):
            one.run(sent, counts=False)
        for _ in range(ROUNDS):
            for one in (ours, constant, sdk):
                one.run(sent)
        return {"adapter": ours, "constant": constant, "sdk": sdk}


def _figures(job: str, by_server: dict[str, _Rounds]) -> Iterator[Figure]:
    ours = by_server["adapter"]
    yield ratio_of_rounds(f"{job}: CPU of constant reply", ours.cpu, by_server["constant"].cpu, OF_CONSTANT)
    yield ratio_of_rounds(f"{job}: CPU of official SDK", ours.cpu, by_server["sdk"].cpu, OF_SDK)
    for name, rounds in by_server.items():
        yield of_rounds(f"{job}: {name} CPU per request, us", rounds.cpu)
        yield of_rounds(f"{job}: {name} p50, us", rounds.p50)
        yield of_rounds(f"{job}: {name} p99, us", rounds.p99)
