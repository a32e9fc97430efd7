"""The pause between two looks at one task, and the token bucket of a process (D7)."""

from __future__ import annotations

import pytest

from adapter.tasks.clock import system_clock
from adapter.tasks.pacing import DescribeBudget, RefreshPace


class _Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> _Seconds:
    return _Seconds()


def _taken(budget: DescribeBudget, attempts: int = 1000) -> int:
    return sum(budget.take() for _ in range(attempts))


@pytest.mark.parametrize(
    ("age", "pause"), [(0, 2_000), (20_000, 2_000), (20_010, 2_001), (300_000, 30_000), (10**9, 60_000)]
)
def test_the_pause_is_a_tenth_of_the_age_within_bounds(age: int, pause: int) -> None:
    assert RefreshPace(2_000, 60_000).pause_ms(age) == pause


def test_a_clock_that_runs_behind_another_gives_the_shortest_pause() -> None:
    assert RefreshPace(2_000, 60_000).pause_ms(-5_000) == 2_000


def test_a_full_bucket_gives_its_burst_and_then_its_rate(seconds: _Seconds) -> None:
    budget = DescribeBudget(5.0, 50, seconds)
    assert _taken(budget) == 50

    seconds.now += 2
    assert _taken(budget) == 10

    seconds.now += 1_000
    assert _taken(budget) == 50


def test_a_call_that_was_not_made_after_all_is_given_back(seconds: _Seconds) -> None:
    budget = DescribeBudget(1.0, 3, seconds)
    assert budget.take()

    budget.give_back()
    budget.give_back()

    assert _taken(budget) == 3


def test_a_throttle_ends_the_burst_and_halves_the_rate_each_time(seconds: _Seconds) -> None:
    budget = DescribeBudget(8.0, 100, seconds)
    budget.throttled()
    assert _taken(budget) == 1

    budget.throttled()
    seconds.now += 0.5
    assert _taken(budget) == 1  # 2 a second by now


def test_the_rate_recovers_within_twenty_seconds(seconds: _Seconds) -> None:
    budget = DescribeBudget(8.0, 100, seconds)
    budget.throttled()
    assert budget.slowed
    seconds.now += 9
    assert budget.slowed
    seconds.now += 1.5
    assert not budget.slowed

    _taken(budget)
    seconds.now += 1
    assert _taken(budget) == 8


def test_throttling_without_end_leaves_some_rate(seconds: _Seconds) -> None:
    budget = DescribeBudget(6.4, 100, seconds)
    for _ in range(50):
        budget.throttled()
    assert _taken(budget) == 1

    for _ in range(10):
        budget.throttled()
        seconds.now += 1
    assert _taken(budget) >= 1


def test_an_empty_bucket_counts_as_slowed_until_it_fills(seconds: _Seconds) -> None:
    budget = DescribeBudget(2.0, 3, seconds)
    assert not budget.slowed
    _taken(budget)
    assert budget.slowed
    seconds.now += 0.5
    assert not budget.slowed


def test_the_system_clock_tells_epoch_milliseconds() -> None:
    assert 1_700_000_000_000 < system_clock() < 5_000_000_000_000
