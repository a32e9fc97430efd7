"""Advice on states that wait for a callback: one that is lost must not keep its task open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .findings import Finding
from .workflow_states import State, task_states, waits_for_token

if TYPE_CHECKING:
    from types_aiobotocore_stepfunctions.type_defs import DescribeStateMachineOutputTypeDef

_LIMITS = ("TimeoutSeconds", "TimeoutSecondsPath", "HeartbeatSeconds", "HeartbeatSecondsPath")


def callback_advice(machine: DescribeStateMachineOutputTypeDef) -> list[Finding]:
    """A finding that names the states that wait without a limit of their own; none where there are none."""
    states = [name for name, state in task_states(machine["definition"]) if _waits_for_ever(state)]
    if not states:
        return []
    text = (
        f"{', '.join(states)}: give each TimeoutSeconds or HeartbeatSeconds; without them a callback that is lost "
        "keeps the task open until the execution ends"
    )
    return [Finding.advice(f"callbacks of workflow {machine['name']}", text)]


def _waits_for_ever(state: State) -> bool:
    return waits_for_token(state) and not any(limit in state for limit in _LIMITS)
