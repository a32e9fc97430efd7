"""What the API answers."""

# moto's annotations are partial
# mypy: disable-error-code="attr-defined, call-arg"

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from moto.core.exceptions import AWSError
from moto.core.responses import ActionResult, EmptyResult
from moto.stepfunctions.parser import api
from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.responses import StepFunctionResponse

from ._registry import replaces
from ._values import json_text

_DEFAULT_PAGE = 100
_MAX_PAGE = 1000
_EXECUTION_DATA = frozenset({"input", "inputDetails", "output", "outputDetails"})

_Event = dict[str, Any]

for _error in (api.InvalidDefinition, api.MissingRequiredParameter):
    replaces(_error, "TYPE")(_error.__name__)  # the reply had no error code


@replaces(StepFunctionResponse, "describe_execution")
def describe_execution(response: StepFunctionResponse) -> ActionResult:
    """A string output lost its quotes, JSON had spaces, a time-out had no stopDate."""
    execution = response.stepfunction_backend.describe_execution(response._get_param("executionArn"))
    status = execution.status
    described: dict[str, object] = {
        "executionArn": execution.execution_arn,
        "stateMachineArn": execution.state_machine_arn,
        "name": execution.name,
        "status": status,
        "startDate": execution.start_date,
        "input": execution.execution_input,
        "inputDetails": {"included": True},
    }
    if status != ExecutionStatus.RUNNING.value:
        described |= {"stopDate": execution.stop_date, "error": execution.error, "cause": execution.cause}
    if status == ExecutionStatus.SUCCEEDED.value:
        described |= {"output": json_text(execution.output), "outputDetails": {"included": True}}
    return ActionResult({name: value for name, value in described.items() if value is not None})


@replaces(StepFunctionResponse, "stop_execution")
def stop_execution(response: StepFunctionResponse) -> ActionResult:
    """Error and cause were dropped, and the first reply had no stopDate."""
    execution = response.stepfunction_backend.describe_execution(response._get_param("executionArn"))
    now = datetime.now(UTC)
    execution.stop(stop_date=now, error=response._get_param("error"), cause=response._get_param("cause"))
    return ActionResult({"stopDate": execution.stop_date or now})


@replaces(StepFunctionResponse, "send_task_failure")
def send_task_failure(response: StepFunctionResponse) -> EmptyResult:
    """The cause was dropped."""
    token, error, cause = (response._get_param(name) for name in ("taskToken", "error", "cause"))
    response.stepfunction_backend.send_task_failure(token, error=error, cause=cause)
    return EmptyResult()


@replaces(StepFunctionResponse, "get_execution_history")
def get_execution_history(response: StepFunctionResponse) -> ActionResult:
    """Order, page size, page token and includeExecutionData were ignored."""
    history = response.stepfunction_backend.get_execution_history(response._get_param("executionArn"))
    newest_first = response._get_param("reverseOrder") is True
    events = history["events"][::-1] if newest_first else history["events"]
    token = response._get_param("nextToken")
    if token is not None:
        events = [event for event in events if _is_after(event["id"], token, newest_first)]
    size = min(response._get_int_param("maxResults") or _DEFAULT_PAGE, _MAX_PAGE)
    page = events[:size]
    more = {"nextToken": str(page[-1]["id"])} if len(events) > size else {}
    if response._get_param("includeExecutionData") is False:
        page = [_without_data(event) for event in page]
    return ActionResult({"events": page, **more})


def _is_after(event_id: int, token: str, newest_first: bool) -> bool:
    if not token.isdecimal():
        raise AWSError("Invalid Token: 'Invalid token'", "InvalidToken")
    return event_id < int(token) if newest_first else event_id > int(token)


def _without_data(event: _Event) -> _Event:
    return {name: _pruned(part) if isinstance(part, dict) else part for name, part in event.items()}


def _pruned(details: _Event) -> _Event:
    return {name: part for name, part in details.items() if name not in _EXECUTION_DATA}
