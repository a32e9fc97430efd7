"""How an execution begins: checked, once, and at once ready to be stopped or answered."""

# moto's annotations are partial
# mypy: disable-error-code="no-untyped-call, union-attr"

from __future__ import annotations

import threading
from functools import lru_cache
from uuid import uuid4

from moto.core.exceptions import AWSError
from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.program_state import ProgramRunning
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.backend.execution import Execution
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.models import StepFunctionsParserBackend

from ._registry import replaces
from ._values import is_acceptable_json, timestamp

_MAX_NAME = 80

_starting = threading.Lock()
_start_execution = StepFunctionsParserBackend.start_execution
_start_worker = ExecutionWorker.start
_get_environment = ExecutionWorker._get_evaluation_environment


@replaces(StepFunctionsParserBackend, "start_execution")
def start_execution(
    backend: StepFunctionsParserBackend, state_machine_arn: str, name: str | None, execution_input: str
) -> Execution:
    """Any name and size of input was taken, no name became `None`, and two starts at once both started."""
    name = name or str(uuid4())
    forbidden = (*backend.invalid_chars_for_name, *backend.invalid_unicodes_for_name)
    if len(name) > _MAX_NAME or any(character in name for character in forbidden):
        raise AWSError(f"Invalid Name: '{name}'", "InvalidName")
    if not is_acceptable_json(execution_input):
        raise AWSError("Invalid State Machine Execution Input", "InvalidExecutionInput")
    with _starting:
        return _start_execution(backend, state_machine_arn, name, execution_input)


@replaces(ExecutionWorker, "start")
def start_worker(worker: ExecutionWorker) -> None:
    """A stop or an answer that came before the definition was parsed found no environment, and failed."""
    worker._get_evaluation_environment()
    _start_worker(worker)


@replaces(ExecutionWorker, "_get_evaluation_environment")
def get_environment(worker: ExecutionWorker) -> Environment:
    """`$$.Execution.StartTime` was no JSON value: an output that held it broke DescribeExecution."""
    if worker.env is None:
        worker.env = _get_environment(worker)
        worker.env._program_state = ProgramRunning()
        execution = worker.env.states.context_object.context_object_data["Execution"]
        execution["StartTime"] = timestamp(execution["StartTime"])
    return worker.env


@replaces(ExecutionWorker, "_get_evaluation_entrypoint")
def get_program(worker: ExecutionWorker) -> EvalComponent:
    """Each start parsed its definition anew, which took longer than everything else it did."""
    return _program(worker._evaluation_details.state_machine_details.definition)


@lru_cache(maxsize=256)
def _program(definition: str) -> EvalComponent:
    return AmazonStateLanguageParser.parse(definition)[0]


def _status(execution: Execution) -> str:
    """Listing failed on an execution that was just being started."""
    return str((execution.exec_status or ExecutionStatus.RUNNING).value)


replaces(Execution, "status")(property(_status))
