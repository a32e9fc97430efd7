"""Durations as people write them: `90s`, `15m`, `24h`, `7d`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST = 366 * 86_400
_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")


def parse_duration(value: object) -> float:
    """Seconds of `90s`, `15m`, `24h`, `7d`, `250ms`. Raises ValueError for anything else."""
    match = _FORM.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(
            f"{value!r} is not a duration: write a number and a unit, such as 90s, 15m, 24h or 7d"
        )
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > _LONGEST:
        raise ValueError(f"{value!r} is longer than a year")
    return seconds


Seconds = Annotated[float, BeforeValidator(parse_duration)]
