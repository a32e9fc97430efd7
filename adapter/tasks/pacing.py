"""How often the job system may be asked (D7): per task by age, per process by a token bucket."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

LEASE_MS = 10_000
"""How long one reader has to ask the job system, or to deliver an answer, before another may."""


@dataclass(frozen=True, slots=True)
class RefreshPace:
    """Pauses between two looks at one execution, in milliseconds: a fraction of its age, within bounds.

    While events tell of ends, a look is only the safety net below them: longer pauses then.
    """

    shortest_ms: int = 2_000
    longest_ms: int = 60_000
    age_fraction: float = 0.1
    shortest_with_events_ms: int = 30_000
    longest_with_events_ms: int = 300_000

    def pause_ms(self, age_ms: int, *, with_events: bool = False) -> int:
        shortest = max(self.shortest_ms, self.shortest_with_events_ms) if with_events else self.shortest_ms
        longest = max(self.longest_ms, self.longest_with_events_ms) if with_events else self.longest_ms
        return max(shortest, min(longest, int(age_ms * self.age_fraction)))


_HALF_LIFE_SECONDS = 600.0
_REMEMBERED = 1024
"""Ends are counted only while they are recent (`signs.is_recent`): few processes see more of them within that."""


class EventFlow:
    """Whether status events are seen to arrive: trusted until several ends had to be found by asking.

    Counts are halved every ten minutes, so that trust comes back.
    """

    __slots__ = ("_clock", "_counted", "_missed", "_on", "_then", "_told")

    def __init__(self, *, on: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._on = on
        self._told = 0.0
        self._missed = 0.0
        self._counted: dict[str, None] = {}
        self._clock = clock
        self._then = clock()

    @property
    def flowing(self) -> bool:
        if not self._on:
            return False
        self._fade()
        return self._missed <= 3 + self._told / 4

    def told(self, task_id: str) -> None:
        """The end of a task was known from an event. However often it is read, that counts once."""
        if task_id in self._counted:
            return
        if len(self._counted) >= _REMEMBERED:
            del self._counted[next(iter(self._counted))]
        self._counted[task_id] = None
        self._fade()
        self._told += 1

    def missed(self) -> None:
        """An end was found by asking, long after an event should have told it."""
        self._fade()
        self._missed += 1

    def _fade(self) -> None:
        halvings = (self._clock() - self._then) // _HALF_LIFE_SECONDS
        if halvings:
            self._then += halvings * _HALF_LIFE_SECONDS
            self._told *= 0.5**halvings
            self._missed *= 0.5**halvings


RECOVERY_SECONDS = 300.0


class DescribeBudget:
    """A token bucket for this process's share of an account's quota.

    Routine looks at what most likely still runs leave half of it to the urgent ones, and a new process begins with
    little more than that half: many may begin at once. Being throttled halves the rate; it recovers within
    minutes, since it may be set far too high for what other processes leave.
    """

    __slots__ = ("_burst", "_clock", "_full_rate", "_rate", "_reserve", "_then", "_tokens")

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._full_rate = self._rate = rate
        self._burst = float(burst)
        self._reserve = burst // 2
        self._tokens = min(self._burst, self._reserve + max(1, burst // 10))
        self._clock = clock
        self._then = clock()

    @property
    def slowed(self) -> bool:
        """True while there are no routine calls: used up, or given up when one was throttled."""
        self._advance()
        return self._tokens < 1 + self._reserve

    def take(self, *, urgent: bool = False) -> bool:
        """Use one call. False where none is left now; `urgent`: for an execution that seems to have ended."""
        self._advance()
        if self._tokens < (1 if urgent else 1 + self._reserve):
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
        self._rate = min(self._full_rate, self._rate + elapsed * self._full_rate / RECOVERY_SECONDS)
