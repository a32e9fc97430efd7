from __future__ import annotations

import json

import pytest

from .conftest import PASS, Lab

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_a_choice_without_a_match_fails_by_its_own_name(lab: Lab) -> None:
    rule = {"Variable": "$.x", "IsPresent": True, "Next": "B"}
    ended = await lab.run({"Type": "Choice", "Choices": [rule]}, PASS)
    assert (ended["status"], ended["error"]) == ("FAILED", "States.NoChoiceMatched")
    assert "'A'" in ended["cause"]


async def test_a_choice_with_a_match_goes_on(lab: Lab) -> None:
    rule = {"Variable": "$.x", "IsPresent": True, "Next": "B"}
    ended = await lab.run({"Type": "Choice", "Choices": [rule]}, PASS, value={"x": 1})
    assert ended["output"] == '{"x":1}'


async def test_a_rule_about_a_missing_member_fails(lab: Lab) -> None:
    rule = {"Variable": "$.missing", "NumericGreaterThan": 1, "Next": "B"}
    ended = await lab.run({"Type": "Choice", "Choices": [rule], "Default": "B"}, PASS)
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Runtime")
    assert "Invalid path '$.missing'" in ended["cause"]


async def test_a_rule_may_first_ask_whether_the_member_is_there(lab: Lab) -> None:
    rules = [{"Variable": "$.x", "IsPresent": True}, {"Variable": "$.x", "NumericEquals": 1}]
    ended = await lab.run({"Type": "Choice", "Choices": [{"And": rules, "Next": "A"}], "Default": "B"}, PASS)
    assert ended["status"] == "SUCCEEDED"


async def test_a_rule_that_leads_nowhere_is_a_runtime_error(lab: Lab) -> None:
    rule = {"Variable": "$.x", "IsPresent": True}
    ended = await lab.run({"Type": "Choice", "Choices": [rule]}, value={"x": 1})
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Runtime")


async def test_an_optimised_call_and_an_sdk_call_reach_the_same_table(lab: Lab) -> None:
    key = {"pk": {"S.$": "$$.Execution.Name"}, "sk": {"S": "event#1"}}
    parameters = {"TableName": lab.table, "Key": key}
    put = {"UpdateExpression": "SET n = :n", "ExpressionAttributeValues": {":n": {"N": "7"}}}
    ended = await lab.run(
        {
            "Type": "Task",
            "Resource": "arn:aws:states:::dynamodb:updateItem",
            "Parameters": {**parameters, **put},
            "Next": "B",
        },
        {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:dynamodb:getItem",
            "Parameters": parameters,
            "OutputPath": "$.Item.n.N",
            "End": True,
        },
    )
    assert ended["output"] == '"7"'


async def test_a_path_to_a_field_of_one_element_gives_its_value(lab: Lab) -> None:
    paths = {
        "field.$": "$.a[1].b",
        "list.$": "$.a[0].b",
        "deep.$": "$.a[1].c.d",
        "element.$": "$.a[0]",
        "all.$": "$.a[*].b",
        "sum.$": "States.MathAdd($.a[1].b, 1)",
        "context.$": "$$.Execution.Input.a[1].b",
    }
    value = {"a": [{"b": [5]}, {"b": 6, "c": {"d": 7}}]}
    output = json.loads((await lab.run({**PASS, "Parameters": paths}, value=value))["output"])
    assert output == {
        "field": 6,
        "list": [5],
        "deep": 7,
        "element": {"b": [5]},
        "all": [[5], 6],
        "sum": 7,
        "context": 6,
    }
