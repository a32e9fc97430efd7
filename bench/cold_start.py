"""The mcp function in Lambda: a cold start and warm invocations, beside the same function on the SDK and Mangum.

All run under the real runtime client, in processes of their own, against a stand-in for DynamoDB. The floor is a
function that does what none of them can do without; it is measured alone and taken off both.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.exchanges import RUNNING, TARGET, tasks_get
from bench.processes import LOAD_CORE, SERVER_CORE, Child, pin, server
from bench.registry import Figure, measure, of_rounds
from tests.lambdas.hosting import event_of
from tests.lambdas.runtime_api import RunningFunction, running

COLD_ROUNDS = 11
WARM_ROUNDS = 40
INVOCATIONS = 100
OF_SDK_COLD = 1 / 3
OF_SDK_WARM = 1 / 4

HANDLERS = {
    "adapter": "lambdas.mcp.app.handler",
    "sdk": "bench.sdk_function.handler",
    "floor": "bench.floor_function.handler",
}
TOOLS = f"tools: [{{name: nightly_report, description: Builds the report., state_machine: '{TARGET}'}}]\n"


@dataclass(slots=True)
class _Rounds:
    """Milliseconds: of a cold start, and of a warm invocation."""

    cold: list[float] = field(default_factory=list)
    cold_cpu: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    warm_cpu: list[float] = field(default_factory=list)


@measure("lambda")
def cold_start() -> Iterator[Figure]:
    """Process start to the first `tasks/get` answered, and the invocations after that."""
    rounds = {name: _Rounds() for name in HANDLERS}
    with server("bench.dynamodb_stub", core=LOAD_CORE) as stub, TemporaryDirectory() as root:
        Path(root, "tools.yaml").write_text(TOOLS)
        environment = _environment(stub, root)
        for number in range(COLD_ROUNDS + 1):
            for name, of in rounds.items():
                cold, cpu = _cold(name, environment)
                if number:  # the first fills the page cache
                    of.cold.append(cold)
                    of.cold_cpu.append(cpu)
        _warm(rounds, environment)
    yield from _figures(rounds)


def _environment(stub: Child, root: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{stub.port}",
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "example",
        "LAMBDA_TASK_ROOT": root,
        "ADAPTER_SIGNING_KEYS": "0123456789abcdef0123456789abcdef",
        "ADAPTER_REQUIRE_IDENTITY": "false",
    }


def _cold(name: str, environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU time of a whole start; the floor answers without asking DynamoDB."""
    started = time.perf_counter()
    with running(HANDLERS[name], environment, prepare=lambda: pin(SERVER_CORE)) as function:
        _answered(function, _event(query=False))
        wall = time.perf_counter() - started
        return wall * 1000, Child(function.process.pid, 0).cpu_seconds() * 1000


def _warm(rounds: dict[str, _Rounds], environment: dict[str, str]) -> None:
    with ExitStack() as stack:
        functions = {
            name: stack.enter_context(running(handler, environment, prepare=lambda: pin(SERVER_CORE)))
            for name, handler in HANDLERS.items()
        }
        for number in range(WARM_ROUNDS + 1):
            for name, function in functions.items():
                wall, cpu = _invocations(function, _event(query=True))
                if number:
                    rounds[name].warm.append(wall)
                    rounds[name].warm_cpu.append(cpu)


def _invocations(function: RunningFunction, event: object) -> tuple[float, float]:
    """The median wall time, and the CPU time, of one invocation."""
    child = Child(function.process.pid, 0)
    walls = []
    before = child.cpu_seconds()
    for _ in range(INVOCATIONS):
        started = time.perf_counter()
        _answered(function, event)
        walls.append(time.perf_counter() - started)
    cpu = child.cpu_seconds() - before
    return statistics.median(walls) * 1000, cpu / INVOCATIONS * 1000


def _event(*, query: bool) -> dict[str, Any]:
    """`query` is for the floor alone; the others ask in any case."""
    return {**event_of(tasks_get(RUNNING), "function_url_none"), "query": query}


def _answered(function: RunningFunction, event: object) -> None:
    reply = function.api.invoke(event)
    assert reply["statusCode"] == 200, reply
    assert json.loads(reply["body"])["result"]["status"] == "working", reply["body"]


def _figures(rounds: dict[str, _Rounds]) -> Iterator[Figure]:
    for what, limit in (("cold", OF_SDK_COLD), ("warm", OF_SDK_WARM)):
        for kind in ("", "_cpu"):
            times = {name: getattr(of, what + kind) for name, of in rounds.items()}
            label = f"lambda {what} {'CPU' if kind else 'time'}"
            target = limit if (what, kind) in (("cold", ""), ("warm", "_cpu")) else None
            yield _ratio(f"{label} above the floor: adapter / SDK + Mangum", times, target)
            for name, values in times.items():
                yield of_rounds(f"{label}: {name}, ms", values)


def _ratio(name: str, times: dict[str, list[float]], target: float | None) -> Figure:
    """Of the fastest quarter of the rounds: what else the machine does makes the differences of medians jump."""
    ours, sdk, floor = (statistics.quantiles(times[who])[0] for who in ("adapter", "sdk", "floor"))
    return Figure(name, (ours - floor) / (sdk - floor), target)
