"""A CloudFormation template as it comes out for given parameters: conditions decided, intrinsic functions evaluated.

What only AWS knows is left as a name in angle brackets: `<McpRole.Arn>`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT = "123456789012"
REGION = "eu-central-1"
NO_VALUE = object()

_PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "stack",
    "AWS::NoValue": NO_VALUE,
}
_VARIABLE = re.compile(r"\$\{([A-Za-z0-9:.]+)\}")


class _Loader(yaml.SafeLoader):
    """Reads `!Sub x` as `{"Fn::Sub": x}`."""


def _function(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
        if suffix == "GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _function)


@cache
def load(path: str) -> dict[str, Any]:
    """A template of the repository, intrinsic functions in their long form; not to be changed."""
    template: dict[str, Any] = yaml.load((ROOT / path).read_text(encoding="utf-8"), _Loader)
    return template


class Stack:
    """A template with parameters. Raises ValueError for a parameter that its pattern or a rule refuses."""

    def __init__(self, path: str, **parameters: str) -> None:
        self.template = load(path)
        self._parameters = {
            name: str(parameters.pop(name, declared.get("Default", f"<{name}>")))
            for name, declared in self.template["Parameters"].items()
        }
        if parameters:
            raise ValueError(f"no such parameter: {', '.join(parameters)}")
        for name, value in self._parameters.items():
            self._check_parameter(name, value)
        self._check_rules()

    def resource(self, name: str) -> dict[str, Any]:
        """The properties of a resource. Raises KeyError where its condition leaves it out."""
        declared = self.template["Resources"][name]
        if "Condition" in declared and not self.condition(declared["Condition"]):
            raise KeyError(name)
        properties: dict[str, Any] = self.resolve(declared.get("Properties", {}))
        return properties

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        """The properties of every resource of a type, by logical id."""
        return {
            name: self.resource(name)
            for name, declared in self.template["Resources"].items()
            if declared["Type"] == kind and self.condition(declared.get("Condition"))
        }

    def output(self, name: str) -> str:
        declared = self.template["Outputs"][name]
        if not self.condition(declared.get("Condition")):
            raise KeyError(name)
        return str(self.resolve(declared["Value"]))

    def condition(self, name: str | None) -> bool:
        return name is None or bool(self.resolve(self.template["Conditions"][name]))

    def resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            resolved = [self.resolve(item) for item in value]
            return [item for item in resolved if item is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1 and (name := next(iter(value))) in _FUNCTIONS:
            return _FUNCTIONS[name](self, value[name])
        members = {key: self.resolve(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member is not NO_VALUE}

    def ref(self, name: str) -> Any:
        if name in _PSEUDO:
            return _PSEUDO[name]
        if name in self._parameters:
            return self._parameters[name]
        # SAM makes resources of its own, such as `Api.Stage`.
        declared = self.template["Resources"][name.partition(".")[0]]
        if declared["Type"] == "AWS::Serverless::StateMachine":
            return f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{self.resource(name)['Name']}"
        return f"<{name}>"

    def attribute(self, name: str, attribute: str) -> str:
        if self.template["Resources"][name]["Type"] == "AWS::SSM::Parameter":
            return str(self.resource(name)[attribute])
        return f"<{name}.{attribute}>"

    def substitute(self, argument: str | list[Any]) -> str:
        text, local = (argument, {}) if isinstance(argument, str) else (argument[0], argument[1])

        def replaced(match: re.Match[str]) -> str:
            name = match[1]
            if name in local:
                return str(self.resolve(local[name]))
            base, _, attribute = name.partition(".")
            return str(self.attribute(base, attribute) if attribute else self.ref(name))

        return _VARIABLE.sub(replaced, text)

    def _check_parameter(self, name: str, value: str) -> None:
        declared = self.template["Parameters"][name]
        pattern = declared.get("AllowedPattern")
        if value != f"<{name}>" and pattern and not re.fullmatch(pattern, value):
            raise ValueError(f"{name}: {value!r} does not match {pattern}")
        allowed = [str(item) for item in declared.get("AllowedValues", [value])]
        if value not in allowed:
            raise ValueError(f"{name}: {value!r} is not one of {allowed}")

    def _check_rules(self) -> None:
        for rule in self.template.get("Rules", {}).values():
            if not self.resolve(rule.get("RuleCondition", True)):
                continue
            for assertion in rule["Assertions"]:
                if not self.resolve(assertion["Assert"]):
                    raise ValueError(assertion["AssertDescription"])


def _if(stack: Stack, argument: list[Any]) -> Any:
    name, yes, no = argument
    return stack.resolve(yes if stack.condition(name) else no)


def _join(stack: Stack, argument: list[Any]) -> str:
    return str(argument[0]).join(map(str, stack.resolve(argument[1])))


def _split(stack: Stack, argument: list[Any]) -> list[str]:
    return str(stack.resolve(argument[1])).split(argument[0])


def _select(stack: Stack, argument: list[Any]) -> Any:
    return stack.resolve(argument[1])[int(argument[0])]


def _equals(stack: Stack, argument: list[Any]) -> bool:
    left, right = stack.resolve(argument)
    return str(left) == str(right)


_FUNCTIONS: dict[str, Any] = {
    "Ref": Stack.ref,
    "Condition": Stack.condition,
    "Fn::GetAtt": lambda stack, argument: stack.attribute(*argument),
    "Fn::Sub": Stack.substitute,
    "Fn::If": _if,
    "Fn::Join": _join,
    "Fn::Split": _split,
    "Fn::Select": _select,
    "Fn::Equals": _equals,
    "Fn::Not": lambda stack, argument: not stack.resolve(argument[0]),
    "Fn::And": lambda stack, argument: all(stack.resolve(argument)),
    "Fn::Or": lambda stack, argument: any(stack.resolve(argument)),
}
