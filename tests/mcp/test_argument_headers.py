"""`Mcp-Param-*`: arguments that also travel as headers."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.support.adapter import Answer, Mcp, tool

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Item-Count"},
        "dry": {"type": "boolean", "x-mcp-header": "DRY"},
        "where": {
            "type": "object",
            "properties": {
                "inner": {
                    "type": "object",
                    "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}},
                }
            },
        },
        "plain": {"type": "string"},
    },
}


def sentinel(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


async def call(arguments: dict[str, Any], headers: dict[str, str | None]) -> Answer:
    mcp = Mcp(tool(input_schema=SCHEMA))
    answer = await mcp.call("tools/call", {"name": "job", "arguments": arguments}, headers=headers)
    assert len(mcp.engine.started) == (answer.status == 200 and "isError" not in answer.result)
    return answer


@pytest.mark.requirement("R-71", "R-72")
@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({}, {}),
        ({"region": "north"}, {"mcp-param-region": "north"}),
        ({"region": "north"}, {"mcp-param-region": " north\t"}),
        ({"region": ""}, {"mcp-param-region": ""}),
        ({"region": "Zürich"}, {"mcp-param-region": sentinel("Zürich")}),
        ({"region": "north"}, {"mcp-param-region": sentinel("north")}),
        ({"region": " padded "}, {"mcp-param-region": sentinel(" padded ")}),
        ({"region": "a\nb"}, {"mcp-param-region": sentinel("a\nb")}),
        ({"region": "=?base64?SGVsbG8="}, {"mcp-param-region": "=?base64?SGVsbG8="}),
        ({"region": "SGVsbG8=?="}, {"mcp-param-region": "SGVsbG8=?="}),
        ({"region": "=?base64?="}, {"mcp-param-region": "=?base64?="}),
        ({"region": "42"}, {"mcp-param-region": "42"}),
        ({"count": 42}, {"mcp-param-item-count": "42"}),
        ({"count": 42}, {"mcp-param-item-count": "42.0"}),
        ({"count": 42.0}, {"mcp-param-item-count": "42"}),
        ({"count": 0}, {"mcp-param-item-count": "-0"}),
        ({"count": -7}, {"mcp-param-item-count": "-7"}),
        ({"count": 1000}, {"mcp-param-item-count": "1e3"}),
        ({"count": 2**53 - 1}, {"mcp-param-item-count": "9007199254740991"}),
        ({"count": 42}, {"mcp-param-item-count": sentinel("42")}),
        ({"dry": True}, {"mcp-param-dry": "true"}),
        ({"dry": False}, {"mcp-param-dry": "false"}),
        ({"where": {"inner": {"zone": "b"}}}, {"mcp-param-zone": "b"}),
        ({"where": {"inner": {}}}, {}),
    ],
    ids=str,
)
async def test_a_header_that_repeats_its_argument_is_accepted(
    arguments: dict[str, Any], headers: dict[str, str | None]
) -> None:
    assert (await call(arguments, headers)).result["resultType"] == "task"


@pytest.mark.requirement("R-71", "R-72", "R-40")
@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "north"}, {}),
        ({"region": ""}, {}),
        ({"region": "north"}, {"mcp-param-region": "south"}),
        ({"region": "north"}, {"mcp-param-region": "North"}),
        ({"region": "north"}, {"mcp-param-region": ""}),
        ({"region": "north"}, {"mcp-param-region": "north, north"}),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVsbG8?="}),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVs!!!bG8=?="}),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVsbG8="}),
        ({"region": "Zürich"}, {"mcp-param-region": "Zürich"}),
        ({"region": "=?base64?Tm8=?="}, {"mcp-param-region": "=?base64?Tm8=?="}),
        ({}, {"mcp-param-region": "north"}),
        ({"region": None}, {"mcp-param-region": "north"}),
        ({"region": None}, {"mcp-param-region": "null"}),
        ({"count": 42}, {}),
        ({"count": 42}, {"mcp-param-item-count": "43"}),
        ({"count": 42}, {"mcp-param-item-count": "42.5"}),
        ({"count": 42}, {"mcp-param-item-count": ""}),
        ({"count": 42}, {"mcp-param-item-count": "forty-two"}),
        ({"count": 42}, {"mcp-param-item-count": "+42"}),
        ({"count": 42}, {"mcp-param-item-count": "042"}),
        ({"count": 42}, {"mcp-param-item-count": "4_2"}),
        ({"count": 42}, {"mcp-param-item-count": "0x2a"}),
        ({"count": 42}, {"mcp-param-item-count": "42, 42"}),
        ({"count": 42}, {"mcp-param-item-count": "sNaN"}),
        ({"count": 42}, {"mcp-param-item-count": "Infinity"}),
        ({"count": 42}, {"mcp-param-item-count": "1e999999999999999999"}),
        ({"count": 1}, {"mcp-param-item-count": "true"}),
        ({"dry": True}, {"mcp-param-dry": "True"}),
        ({"dry": True}, {"mcp-param-dry": "1"}),
        ({"dry": False}, {"mcp-param-dry": ""}),
        ({"dry": False}, {}),
        ({"where": {"inner": {"zone": "b"}}}, {}),
        ({"where": {"inner": {"zone": "b"}}}, {"mcp-param-zone": "c"}),
        ({"where": {"inner": None}}, {"mcp-param-zone": "b"}),
        ({"where": "text"}, {"mcp-param-zone": "b"}),
        ({"region": ["north"]}, {"mcp-param-region": "north"}),
    ],
    ids=str,
)
async def test_a_missing_different_or_unexpected_header_is_32020_at_400(
    arguments: dict[str, Any], headers: dict[str, str | None]
) -> None:
    answer = await call(arguments, headers)

    assert answer.refusal == (400, -32020)
    assert "mcp-param-" in answer.error["message"]


@pytest.mark.requirement("R-71", "R-58")
@pytest.mark.parametrize("argument", ["region", "count", "dry"])
async def test_a_null_argument_needs_no_header(argument: str) -> None:
    answer = await call({argument: None}, {})

    assert argument in answer.text


@pytest.mark.requirement("R-58", "R-72")
@pytest.mark.parametrize(
    ("arguments", "header"),
    [
        ({"region": 42}, {"mcp-param-region": "42"}),
        ({"region": True}, {"mcp-param-region": "true"}),
        ({"count": "42"}, {"mcp-param-item-count": "42"}),
        ({"count": 1.5}, {"mcp-param-item-count": "1.5"}),
        ({"dry": "true"}, {"mcp-param-dry": "true"}),
    ],
    ids=str,
)
async def test_an_argument_of_the_wrong_type_with_its_equal_header_is_told_to_the_model(
    arguments: dict[str, Any], header: dict[str, str | None]
) -> None:
    answer = await call(arguments, header)

    assert answer.result["isError"] is True
    assert next(iter(arguments)) in answer.text


@pytest.mark.requirement("R-73")
@pytest.mark.parametrize("value", ["anything", "=?base64?!?=", "é"])
async def test_headers_that_no_annotation_names_are_ignored(value: str) -> None:
    headers: dict[str, str | None] = {"mcp-param-unknown": value, "mcp-param-plain": value}

    assert (await call({"plain": "x"}, headers)).result["resultType"] == "task"


@pytest.mark.requirement("R-71")
async def test_another_tool_needs_no_such_header() -> None:
    mcp = Mcp(tool("annotated", input_schema=SCHEMA), tool())

    answer = await mcp.call("tools/call", {"name": "job"}, headers={"mcp-param-region": "north"})

    assert answer.result["resultType"] == "task"


@pytest.mark.requirement("R-71")
async def test_an_argument_that_is_still_to_be_asked_for_needs_no_header() -> None:
    asked = {
        "into": "arguments",
        "params": {
            "message": "Where?",
            "requestedSchema": {
                "type": "object",
                "properties": {"region": {"type": "string"}},
                "required": ["region"],
            },
        },
    }
    schema = {**SCHEMA, "required": ["region"]}
    mcp = Mcp(tool(input_schema=schema, before_start=[{"where": asked}]))
    answers = {"where": {"action": "accept", "content": {"region": "north"}}}

    answer = await mcp.call("tools/call", {"name": "job", "inputResponses": answers})

    assert mcp.input(answer.result["taskId"]) == {"region": "north"}
