"""The pause between two looks at one task, and the token bucket of a process (D7)."""

from __future__ import annotations

import pytest

from adapter.tasks.clock import system_clock
from adapter.tasks.pacing import RECOVERY_SECONDS, DescribeBudget, EventFlow, RefreshPace


class _Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> _Seconds:
    return _Seconds()


def _taken(budget: DescribeBudget, attempts: int = 1000) -> int:
    """How many urgent calls there are."""
    return sum(budget.take(urgent=True) for _ in range(attempts))


def _full(rate: float, burst: int, seconds: _Seconds) -> DescribeBudget:
    budget = DescribeBudget(rate, burst, seconds)
    seconds.now += burst / rate
    return budget


def _routine(budget: DescribeBudget, attempts: int = 1000) -> int:
    return sum(budget.take() for _ in range(attempts))


@pytest.mark.parametrize(
    ("age", "pause"), [(0, 2_000), (20_000, 2_000), (20_010, 2_001), (300_000, 30_000), (10**9, 60_000)]
)
def test_the_pause_is_a_tenth_of_the_age_within_bounds(age: int, pause: int) -> None:
    assert RefreshPace(2_000, 60_000).pause_ms(age) == pause


def test_a_clock_that_runs_behind_another_gives_the_shortest_pause() -> None:
    assert RefreshPace(2_000, 60_000).pause_ms(-5_000) == 2_000


@pytest.mark.parametrize(
    ("age", "pause"), [(0, 30_000), (300_000, 30_000), (600_000, 60_000), (10**9, 300_000)]
)
def test_the_pause_is_longer_while_events_tell_of_ends(age: int, pause: int) -> None:
    assert RefreshPace(2_000, 60_000).pause_ms(age, with_events=True) == pause


def test_events_never_make_a_pause_shorter() -> None:
    pace = RefreshPace(600_000, 900_000)
    assert pace.pause_ms(0, with_events=True) == 600_000
    assert pace.pause_ms(10**9, with_events=True) == 900_000


def test_a_full_bucket_gives_its_burst_and_then_its_rate(seconds: _Seconds) -> None:
    budget = _full(5.0, 50, seconds)
    assert _taken(budget) == 50

    seconds.now += 2
    assert _taken(budget) == 10

    seconds.now += 1_000
    assert _taken(budget) == 50


def test_a_new_process_begins_with_a_few_routine_calls_and_all_the_urgent_ones(seconds: _Seconds) -> None:
    budget = DescribeBudget(5.0, 50, seconds)
    assert _routine(budget) == 5
    assert _taken(budget) == 25


def test_routine_calls_leave_half_of_the_bucket_to_urgent_ones(seconds: _Seconds) -> None:
    budget = _full(5.0, 50, seconds)
    assert _routine(budget) == 25
    assert _taken(budget) == 25

    seconds.now += 5
    assert _routine(budget) == 0
    assert _taken(budget) == 25

    seconds.now += 6
    assert _routine(budget) == 5


@pytest.mark.parametrize("burst", [1, 2, 3])
def test_the_smallest_bucket_serves_routine_calls_too(seconds: _Seconds, burst: int) -> None:
    assert _routine(DescribeBudget(1.0, burst, seconds)) >= 1


def test_a_call_that_was_not_made_after_all_is_given_back(seconds: _Seconds) -> None:
    budget = _full(1.0, 3, seconds)
    assert budget.take()

    budget.give_back()
    budget.give_back()

    assert _taken(budget) == 3


def test_a_throttle_ends_the_burst_and_halves_the_rate_each_time(seconds: _Seconds) -> None:
    budget = _full(8.0, 100, seconds)
    budget.throttled()
    assert _routine(budget) == 0
    assert _taken(budget) == 1

    budget.throttled()
    seconds.now += 0.5
    assert _taken(budget) == 1  # 2 a second by now


