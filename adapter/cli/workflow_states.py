"""The states of a workflow's definition, as far as it has the shape of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

State = Mapping[str, Any]


def task_states(definition: str) -> Iterator[tuple[str, State]]:
    """Name and text of each Task state with a Resource; those inside of Map and Parallel as well."""
    return _states(json.loads(definition))


def _states(machine: object) -> Iterator[tuple[str, State]]:
    states = machine.get("States") if isinstance(machine, Mapping) else None
    for name, state in states.items() if isinstance(states, Mapping) else ():
        if not isinstance(state, Mapping):
            continue
        if state.get("Type") == "Task" and isinstance(state.get("Resource"), str):
            yield name, state
        branches = state.get("Branches")
        for inner in branches if isinstance(branches, list) else ():
            yield from _states(inner)
        yield from _states(state.get("ItemProcessor", state.get("Iterator")))


def waits_for_token(state: State) -> bool:
    return str(state["Resource"]).endswith(".waitForTaskToken")
