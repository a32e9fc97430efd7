"""The job system AWS Step Functions (Standard workflows).

Each error of the API has one defined meaning here. What AWS says goes to the log; messages are our own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.exceptions import ConnectionError as NoConnection

from adapter.aws import execution_arn
from adapter.errors import (
    AnswerRefused,
    EngineError,
    EngineUnavailable,
    ExecutionUnknown,
    QuestionClosed,
    StartRejected,
    StartUncertain,
)
from adapter.tasks.engine import NAME_PREFIX, Refusal, Snapshot

from . import _attempts
from ._outcomes import outcome_of, running_state

if TYPE_CHECKING:
    from types_aiobotocore_stepfunctions import SFNClient
    from types_aiobotocore_stepfunctions.type_defs import ListExecutionsInputTypeDef

R = TypeVar("R")

logger = logging.getLogger("adapter.engines")

MAX_PAYLOAD_BYTES = 262_144
HISTORY_EVENTS = 25
LISTED_AT_ONCE = 1000
_MAX_ERROR_CHARACTERS = 256
_MAX_CAUSE_CHARACTERS = 32_768

_THROTTLES = frozenset(
    {
        "KmsThrottlingException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)


class _HasEnded(EngineUnavailable):
    """The call makes no sense for an execution in its state, which for a stop is what was wanted."""


class _KeyDenied(EngineUnavailable):
    """The execution's encryption key cannot be used."""


_MEANINGS: dict[str, type[EngineError]] = {
    "ExecutionDoesNotExist": ExecutionUnknown,
    "StateMachineDoesNotExist": ExecutionUnknown,
    "TaskTimedOut": QuestionClosed,
    "TaskDoesNotExist": QuestionClosed,
    "InvalidToken": QuestionClosed,
    "InvalidOutput": AnswerRefused,
    "ValidationException": _HasEnded,
    "KmsAccessDeniedException": _KeyDenied,
    "KmsInvalidStateException": _KeyDenied,
}
_MESSAGES: dict[type[EngineError], tuple[str]] = {
    ExecutionUnknown: ("The job system does not know this execution",),
    QuestionClosed: ("The question waits no longer",),
    AnswerRefused: ("The job system does not accept this answer",),
}


class StepFunctions:
    """An `Engine`. Its targets are ARNs of state machines, versions or aliases; its executions are ARNs."""

    def __init__(self, client: SFNClient) -> None:
        self._client = client
        _attempts.watch(client, "sfn.StartExecution")

    def execution_of(self, target: str, name: str) -> str:
        return execution_arn(target, name)

    async def start(self, target: str, name: str, input_json: bytes, *, within: float) -> None:
        if len(input_json) > MAX_PAYLOAD_BYTES:
            raise StartRejected(f"The input is longer than {MAX_PAYLOAD_BYTES:,} bytes", caller_fault=True)
        if within <= 0:
            raise StartRejected("The start came too late; try again", retryable=True)
        with _attempts.counted() as attempts:
            try:
                async with asyncio.timeout(within):
                    await self._client.start_execution(
                        stateMachineArn=target, name=name, input=input_json.decode()
                    )
            except (ClientError, BotoCoreError, TimeoutError) as error:
                if _code(error) != "ExecutionAlreadyExists":
                    raise _start_failure(error, lost=attempts.lost) from None

    async def describe(self, execution: str, *, with_step: bool = True) -> Snapshot:
        reply = await _asked(self._client.describe_execution(executionArn=execution))
        if outcome := outcome_of(reply):
            return Snapshot(outcome)
        if reply["status"] == "PENDING_REDRIVE":
            return Snapshot(message="Waiting for redrive")
        return Snapshot(message=await self._step(execution) if with_step else None)

    async def running(self, target: str) -> set[str]:
        names: set[str] = set()
        request: ListExecutionsInputTypeDef = {
            "stateMachineArn": ":".join(target.split(":")[:7]),  # with all its versions and aliases
            "statusFilter": "RUNNING",
            "maxResults": LISTED_AT_ONCE,
        }
        while True:
            try:
                page = await _asked(self._client.list_executions(**request))
            except ExecutionUnknown:  # a state machine that was deleted runs nothing
                return names
            found = (execution["name"] for execution in page["executions"])
            names.update(name for name in found if name.startswith(NAME_PREFIX))
            if "nextToken" not in page:
                return names
            request["nextToken"] = page["nextToken"]

    async def stop(self, execution: str, *, error: str, cause: str) -> None:
        why = {"error": error[:_MAX_ERROR_CHARACTERS], "cause": cause[:_MAX_CAUSE_CHARACTERS]}
        try:
            try:
                await _asked(self._client.stop_execution(executionArn=execution, **why))
            except _KeyDenied:  # only an error and a cause are encrypted
                await _asked(self._client.stop_execution(executionArn=execution))
        except _HasEnded:
            return

    async def answer(self, token: str, answer: str | Refusal) -> None:
        """Raises also AnswerRefused: too long or no JSON."""
        if isinstance(answer, Refusal):
            call: Awaitable[object] = self._client.send_task_failure(
                taskToken=token,
                error=answer.error[:_MAX_ERROR_CHARACTERS],
                cause=answer.cause[:_MAX_CAUSE_CHARACTERS],
            )
        elif len(answer.encode()) > MAX_PAYLOAD_BYTES:
            raise AnswerRefused(f"The answer is longer than {MAX_PAYLOAD_BYTES:,} bytes")
        else:
            call = self._client.send_task_success(taskToken=token, output=answer)
        try:
            await _asked(call, secret=token)
        except _HasEnded:  # not even the form of a token
            raise QuestionClosed(*_MESSAGES[QuestionClosed]) from None

    async def _step(self, execution: str) -> str | None:
        """Which state runs, as a message. It is not worth failing a describe for."""
        try:
            history = await _asked(
                self._client.get_execution_history(
                    executionArn=execution,
                    reverseOrder=True,
                    maxResults=HISTORY_EVENTS,
                    includeExecutionData=False,
                )
            )
        except EngineError:
            return None
        state = running_state(history["events"])
        return None if state is None else f'Running state "{state}"'


async def _asked(call: Awaitable[R], *, secret: str | None = None) -> R:
    """The reply, or the error's meaning; `secret` is kept out of the log."""
    try:
        return await call
    except (ClientError, BotoCoreError) as error:
        code = _code(error)
        meaning = _MEANINGS.get(code)
        text = str(error) if secret is None else str(error).replace(secret, "[token]")
        level = logging.INFO if meaning in (ExecutionUnknown, QuestionClosed) else logging.WARNING
        logger.log(level, "Step Functions: %s", text)
        if meaning is None:
            raise EngineUnavailable(throttled=code in _THROTTLES) from None
        raise meaning(*_MESSAGES.get(meaning, ())) from None


def _start_failure(error: Exception, *, lost: bool) -> StartRejected | StartUncertain:
    code = _code(error)
    logger.warning("Step Functions: start failed: %s: %s", type(error).__name__, error)
    if lost:
        return StartUncertain("The reply to the start was lost")
    if code == "InvalidExecutionInput":
        return StartRejected("The job system does not accept this input", caller_fault=True)
    if code == "ExecutionLimitExceeded" or code in _THROTTLES:
        return StartRejected("The job system is busy; try again later", retryable=True)
    if isinstance(error, NoConnection | TimeoutError):
        return StartRejected("The job system cannot be reached now; try again later", retryable=True)
    return StartRejected("The work could not be started; the server's log says why")


def _code(error: Exception) -> str:
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
