"""IAM policies of a stack, and the actions that each function needs (`actions.yaml`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .stack import Stack

Needs = dict[str, dict[str, set[str]]]

SERVER = "Server"
"""Stands in `actions.yaml` for a server in a container: it has `ServerPolicy` alone."""
BY_LAMBDA = frozenset({"log group", "dead letters"})
"""Kinds of resources that Lambda itself uses, with the function's role."""

_KINDS = (
    ("state machines", r"arn:aws:states:[a-z0-9-]+:\d+:stateMachine:[A-Za-z0-9_.*-]+"),
    ("executions", r"arn:aws:states:[a-z0-9-]+:\d+:execution:[A-Za-z0-9_.*-]+:mcp-\*"),
    ("table", r"<TaskTable\.Arn>"),
    ("index of open tasks", r"<TaskTable\.Arn>/index/open-tasks"),
    ("signing key", r"<SigningKey\.Id>"),
    ("tools file", r"arn:aws:s3:::[^*]+|arn:aws:ssm:[a-z0-9-]+:\d+:parameter/[^*]+"),
    ("log group", r"<\w+Logs\.Arn>"),
    ("dead letters", r"<StatusDeadLetters\.Arn>"),
)


@dataclass(frozen=True, slots=True)
class Grant:
    """One action on one resource, under conditions."""

    action: str
    resource: str
    condition: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What the resource is. Raises ValueError for one that is not foreseen, such as `*` for most actions."""
        if self.resource == "*" and self.action in ("states:SendTaskFailure", "states:SendTaskSuccess"):
            return "task tokens"
        for kind, pattern in _KINDS:
            if re.fullmatch(pattern, self.resource):
                return kind
        raise ValueError(f"{self.action} on {self.resource}")


def grants(stack: Stack, role: str) -> list[Grant]:
    """Everything that a role of the stack may do, inline or by a managed policy of the stack."""
    properties = stack.resource(role)
    managed = [stack.resource(reference.strip("<>")) for reference in properties.get("ManagedPolicyArns", [])]
    policies = [*properties.get("Policies", []), *managed]
    return [grant for policy in policies for grant in document_grants(policy["PolicyDocument"])]


def document_grants(document: Mapping[str, Any]) -> Iterator[Grant]:
    for statement in document["Statement"]:
        assert statement["Effect"] == "Allow"
        for action in _listed(statement["Action"]):
            for resource in _listed(statement["Resource"]):
                yield Grant(action, resource, statement.get("Condition", {}))


def by_kind(granted: list[Grant]) -> dict[str, set[str]]:
    """The actions by kind of resource, as in `actions.yaml`."""
    actions: dict[str, set[str]] = {}
    for grant in granted:
        actions.setdefault(grant.kind, set()).add(grant.action)
    return actions


@cache
def needs() -> Needs:
    """What each function needs, by kind of resource; not to be changed."""
    text = Path(__file__).with_name("actions.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    return {
        function: {kind: set(actions) for kind, actions in kinds.items()}
        for function, kinds in document.items()
    }


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
