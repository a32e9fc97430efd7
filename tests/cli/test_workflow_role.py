from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from adapter.cli.findings import Finding
from adapter.cli.workflow_callbacks import callback_advice
from adapter.cli.workflow_role import workflow_permissions

_TABLE = "arn:aws:dynamodb:eu-west-1:123456789012:table/mcp-tasks"
_FUNCTION = "arn:aws:lambda:eu-west-1:123456789012:function:ask"


class _Iam:
    """IAM that allows what is listed, and notes what it was asked."""

    def __init__(self, *allowed: str, error: Exception | None = None) -> None:
        self._allowed = allowed
        self._error = error
        self.asked: list[dict[str, Any]] = []

    async def simulate_principal_policy(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        if self._error is not None:
            raise self._error
        return {
            "EvaluationResults": [
                {
                    "EvalActionName": name,
                    "EvalDecision": "allowed" if name in self._allowed else "implicitDeny",
                }
                for name in request["ActionNames"]
            ]
        }


def _machine(*states: dict[str, Any]) -> Any:
    named = {str(number): state for number, state in enumerate(states)}
    return {
        "name": "report",
        "stateMachineArn": "arn:aws:states:eu-west-1:123456789012:stateMachine:report",
        "roleArn": "arn:aws:iam::123456789012:role/report",
        "definition": json.dumps({"StartAt": "0", "States": named}),
    }


def _task(resource: str, **parameters: Any) -> dict[str, Any]:
    return {"Type": "Task", "Resource": f"arn:aws:states:::{resource}", "Parameters": parameters, "End": True}


_REPORTS = _task("dynamodb:updateItem", TableName="mcp-tasks")
_ASKS = _task("lambda:invoke.waitForTaskToken", FunctionName=_FUNCTION)


async def _found(iam: _Iam, *states: dict[str, Any]) -> list[Finding]:
    return await workflow_permissions(iam, _machine(*states), "mcp-tasks")


@pytest.mark.parametrize(
    ("state", "action", "resource"),
    [
        (_REPORTS, "dynamodb:UpdateItem", _TABLE),
        (_task("dynamodb:putItem", TableName=_TABLE), "dynamodb:PutItem", _TABLE),
        (
            _task("aws-sdk:dynamodb:updateItem.waitForTaskToken", TableName="mcp-tasks"),
            "dynamodb:UpdateItem",
            _TABLE,
        ),
        (_ASKS, "lambda:InvokeFunction", _FUNCTION),
        (_task("lambda:invoke.waitForTaskToken", FunctionName="ask"), "lambda:InvokeFunction", _FUNCTION),
        (
            {
                "Type": "Task",
                "Resource": "arn:aws:states:::dynamodb:updateItem",
                "Arguments": {"TableName": "mcp-tasks"},
            },
            "dynamodb:UpdateItem",
            _TABLE,
        ),
    ],
)
async def test_what_a_state_does_for_its_task_is_asked_of_its_role(
    state: dict[str, Any], action: str, resource: str
) -> None:
    iam = _Iam(action)
    (finding,) = await _found(iam, state)
    (asked,) = iam.asked
    assert asked["PolicySourceArn"] == "arn:aws:iam::123456789012:role/report"
    assert (asked["ActionNames"], asked["ResourceArns"]) == ([action], [resource])
    assert (finding.mark, finding.subject) == ("ok", "role of workflow report")


_EXPRESSION = {
    "Type": "Task",
    "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
    "Arguments": {"FunctionName": "{% $f %}"},
}


@pytest.mark.parametrize(
    ("function", "resource"),
    [
        ("ask:live", f"{_FUNCTION}:live"),
        ("ask:$LATEST", f"{_FUNCTION}:$LATEST"),
        ("123456789012:function:ask", _FUNCTION),
        ("999999999999:function:ask:7", "arn:aws:lambda:eu-west-1:999999999999:function:ask:7"),
        (f"{_FUNCTION}:live", f"{_FUNCTION}:live"),
        (
            "arn:aws-cn:lambda:cn-north-1:999999999999:function:ask",
            "arn:aws-cn:lambda:cn-north-1:999999999999:function:ask",
        ),
    ],
)
async def test_a_function_is_asked_about_by_its_whole_arn(function: str, resource: str) -> None:
    iam = _Iam("lambda:InvokeFunction")
    await _found(iam, _task("lambda:invoke.waitForTaskToken", FunctionName=function))
    assert [asked["ResourceArns"] for asked in iam.asked] == [[resource]]


async def test_a_qualifier_beside_the_function_is_part_of_its_arn() -> None:
    iam = _Iam("lambda:InvokeFunction")
    await _found(iam, _task("lambda:invoke.waitForTaskToken", FunctionName="ask", Qualifier="live"))
    assert iam.asked[0]["ResourceArns"] == [f"{_FUNCTION}:live"]


@pytest.mark.parametrize(
    "definition",
    [
        [],
        5,
        {},
        {"States": []},
        {"States": {"a": 5}},
        {"States": {"a": {"Type": ["Task"], "Resource": "x"}}},
        {"States": {"a": {"Type": "Task", "Resource": 5}}},
        {"States": {"a": {**_ASKS, "Parameters": "x"}}},
        {"States": {"a": {**_ASKS, "Parameters": {"FunctionName": ["x"]}}}},
        {"States": {"a": {**_REPORTS, "Parameters": {"TableName": {}}}}},
        {"States": {"a": {"Type": "Parallel", "Branches": 5}}},
        {"States": {"a": {"Type": "Map", "ItemProcessor": [5]}}},
    ],
)
async def test_a_definition_of_another_shape_needs_nothing(definition: object) -> None:
    machine = {**_machine(), "definition": json.dumps(definition)}
    assert await workflow_permissions(_Iam(), machine, "mcp-tasks") == []


_TASK_TOKEN = "sqs:sendMessage.waitForTaskToken"


async def test_states_that_wait_for_a_callback_without_a_limit_are_told_as_advice() -> None:
    inner = {"StartAt": "inner", "States": {"inner": _task(_TASK_TOKEN)}}
    items = {"Type": "Map", "ItemProcessor": inner, "End": True}
    (finding,) = callback_advice(_machine(_task(_TASK_TOKEN), items))
    assert (finding.mark, finding.problem) == ("advice", False)
    assert finding.subject == "callbacks of workflow report"
    assert finding.text.startswith("0, inner: give each TimeoutSeconds or HeartbeatSeconds")


@pytest.mark.parametrize(
    "state",
    [
        {**_task(_TASK_TOKEN), "TimeoutSeconds": 60},
        {**_task(_TASK_TOKEN), "TimeoutSecondsPath": "$.limit"},
        {**_task(_TASK_TOKEN), "HeartbeatSeconds": 60},
        {**_task(_TASK_TOKEN), "HeartbeatSecondsPath": "$.limit"},
        _task("sqs:sendMessage"),
        {"Type": "Wait", "Seconds": 5, "End": True},
    ],
)
def test_what_ends_by_itself_needs_no_advice(state: dict[str, Any]) -> None:
    assert callback_advice(_machine(state)) == []


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (_REPORTS, f"allow dynamodb:UpdateItem for {_TABLE} in arn:aws:iam::123456789012:role/report"),
        (_REPORTS, "PipelineWritePolicyArn"),
        (_ASKS, f"allow lambda:InvokeFunction for {_FUNCTION}"),
        (_ASKS, "PipelineAskPolicyArn"),
    ],
)
async def test_what_the_role_lacks_is_a_problem_with_its_remedy(state: dict[str, Any], told: str) -> None:
    (finding,) = await _found(_Iam(), state)
    assert finding.problem
    assert told in finding.text


