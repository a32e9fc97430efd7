from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from adapter.engines._outcomes import outcome_of, running_state
from adapter.tasks.model import Ending, Outcome
from tests.support.aws import ACCOUNT

EXECUTION = f"arn:aws:states:us-east-1:{ACCOUNT}:execution:work:mcp-one"
STOPPED = datetime(2027, 1, 15, 8, 0, 0, 123_456, tzinfo=UTC)
ENDED_AT = 1_800_000_000_123


def _outcome(status: str = "FAILED", **members: Any) -> Outcome:
    reply: Any = {"executionArn": EXECUTION, "status": status, "stopDate": STOPPED, **members}
    outcome = outcome_of(reply)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        ("SUCCEEDED", Ending.SUCCEEDED),
        ("FAILED", Ending.FAILED),
        ("TIMED_OUT", Ending.TIMED_OUT),
        ("ABORTED", Ending.ABORTED),
    ],
)
def test_an_ending_needs_no_more_than_its_status(status: str, ending: Ending) -> None:
    assert _outcome(status) == Outcome(ending, ended_at=ENDED_AT)


def test_the_output_of_failed_work_is_none_of_ours() -> None:
    assert _outcome(output='{"Error":"E"}', error="E").output is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('"arn:aws:s3:::reports"', '"arn:aws:s3:::reports"'),
        ("null", "null"),
        ("big", '"big"'),
        ("", '""'),
        ('{"a": NaN}', json.dumps('{"a": NaN}')),
        ('"cut \ud83d', json.dumps('"cut ?')),
    ],
)
def test_output_is_json_text_as_it_was_or_made_into_a_json_string(given: str, kept: str) -> None:
    assert _outcome("SUCCEEDED", output=given, outputDetails={"included": True}).output == kept


@pytest.mark.requirement("R-59")
@pytest.mark.parametrize(
    ("cause", "shown"),
    [
        ("It broke", "It broke"),
        ("", None),
        (
            '{"errorMessage":"division by zero","errorType":"E","stackTrace":["secret.py"]}',
            "division by zero",
        ),
        ('{"errorMessage":{"not":"text"}}', '{"errorMessage":{"not":"text"}}'),
        ('{"code":-32050,"message":"No"}', '{"code":-32050,"message":"No"}'),
        ('["errorMessage"]', '["errorMessage"]'),
        (f"for arn:aws:lambda:eu-west-1:{ACCOUNT}:function:f (denied)", "for [redacted] (denied)"),
        ('{"on":"arn:aws-us-gov:s3:::bucket/key","x":1}', '{"on":"[redacted]","x":1}'),
        ("arn:aws-cn:iam::999999999999:role/x,arn:aws:iam::1:y", "[redacted],[redacted]"),
        (f"account {ACCOUNT}, not {ACCOUNT}0", f"account [redacted], not {ACCOUNT}0"),
        ("ARN:AWS:iam::999999999999:role/x", "[redacted]"),
        ("at arn%3Aaws%3Alambda%3Aeu-west-1%3A999999999999%3Afunction%3Af.", "at [redacted]"),
        ("learn: nothing", "learn: nothing"),
        ("cut off \ud83d", "cut off ?"),
    ],
)
def test_a_cause_is_shown_without_stack_traces_arns_and_the_account(cause: str, shown: str | None) -> None:
    assert _outcome(cause=cause).cause == shown


def test_a_long_cause_stays_whole_since_it_may_be_json() -> None:
    assert _outcome(cause="x" * 32_768).cause == "x" * 32_768


def test_an_error_is_shown_without_arns_and_the_account() -> None:
    assert _outcome(error=f"Lambda.{ACCOUNT}").error == "Lambda.[redacted]"
    assert _outcome(error="States.TaskFailed").error == "States.TaskFailed"


def test_an_end_without_a_time_is_still_an_end() -> None:
    assert _outcome("TIMED_OUT", stopDate=None).ended_at == 0


def _entered(name: str, kind: str = "Task") -> dict[str, Any]:
    return {"type": f"{kind}StateEntered", "stateEnteredEventDetails": {"name": name}}


def _exited(name: str, kind: str = "Task") -> dict[str, Any]:
    return {"type": f"{kind}StateExited", "stateExitedEventDetails": {"name": name}}


OTHER: dict[str, Any] = {"type": "TaskScheduled", "taskScheduledEventDetails": {}}


@pytest.mark.parametrize(
    ("oldest_first", "state"),
    [
        ([], None),
        ([OTHER], None),
        ([_entered("A")], "A"),
        ([_entered("A"), OTHER, OTHER], "A"),
        ([_entered("A"), _exited("A"), _entered("B")], "B"),
        ([_entered("A"), _exited("A")], None),
        ([_exited("A"), OTHER], None),
        ([_entered("Each", "Map"), _entered("Page"), _exited("Page")], "Each"),
        ([_entered("Each", "Map"), _entered("Page"), _entered("Page"), _exited("Page")], "Page"),
        ([_entered("Both", "Parallel"), _entered("L"), _entered("R"), _exited("R")], "L"),
        ([_entered("Loop"), _exited("Loop"), _entered("Loop")], "Loop"),
        ([{"type": "TaskStateEntered"}], None),
    ],
)
def test_the_running_state_is_the_last_one_entered_and_not_left(
    oldest_first: list[Any], state: str | None
) -> None:
    assert running_state(reversed(oldest_first)) == state
