"""Every call that the product makes to AWS while tests run, as IAM sees it: an action on a kind of resource.

An event hook on every session of the SDK records them. Who calls is read from the stack: the code next to the SDK,
and the function whose handler is at work.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import botocore.session
import pytest

from tests.package.policies import BY_LAMBDA, needs

_NEEDS_NO_PERMISSION = "sts:GetCallerIdentity"
_NOT_DEPLOYED = ("adapter.cli", "adapter.local", "adapter.stores.table")
"""Parts of the product that run with an operator's credentials."""
_ARN = r"arn:aws:states:[a-z0-9-]+:\d{12}"
_KINDS = (
    ("IndexName", r"open-tasks", "index of open tasks"),
    ("TableName", r".+", "table"),
    ("executionArn", rf"{_ARN}:execution:[^:]+:mcp-[^:]+", "executions"),
    ("stateMachineArn", rf"{_ARN}:stateMachine:[^:]+", "state machines"),
    ("taskToken", r".+", "task tokens"),
    ("SecretId", r".+", "signing key"),
    ("Bucket", r".+", "tools file"),
    ("Name", r".+", "tools file"),
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `function`: the logical id of the function whose handler made it, None outside of any."""

    function: str | None
    action: str
    kind: str


class Calls:
    """What was called, from the beginning of a test on."""

    def __init__(self) -> None:
        self.made: set[Call] = set()

    def of(self, function: str | None) -> dict[str, set[str]]:
        """The actions by kind of resource, as in `actions.yaml`."""
        actions: dict[str, set[str]] = {}
        for call in self.made:
            if call.function == function:
                actions.setdefault(call.kind, set()).add(call.action)
        return actions

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Sessions that are made inside are recorded for as long as they live."""
        init = botocore.session.Session.__init__

        def hooked(session: botocore.session.Session, *args: Any, **options: Any) -> None:
            init(session, *args, **options)
            session.register("provide-client-params", self._note)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(botocore.session.Session, "__init__", hooked)
            yield

    def _note(self, params: Mapping[str, Any], model: Any, **_: object) -> None:
        action = f"{model.service_model.signing_name}:{model.name}"
        modules = [*_modules(sys._getframe())]
        caller = modules[0][0] if modules else "tests"
        if action == _NEEDS_NO_PERMISSION or caller.startswith(("tests", *_NOT_DEPLOYED)):
            return
        self.made.add(Call(_function(modules), action, _kind(action, params)))


def excess(calls: Iterable[Call]) -> list[str]:
    """One sentence for each call that is more than the policy allows."""
    return sorted(
        f"{call.action} on {call.kind} by {call.function or 'the server'} is more than the policy allows"
        for call in calls
        if call.action not in _allowed(call.function, call.kind)
    )


def _allowed(function: str | None, kind: str) -> set[str]:
    """Of a call outside of any handler it is not known for which function it stands."""
    if kind in BY_LAMBDA:
        return set()
    listed = needs()
    callers = listed.values() if function is None else [listed.get(function, {})]
    return set().union(*(needed.get(kind, set()) for needed in callers))


def _modules(frame: FrameType | None) -> Iterator[tuple[str, str]]:
    """Module and function of each frame of ours, the innermost first."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(("adapter.", "lambdas.", "tests.")) and name != __name__:
            yield name, frame.f_code.co_name
        frame = frame.f_back


def _function(modules: Iterable[tuple[str, str]]) -> str | None:
    for module, name in modules:
        match = re.fullmatch(r"lambdas\.(\w+)\.app", module)
        if match and name == "handler":
            return match[1].title().replace("_", "")
    return None


def _kind(action: str, params: Mapping[str, Any]) -> str:
    """What an unforeseen resource is called is in no list."""
    for member, pattern, kind in _KINDS:
        if member in params:
            value = str(params[member])
            if action == "states:StartExecution":  # evaluated against the ARN without version or alias
                value = ":".join(value.split(":")[:7])
            return kind if re.fullmatch(pattern, value) else f"{member} {value}"
    return "nothing that is foreseen"