async def test_states_inside_of_others_count() -> None:
    inner = {"StartAt": "a", "States": {"a": _ASKS}}
    branches = {"Type": "Parallel", "Branches": [inner], "End": True}
    items = {"Type": "Map", "ItemProcessor": {"StartAt": "b", "States": {"b": _REPORTS}}, "End": True}
    findings = await _found(_Iam(), branches, items)
    assert [finding.text.split()[1] for finding in findings] == [
        "lambda:InvokeFunction",
        "dynamodb:UpdateItem",
    ]


async def test_many_states_of_one_kind_are_asked_about_once() -> None:
    iam = _Iam("dynamodb:UpdateItem")
    assert len(await _found(iam, _REPORTS, _REPORTS)) == len(iam.asked) == 1


@pytest.mark.parametrize(
    "state",
    [
        _task("dynamodb:updateItem", TableName="other"),
        _task("dynamodb:getItem", TableName="mcp-tasks"),
        _task("lambda:invoke", FunctionName="work"),
        _task("sqs:sendMessage.waitForTaskToken", QueueUrl="q"),
        _task("lambda:invoke.waitForTaskToken", **{"FunctionName.$": "$.function"}),
        _task("lambda:invoke.waitForTaskToken", FunctionName="$.function"),
        _task("lambda:invoke.waitForTaskToken", FunctionName="arn:aws:lambda:{% $r %}:1:function:f"),
        _EXPRESSION,
        {"Type": "Task", "Resource": _FUNCTION, "End": True},
        {"Type": "Pass", "Parameters": {"Type": "Task", "TableName": "mcp-tasks"}, "End": True},
    ],
)
async def test_what_has_nothing_to_do_with_tasks_is_not_asked_about(state: dict[str, Any]) -> None:
    iam = _Iam()
    assert (await _found(iam, state), iam.asked) == ([], [])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ClientError({"Error": {"Code": "AccessDenied", "Message": ""}}, "Simulate"), "AccessDenied"),
        (ResponseParserError("no XML"), "ResponseParserError"),
    ],
)
async def test_a_role_that_cannot_be_looked_at_is_no_problem_but_is_told(error: Exception, told: str) -> None:
    (finding,) = await _found(_Iam(error=error), _REPORTS)
    assert finding.mark == "unknown"
    assert f"({told}; only this check needs iam:SimulatePrincipalPolicy)" in finding.text
    assert f"allows dynamodb:UpdateItem for {_TABLE}" in finding.text
