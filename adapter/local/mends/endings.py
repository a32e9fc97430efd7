"""How an execution ends: once, for good, and with every wait inside it."""

# moto's annotations are partial
# mypy: disable-error-code="arg-type, attr-defined, union-attr, typeddict-item"

from __future__ import annotations

import threading
from datetime import UTC, datetime

from moto.stepfunctions.parser.api import ExecutionFailedEventDetails, ExecutionStatus, HistoryEventType
from moto.stepfunctions.parser.asl.component.program.program import Program
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventHistoryContext, EventManager
from moto.stepfunctions.parser.asl.eval.program_state import (
    ProgramEnded,
    ProgramError,
    ProgramState,
    ProgramStopped,
    ProgramTimedOut,
)
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution

from ._registry import replaces
from .waits import leave_wait

_STATUS: dict[type[ProgramState], ExecutionStatus] = {
    ProgramEnded: ExecutionStatus.SUCCEEDED,
    ProgramStopped: ExecutionStatus.ABORTED,
    ProgramError: ExecutionStatus.FAILED,
    ProgramTimedOut: ExecutionStatus.TIMED_OUT,
}
_LAST_EVENTS = (HistoryEventType.ExecutionAborted, HistoryEventType.ExecutionTimedOut)

_ending = threading.Lock()
_recording = threading.Lock()
_set_stop = Environment.set_stop
_set_error = Environment.set_error
_set_ended = Environment.set_ended
_set_timed_out = Environment.set_timed_out
_add_event = EventManager.add_event
_eval_program = Program.eval


@replaces(Environment, "set_stop")
def set_stop(env: Environment, stop_date: datetime, cause: str | None, error: str | None) -> None:
    """StopExecution did not reach a state that waits for a token: the execution stayed RUNNING."""
    with env._state_mutex:
        if env.is_running():
            _set_stop(env, stop_date=stop_date, cause=cause, error=error)
            leave_wait(env)
            given = {name: text for name, text in (("error", error), ("cause", cause)) if text is not None}
            _record_end(env, HistoryEventType.ExecutionAborted, executionAbortedEventDetails=given)


@replaces(Environment, "set_timed_out")
def set_timed_out(env: Environment) -> None:
    """The time-out of a whole execution left its waits open, and its last event unwritten."""
    with env._state_mutex:
        if env.is_running():
            _set_timed_out(env)
            leave_wait(env)
            _record_end(env, HistoryEventType.ExecutionTimedOut, executionTimedOutEventDetails={})


@replaces(Environment, "set_error")
def set_error(env: Environment, error: ExecutionFailedEventDetails) -> None:
    """An interrupted wait reported an error that turned a stopped execution into a failed one."""
    with env._state_mutex:
        if env.is_running():
            _set_error(env, error=error)
            leave_wait(env)


@replaces(Environment, "set_ended")
def set_ended(env: Environment) -> None:
    """A state past its TimeoutSeconds went on accepting its token."""
    _set_ended(env)
    leave_wait(env)


def _record_end(env: Environment, kind: HistoryEventType, **details: dict[str, str]) -> None:
    if not env.is_frame():
        env.event_history_context.source_event_id = 0
        env.event_manager.add_event(env.event_history_context, kind, EventDetails(**details))


@replaces(EventManager, "add_event")
def add_event(
    manager: EventManager,
    context: EventHistoryContext,
    event_type: HistoryEventType,
    event_details: EventDetails | None = None,
    timestamp: datetime | None = None,
    update_source_event_id: bool = True,
) -> int:
    """States that noticed the end late wrote events after the last one of the execution."""
    with _recording:
        if getattr(manager, "closed", False):
            return context.last_published_event_id
        manager.closed = event_type in _LAST_EVENTS
        return _add_event(manager, context, event_type, event_details, timestamp, update_source_event_id)


@replaces(Program, "eval")
def eval_program(program: Program, env: Environment) -> None:
    """An execution that was stopped before its first state raised instead of ending."""
    if env.is_running():
        _eval_program(program, env)


@replaces(BaseExecutionWorkerCommunication, "_reflect_execution_status")
def reflect_execution_status(communication: BaseExecutionWorkerCommunication) -> None:
    """The status showed before output and error did, an abort had no error and cause, an end could change."""
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


@replaces(Execution, "stop")
def stop(execution: Execution, stop_date: datetime, error: str | None, cause: str | None) -> None:
    """The execution was seen RUNNING until its states had noticed the stop."""
    worker = execution.exec_worker
    worker.env.set_stop(stop_date=stop_date, cause=cause, error=error)
    if isinstance(worker.env.program_state(), ProgramStopped):
        worker._execution_communication.terminated()
