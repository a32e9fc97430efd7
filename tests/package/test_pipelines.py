"""The definitions of the sample pipelines, and of those of the conformance suite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .stack import ROOT, Stack

State = dict[str, Any]

SAMPLES = sorted((ROOT / "infra/pipelines").glob("*.asl.json"))
EVERY = SAMPLES + sorted((ROOT / "tests/conformance/pipelines").glob("*.asl.json"))
TYPES = {"Choice", "Fail", "Map", "Parallel", "Pass", "Succeed", "Task", "Wait"}
ENDS = {"Choice", "Fail", "Succeed"}
"""Types that need neither Next nor End."""


def _machines(definition: State) -> Iterator[State]:
    """The definition and those inside its Map and Parallel states."""
    yield definition
    for state in definition["States"].values():
        inner = [state[key] for key in ("ItemProcessor", "Iterator") if key in state]
        for machine in [*inner, *state.get("Branches", [])]:
            yield from _machines(machine)


def _states(definition: State) -> Iterator[tuple[str, State]]:
    for machine in _machines(definition):
        yield from machine["States"].items()


def _targets(state: State) -> set[str]:
    choices = [choice["Next"] for choice in state.get("Choices", [])]
    caught = [catcher["Next"] for catcher in state.get("Catch", [])]
    return {*choices, *caught, *(state[key] for key in ("Next", "Default") if key in state)}


def _reachable(machine: State) -> set[str]:
    seen: set[str] = set()
    waiting = {machine["StartAt"]}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        waiting |= _targets(machine["States"][name]) - seen
    return seen


def _loaded(path: Path) -> State:
    definition: State = json.loads(path.read_text(encoding="utf-8"))
    return definition


def _called(path: Path) -> list[pytest.param]:  # type: ignore[valid-type]
    calls = [(name, state) for name, state in _states(_loaded(path)) if state["Type"] == "Task"]
    return [pytest.param(state, id=f"{path.name}: {name}") for name, state in calls]


TASKS = [task for path in SAMPLES for task in _called(path)]


def test_there_are_definitions_and_tasks_to_check() -> None:
    assert len(SAMPLES) == 5
    assert len(EVERY) > len(SAMPLES)
    assert TASKS


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_every_state_is_reached_and_every_way_ends(path: Path) -> None:
    for machine in _machines(_loaded(path)):
        assert _reachable(machine) == set(machine["States"])
        for name, state in machine["States"].items():
            assert state["Type"] in TYPES, name
            assert ("Next" in state) + (state.get("End") is True) == (state["Type"] not in ENDS), name


@pytest.mark.parametrize("state", TASKS)
def test_a_task_state_retries_what_passes_with_backoff_and_jitter(state: State) -> None:
    retriers = state["Retry"]
    throttled = [r for r in retriers if any(e.endswith(".ThrottlingException") for e in r["ErrorEquals"])]
    assert throttled
    for retrier in retriers:
        assert retrier["MaxAttempts"] > 0
        assert retrier["BackoffRate"] > 1
        assert retrier["JitterStrategy"] == "FULL"
    named = {error.partition(".")[0] for retrier in retriers for error in retrier["ErrorEquals"]}
    # The two integrations with DynamoDB spell the names of its errors differently.
    assert named == {"DynamoDb" if ":aws-sdk:" in state["Resource"] else "DynamoDB"}


@pytest.mark.requirement("B-58")
@pytest.mark.parametrize("state", TASKS)
def test_a_wait_for_a_human_ends_and_says_when(state: State) -> None:
    if not state["Resource"].endswith(".waitForTaskToken"):
        assert "TimeoutSeconds" not in state or state["TimeoutSeconds"] > 0
        return
    caught = {error for catcher in state["Catch"] for error in catcher["ErrorEquals"]}
    assert caught & {"States.Timeout", "States.ALL"}
    told = state["Parameters"]["ExpressionAttributeValues"][":timeoutSeconds"]["N"]
    assert state["TimeoutSeconds"] == int(told)


@pytest.mark.parametrize("state", TASKS)
def test_a_task_state_writes_only_what_the_pipelines_policy_allows(state: State) -> None:
    stack = Stack("template.yaml", SamplePipelines="true")
    condition = stack.resource("PipelineWritePolicy")["PolicyDocument"]["Statement"][0]["Condition"]
    parameters = state["Parameters"]
    assert state["Resource"].split(":", 5)[5].removeprefix("aws-sdk:").startswith("dynamodb:updateItem")
    assert parameters["TableName"] == "${TaskTable}"
    # The name of the execution is the task's id, which begins with `mcp-`.
    assert parameters["Key"]["pk"] == {"S.$": "$$.Execution.Name"}
    written = set(parameters["ExpressionAttributeNames"].values()) | set(parameters["Key"])
    assert written <= set(condition["ForAllValues:StringEquals"]["dynamodb:Attributes"])
    assert "ReturnValues" not in parameters


@pytest.mark.parametrize("state", TASKS)
def test_reporting_progress_cannot_fail_a_pipeline(state: State) -> None:
    if state["Resource"].endswith(".waitForTaskToken"):
        assert state["ResultPath"] is not None
    else:
        assert {"States.ALL"} == {error for catcher in state["Catch"] for error in catcher["ErrorEquals"]}
        assert state["ResultPath"] is None
