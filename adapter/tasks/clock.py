"""Time as the domain reads it, so that tests can move it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Epoch milliseconds."""


def system_clock() -> int:
    """Epoch milliseconds now."""
    return time.time_ns() // 1_000_000
