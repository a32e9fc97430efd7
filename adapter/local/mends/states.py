"""How single states are run."""

# moto's annotations are partial
# mypy: disable-error-code="typeddict-item"

from __future__ import annotations

import threading
from functools import cache

from botocore.client import BaseClient
from moto.stepfunctions.parser.api import HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
    StatesErrorNameType,
)
from moto.stepfunctions.parser.asl.component.state import state
from moto.stepfunctions.parser.asl.component.state.choice.state_choice import StateChoice
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_aws_sdk as aws_sdk,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_dynamodb as dynamodb,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.eval.states import StateData
from moto.stepfunctions.parser.asl.utils.boto_client import boto_client_for

from ._registry import replaces
from ._values import timestamp

_making_client = threading.Lock()
_choose = StateChoice._eval_state


@replaces(StateChoice, "_eval_state")
def choose(choice: StateChoice, env: Environment) -> None:
    """A Choice without a match failed with States.Runtime."""
    try:
        _choose(choice, env)
    except RuntimeError as error:
        if not str(error.args[0]).startswith("No branching option"):
            raise
        raise _no_choice_matched(choice, env) from None


def _no_choice_matched(choice: StateChoice, env: Environment) -> FailureEventException:
    kind = StatesErrorNameType.StatesNoChoiceMatched
    cause = (
        f"Failed to transition out of the state '{choice.name}': no choice rule matched and no Default is set"
    )
    failure = FailureEvent(
        env=env,
        error_name=StatesErrorName(typ=kind),
        event_type=HistoryEventType.ExecutionFailed,
        event_details=EventDetails(executionFailedEventDetails={"error": kind.to_name(), "cause": cause}),
    )
    return FailureEventException(failure)


@replaces(state, "StateData")
def state_data(*, EnteredTime: str, Name: str) -> StateData:  # noqa: N803 - the field's own names
    """`$$.State.EnteredTime` had microseconds and `+00:00`; AWS writes milliseconds and `Z`."""
    return {"EnteredTime": timestamp(EnteredTime), "Name": Name}


@replaces(aws_sdk, "boto_client_for")
@replaces(dynamodb, "boto_client_for")
def client_for(region: str, service: str, state_credentials: object = None) -> BaseClient:
    """Each state made its own client: slow, and boto3 does not allow it in several threads at once."""
    with _making_client:
        return _client_for(region, service)


@cache
def _client_for(region: str, service: str) -> BaseClient:
    return boto_client_for(region=region, service=service)
