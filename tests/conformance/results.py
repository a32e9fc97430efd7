"""What the suite found: its `checks.json`, and whether a scenario has passed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .scenarios import Run, Scenario

_GOOD = ("SUCCESS", "INFO", "SKIPPED")
_WIRE = "wire-schema-valid"
_MESSAGE_LIMIT = 600


@dataclass(frozen=True, slots=True)
class Check:
    """One check. The same id may occur several times in a scenario."""

    id: str
    status: str
    message: str

    @property
    def good(self) -> bool:
        return self.status in _GOOD


@dataclass(frozen=True, slots=True)
class Verdict:
    """A scenario at a version: what was checked, and every reason why it has not passed."""

    run: Run
    checks: tuple[Check, ...]
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        label = "pass" if self.passed else "FAIL"
        succeeded = sum(check.status == "SUCCESS" for check in self.checks)
        expected = sum(not check.good and check.id in self.run.scenario.expected for check in self.checks)
        note = f", {expected} expected to fail" if expected else ""
        head = f"{label}  {self.run.version}  {self.run.scenario.name} ({succeeded} checks succeeded{note})"
        return "\n".join([head, *(f"      {problem}" for problem in self.problems)])


def judge(run: Run, checks: Sequence[Check]) -> Verdict:
    """A scenario passes if something was checked and nothing failed or warned but what is expected to."""
    bad = [check for check in checks if not check.good]
    problems = [
        f"{check.status} {check.id}: {check.message}"
        for check in bad
        if check.id not in run.scenario.expected
    ]
    problems += _stale(run.scenario, {check.id for check in bad})
    if not any(check.status == "SUCCESS" and check.id != _WIRE for check in checks):
        problems.append("no check of its own succeeded")
    return Verdict(run, tuple(checks), tuple(problems))


def _stale(scenario: Scenario, bad: set[str]) -> list[str]:
    return [
        f"{check_id} is expected to fail ({reason}) and did not: strike it from the table"
        for check_id, reason in scenario.expected.items()
        if check_id not in bad
    ]


def broken(run: Run, output: str) -> Verdict:
    """The verdict on a run that left no checks behind; `output` is what the suite printed."""
    lines = [line.strip() for line in output.splitlines()]
    said = " | ".join([line for line in lines if line and not line.startswith("at ")][-5:]) or "nothing"
    return Verdict(run, (), (f"the suite wrote no checks; it said: {said}",))


def read_checks(folder: Path) -> list[Check] | None:
    """The checks that the suite wrote somewhere below `folder`, or None."""
    path = next(folder.rglob("checks.json"), None)
    return None if path is None else parse_checks(path.read_text(encoding="utf-8"))


def parse_checks(text: str) -> list[Check]:
    return [
        Check(entry["id"], entry["status"], _short(entry.get("errorMessage") or entry.get("description", "")))
        for entry in json.loads(text)
    ]


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _MESSAGE_LIMIT else f"{line[:_MESSAGE_LIMIT]}…"


def summary(verdicts: Sequence[Verdict]) -> str:
    passed = sum(verdict.passed for verdict in verdicts)
    checks = sum(check.status == "SUCCESS" for verdict in verdicts for check in verdict.checks)
    return f"{passed} passed, {len(verdicts) - passed} failed ({checks} checks succeeded)"
