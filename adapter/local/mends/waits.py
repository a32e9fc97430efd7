"""Task tokens: one answer each, while somebody waits for it."""

# moto's annotations are partial
# mypy: disable-error-code="attr-defined, union-attr"

from __future__ import annotations

import threading
from collections.abc import Iterator

from moto.core.exceptions import AWSError
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_callback as service,
)
from moto.stepfunctions.parser.asl.eval.callback.callback import (
    CallbackConsumerTimeout,
    CallbackEndpoint,
    CallbackNotifyConsumerError,
    CallbackOutcome,
    CallbackOutcomeFailure,
    CallbackOutcomeSuccess,
    CallbackPoolManager,
    HeartbeatEndpoint,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.models import StepFunctionsParserBackend

from ._registry import replaces
from ._values import is_acceptable_json

_answering = threading.Lock()
_wait_for_token = service.StateTaskServiceCallback._eval_wait_for_task_token
_attempt = ExecutionState._evaluate_with_timeout


def leave_wait(env: Environment) -> None:
    """Close the token that a state of this environment waits for, if it does, and wake the state."""
    endpoint = getattr(env, "waits_on", None)
    if endpoint is not None:
        _close(endpoint)
        endpoint.interrupt_all()


def _close(endpoint: CallbackEndpoint) -> CallbackOutcome | None:
    with _answering:
        endpoint.report(CallbackConsumerTimeout())
        return endpoint.get_outcome()


@replaces(service.StateTaskServiceCallback, "_eval_wait_for_task_token")
def wait_for_token(
    task: service.StateTaskServiceCallback,
    env: Environment,
    timeout_seconds: int,
    callback_endpoint: CallbackEndpoint,
    heartbeat_endpoint: HeartbeatEndpoint | None,
) -> CallbackOutcome:
    """A wait could not be interrupted, and an answer that arrived as it ended was accepted and lost."""
    env.waits_on = callback_endpoint
    if not env.is_running():
        leave_wait(env)
    outcome = _wait_for_token(task, env, timeout_seconds, callback_endpoint, heartbeat_endpoint)
    return _close(callback_endpoint) or outcome


@replaces(ExecutionState, "_evaluate_with_timeout")
def attempt(state: ExecutionState, env: Environment) -> None:
    """A retried wait kept its token, and with it the answer that had failed the first attempt."""
    context = env.states.context_object.context_object_data
    if "Task" in context and context["State"].get("RetryCount"):
        env.callback_pool_manager.add(env.states.context_object.update_task_token())
    _attempt(state, env)


@replaces(CallbackPoolManager, "notify")
def notify(pool: CallbackPoolManager, callback_id: str, outcome: CallbackOutcome) -> bool:
    """A second answer replaced the first where the state had not woken up in between."""
    endpoint = pool.get(callback_id)
    if endpoint is None:
        return False
    with _answering:
        if endpoint.consumer_error is not None or endpoint.get_outcome() is not None:
            raise CallbackNotifyConsumerError(CallbackConsumerTimeout())
        endpoint.notify(outcome)
    return True


@replaces(StepFunctionsParserBackend, "send_task_success")
def send_task_success(backend: StepFunctionsParserBackend, task_token: str, outcome: str) -> None:
    """Output that is not JSON was accepted, and failed the execution later."""
    if not is_acceptable_json(outcome):
        raise AWSError("Invalid Output: not JSON, or more than 262144 bytes", "InvalidOutput")
    _answer(backend, CallbackOutcomeSuccess(callback_id=task_token, output=outcome))


@replaces(StepFunctionsParserBackend, "send_task_failure")
def send_task_failure(
    backend: StepFunctionsParserBackend, task_token: str, error: str | None = None, cause: str | None = None
) -> None:
    """A token that was used, or whose execution had ended, got InvalidToken or a server error."""
    _answer(backend, CallbackOutcomeFailure(callback_id=task_token, error=error, cause=cause))


def _answer(backend: StepFunctionsParserBackend, outcome: CallbackOutcome) -> None:
    try:
        if any(pool.notify(outcome.callback_id, outcome) for pool in _pools(backend)):
            return
    except CallbackNotifyConsumerError:
        raise AWSError("Task Timed Out: 'Provided task does not exist anymore'", "TaskTimedOut") from None
    raise AWSError("Invalid Token: 'Invalid token'", "InvalidToken")


def _pools(backend: StepFunctionsParserBackend) -> Iterator[CallbackPoolManager]:
    for execution in backend._get_executions():
        if execution.exec_worker is not None:
            yield execution.exec_worker.env.callback_pool_manager
