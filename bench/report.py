"""Figures as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from bench.registry import Figure


def table(figures: Sequence[Figure]) -> Table:
    shown = Table("figure", "target", title="median of rounds (smallest to largest round)")
    for heading in ("value", "spread"):
        shown.add_column(heading, justify="right")
    shown.add_column("")
    for figure in figures:
        target = "" if figure.target is None else f"<= {number(figure.target)}"
        spread = "" if figure.spread is None else " to ".join(map(number, figure.spread))
        verdict = "" if figure.target is None else "ok" if figure.ok else "[red]missed[/]"
        shown.add_row(figure.name, target, number(figure.value), spread, verdict)
    return shown


def number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"
