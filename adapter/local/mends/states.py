"""How single states are run."""

# moto's annotations are partial
# mypy: disable-error-code="typeddict-item"

from __future__ import annotations

import re
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
from moto.stepfunctions.parser.asl.component.common.string import string_expression
from moto.stepfunctions.parser.asl.component.intrinsic.argument import argument
from moto.stepfunctions.parser.asl.component.state import state
from moto.stepfunctions.parser.asl.component.state.choice.comparison.comparison_operator_type import (
    ComparisonOperatorType,
)
from moto.stepfunctions.parser.asl.component.state.choice.comparison.comparison_variable import (
    ComparisonVariable,
)
from moto.stepfunctions.parser.asl.component.state.choice.comparison.variable import NoSuchVariable
from moto.stepfunctions.parser.asl.component.state.choice.state_choice import StateChoice
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_aws_sdk as aws_sdk,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_dynamodb as dynamodb,
)
from moto.stepfunctions.parser.asl.eval import states
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.utils.boto_client import boto_client_for
from moto.stepfunctions.parser.asl.utils.json_path import extract_json

from ._registry import replaces
from ._values import timestamp

_FIELD_OF_ELEMENT = re.compile(r"\$(?:\.\w+|\[\d+\])*\[\d+\]\.\w+")

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
        cause = f"Failed to transition out of the state '{choice.name}': no rule matched, there is no Default"
        raise _failure(env, StatesErrorNameType.StatesNoChoiceMatched, cause) from None


@replaces(ComparisonVariable, "_eval_body")
def compare(comparison: ComparisonVariable, env: Environment) -> None:
    """A rule about a member that is missing did not match; on AWS only IsPresent may ask for one."""
    comparison.variable.eval(env)
    function = comparison.comparison_function
    if (
        isinstance(env.stack[-1], NoSuchVariable)
        and function.operator_type != ComparisonOperatorType.IsPresent
    ):
        path = comparison.variable.string_sampler.literal_value
        cause = f"Invalid path '{path}': The choice state's condition path references an invalid value."
        raise _failure(env, StatesErrorNameType.StatesRuntime, cause)
    function.eval(env)


def _failure(env: Environment, kind: StatesErrorNameType, cause: str) -> FailureEventException:
    failure = FailureEvent(
        env=env,
        error_name=StatesErrorName(typ=kind),
        event_type=HistoryEventType.ExecutionFailed,
        event_details=EventDetails(executionFailedEventDetails={"error": kind.to_name(), "cause": cause}),
    )
    return FailureEventException(failure)


@replaces(argument, "extract_json")
@replaces(states, "extract_json")
@replaces(string_expression, "extract_json")
def extract(path: str, data: object) -> object:
    """A field of one element, such as `$.a[0].b`, came as a list of one."""
    value = extract_json(path, data)
    return value[0] if _FIELD_OF_ELEMENT.fullmatch(path) else value


@replaces(state, "StateData")
def state_data(*, EnteredTime: str, Name: str) -> states.StateData:  # noqa: N803 - the field's own names
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
