"""The handler of a schedule."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict
from typing import Any

from adapter.hosted import Hosted, open_hosted
from adapter.tasks.clock import system_clock
from adapter.tasks.reconcile import Reconciler, Report
from lambdas.loop import Container
from lambdas.mcp.app import Context

logging.getLogger().setLevel(logging.INFO)

_MARGIN_MS = 5_000

_container = Container(open_hosted)


def handler(_event: object, context: Context) -> dict[str, Any]:
    """One run, which ends before the function's own time does; what it found is also a metric in the log."""
    until = system_clock() + context.get_remaining_time_in_millis() - _MARGIN_MS

    async def run(hosted: Hosted) -> Report:
        parts = hosted.parts
        reconciler = Reconciler(parts.service, parts.store, parts.engine)
        return await reconciler.run(parts.targets.values(), until=until)

    report = _container.run(run)
    print(json.dumps(_metric(report)))  # noqa: T201 - CloudWatch reads metrics from the log (embedded metric format)
    return {**asdict(report), "unlisted": len(report.unlisted)}


def _metric(report: Report) -> dict[str, Any]:
    metrics = [{"Name": name, "Unit": "Count"} for name in ("OpenTasks", "RefreshBacklog")]
    return {
        "_aws": {
            "Timestamp": int(time.time() * 1000),
            "CloudWatchMetrics": [
                {"Namespace": "McpWorkflowAdapter", "Dimensions": [[]], "Metrics": metrics}
            ],
        },
        "OpenTasks": report.open,
        "RefreshBacklog": report.backlog,
    }
