"""What a status event tells, and whether it tells enough."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.engines.events import NotAStatusEvent, read_status_event
from adapter.tasks.model import Ending, Outcome
from tests.lambdas.hosting import event

NAME = "mcp-Q0hBTkdFTUVOT1dQTEVBU0U"
EXECUTION = f"arn:aws:states:eu-central-1:123456789012:execution:nightly-report:{NAME}"
STOPPED = 1_800_000_321_457


@pytest.mark.parametrize(
    ("name", "outcome", "complete"),
    [
        ("running", None, True),
        ("redriven", None, True),
        (
            "succeeded",
            Outcome(
                Ending.SUCCEEDED,
                output='{"rows":1834,"url":"https://reports.example.com/2027-01-14"}',
                ended_at=STOPPED,
            ),
            True,
        ),
        ("succeeded_without_output", Outcome(Ending.SUCCEEDED, ended_at=STOPPED), False),
        ("failed", Outcome(Ending.FAILED, ended_at=STOPPED), False),
        (
            "failed_with_error",
            Outcome(Ending.FAILED, error="ReportBroken", cause="No orders on 2027-01-14", ended_at=STOPPED),
            True,
        ),
        ("timed_out", Outcome(Ending.TIMED_OUT, ended_at=STOPPED), True),
        ("aborted", Outcome(Ending.ABORTED, ended_at=STOPPED), False),
    ],
)
def test_an_event_tells_of_its_execution(name: str, outcome: Outcome | None, complete: bool) -> None:
    told = read_status_event(event(f"states_{name}"))
    assert (told.name, told.execution) == (NAME, EXECUTION)
    assert told.outcome == outcome
    assert told.complete is complete


def _with(**detail: Any) -> dict[str, Any]:
    payload = event("states_succeeded")
    payload["detail"] |= detail
    return payload


def test_a_status_that_does_not_exist_yet_means_that_it_runs() -> None:
    assert read_status_event(_with(status="HIBERNATING")).outcome is None


def test_an_end_without_its_time_is_told_all_the_same() -> None:
    outcome = read_status_event(_with(stopDate=None)).outcome
    assert outcome is not None
    assert outcome.ended_at == 0


def test_output_that_is_said_to_be_missing_is_not_taken_from_the_event() -> None:
    assert not read_status_event(_with(output='"cut', outputDetails={"included": False})).complete


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("stopDate", 10**18),
        ("stopDate", -1),
        ("stopDate", "yesterday"),
        ("output", 7),
        ("output", {"a": 1}),
        ("outputDetails", [1]),
        ("outputDetails", "text"),
        ("error", 7),
        ("cause", ["because"]),
    ],
)
def test_members_of_another_kind_are_as_good_as_missing(member: str, value: object) -> None:
    told, without = read_status_event(_with(**{member: value})), read_status_event(_with(**{member: None}))
    assert told == without


@pytest.mark.parametrize(
    ("member", "value"),
    [("name", ""), ("name", "n" * 81), ("executionArn", "x"), ("executionArn", "arn:aws:states")],
)
@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED"])
def test_what_names_no_execution_is_no_status_event(member: str, value: str, status: str) -> None:
    with pytest.raises(NotAStatusEvent):
        read_status_event(_with(**{member: value, "status": status}))


def test_no_account_or_arn_is_told_to_clients() -> None:
    cause = "arn:aws:lambda:eu-central-1:123456789012:function:report in 123456789012"
    outcome = read_status_event(_with(status="FAILED", error="Broken", cause=cause)).outcome
    assert outcome is not None
    assert outcome.cause is not None
    assert "123456789012" not in outcome.cause


@pytest.mark.parametrize("member", ["name", "executionArn", "status"])
@pytest.mark.parametrize("value", [None, 1])
def test_an_event_that_does_not_say_whose_status_it_is_is_none(member: str, value: object) -> None:
    with pytest.raises(NotAStatusEvent):
        read_status_event(_with(**{member: value}))


@pytest.mark.parametrize("payload", [None, "text", {}, {"source": "aws.states"}, {"source": "aws.ec2"}])
def test_what_is_no_status_event_is_none(payload: object) -> None:
    with pytest.raises(NotAStatusEvent):
        read_status_event(payload)
