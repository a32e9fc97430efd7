"""Whether a workflow's own role allows what its states do for a task: write to the task table, ask through a function.

IAM is asked to simulate (`iam:SimulatePrincipalPolicy`); nothing is written or invoked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError  # of an emulator that has no such operation

from .findings import Finding
from .workflow_states import State, task_states, waits_for_token

if TYPE_CHECKING:
    from types_aiobotocore_stepfunctions.type_defs import DescribeStateMachineOutputTypeDef

_WRITES = {"updateitem": "dynamodb:UpdateItem", "putitem": "dynamodb:PutItem"}
_WORD = re.compile(r"[A-Za-z0-9_$-]+")
_FUNCTION = re.compile(
    r"(?:(?:arn:(?P<partition>aws[a-z-]*):lambda:(?P<region>[a-z0-9-]+):)?(?P<account>\d{12}):function:)?"
    r"(?P<name>[A-Za-z0-9_-]+)(?::(?P<qualifier>[A-Za-z0-9_$-]+))?"
)
"""What Lambda takes as FunctionName: an ARN, `ACCOUNT:function:NAME` or a name, each with a version or alias or not.

Paths (`$.function`) and expressions (`{% … %}`) are none: which function they name is known only while they run.
"""
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
    for _, state in task_states(machine["definition"]):
        for action, resource in _need(state, machine["stateMachineArn"], table):
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


def _need(state: State, machine: str, table: str) -> Iterator[tuple[str, str]]:
    """Each action of a Task state and the ARN that it is for."""
    given = state.get("Parameters", state.get("Arguments"))
    if not isinstance(given, Mapping):
        return
    _, partition, _, region, account, *_ = machine.split(":")
    called = str(state["Resource"]).partition(":states:::")[2].removeprefix("aws-sdk:").partition(":")
    service, name = called[0], called[2].partition(".")[0]
    arn = f"arn:{partition}:dynamodb:{region}:{account}:table/{table}"
    if service == "dynamodb" and name.lower() in _WRITES and given.get("TableName") in (table, arn):
        yield _WRITES[name.lower()], arn
    named = given.get("FunctionName")
    function = _FUNCTION.fullmatch(named) if isinstance(named, str) else None
    if service == "lambda" and waits_for_token(state) and function is not None:
        name, qualifier = function["name"], function["qualifier"] or given.get("Qualifier")
        owner = f"{function['region'] or region}:{function['account'] or account}"
        alias = f":{qualifier}" if isinstance(qualifier, str) and _WORD.fullmatch(qualifier) else ""
        yield (
            "lambda:InvokeFunction",
            f"arn:{function['partition'] or partition}:lambda:{owner}:function:{name}{alias}",
        )
