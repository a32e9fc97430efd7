"""The handler of a schedule."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from adapter.tasks.clock import system_clock
from adapter.tasks.reconcile import Reconciler, Report
from lambdas.context import Context
from lambdas.hosted import open_unattended
from lambdas.loop import Container

logging.getLogger("adapter").setLevel(logging.INFO)

_MARGIN_MS = 5_000


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Reconciler, Collection[str]]]:
    """The reconciler and the targets whose executions it lists."""
    async with open_unattended() as parts:
        yield Reconciler(parts.service, parts.store, parts.engine), parts.targets.values()


_container = Container(opened)


def handler(_event: object, context: Context) -> dict[str, Any]:
    """One run, which ends before the function's own time does; what it found is also a metric in the log."""
    until = system_clock() + context.get_remaining_time_in_millis() - _MARGIN_MS

    async def run(parts: tuple[Reconciler, Collection[str]]) -> Report:
        reconciler, targets = parts
        return await reconciler.run(targets, until=until)

    report = _container.run(run)
    print(json.dumps(_metric(report)))  # noqa: T201 - CloudWatch reads metrics from the log (embedded metric format)
    return {**asdict(report), "unlisted": len(report.unlisted)}


def _metric(report: Report) -> dict[str, Any]:
    metrics = [{"Name": name, "Unit": "Count"} for name in ("OpenTasks", "RefreshBacklog")]
    return {
        "_aws": {
            "Timestamp": int(time.time() * 1000),
            "CloudWatchMetrics": [
                {"Namespace": "McpWorkflowAdapter", "Dimensions": [["Table"]], "Metrics": metrics}
            ],
        },
        "Table": os.environ["ADAPTER_TABLE"],
        "OpenTasks": report.open,
        "RefreshBacklog": report.backlog,
    }
