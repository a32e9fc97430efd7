"""Status at account scale (D7): many tasks polled through several instances, with the quotas of one account.

    python -m bench.scale [--full] [--plot FILE.svg]

The service, the engine, the reconciler and the event function are the real ones; time, Step Functions and the event
bus are simulated (see `bench.simulated`), the table is in memory. Ten minutes of 10,000 tasks with a tenth of an
account's quotas: with events of which 1 % are lost; without any; without any, but tasks that take longer. With
`--full` 100,000 tasks and all of the quotas, and also with events, but no process knows the quota.
Exit status: 0 when every target is met, 1 when one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.plot import distribution
from bench.registry import Figure, measure
from bench.report import table
from bench.simulated import percentiles
from bench.simulation import Plan, Result, simulate

PERCENTS = (50, 99, 100)
TOLD_SECONDS = 2.0
RUN_SECONDS = 20.0
"""How long a run of the reconciler may take until it has found what ended before it: two lists, a pause, the looks."""
RUNS: dict[str, dict[str, Any]] = {
    "with events": {},
    "without events": {"events": False},
    "without events, long tasks": {"events": False, "shortest": 600.0, "longest": 86_400.0},
}
MORE_RUNS: dict[str, dict[str, Any]] = {"quota unknown": {"budgeted": False}}


@measure("scale")
def scale() -> Iterator[Figure]:
    """The runs with a tenth of the tasks and quotas."""
    for name, result in simulated(Plan(), RUNS).items():
        yield from figures(name, result)


def simulated(plan: Plan, runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Result]:
    """What came of each run."""
    results = {}
    for name, changes in runs.items():
        results[name] = simulate(replace(plan, **changes))
        print(f"{name}: {results[name].polls:,} polls, {results[name].seconds:.0f} s of CPU", file=sys.stderr)
    return results


def figures(name: str, result: Result) -> Iterator[Figure]:
    """The targets are those of tasks whose events come, where processes know the quota."""
    targeted = result.plan.events and result.plan.budgeted
    yield Figure(f"{name}: errors told to clients", sum(result.failures.values()), 0)
    yield Figure(f"{name}: DescribeExecution calls", result.calls["DescribeExecution"])
    yield Figure(f"{name}: DescribeExecution calls throttled", result.throttled["DescribeExecution"])
    yield Figure(f"{name}: tasks that ended", len(result.ended))
    for percent, seconds in zip(PERCENTS, percentiles(result.staleness(), *PERCENTS), strict=True):
        yield Figure(f"{name}: end to the poll that shows it, p{percent}, s", seconds)
    if result.plan.events:
        target = TOLD_SECONDS if targeted else None
        yield Figure(f"{name}: a poll still says working after the event, s", result.after_event, target)
        lost = result.until_written(result.lost_long_ago)
        target = result.plan.reconcile_seconds + RUN_SECONDS if targeted else None
        yield Figure(f"{name}: events lost", len(lost))
        for percent, seconds in zip(PERCENTS, percentiles(lost, *PERCENTS), strict=True):
            limit = target if percent == 100 else None
            yield Figure(f"{name}: end to its record, event lost, p{percent}, s", seconds, limit)


def plot(results: dict[str, Result], path: Path) -> None:
    lines = {
        "with events": results["with events"].staleness(),
        "event lost": results["with events"].staleness(results["with events"].lost_long_ago),
        "without events, long tasks": results["without events, long tasks"].staleness(),
        "without events": results["without events"].staleness(),
    }
    tasks = results["with events"].plan.tasks
    path.write_text(
        distribution(f"{tasks:,} tasks: from the end of the work to the poll that shows it", lines)
    )


def main(arguments: list[str]) -> int:
    full = "--full" in arguments
    plan = Plan(tasks=100_000, scale=1.0) if full else Plan()
    results = simulated(plan, {**RUNS, **MORE_RUNS} if full else RUNS)
    shown = [figure for name, result in results.items() for figure in figures(name, result)]
    Console(width=110).print(table(shown))
    if "--plot" in arguments:
        plot(results, Path(arguments[arguments.index("--plot") + 1]))
    return 0 if all(figure.ok for figure in shown) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
