"""The measures of `bench.run`: a function that yields figures, registered under a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; its unit, if it has one, ends its name. `target` is the most that it may be."""

    name: str
    value: float
    target: float | None = None
    spread: tuple[float, float] | None = None
    """The smallest and largest round behind the median `value`."""

    @property
    def ok(self) -> bool:
        return self.target is None or self.value <= self.target


Measure = Callable[[], Iterable[Figure]]

MEASURES: dict[str, Measure] = {}


def measure(name: str) -> Callable[[Measure], Measure]:
    """Registers a measure; it runs in the order of registration."""

    def register(function: Measure) -> Measure:
        if name in MEASURES:
            raise ValueError(f"two measures are named {name!r}")
        MEASURES[name] = function
        return function

    return register


def of_rounds(name: str, values: Sequence[float], target: float | None = None) -> Figure:
    """The median of several rounds, with its spread."""
    return Figure(name, median(values), target, (min(values), max(values)))


def ratio_of_rounds(
    name: str, values: Sequence[float], base: Sequence[float], target: float | None = None
) -> Figure:
    """The ratio of two medians, with the spread of the rounds' own ratios; both were measured side by side."""
    ratios = [value / other for value, other in zip(values, base, strict=True)]
    return Figure(name, median(values) / median(base), target, (min(ratios), max(ratios)))
