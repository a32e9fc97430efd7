"""Whether a workflow's own role allows what its states do for a task: write to the task table, ask through a function.

IAM is asked to simulate (`iam:SimulatePrincipalPolicy`); nothing is written or invoked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError  # of an emulator that has no such operation

from .findings import Finding

if TYPE_CHECKING:
    from types_aiobotocore_stepfunctions.type_defs import DescribeStateMachineOutputTypeDef

_WRITES = {"updateitem": "dynamodb:UpdateItem", "putitem": "dynamodb:PutItem"}
_REMEDIES = {
    "dynamodb": "the stack's policy PipelineWritePolicyArn, or see docs/workflows.md",
    "lambda": "the stack's policy PipelineAskPolicyArn, if that is its request_input function",
}


async def workflow_permissions(
    iam: Any, machine: DescribeStateMachineOutputTypeDef, table: str
) -> list[Finding]:
    """A finding per resource that the states of a workflow use for a task; none where they use none.

    `iam`: a client of IAM, which has no types here. `table`: the name of the task table.
    """
    needed: dict[str, set[str]] = {}
    for action, resource in _needs(json.loads(machine["definition"]), machine["stateMachineArn"], table):
        needed.setdefault(resource, set()).add(action)
    role = machine["roleArn"]
    subject = f"role of workflow {machine['name']}"
    return [
        await _finding(iam, subject, role, sorted(actions), resource) for resource, actions in needed.items()
    ]


async def _finding(iam: Any, subject: str, role: str, actions: list[str], resource: str) -> Finding:
    try:
        reply = await iam.simulate_principal_policy(
            PolicySourceArn=role, ActionNames=actions, ResourceArns=[resource]
        )
    except (ClientError, BotoCoreError, ResponseParserError) as error:
        return Finding.unknown(subject, _why_unknown(error, role, actions, resource))
    denied = [
        result["EvalActionName"]
        for result in reply["EvaluationResults"]
        if result["EvalDecision"] != "allowed"
    ]
    if denied:
        remedy = _REMEDIES[denied[0].partition(":")[0]]
        return Finding.bad(subject, f"allow {', '.join(denied)} for {resource} in {role} ({remedy})")
    return Finding.good(subject, f"{', '.join(actions)} for {resource.rpartition(':')[2]}")


def _why_unknown(error: Exception, role: str, actions: list[str], resource: str) -> str:
    code = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
    return (
        f"cannot be looked at ({code}; only this check needs iam:SimulatePrincipalPolicy): "
        f"see for yourself that {role} allows {', '.join(actions)} for {resource}"
    )


def _needs(definition: object, machine: str, table: str) -> Iterator[tuple[str, str]]:
    """Each action of a Task state and the ARN that it is for; states may be nested in Map and Parallel."""
    if isinstance(definition, list):
        for member in definition:
            yield from _needs(member, machine, table)
    elif isinstance(definition, Mapping):
        yield from _need(definition, machine, table)
        for member in definition.values():
            yield from _needs(member, machine, table)


def _need(state: Mapping[str, Any], machine: str, table: str) -> Iterator[tuple[str, str]]:
    resource = state.get("Resource")
    given = state.get("Parameters", state.get("Arguments"))
    if state.get("Type") != "Task" or not isinstance(resource, str) or not isinstance(given, Mapping):
        return
    _, partition, _, region, account, *_ = machine.split(":")
    service, _, operation = resource.partition(":states:::")[2].removeprefix("aws-sdk:").partition(":")
    name, _, pattern = operation.partition(".")
    arn = f"arn:{partition}:dynamodb:{region}:{account}:table/{table}"
    if service == "dynamodb" and name.lower() in _WRITES and given.get("TableName") in (table, arn):
        yield _WRITES[name.lower()], arn
    function = given.get("FunctionName")
    if service == "lambda" and pattern == "waitForTaskToken" and isinstance(function, str):
        if not function.startswith("arn:"):
            function = f"arn:{partition}:lambda:{region}:{account}:function:{function}"
        yield "lambda:InvokeFunction", function
