"""The handler of a schedule."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import asdict
from typing import Any

from adapter.tasks.clock import system_clock
from adapter.tasks.reconcile import Reconciler, Report
from lambdas.context import Context
from lambdas.hosted import open_unattended
from lambdas.loop import Container

logging.getLogger("adapter").setLevel(logging.INFO)

_MARGIN_MS = 5_000

_container = Container(open_unattended)


def handler(_event: object, context: Context) -> dict[str, Any]:
    """One run, which ends before the function's own time does. What it found is one line in the log, also as metrics:
    a schedule drops what is returned.
    """
    until = system_clock() + context.get_remaining_time_in_millis() - _MARGIN_MS

    async def run(reconciler: Reconciler) -> Report:
        return await reconciler.run(until=until)

    report = _container.run(run)
    print(json.dumps(_line(report)))  # noqa: T201 - CloudWatch reads metrics from the log (embedded metric format)
    return asdict(report)


def _line(report: Report) -> dict[str, Any]:
    metrics = {
        "OpenTasks": report.open,
        "RefreshBacklog": report.backlog,
        "UnlistedStateMachines": len(report.unlisted),
    }
    directive = {
        "Namespace": "McpWorkflowAdapter",
        "Dimensions": [["Table"]],
        "Metrics": [{"Name": name, "Unit": "Count"} for name in metrics],
    }
    return {
        "_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]},
        "Table": os.environ["ADAPTER_TABLE"],
        **metrics,
        **asdict(report),
    }
