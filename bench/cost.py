"""What a million tasks cost at list prices, from calls that were counted: `python -m bench.cost` prints a table.

Tasks of five minutes are polled at several intervals in the simulation of `bench.simulation`, events on. Not counted:
data transfer, logs, traces, and whatever the state machines themselves use.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from adapter.stores import _items
from adapter.tasks.model import TaskRecord
from bench.simulated import MACHINE
from bench.simulation import OWNER, Plan, Result, simulate
from tests.package.stack import Stack

TASKS = 1_000_000
JOB_SECONDS = 300.0
INTERVALS = (1.0, 5.0, 30.0)

# List prices of us-east-1 in US dollars.
REST_REQUEST = 3.50e-6
HTTP_REQUEST = 1.00e-6
LAMBDA_REQUEST = 0.20e-6
LAMBDA_GB_SECOND = 0.0000133334  # arm64
WRITE_UNIT = 0.625e-6
READ_UNIT = 0.125e-6
TRANSITION = 25e-6

TRANSITIONS = 5
START_SECONDS = 0.120
POLL_SECONDS = 0.040
EVENT_SECONDS = 0.030
INDEXED = frozenset({"create", "latch_seen"})
"""Writes that also add to or take from the index of open tasks."""


@dataclass(frozen=True, slots=True)
class PerTask:
    """Counted, for one task."""

    polls: float
    events: float
    write_units: float
    read_units: float
    describes: float


def counted(poll_seconds: float) -> PerTask:
    """From tasks that all take as long, polled at this interval."""
    plan = Plan(
        tasks=500,
        scale=0.05,
        seconds=1200,
        poll_seconds=poll_seconds,
        shortest=JOB_SECONDS,
        longest=JOB_SECONDS,
        instances=4,
    )
    return per_task(simulate(plan))


def per_task(result: Result) -> PerTask:
    ended = len(result.ended)
    record = ceil(size(_record()) / 1024)
    writes = {name: count for name, count in result.store.items() if name != "read"}
    units = sum(count * record for count in writes.values())
    units += sum(count for name, count in writes.items() if name in INDEXED)
    return PerTask(
        polls=result.polls / ended,
        events=1 - result.plan.lost,
        write_units=units / ended,
        read_units=result.store["read"] * ceil(size(_record()) / 4096) / ended,
        describes=result.calls["DescribeExecution"] / ended,
    )


def size(item: Mapping[str, Any]) -> int:
    """Bytes of an item as DynamoDB counts them: names and values; a number takes half its digits."""
    return sum(len(name) + _value_size(value) for name, value in item.items())


def _value_size(value: Mapping[str, str]) -> int:
    ((kind, text),) = value.items()
    return ceil(len(text) / 2) + 1 if kind == "N" else len(text.encode())


def _record() -> Mapping[str, Any]:
    name = "mcp-" + "x" * 22
    record = TaskRecord(
        task_id=name,
        owner=OWNER,
        tool="nightly_report",
        engine="step_functions",
        target=MACHINE,
        execution=f"{MACHINE.replace(':stateMachine:', ':execution:')}:{name}",
        created_at=1_800_000_000_000,
        ttl_ms=86_400_000,
        poll_ms=5_000,
    )
    return _items.new_record(record, refresh_at=0) | {"op": _items.string("0" * 16)}


def dollars(task: PerTask) -> dict[str, float]:
    """For a million tasks, by service."""
    requests = task.polls + 1
    compute = (START_SECONDS + task.polls * POLL_SECONDS) * _gigabytes("Mcp")
    compute += task.events * EVENT_SECONDS * _gigabytes("ExecutionStatus")
    invocations = requests + task.events
    parts = {
        "API Gateway": requests * REST_REQUEST,
        "Lambda": invocations * LAMBDA_REQUEST + compute * LAMBDA_GB_SECOND,
        "DynamoDB": task.write_units * WRITE_UNIT + task.read_units * READ_UNIT,
        "Step Functions": TRANSITIONS * TRANSITION,
    }
    return {name: part * TASKS for name, part in parts.items()}


def _gigabytes(function: str) -> float:
    """The memory that the template gives to a function."""
    return int(Stack("template.yaml", SamplePipelines="true").resource(function)["MemorySize"]) / 1024


def main() -> int:
    head = ["polled every", "polls", "Describe", "writes", "reads", "API Gateway", "Lambda", "DynamoDB"]
    head += ["Step Functions", "total", "with an HTTP API"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for interval in INTERVALS:
        task = counted(interval)
        parts = dollars(task)
        total = sum(parts.values())
        cheaper = total - parts["API Gateway"] * (1 - HTTP_REQUEST / REST_REQUEST)
        counts = [task.polls, task.describes, task.write_units, task.read_units]
        row = [f"{interval:.0f} s", *(f"{count:.1f}" for count in counts)]
        row += [f"${part:,.0f}" for part in (*parts.values(), total, cheaper)]
        print("| " + " | ".join(row) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
