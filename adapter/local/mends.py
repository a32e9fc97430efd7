"""Where moto's interpreter of state machines differs from AWS, mended (D14). Imported in the child process only.

Each function below replaces one of moto 5.2.5; its docstring is the reason. Nothing changes before `apply()`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

from moto.core.exceptions import AWSError
from moto.core.responses import ActionResult, EmptyResult
from moto.stepfunctions.parser import api
from moto.stepfunctions.parser.api import ExecutionStatus, HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
    StatesErrorNameType,
)
from moto.stepfunctions.parser.asl.component.program.program import Program
from moto.stepfunctions.parser.asl.component.state import state as state_module
from moto.stepfunctions.parser.asl.component.state.choice.state_choice import StateChoice
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (
    StateTaskServiceCallback,
)
from moto.stepfunctions.parser.asl.eval.callback.callback import (
    CallbackConsumerTimeout,
    CallbackEndpoint,
    CallbackNotifyConsumerError,
    CallbackOutcome,
    CallbackOutcomeFailure,
    CallbackOutcomeSuccess,
    CallbackPoolManager,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventManager
from moto.stepfunctions.parser.asl.eval.program_state import (
    ProgramEnded,
    ProgramError,
    ProgramRunning,
    ProgramStopped,
    ProgramTimedOut,
)
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.models import StepFunctionsParserBackend
from moto.stepfunctions.responses import StepFunctionResponse

_MAX_DATA_BYTES = 262_144
_MAX_NAME = 80
_MAX_PAGE = 1000
_DEFAULT_PAGE = 100

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MENDS: list[tuple[object, str, Callable[..., Any]]] = []
_starting = threading.Lock()
_ending = threading.Lock()
_answering = threading.Lock()
_recording = threading.Lock()


def apply() -> None:
    """Put every mend in its place, in this process."""
    for owner, name, replacement in _MENDS:
        setattr(owner, name, replacement)
    for error in vars(api).values():
        if isinstance(error, type) and issubclass(error, AWSError) and error.TYPE is None:
            error.TYPE = error.__name__  # without it the error code of the reply is empty


def _replaces(owner: object, name: str) -> Callable[[_Function], _Function]:
    def register(function: _Function) -> _Function:
        _MENDS.append((owner, name, function))
        return function

    return register


# --- How an execution ends: once, for good, and with every wait inside it -------------------------------------

_moto_set_stop = Environment.set_stop
_moto_set_error = Environment.set_error
_moto_set_ended = Environment.set_ended
_moto_set_timed_out = Environment.set_timed_out
_moto_add_event = EventManager.add_event
_moto_eval_program = Program.eval


@_replaces(Environment, "set_stop")
def _set_stop(env: Environment, stop_date: datetime, cause: str | None, error: str | None) -> None:
    """StopExecution did not reach a state that waits for a token: the execution stayed RUNNING."""
    with env._state_mutex:
        if not env.is_running():
            return
        _moto_set_stop(env, stop_date=stop_date, cause=cause, error=error)
        _leave_wait(env)
        details = {name: value for name, value in (("error", error), ("cause", cause)) if value is not None}
        _record_end(env, HistoryEventType.ExecutionAborted, {"executionAbortedEventDetails": details})


@_replaces(Environment, "set_timed_out")
def _set_timed_out(env: Environment) -> None:
    """The time-out of a whole execution left its waits open, and its event unwritten, until they ended."""
    with env._state_mutex:
        if not env.is_running():
            return
        _moto_set_timed_out(env)
        _leave_wait(env)
        _record_end(env, HistoryEventType.ExecutionTimedOut, {"executionTimedOutEventDetails": {}})


@_replaces(Environment, "set_error")
def _set_error(env: Environment, error: Any) -> None:
    """An interrupted wait reported an error that turned a stopped execution into a failed one."""
    with env._state_mutex:
        if env.is_running():
            _moto_set_error(env, error=error)
            _leave_wait(env)


@_replaces(Environment, "set_ended")
def _set_ended(env: Environment) -> None:
    """A state past its TimeoutSeconds went on accepting its token."""
    _moto_set_ended(env)
    _leave_wait(env)


def _leave_wait(env: Environment) -> None:
    endpoint = getattr(env, "waits_on", None)
    if endpoint is not None:
        _close(endpoint)
        endpoint.interrupt_all()


def _record_end(env: Environment, kind: HistoryEventType, details: dict[str, Any]) -> None:
    if not env.is_frame():
        env.event_history_context.source_event_id = 0
        env.event_manager.add_event(env.event_history_context, kind, EventDetails(**details))  # type: ignore[typeddict-item]


@_replaces(EventManager, "add_event")
def _add_event(manager: EventManager, context: Any, event_type: HistoryEventType, *rest: Any, **named: Any) -> int:
    """States that were still ending wrote events after the last one of the execution."""
    with _recording:
        if getattr(manager, "closed", False):
            return 0
        event_id: int = _moto_add_event(manager, context, event_type, *rest, **named)
        ends = (HistoryEventType.ExecutionAborted, HistoryEventType.ExecutionTimedOut)
        manager.closed = event_type in ends
        return event_id


@_replaces(Program, "eval")
def _eval_program(program: Program, env: Environment) -> None:
    """An execution that was stopped before its first state could not begin, and raised."""
    if env.is_running():
        _moto_eval_program(program, env)


@_replaces(BaseExecutionWorkerCommunication, "_reflect_execution_status")
def _reflect_execution_status(communication: BaseExecutionWorkerCommunication) -> None:
    """The status was visible before output and error, an abort had no error and cause, an end could change."""
    execution = communication.execution
    with _ending:
        if execution.exec_status is not ExecutionStatus.RUNNING:
            return
        env = execution.exec_worker.env
        state = env.program_state()
        if isinstance(state, ProgramEnded):
            execution.output = env.states.get_input()
        elif isinstance(state, ProgramStopped):
            execution.error, execution.cause = state.error, state.cause
        elif isinstance(state, ProgramError):
            failure = state.error or {}
            execution.error, execution.cause = failure.get("error"), failure.get("cause")
        execution.stop_date = datetime.now(UTC)
        execution.exec_status = _STATUS[type(state)]


_STATUS = {
    ProgramEnded: ExecutionStatus.SUCCEEDED,
    ProgramStopped: ExecutionStatus.ABORTED,
    ProgramError: ExecutionStatus.FAILED,
    ProgramTimedOut: ExecutionStatus.TIMED_OUT,
}


@_replaces(Execution, "stop")
def _stop(execution: Execution, stop_date: datetime, error: str | None, cause: str | None) -> None:
    """The execution was seen RUNNING until its states had noticed the stop."""
    worker = execution.exec_worker
    worker.env.set_stop(stop_date=stop_date, cause=cause, error=error)
    if isinstance(worker.env.program_state(), ProgramStopped):
        worker._execution_communication.terminated()


# --- How an execution begins ----------------------------------------------------------------------------------

_moto_start_execution = StepFunctionsParserBackend.start_execution
_moto_start_worker = ExecutionWorker.start
_moto_environment = ExecutionWorker._get_evaluation_environment
_moto_state_data = state_module.StateData


@_replaces(StepFunctionsParserBackend, "start_execution")
def _start_execution(
    backend: StepFunctionsParserBackend, state_machine_arn: str, name: str | None, execution_input: str
) -> Execution:
    """Any name and size of input was taken, no name became `None`, and two starts at once both started."""
    name = name or str(uuid4())
    _check_name(backend, name)
    if not _is_json(execution_input):
        raise AWSError(f"Invalid State Machine Execution Input: {execution_input[:80]!r}", "InvalidExecutionInput")
    with _starting:
        return _moto_start_execution(backend, state_machine_arn, name, execution_input)


def _check_name(backend: StepFunctionsParserBackend, name: str) -> None:
    forbidden = (*backend.invalid_chars_for_name, *backend.invalid_unicodes_for_name)
    if len(name) > _MAX_NAME or any(character in name for character in forbidden):
        raise AWSError(f"Invalid Name: '{name}'", "InvalidName")


def _is_json(text: str) -> bool:
    if len(text.encode()) > _MAX_DATA_BYTES:
        return False
    with suppress(ValueError):
        json.loads(text)
        return True
    return False


@_replaces(ExecutionWorker, "start")
def _start_worker(worker: ExecutionWorker) -> None:
    """A stop or an answer that came while the definition was being parsed found no environment, and failed."""
    worker._get_evaluation_environment()
    _moto_start_worker(worker)


@_replaces(ExecutionWorker, "_get_evaluation_environment")
def _environment(worker: ExecutionWorker) -> Environment:
    """`$$.Execution.StartTime` was no JSON value: an output that held it broke DescribeExecution."""
    if worker.env is None:
        env = _moto_environment(worker)
        execution = env.states.context_object.context_object_data["Execution"]
        execution["StartTime"] = _timestamp(worker._evaluation_details.execution_details.start_time)
        env._program_state = ProgramRunning()
        worker.env = env
    return worker.env


@_replaces(state_module, "StateData")
def _state_data(**fields: Any) -> Any:
    """`$$.State.EnteredTime` had microseconds and `+00:00`; AWS writes milliseconds and `Z`."""
    fields["EnteredTime"] = _timestamp(datetime.fromisoformat(fields["EnteredTime"]))
    return _moto_state_data(**fields)


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@_replaces(Execution, "status")
@property  # type: ignore[misc]
def _status(execution: Execution) -> str:
    """Listing failed on an execution that was just being started."""
    return str((execution.exec_status or ExecutionStatus.RUNNING).value)


# --- Task tokens ----------------------------------------------------------------------------------------------

_moto_wait_for_token = StateTaskServiceCallback._eval_wait_for_task_token
_moto_attempt = ExecutionState._evaluate_with_timeout


@_replaces(StateTaskServiceCallback, "_eval_wait_for_task_token")
def _wait_for_token(
    task: StateTaskServiceCallback,
    env: Environment,
    timeout_seconds: int,
    callback_endpoint: CallbackEndpoint,
    heartbeat_endpoint: Any,
) -> CallbackOutcome:
    """An answer that arrived as its wait ended was accepted and lost."""
    env.waits_on = callback_endpoint
    if not env.is_running():
        callback_endpoint.interrupt_all()
    outcome = _moto_wait_for_token(task, env, timeout_seconds, callback_endpoint, heartbeat_endpoint)
    return _close(callback_endpoint) or outcome


def _close(endpoint: CallbackEndpoint) -> CallbackOutcome | None:
    with _answering:
        endpoint.report(CallbackConsumerTimeout())
        return endpoint.get_outcome()


@_replaces(ExecutionState, "_evaluate_with_timeout")
def _attempt(state: ExecutionState, env: Environment) -> None:
    """A retried wait kept its token, and with it the answer that had failed the first attempt."""
    context = env.states.context_object.context_object_data
    if "Task" in context and context["State"].get("RetryCount"):
        env.callback_pool_manager.add(env.states.context_object.update_task_token())
    _moto_attempt(state, env)


@_replaces(CallbackPoolManager, "notify")
def _notify(pool: CallbackPoolManager, callback_id: str, outcome: CallbackOutcome) -> bool:
    """A second answer replaced the first where the state had not woken up in between."""
    endpoint = pool.get(callback_id)
    if endpoint is None:
        return False
    with _answering:
        if endpoint.consumer_error is not None or endpoint.get_outcome() is not None:
            raise CallbackNotifyConsumerError(CallbackConsumerTimeout())
        endpoint.notify(outcome)
    return True


@_replaces(StepFunctionsParserBackend, "send_task_success")
def _send_task_success(backend: StepFunctionsParserBackend, task_token: str, outcome: str) -> None:
    """Output that is not JSON was accepted and failed the execution later."""
    if not _is_json(outcome):
        raise AWSError("Invalid Output: the output must be JSON of at most 262144 bytes", "InvalidOutput")
    _answer(backend, CallbackOutcomeSuccess(callback_id=task_token, output=outcome))


@_replaces(StepFunctionsParserBackend, "send_task_failure")
def _send_task_failure(
    backend: StepFunctionsParserBackend, task_token: str, error: str | None = None, cause: str | None = None
) -> None:
    """A token of an execution that was just being started, or had ended, was answered with a server error."""
    _answer(backend, CallbackOutcomeFailure(callback_id=task_token, error=error, cause=cause))


def _answer(backend: StepFunctionsParserBackend, outcome: CallbackOutcome) -> None:
    try:
        if any(pool.notify(outcome.callback_id, outcome) for pool in _token_pools(backend)):
            return
    except CallbackNotifyConsumerError:
        raise AWSError("Task Timed Out: 'Provided task does not exist anymore'", "TaskTimedOut") from None
    raise AWSError("Invalid Token: 'Invalid token'", "InvalidToken")


def _token_pools(backend: StepFunctionsParserBackend) -> Iterator[CallbackPoolManager]:
    for execution in backend._get_executions():
        if execution.exec_worker is not None and execution.exec_worker.env is not None:
            yield execution.exec_worker.env.callback_pool_manager


# --- Choice ---------------------------------------------------------------------------------------------------

_moto_choose = StateChoice._eval_state


@_replaces(StateChoice, "_eval_state")
def _choose(choice: StateChoice, env: Environment) -> None:
    """A Choice without a match failed with States.Runtime."""
    try:
        _moto_choose(choice, env)
    except RuntimeError as error:
        if not str(error.args[0]).startswith("No branching option"):
            raise
        raise _no_choice_matched(choice, env) from None


def _no_choice_matched(choice: StateChoice, env: Environment) -> FailureEventException:
    kind = StatesErrorNameType.StatesNoChoiceMatched
    cause = f"Failed to transition out of the state '{choice.name}': no choice rule matched"
    details = {"error": kind.to_name(), "cause": cause}
    return FailureEventException(
        FailureEvent(
            env=env,
            error_name=StatesErrorName(typ=kind),
            event_type=HistoryEventType.ExecutionFailed,
            event_details=EventDetails(executionFailedEventDetails=details),  # type: ignore[typeddict-item]
        )
    )


# --- The API --------------------------------------------------------------------------------------------------


@_replaces(StepFunctionResponse, "describe_execution")
def _describe_execution(response: StepFunctionResponse) -> ActionResult:
    """A string output lost its quotes, JSON had spaces, a time-out had no stopDate."""
    execution = response.stepfunction_backend.describe_execution(response._get_param("executionArn"))
    status = execution.status
    described: dict[str, Any] = {
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
        described |= {"output": _json(execution.output), "outputDetails": {"included": True}}
    return ActionResult({name: value for name, value in described.items() if value is not None})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json_text)


def _json_text(value: object) -> str:
    return _timestamp(value) if isinstance(value, datetime) else str(value)


@_replaces(StepFunctionResponse, "stop_execution")
def _stop_execution(response: StepFunctionResponse) -> ActionResult:
    """Error and cause were dropped, and the first reply had no stopDate."""
    execution = response.stepfunction_backend.describe_execution(response._get_param("executionArn"))
    now = datetime.now(UTC)
    execution.stop(stop_date=now, error=response._get_param("error"), cause=response._get_param("cause"))
    return ActionResult({"stopDate": execution.stop_date or now})


@_replaces(StepFunctionResponse, "send_task_failure")
def _fail_task(response: StepFunctionResponse) -> EmptyResult:
    """The cause was dropped."""
    token, error, cause = (response._get_param(name) for name in ("taskToken", "error", "cause"))
    response.stepfunction_backend.send_task_failure(token, error=error, cause=cause)
    return EmptyResult()


@_replaces(StepFunctionResponse, "get_execution_history")
def _get_execution_history(response: StepFunctionResponse) -> ActionResult:
    """Order, page size, page token and includeExecutionData were ignored."""
    history = response.stepfunction_backend.get_execution_history(response._get_param("executionArn"))
    events = history["events"]
    newest_first = bool(response._get_param("reverseOrder"))
    if newest_first:
        events = events[::-1]
    token = response._get_param("nextToken")
    if token is not None:
        events = [event for event in events if _is_after(event["id"], token, newest_first)]
    size = min(response._get_int_param("maxResults") or _DEFAULT_PAGE, _MAX_PAGE)
    page = events[:size]
    if response._get_param("includeExecutionData") is False:
        page = [_without_data(event) for event in page]
    more = {"nextToken": str(page[-1]["id"])} if len(events) > size else {}
    return ActionResult({"events": page, **more})


def _is_after(event_id: int, token: str, newest_first: bool) -> bool:
    if not token.isdecimal():
        raise AWSError("Invalid Token: 'Invalid token'", "InvalidToken")
    return event_id < int(token) if newest_first else event_id > int(token)


def _without_data(event: dict[str, Any]) -> dict[str, Any]:
    data = ("input", "inputDetails", "output", "outputDetails")
    return {
        name: {key: part for key, part in value.items() if key not in data} if isinstance(value, dict) else value
        for name, value in event.items()
    }