def test_being_throttled_halves_the_rate_until_it_has_recovered(seconds: _Seconds) -> None:
    budget = DescribeBudget(8.0, 8, seconds)
    budget.throttled()
    assert budget.slowed

    _taken(budget)
    seconds.now += 1
    assert _taken(budget) == 4

    seconds.now += RECOVERY_SECONDS
    assert not budget.slowed
    _taken(budget)
    seconds.now += 1
    assert _taken(budget) == 8


def test_throttling_without_end_leaves_some_rate(seconds: _Seconds) -> None:
    budget = _full(6.4, 100, seconds)
    for _ in range(50):
        budget.throttled()
    assert _taken(budget) == 1

    seconds.now += RECOVERY_SECONDS
    _taken(budget)
    seconds.now += 1
    assert _taken(budget) >= 1


def test_a_bucket_without_routine_calls_counts_as_slowed_until_it_fills(seconds: _Seconds) -> None:
    budget = DescribeBudget(2.0, 4, seconds)
    assert not budget.slowed
    _routine(budget)
    assert budget.slowed
    seconds.now += 0.5
    assert not budget.slowed


# --- whether events flow -----------------------------------------------------------------------------------


def test_events_that_are_switched_off_never_flow(seconds: _Seconds) -> None:
    flow = EventFlow(on=False, clock=seconds)
    flow.told("task")
    assert not flow.flowing


def test_events_are_trusted_until_several_ends_were_missed(seconds: _Seconds) -> None:
    flow = EventFlow(on=True, clock=seconds)
    for _ in range(3):
        flow.missed()
    assert flow.flowing
    flow.missed()
    assert not flow.flowing


def test_a_few_lost_events_among_many_are_no_reason_for_distrust(seconds: _Seconds) -> None:
    flow = EventFlow(on=True, clock=seconds)
    for number in range(1_000):
        flow.missed() if number % 100 == 0 else flow.told(f"task-{number}")
        assert flow.flowing


def test_trust_returns_with_events_that_come_again(seconds: _Seconds) -> None:
    flow = EventFlow(on=True, clock=seconds)
    for _ in range(10):
        flow.missed()
    for number in range(28):
        assert not flow.flowing
        flow.told(f"task-{number}")
    assert flow.flowing


def test_trust_returns_with_time(seconds: _Seconds) -> None:
    flow = EventFlow(on=True, clock=seconds)
    for _ in range(5):
        flow.missed()
    seconds.now += 599
    assert not flow.flowing
    seconds.now += 1
    assert flow.flowing


def test_trust_returns_with_time_though_nobody_asks_meanwhile(seconds: _Seconds) -> None:
    flow = EventFlow(on=True, clock=seconds)
    for _ in range(40):
        flow.missed()
    seconds.now += 3 * 600
    assert not flow.flowing, "40 / 2 / 2 / 2 is more than 3"
    seconds.now += 600
    assert flow.flowing
    seconds.now += 1e9
    assert flow.flowing


def test_what_is_seen_after_a_long_pause_counts_in_full(seconds: _Seconds) -> None:
    flow = EventFlow(on=True, clock=seconds)
    seconds.now += 600
    for _ in range(4):
        flow.missed()
    assert not flow.flowing


def test_an_end_that_many_read_outweighs_no_more_missed_ones_than_any(seconds: _Seconds) -> None:
    flow = EventFlow(on=True, clock=seconds)
    for _ in range(4):
        flow.missed()
    for _ in range(100):
        flow.told("task")
    assert not flow.flowing
    for number in range(3):
        flow.told(f"task-{number}")
    assert flow.flowing


def test_only_so_many_ends_are_remembered(seconds: _Seconds) -> None:
    flow = EventFlow(on=True, clock=seconds)
    for number in range(5_000):
        flow.told(f"task-{number}")
    assert len(flow._counted) == 1024


def test_the_system_clock_tells_epoch_milliseconds() -> None:
    assert 1_700_000_000_000 < system_clock() < 5_000_000_000_000
