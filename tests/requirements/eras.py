"""The table of differences between the eras: each row is proven for both.

A test says so with `@pytest.mark.era_rows("legacy", 33, 34)`; as with requirements, marks are read from the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field

from tests.requirements.registry import ERA_DIFFERENCES, TESTS, RegistryError, marks

MARK = "era_rows"
ERAS = ("legacy", "modern")
_Text = Annotated[str, Field(pattern=r"\S")]


class Row(BaseModel):
    """One behaviour, and what it is in 2025-11-25 and in 2026-07-28."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    row: Annotated[int, Field(gt=0)]
    behaviour: _Text
    legacy: _Text
    modern: _Text


def load(path: Path = ERA_DIFFERENCES) -> list[Row]:
    return [Row.model_validate(each) for each in yaml.safe_load(path.read_text(encoding="utf-8"))["rows"]]


def claims(tests: Path = TESTS) -> set[tuple[str, int]]:
    """Era and row of every mark in the `test_*.py` files below `tests`. Raises RegistryError for an odd mark."""
    return {
        claim
        for path in sorted(tests.rglob("test_*.py"))
        for claim in _claims_of(path, ast.parse(path.read_text(encoding="utf-8")))
    }


def _claims_of(path: Path, tree: ast.AST) -> Iterator[tuple[str, int]]:
    for mark in marks(tree, MARK):
        arguments = mark.args if isinstance(mark, ast.Call) else []
        values = [each.value for each in arguments if isinstance(each, ast.Constant)]
        era, rows = next(iter(values), None), values[1:]
        odd = len(values) != len(arguments) or not all(isinstance(row, int) for row in rows)
        if era not in ERAS or not rows or odd:
            raise RegistryError(f"{path}:{mark.lineno}: a mark names an era and the numbers of rows")
        yield from ((str(era), row) for row in rows if isinstance(row, int))


def problems(rows: list[Row], claimed: set[tuple[str, int]]) -> list[str]:
    """One sentence for each column without a test, and for each claim of a row that does not exist."""
    wanted = {(era, row.row): row for row in rows for era in ERAS}
    untested = [
        f"row {number} ({row.behaviour}) has no test for the {era} era: {getattr(row, era)}"
        for (era, number), row in wanted.items()
        if (era, number) not in claimed
    ]
    return untested + [f"row {row} of the {era} era does not exist" for era, row in claimed - wanted.keys()]
