"""How often the job system may be asked (D7): per task by age, per process by a token bucket."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RefreshPace:
    """Pauses between two looks at one execution, in milliseconds: a fraction of its age, within bounds."""

    shortest_ms: int = 2_000
    longest_ms: int = 60_000
    age_fraction: float = 0.1

    def pause_ms(self, age_ms: int) -> int:
        return max(self.shortest_ms, min(self.longest_ms, int(age_ms * self.age_fraction)))


class DescribeBudget:
    """A token bucket for this process's share of an account's quota.

    Being throttled halves the rate; it recovers by a twentieth of the full rate each second.
    """

    __slots__ = ("_burst", "_clock", "_full_rate", "_rate", "_then", "_tokens")

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._full_rate = self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        self._clock = clock
        self._then = clock()

    @property
    def slowed(self) -> bool:
        """True while calls are fewer than the full rate would allow, or used up."""
        self._advance()
        return self._rate < self._full_rate or self._tokens < 1

    def take(self) -> bool:
        """Use one call. False where none is left now."""
        self._advance()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """A call that was taken was not made."""
        self._tokens += 1

    def throttled(self) -> None:
        """The job system asked us to slow down."""
        self._advance()
        self._rate /= 2
        self._tokens = min(self._tokens, 1.0)

    def _advance(self) -> None:
        now = self._clock()
        elapsed, self._then = now - self._then, now
        self._tokens = min(self._burst, self._tokens + elapsed * self._rate)
        self._rate = min(self._full_rate, self._rate + elapsed * self._full_rate / 20)
