"""What was seen against what was to be seen, and the table of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .clients import CLIENTS, Client
from .driving import Told
from .flows import FLOWS, Flow

Verdict = Literal["pass", "FAIL", "n/a"]
_TASK_ID = re.compile(r"mcp-[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True)
class Cell:
    """One client in one flow. `remark`: why it is `n/a` or failed, or what to know of it."""

    client: str
    flow: str
    verdict: Verdict
    remark: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        line = f"{self.verdict:4}  {self.client:16}  {self.flow} ({self.seconds:.1f} s)"
        return f"{line}\n      {self.remark}" if self.verdict == "FAIL" else line


def judged(client: Client, flow: Flow, told: Told, seconds: float) -> Cell:
    """A flow passes if its driver saw what it was to see; an `n/a` needs what proves it."""
    problem = _problem(told, client.sees(flow))
    if problem is not None:
        return Cell(client.name, flow.name, "FAIL", problem, seconds)
    if flow.name in client.cannot:
        return Cell(client.name, flow.name, "n/a", client.cannot[flow.name], seconds)
    return Cell(client.name, flow.name, "pass", client.notes.get(flow.name, ""), seconds)


def _problem(told: Told, expected: Mapping[str, Any]) -> str | None:
    if told.broke is not None:
        return told.broke
    if told.seen is None:
        return "its driver told nothing"
    seen = _without_ids(told.seen)
    return None if seen == expected else f"saw {json.dumps(seen)}\n      not {json.dumps(dict(expected))}"


def _without_ids(seen: Mapping[str, Any]) -> Any:
    return json.loads(_TASK_ID.sub("TASK", json.dumps(dict(seen))))


def table(cells: Sequence[Cell]) -> str:
    """Clients down, flows across."""
    flows = _flows_of(cells)
    width = max(len(client.name) for client in CLIENTS)
    head = f"{'':{width}}  " + "  ".join(flows)
    rows = [
        f"{client:{width}}  " + "  ".join(f"{row.get(flow, ''):{len(flow)}}" for flow in flows)
        for client, row in _rows(cells)
    ]
    count = {verdict: sum(cell.verdict == verdict for cell in cells) for verdict in ("pass", "FAIL", "n/a")}
    total = ", ".join(f"{number} {verdict}" for verdict, number in count.items())
    return "\n".join([head, *(row.rstrip() for row in rows), "", total])


def markdown(cells: Sequence[Cell]) -> str:
    """The table for people who choose a client, with the remarks below it."""
    flows = [flow for flow in FLOWS if flow.name in _flows_of(cells)]
    remarks: list[str] = []
    lines = [_markdown_row(["Client", *(flow.title for flow in flows)]), "|---" * (len(flows) + 1) + "|"]
    by_place = {(cell.client, cell.flow): cell for cell in cells}
    for client in CLIENTS:
        row = [by_place.get((client.name, flow.name)) for flow in flows]
        if any(row):
            lines.append(_markdown_row([client.title, *(_marked(cell, remarks) for cell in row)]))
    notes = [f"{number}. {remark}" for number, remark in enumerate(remarks, 1)]
    return "\n".join([*lines, "", *notes])


def _marked(cell: Cell | None, remarks: list[str]) -> str:
    if cell is None:
        return ""
    mark = {"pass": "yes", "FAIL": "**no**", "n/a": "-"}[cell.verdict]
    if not cell.remark or cell.verdict == "FAIL":
        return mark
    if cell.remark not in remarks:
        remarks.append(cell.remark)
    return f"{mark} ({remarks.index(cell.remark) + 1})"


def _markdown_row(values: Iterable[str]) -> str:
    return f"| {' | '.join(values)} |"


def _flows_of(cells: Sequence[Cell]) -> list[str]:
    there = {cell.flow for cell in cells}
    return [flow.name for flow in FLOWS if flow.name in there]


def _rows(cells: Sequence[Cell]) -> Iterator[tuple[str, dict[str, Verdict]]]:
    for client in CLIENTS:
        row = {cell.flow: cell.verdict for cell in cells if cell.client == client.name}
        if row:
            yield client.name, row


def dumped(cells: Sequence[Cell]) -> str:
    return json.dumps([asdict(cell) for cell in cells], indent=1) + "\n"


def loaded(text: str) -> list[Cell]:
    return [Cell(**cell) for cell in json.loads(text)]
