"""From how a job ended to what its caller gets (M-20 to M-38)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import _v2026_07_28 as v2026

from adapter.mcp.results import render
from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import tool

TEXT = {"type": "text", "text": "hi"}
BLOCKS: list[dict[str, Any]] = [
    TEXT,
    {"type": "text", "text": "", "annotations": {"audience": ["user"], "priority": 1}, "_meta": {"a": 1}},
    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {
        "type": "resource_link",
        "uri": "s3://bucket/key",
        "name": "key",
        "size": 5,
        "icons": [{"src": "https://e.org/i"}],
    },
    {"type": "resource", "resource": {"uri": "x:y", "text": "t", "mimeType": "text/plain"}},
    {"type": "resource", "resource": {"uri": "x:y", "blob": "AAAA"}},
]
NO_BLOCKS: list[object] = [
    "text",
    None,
    5,
    {},
    {"type": "text"},
    {"type": "text", "text": 5},
    {"type": "text", "text": None},
    {"type": "TEXT", "text": "x"},
    {"type": ["text"], "text": "x"},
    {"type": "video", "data": "x", "mimeType": "y"},
    {"type": "image", "data": "AAAA"},
    {"type": "image", "data": 5, "mimeType": "image/png"},
    {"type": "audio", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "x:y"},
    {"type": "resource_link", "uri": "x:y", "name": "n", "size": "5"},
    {"type": "resource", "resource": {"uri": "x:y"}},
    {"type": "resource", "resource": {"text": "t"}},
    {"type": "resource", "resource": "x:y"},
    {"type": "resource"},
    {"type": "text", "text": "x", "annotations": 5},
    {"type": "text", "text": "x", "annotations": {"priority": 7}},
    {"type": "text", "text": "x", "annotations": {"audience": ["nobody"]}},
    {"type": "text", "text": "x", "annotations": None},
    {"type": "text", "text": "x", "_meta": []},
]


def settings(mode: str = "auto", schema: dict[str, Any] | None = None) -> str:
    return tool(result=mode, output_schema=schema).result_settings


def succeeded(output: object, mode: str = "auto", schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """The result of an execution that put out this value, or this text."""
    text = output if isinstance(output, str) else orjson.dumps(output).decode()
    rendered = render(Outcome(Ending.SUCCEEDED, output=text), settings(mode, schema))
    assert rendered.failure is None
    assert rendered.result is not None
    return rendered.result


# --- plain data -----------------------------------------------------------------------------------------


@pytest.mark.requirement("R-60")
@pytest.mark.parametrize(
    ("output", "text"),
    [
        ('{"a":1.50,"b":[1,2]}', '{"a":1.50,"b":[1,2]}'),
        ('"plain words"', "plain words"),
        ('"Z\\u00fcrich \\n"', "Zürich \n"),
        ('"{\\"a\\":1}"', '{"a":1}'),
        ("{}", "{}"),
        ("[]", "[]"),
        ("null", "null"),
        ("true", "true"),
        ("12345678901234567890123", "12345678901234567890123"),
        ('""', "(no output)"),
        ("", "(no output)"),
        ("not JSON at all", "not JSON at all"),
    ],
)
def test_data_becomes_one_text_block_that_is_never_empty(output: str, text: str) -> None:
    assert succeeded(output) == {"content": [{"type": "text", "text": text}]}


@pytest.mark.era_rows("modern", 46)
@pytest.mark.requirement("R-60", "B-45")
@pytest.mark.parametrize(
    ("schema", "output"),
    [
        ({"type": "object", "required": ["a"]}, '{"a":1.5,"b":null}'),
        ({"type": "array"}, "[1]"),
        ({"type": "string"}, '"x"'),
        ({}, "null"),
        ({"const": 0}, "0"),
    ],
)
def test_with_an_output_schema_the_data_is_structured_content_too(
    schema: dict[str, Any], output: str
) -> None:
    result = succeeded(output, schema=schema)

    assert result["structuredContent"] == orjson.loads(output)
    assert result["content"][0]["text"] == output.strip('"')
    assert "isError" not in result


@pytest.mark.requirement("R-60", "R-111", "B-45")
@pytest.mark.parametrize(
    ("schema", "output", "says"),
    [
        ({"type": "object", "required": ["a"]}, "{}", "a"),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, '{"a":"x"}', "/a"),
        ({"type": "string"}, "5", "string"),
        ({"type": "string"}, "no JSON", "not JSON"),
        ({}, "[" * 300 + "]" * 300, "deep"),
    ],
)
def test_output_that_breaks_the_output_schema_is_an_error_result_naming_the_place(
    schema: dict[str, Any], output: str, says: str
) -> None:
    result = succeeded(output, schema=schema)

    assert result["isError"] is True
    assert "outputSchema" in result["content"][0]["text"]
    assert says in result["content"][0]["text"]
    assert "structuredContent" not in result


# --- ready-made tool results ----------------------------------------------------------------------------


@pytest.mark.requirement("R-61", "R-60")
@pytest.mark.parametrize("block", BLOCKS)
def test_every_kind_of_block_is_passed_on_untouched(block: dict[str, Any]) -> None:
    assert succeeded({"content": [block, TEXT]}) == {"content": [block, TEXT]}


@pytest.mark.requirement("R-61")
@pytest.mark.parametrize("block", NO_BLOCKS)
def test_what_is_no_block_makes_the_whole_output_plain_data(block: object) -> None:
    output = orjson.dumps({"content": [TEXT, block]}).decode()

    assert succeeded(output) == {"content": [{"type": "text", "text": output}]}


@pytest.mark.requirement("R-60", "R-61", "B-36")
@pytest.mark.parametrize(
    "output",
    [
        {"content": "text"},
        {"content": None},
        {"content": [TEXT], "more": 1},
        {"content": [TEXT], "isError": "no"},
        {"content": [TEXT], "isError": None},
        {"content": [TEXT], "_meta": []},
        {"content": [TEXT], "taskId": "x"},
        {"structuredContent": {}},
        {"resultType": "task", "taskId": "mcp-1", "status": "working"},
        {"resultType": "input_required", "inputRequests": {}},
        [{"content": []}],
    ],
)
def test_a_value_with_other_members_is_data_and_no_tool_result(output: object) -> None:
    assert succeeded(output) == {"content": [{"type": "text", "text": orjson.dumps(output).decode()}]}


@pytest.mark.requirement("R-60", "R-108")
def test_a_ready_made_result_keeps_its_members_but_not_what_is_ours_to_say() -> None:
    output = {
        "content": [TEXT],
        "structuredContent": None,
        "isError": False,
        "resultType": "task",
        "_meta": {
            "own": 1,
            "io.modelcontextprotocol/related-task": {"taskId": "x"},
            "io.modelcontextprotocol/serverInfo": {"name": "fake"},
        },
    }

    assert succeeded(output) == {
        "content": [TEXT],
        "structuredContent": None,
        "isError": False,
        "_meta": {"own": 1},
    }


@pytest.mark.requirement("R-60")
def test_reserved_members_alone_leave_no_meta() -> None:
    assert "_meta" not in succeeded({"content": [TEXT], "_meta": {"io.modelcontextprotocol/x": 1}})


@pytest.mark.requirement("R-60")
def test_empty_content_is_filled() -> None:
    assert succeeded({"content": []}) == {"content": [{"type": "text", "text": "(no output)"}]}


@pytest.mark.requirement("R-60", "B-45")
@pytest.mark.parametrize(
    ("structured", "says"),
    [
        ({"structuredContent": {"a": "x"}}, "/a"),
        ({}, "no structuredContent"),
        ({"structuredContent": None}, "null"),
    ],
)
def test_a_ready_made_result_must_fit_the_output_schema(structured: dict[str, Any], says: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}

    result = succeeded({"content": [TEXT], **structured}, schema=schema)

    assert result["isError"] is True
    assert says in result["content"][0]["text"]


@pytest.mark.requirement("R-60")
def test_a_ready_made_result_that_fits_is_passed_on() -> None:
    result = succeeded({"content": [TEXT], "structuredContent": {"a": 1}}, schema={"type": "object"})

    assert result == {"content": [TEXT], "structuredContent": {"a": 1}}


@pytest.mark.requirement("R-60", "R-111", "B-45")
def test_a_ready_made_error_needs_no_structured_content_and_gives_its_text_as_message() -> None:
    output = orjson.dumps(
        {"content": [BLOCKS[2], {"type": "text", "text": "x" * 400}], "isError": True}
    ).decode()

    rendered = render(Outcome(Ending.SUCCEEDED, output=output), settings(schema={"type": "object"}))

    assert rendered.result is not None
    assert rendered.result["isError"] is True
    assert rendered.message == "x" * 300 + "…"


def test_a_ready_made_error_without_text_has_a_message_all_the_same() -> None:
    output = orjson.dumps({"content": [BLOCKS[2]], "isError": True}).decode()

    assert (
        render(Outcome(Ending.SUCCEEDED, output=output), settings()).message == "The tool reported an error"
    )


@pytest.mark.requirement("R-60")
def test_a_ready_made_result_nested_without_bounds_is_an_error_result() -> None:
    output = '{"content":[],"structuredContent":' + "[" * 500 + "]" * 500 + "}"

    assert "deep" in succeeded(output)["content"][0]["text"]


@pytest.mark.requirement("R-60")
def test_the_setting_data_never_takes_output_for_a_tool_result() -> None:
    output = '{"content":[{"type":"text","text":"hi"}]}'

    assert succeeded(output, mode="data") == {"content": [{"type": "text", "text": output}]}


@pytest.mark.requirement("R-60")
def test_the_setting_result_takes_nothing_else() -> None:
    assert succeeded({"content": [TEXT]}, mode="result") == {"content": [TEXT]}
    wrong = succeeded({"a": 1}, mode="result")
    assert wrong["isError"] is True
    assert "not a tool result" in wrong["content"][0]["text"]


def test_the_result_depends_on_the_execution_alone() -> None:
    outcome = Outcome(Ending.SUCCEEDED, output='{"a":1}')

    assert render(outcome, settings()) == render(outcome, settings())


@pytest.mark.requirement("R-60", "R-61")
@given(
    st.lists(st.sampled_from([*BLOCKS, *NO_BLOCKS]), max_size=3),
    st.dictionaries(
        st.sampled_from(["isError", "structuredContent", "_meta", "resultType", "other"]),
        st.sampled_from([True, False, None, {}, {"a": 1}, "x", [1]]),
    ),
)
def test_whatever_a_workflow_puts_out_is_a_tool_result_that_the_official_model_knows(
    content: list[Any], members: dict[str, Any]
) -> None:
    result = succeeded({"content": content, **members})

    assert result["content"]
    v2026.CallToolResult.model_validate(
        {**result, "resultType": "complete"}, strict=True, by_alias=True, by_name=False
    )
