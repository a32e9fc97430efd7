"""Each error of the API has one meaning, and none shows what AWS says."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import pytest

from adapter.aws import Aws
from adapter.engines.step_functions import StepFunctions
from adapter.errors import (
    AnswerRefused,
    EngineError,
    EngineUnavailable,
    ExecutionUnknown,
    QuestionClosed,
    StartRejected,
    StartUncertain,
)
from adapter.tasks.engine import Refusal, Snapshot
from adapter.tasks.model import Outcome
from tests.support.aws import ACCOUNT, MACHINE, aws_at, retry_without_pauses
from tests.support.faults import HANG, LOST_REPLY, LOST_REQUEST, SERVER_ERROR, Fault, FaultyAws, error, reply

pytestmark = pytest.mark.asyncio(loop_scope="session")

EXECUTION = f"arn:aws:states:us-east-1:{ACCOUNT}:execution:work:mcp-one"
TOKEN = "AQCEAAAAKgAAAAMAAAAA-secret"
SAID = f"Not for arn:aws:iam::{ACCOUNT}:role/x with {TOKEN}"
THROTTLES = [
    "ThrottlingException",
    "TooManyRequestsException",
    "RequestLimitExceeded",
    "Throttling",
    "KmsThrottlingException",
]
RUNNING = reply(executionArn=EXECUTION, stateMachineArn=MACHINE, status="RUNNING", startDate=1.8e9)


async def _start(engine: StepFunctions, work: bytes = b"{}", within: float = 30) -> None:
    await engine.start(MACHINE, "mcp-one", work, within=within)


async def _start_failure(
    engine: StepFunctions, faults: FaultyAws, *script: Fault, within: float = 30
) -> EngineError:
    faults.script("StartExecution", *script)
    with pytest.raises((StartRejected, StartUncertain)) as raised:
        await _start(engine, within=within)
    _tells_nothing(raised.value)
    return raised.value


def _tells_nothing(raised: Exception) -> None:
    assert not any(secret in str(raised) for secret in ("arn:", ACCOUNT, TOKEN, "scripted"))


# --- start -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "InvalidArn",
        "InvalidName",
        "StateMachineDoesNotExist",
        "StateMachineDeleting",
        "ValidationException",
        "KmsAccessDeniedException",
        "KmsInvalidStateException",
        "AccessDeniedException",
        "UnrecognizedClientException",
        "ErrorOfTomorrow",
    ],
)
async def test_a_definite_error_means_that_nothing_was_started(
    engine: StepFunctions, faults: FaultyAws, code: str
) -> None:
    failure = await _start_failure(engine, faults, error(code, SAID))
    assert isinstance(failure, StartRejected)
    assert (failure.retryable, failure.caller_fault) == (False, False)


async def test_input_that_is_not_accepted_is_the_callers_to_mend(
    engine: StepFunctions, faults: FaultyAws
) -> None:
    failure = await _start_failure(engine, faults, error("InvalidExecutionInput", SAID))
    assert isinstance(failure, StartRejected)
    assert (failure.retryable, failure.caller_fault) == (False, True)


@pytest.mark.parametrize("code", ["ExecutionLimitExceeded", *THROTTLES])
async def test_a_quota_means_that_the_same_call_may_succeed_later(
    engine: StepFunctions, faults: FaultyAws, code: str
) -> None:
    failure = await _start_failure(engine, faults, *[error(code, SAID)] * 3)
    assert isinstance(failure, StartRejected)
    assert (failure.retryable, failure.caller_fault) == (True, False)


async def test_a_name_that_exists_counts_as_started(engine: StepFunctions, faults: FaultyAws) -> None:
    faults.script("StartExecution", error("ExecutionAlreadyExists", SAID))
    await _start(engine)
    assert faults.operations == ["StartExecution"]
    faults.script("StartExecution", LOST_REQUEST, error("ExecutionAlreadyExists", SAID))
    await _start(engine)
    assert faults.operations == ["StartExecution"] * 3


@pytest.mark.parametrize("fault", [LOST_REQUEST, LOST_REPLY, SERVER_ERROR, error("", status=503)])
async def test_a_start_whose_every_reply_was_lost_is_uncertain(
    engine: StepFunctions, faults: FaultyAws, fault: Fault
) -> None:
    assert isinstance(await _start_failure(engine, faults, *[fault] * 3), StartUncertain)
    assert faults.operations == ["StartExecution"] * 3


@pytest.mark.parametrize("lost", [LOST_REQUEST, SERVER_ERROR, error("RequestTimeout", status=408)])
@pytest.mark.parametrize("last", ["ThrottlingException", "AccessDeniedException", "StateMachineDeleting"])
async def test_a_definite_error_after_a_lost_attempt_is_uncertain(
    engine: StepFunctions, faults: FaultyAws, lost: Fault, last: str
) -> None:
    failure = await _start_failure(engine, faults, lost, *[error(last, SAID)] * 2)
    assert isinstance(failure, StartUncertain)


async def test_a_start_that_is_retried_with_success_is_started(
    engine: StepFunctions, faults: FaultyAws
) -> None:
    started = reply(executionArn=EXECUTION, startDate=1.8e9)
    faults.script("StartExecution", SERVER_ERROR, error("ThrottlingException"), started)
    await _start(engine)
    assert [request for _, request in faults.requests] == [faults.requests[0][1]] * 3


async def test_a_start_that_takes_too_long_is_uncertain_and_not_tried_again(
    engine: StepFunctions, faults: FaultyAws
) -> None:
    assert isinstance(await _start_failure(engine, faults, HANG, within=0.1), StartUncertain)
    assert faults.operations == ["StartExecution"]


async def test_a_start_that_runs_out_of_time_between_refused_attempts_is_rejected(
    engine: StepFunctions, faults: FaultyAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 60)
    failure = await _start_failure(engine, faults, error("ThrottlingException"), within=2)
    assert isinstance(failure, StartRejected)
    assert failure.retryable


async def test_a_start_without_time_is_not_attempted(engine: StepFunctions, faults: FaultyAws) -> None:
    failure = await _start_failure(engine, faults, within=0)
    assert isinstance(failure, StartRejected)
    assert failure.retryable
    assert faults.operations == []


async def test_one_start_does_not_count_the_lost_attempts_of_another(
    engine: StepFunctions, faults: FaultyAws
) -> None:
    assert isinstance(await _start_failure(engine, faults, *[LOST_REQUEST] * 3), StartUncertain)
    assert isinstance(await _start_failure(engine, faults, error("AccessDenied")), StartRejected)


async def test_an_endpoint_that_does_not_listen_has_started_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    retry_without_pauses(monkeypatch)
    async with FaultyAws() as closed:
        endpoint = closed.endpoint
    async with aws_at(endpoint) as aws:
        with pytest.raises(StartRejected) as raised:
            await _start(StepFunctions(aws.stepfunctions))
    assert raised.value.retryable
    _tells_nothing(raised.value)


async def test_missing_credentials_have_started_nothing(
    aws: Aws, engine: StepFunctions, faults: FaultyAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws.stepfunctions._request_signer, "_credentials", None)
    failure = await _start_failure(engine, faults)
    assert isinstance(failure, StartRejected)
    assert not failure.retryable


@pytest.mark.parametrize("text", ["x" * 262_143, "ä" * 131_072])
async def test_input_over_the_limit_is_refused_before_any_call(
    engine: StepFunctions, faults: FaultyAws, text: str
) -> None:
    with pytest.raises(StartRejected, match="262,144 bytes") as raised:
        await _start(engine, f'"{text}"'.encode())
    assert raised.value.caller_fault
    assert faults.operations == []


async def test_input_at_the_limit_is_sent(engine: StepFunctions, faults: FaultyAws) -> None:
    faults.script("StartExecution", reply(executionArn=EXECUTION, startDate=1.8e9))
    await _start(engine, b'"' + b"x" * 262_142 + b'"')
    assert faults.operations == ["StartExecution"]


# --- everything else ---------------------------------------------------------------------------------------

Use = Callable[[StepFunctions], Awaitable[object]]
USES: dict[str, tuple[str, Use]] = {
    "describe": ("DescribeExecution", lambda engine: engine.describe(EXECUTION)),
    "stop": ("StopExecution", lambda engine: engine.stop(EXECUTION, error="E", cause="C")),
    "answer": ("SendTaskSuccess", lambda engine: engine.answer(TOKEN, "{}")),
    "refuse": ("SendTaskFailure", lambda engine: engine.answer(TOKEN, Refusal("E", "C"))),
}


async def _failure(engine: StepFunctions, faults: FaultyAws, use: str, fault: Fault) -> EngineError:
    operation, call = USES[use]
    faults.script(operation, *[fault] * 3)
    with pytest.raises(EngineError) as raised:
        await call(engine)
    _tells_nothing(raised.value)
    return raised.value


@pytest.mark.requirement("B-54")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("code", THROTTLES)
async def test_being_throttled_is_told_as_such(
    engine: StepFunctions, faults: FaultyAws, use: str, code: str
) -> None:
    failure = await _failure(engine, faults, use, error(code, SAID))
    assert isinstance(failure, EngineUnavailable)
    assert failure.throttled


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "fault",
    [
        SERVER_ERROR,
        LOST_REQUEST,
        *map(
            error,
            [
                "AccessDeniedException",
                "InvalidArn",
                "KmsAccessDeniedException",
                "KmsInvalidStateException",
                "ErrorOfTomorrow",
            ],
        ),
    ],
    ids=lambda fault: fault.code or "reset",
)
async def test_what_says_nothing_of_the_execution_is_unavailable(
    engine: StepFunctions, faults: FaultyAws, use: str, fault: Fault
) -> None:
    failure = await _failure(engine, faults, use, fault)
    assert isinstance(failure, EngineUnavailable)
    assert not failure.throttled
    assert str(failure) == "The job system cannot be reached now"


async def test_a_reply_that_does_not_come_in_time_is_unavailable(
    faults: FaultyAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapter.aws.READ_TIMEOUT", 0.5)
    faults.script("DescribeExecution", *[HANG] * 3)
    async with aws_at(faults.endpoint, patient=False) as aws:
        with pytest.raises(EngineUnavailable):
            await StepFunctions(aws.stepfunctions).describe(EXECUTION)
    assert faults.operations == ["DescribeExecution"] * 3


@pytest.mark.requirement("B-55")
@pytest.mark.parametrize("use", ["describe", "stop"])
async def test_an_unknown_execution_is_told(engine: StepFunctions, faults: FaultyAws, use: str) -> None:
    failure = await _failure(engine, faults, use, error("ExecutionDoesNotExist", SAID))
    assert isinstance(failure, ExecutionUnknown)


@pytest.mark.parametrize("use", ["answer", "refuse"])
@pytest.mark.parametrize("code", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"])
async def test_a_token_that_nobody_waits_for_closes_the_question(
    engine: StepFunctions, faults: FaultyAws, use: str, code: str
) -> None:
    failure = await _failure(engine, faults, use, error(code, SAID))
    assert isinstance(failure, QuestionClosed)


async def test_an_answer_that_is_not_accepted_is_told(engine: StepFunctions, faults: FaultyAws) -> None:
    assert isinstance(await _failure(engine, faults, "answer", error("InvalidOutput", SAID)), AnswerRefused)


async def test_an_answer_over_the_limit_is_refused_before_any_call(
    engine: StepFunctions, faults: FaultyAws
) -> None:
    with pytest.raises(AnswerRefused, match="262,144 bytes"):
        await engine.answer(TOKEN, f'"{"ä" * 131_072}"')
    assert faults.operations == []


@pytest.mark.requirement("B-55")
async def test_stopping_what_is_closed_counts_as_done(engine: StepFunctions, faults: FaultyAws) -> None:
    faults.script("StopExecution", error("ValidationException", SAID))
    await engine.stop(EXECUTION, error="E", cause="C")
    assert faults.operations == ["StopExecution"]


@pytest.mark.parametrize("code", ["KmsAccessDeniedException", "KmsInvalidStateException"])
async def test_a_stop_goes_without_its_reason_where_that_cannot_be_encrypted(
    engine: StepFunctions, faults: FaultyAws, code: str
) -> None:
    faults.script("StopExecution", error(code, SAID), reply(stopDate=1.8e9))
    await engine.stop(EXECUTION, error="E", cause="C")
    assert [request for _, request in faults.requests] == [
        {"executionArn": EXECUTION, "error": "E", "cause": "C"},
        {"executionArn": EXECUTION},
    ]


async def test_reasons_are_cut_to_what_the_api_takes(engine: StepFunctions, faults: FaultyAws) -> None:
    faults.script("StopExecution", reply(stopDate=1.8e9))
    faults.script("SendTaskFailure", reply())
    await engine.stop(EXECUTION, error="E" * 999, cause="C" * 99_999)
    await engine.answer(TOKEN, Refusal("E" * 999, "C" * 99_999))
    sizes = [(len(request["error"]), len(request["cause"])) for _, request in faults.requests]
    assert sizes == [(256, 32_768)] * 2


@pytest.mark.parametrize(
    "fault", [*map(error, ["AccessDeniedException", "ThrottlingException", "InvalidToken"]), SERVER_ERROR]
)
async def test_trouble_with_the_history_does_not_fail_a_describe(
    engine: StepFunctions, faults: FaultyAws, fault: Fault
) -> None:
    faults.script("DescribeExecution", RUNNING)
    faults.script("GetExecutionHistory", *[fault] * 3)
    assert await engine.describe(EXECUTION) == Snapshot()


async def test_the_history_is_asked_for_little_and_without_data(
    engine: StepFunctions, faults: FaultyAws
) -> None:
    faults.script("DescribeExecution", RUNNING)
    faults.script("GetExecutionHistory", reply(events=[]))
    await engine.describe(EXECUTION)
    assert faults.requests[1] == (
        "GetExecutionHistory",
        {"executionArn": EXECUTION, "reverseOrder": True, "maxResults": 25, "includeExecutionData": False},
    )


async def test_an_execution_that_waits_to_be_redriven_still_runs(
    engine: StepFunctions, faults: FaultyAws
) -> None:
    faults.script("DescribeExecution", Fault(200, body=RUNNING.body | {"status": "PENDING_REDRIVE"}))
    assert await engine.describe(EXECUTION) == Snapshot(message="Waiting for redrive")
    assert faults.operations == ["DescribeExecution"]


async def test_a_status_of_tomorrow_still_runs(engine: StepFunctions, faults: FaultyAws) -> None:
    faults.script("DescribeExecution", Fault(200, body=RUNNING.body | {"status": "HIBERNATING"}))
    assert (await engine.describe(EXECUTION, with_step=False)).outcome is None


async def test_output_that_is_not_shown_leaves_the_outcome_without_it(
    engine: StepFunctions, faults: FaultyAws
) -> None:
    ended = {"status": "SUCCEEDED", "stopDate": 1.8e9, "outputDetails": {"included": False}}
    faults.script("DescribeExecution", Fault(200, body=RUNNING.body | ended))
    outcome = (await engine.describe(EXECUTION)).outcome
    assert isinstance(outcome, Outcome)
    assert (outcome.output, outcome.ended_at) == (None, 1_800_000_000_000)


@pytest.mark.requirement("B-57")
async def test_what_aws_says_is_logged_without_the_token(
    engine: StepFunctions, faults: FaultyAws, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "adapter.engines")
    await _failure(engine, faults, "answer", error("AccessDeniedException", SAID))
    await _failure(engine, faults, "describe", error("AccessDeniedException", "by policy"))
    await _start_failure(engine, faults, error("StateMachineDeleting", "being deleted"))
    logged = [record.getMessage() for record in caplog.records if record.name == "adapter.engines"]
    assert len(logged) == 3
    assert "AccessDeniedException" in logged[0]
    assert TOKEN not in logged[0]
    assert "by policy" in logged[1]
    assert "being deleted" in logged[2]
