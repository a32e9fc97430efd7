"""Runs the measures, ends with a table and writes `bench/results/latest.json`.

    python -m bench.run [MEASURE ...]

Exit status: 0 when every target is met, 1 when one is missed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

import bench.blocked
import bench.cold_start
import bench.dispatch
import bench.end_to_end
import bench.imports
import bench.scale
import bench.streams  # noqa: F401 - each registers its measures
from bench.registry import MEASURES, Figure
from bench.report import table

RESULTS = Path(__file__).parent / "results" / "latest.json"


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in MEASURES]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(MEASURES)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    for name in names or MEASURES:
        started = time.monotonic()
        figures.extend(MEASURES[name]())
        print(f"{name}: measured in {time.monotonic() - started:.0f} s", file=sys.stderr)
    Console().print(table(figures))
    write(figures)
    return 0 if all(figure.ok for figure in figures) else 1


def write(figures: Sequence[Figure]) -> None:
    rows = [{"name": f.name, "value": round(f.value, 4), "target": f.target, "ok": f.ok} for f in figures]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
