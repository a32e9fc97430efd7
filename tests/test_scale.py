"""The simulation of `bench.scale`, small: what holds for ten thousand tasks holds for some hundred."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.cost import dollars, per_task
from bench.scale import figures
from bench.simulation import Plan, Result, simulate

PLAN = Plan(tasks=800, scale=0.1, seconds=300, instances=4, shortest=60.0, longest=900.0, lost=0.05)


@pytest.fixture(scope="module")
def with_events() -> Result:
    return simulate(PLAN)


def test_no_throttled_call_reaches_a_client_and_ends_are_seen_in_time(with_events: Result) -> None:
    missed = [
        f"{figure.name}: {figure.value}" for figure in figures("with events", with_events) if not figure.ok
    ]
    assert missed == []
    assert len(with_events.ended) > 200
    assert any(with_events.lost_long_ago(execution) for execution in with_events.ended)


def test_without_events_clients_are_told_nothing_wrong_though_calls_are_throttled() -> None:
    result = simulate(replace(PLAN, scale=0.01, events=False, budgeted=False))
    assert result.throttled["DescribeExecution"] > 0
    assert not result.failures
    assert any(execution.seen for execution in result.ended)


def test_the_cost_of_polling_is_most_of_what_the_adapter_costs(with_events: Result) -> None:
    often, seldom = (dollars(replace(per_task(with_events), polls=polls)) for polls in (300, 10))
    assert often["API Gateway"] == pytest.approx(1_053.5)
    assert often["Step Functions"] == seldom["Step Functions"] == pytest.approx(125)
    assert often["API Gateway"] > 10 * seldom["API Gateway"]
