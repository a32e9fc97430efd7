"""The tools file: what it may say, and that each mistake is told as one line with file, tool and rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from adapter.errors import ConfigurationError
from adapter.tools.catalog import Catalog
from adapter.tools.file import load_catalog

Load = Callable[[str | bytes], Catalog]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a tools file with this text."""

    def load_text(text: str | bytes) -> Catalog:
        path = tmp_path / "tools.yaml"
        path.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
        return load_catalog(path)

    return load_text


def entry(**members: Any) -> str:
    """A file with one tool `job`; None takes a member away."""
    whole = {"name": "job", "description": "D", "state_machine": "sm", **members}
    return yaml.safe_dump({"tools": [{k: v for k, v in whole.items() if v is not None}]})


def mistake(load: Load, text: str | bytes) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    message = str(caught.value)
    assert "tools.yaml: " in message
    assert "\n" not in message
    return message.partition("tools.yaml: ")[2]


@pytest.mark.requirement("R-52")
def test_a_tool_needs_three_members_and_gets_defaults(load: Load) -> None:
    (tool,) = load(entry())

    assert (tool.name, tool.description, tool.state_machine) == ("job", "D", "sm")
    assert (tool.task_support, tool.on_disconnect, tool.on_expire, tool.result) == (
        "optional",
        "stop",
        "leave",
        "auto",
    )
    assert (tool.timeout, tool.retention, tool.poll_interval, tool.inline_wait) == (3600, 86_400, 5, 20)
    assert tool.input_schema == {"type": "object", "additionalProperties": False}


@pytest.mark.requirement("B-03")
def test_every_tool_is_read_in_its_order(load: Load) -> None:
    text = yaml.safe_dump(
        {"tools": [{"name": f"t{n}", "description": "D", "state_machine": "s"} for n in range(131)]}
    )

    assert [tool.name for tool in load(text)] == [f"t{n}" for n in range(131)]


def test_a_whole_tool_as_documented(load: Load) -> None:
    (tool,) = load(
        """
        tools:
          - name: nightly_report
            title: Nightly report
            description: Builds the sales report for one day.
            state_machine: nightly-report
            definition: pipelines/nightly-report.asl.json
            task_support: required
            input_schema:
              type: object
              properties: {day: {type: string, format: date, default: 2026-07-28}}
              required: [day]
            output_schema: {type: object}
            timeout: 2h
            retention: 22h
            poll_interval: 250ms
            inline_wait: 0s
            annotations: {readOnlyHint: true}
        """
    )

    assert tool.ttl == 86_400
    assert (tool.poll_interval, tool.inline_wait) == (0.25, 0)
    assert tool.annotations is not None
    assert tool.annotations.model_dump(exclude_none=True) == {"readOnlyHint": True}


def test_dates_that_yaml_makes_are_strings_again(load: Load) -> None:
    (tool,) = load(
        """
        tools:
          - name: job
            description: D
            state_machine: s
            input_schema: {type: object, properties: {day: {type: string, default: 2026-07-28}}}
        """
    )

    assert tool.input_schema["properties"]["day"]["default"] == "2026-07-28"


@pytest.mark.requirement("R-70")
def test_a_schema_shared_by_an_alias_is_judged_in_each_of_its_places(load: Load) -> None:
    told = mistake(
        load,
        """
        tools:
          - name: job
            description: D
            state_machine: s
            input_schema:
              type: object
              properties:
                list: {type: array, items: &region {type: string, x-mcp-header: Region}}
                region: *region
        """,
    )

    assert "x-mcp-header" in told


# --- mistakes of the file -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "`tools`"),
        ("[]", "`tools`"),
        ("tools", "`tools`"),
        ("tool: []", "`tools`"),
        ("{tools: [], more: 1}", "`tools`"),
        ("tools:", "at least one tool"),
        ("tools: []", "at least one tool"),
        ("tools: {}", "a list"),
        ("tools: [", "not valid YAML at line"),
        ("tools:\n\t- a", "not valid YAML at line 2"),
        ("a: 1\na: 2", "'a' is there twice"),
        ("tools: [{name: a, timeout: 1h, timeout: 2h}]", "'timeout' is there twice"),
        ("tools: !!python/object:os.system {}", "not valid YAML"),
        ("tools: *nothing", "not valid YAML"),
        ("? [a]\n: 1", "not valid YAML"),
        ("\x00", "not valid YAML"),
        (b"\xff\xfe\xff", "UTF-8"),
        ("[" * 1200, "deep"),
        ("tools: [job]", "tool number 1: must be a mapping"),
        ("tools: [5, null]", "tool number 1"),
        ("tools: [{}]", "tool number 1: name"),
        ("tools: [{name: 5, description: D, state_machine: s}]", "tool number 1: name"),
    ],
)
def test_a_file_that_cannot_be_read_as_tools_says_why(load: Load, text: str | bytes, says: str) -> None:
    assert says in mistake(load, text)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.yaml: cannot be read: No such file"):
        load_catalog(tmp_path / "none.yaml")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_catalog(tmp_path)


@pytest.mark.requirement("R-55")
def test_two_tools_with_one_name_are_refused(load: Load) -> None:
    text = yaml.safe_dump(
        {"tools": [{"name": n, "description": "D", "state_machine": "s"} for n in ("a", "B", "a")]}
    )

    assert "two tools are named 'a'" in mistake(load, text)


@pytest.mark.requirement("R-55")
def test_names_that_differ_in_case_are_two_tools(load: Load) -> None:
    text = yaml.safe_dump(
        {"tools": [{"name": n, "description": "D", "state_machine": "s"} for n in ("a", "A")]}
    )

    assert len(load(text)) == 2


# --- mistakes of a tool ---------------------------------------------------------------------------------

FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {"x": {"type": "string"}}}}
WITH_X = {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": False}


def rounds(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"before_start": list(requests)}


@pytest.mark.parametrize(
    ("members", "place", "rule"),
    [
        ({"description": None}, "description", "required"),
        ({"description": ""}, "description", "at least 1"),
        ({"description": 5}, "description", "string"),
        ({"state_machine": None}, "state_machine", "required"),
        ({"state_machine": ""}, "state_machine", "at least 1"),
        ({"unknown": 1}, "unknown", "not permitted"),
        ({"Timeout": "1h"}, "Timeout", "not permitted"),
        ({"task_support": "maybe"}, "task_support", "required"),
        ({"task_support": True}, "task_support", "required"),
        ({"on_disconnect": "ignore"}, "on_disconnect", "stop"),
        ({"on_expire": "delete"}, "on_expire", "leave"),
        ({"result": "text"}, "result", "auto"),
        ({"timeout": 90}, "timeout", "90s, 15m, 24h or 7d"),
        ({"timeout": "90"}, "timeout", "90s, 15m, 24h or 7d"),
        ({"timeout": "1 week"}, "timeout", "90s"),
        ({"timeout": "-1s"}, "timeout", "90s"),
        ({"timeout": "0s"}, "timeout", "more than 0"),
        ({"retention": "0s"}, "retention", "more than 0"),
        ({"poll_interval": "0ms"}, "poll_interval", "more than 0"),
        ({"timeout": "400d"}, "timeout", "year"),
        ({"inline_wait": [1]}, "inline_wait", "90s"),
        ({"annotations": "x"}, "annotations", ""),
        ({"annotations": {"readonly": True}}, "annotations.readonly", "not permitted"),
        ({"annotations": {"readOnlyHint": "yes"}}, "annotations.readOnlyHint", "boolean"),
        ({"annotations": {"title": 5}}, "annotations.title", "string"),
        ({"input_schema": "x"}, "input_schema", ""),
        ({"input_schema": {}}, "input_schema", "type: object"),
        ({"input_schema": {"type": "array"}}, "input_schema", "type: object"),
        ({"input_schema": {"type": ["object"]}}, "input_schema", "type: object"),
        ({"input_schema": {"type": "object", "properties": []}}, "input_schema", "/properties"),
        ({"input_schema": {"type": "object", "required": "x"}}, "input_schema", "/required"),
        (
            {"input_schema": {"type": "object", "$schema": "http://json-schema.org/draft-03/schema#"}},
            "input_schema",
            "dialect",
        ),
        (
            {"input_schema": {"type": "object", "$ref": "https://example.com/s.json"}},
            "input_schema",
            "network",
        ),
        ({"input_schema": {"type": "object", "x": float("nan"), "maximum": "5"}}, "input_schema", "/maximum"),
        ({"output_schema": True}, "output_schema", ""),
        ({"output_schema": {"type": "strin"}}, "output_schema", "/type"),
        ({"before_start": {}}, "before_start", ""),
        (rounds({}), "before_start.0", "at least 1"),
        (rounds({"a b": {"params": FORM}}), "before_start.0", "'a b'"),
        (rounds({"a": {"params": FORM, "into": "x y"}}), "before_start.0", "`into`"),
        (rounds({"a": {"params": FORM, "into": ""}}), "before_start.0", "`into`"),
        (rounds({"a": {"params": FORM, "other": 1}}), "before_start.0", "not permitted"),
        (rounds({"a": {"method": "ping"}}), "before_start.0", "elicitation/create"),
        (rounds({"a": {"params": FORM, "proceed_if": {"y": True}}}), "before_start.0", "['y']"),
        (rounds({"a": {"method": "roots/list", "into": "arguments"}}), "before_start.0", "form"),
        (rounds({"a": {"params": {"mode": "url"}, "proceed_if": {"x": 1}}}), "before_start.0", "form"),
        (rounds({"a": {"params": FORM, "on_decline": "ask"}}), "before_start.0", "stop"),
        (rounds({"a": {"params": FORM}}, {"a": {"params": FORM}}), "before_start", "'a' is used twice"),
        (
            rounds({"a": {"params": FORM, "into": "c"}, "b": {"params": FORM, "into": "c"}}),
            "before_start",
            "'c' is filled twice",
        ),
        ({**rounds({"x": {"params": FORM}}), "input_schema": WITH_X}, "before_start", "'x' is an argument"),
        (
            {**rounds({"x": {"params": FORM}, "f": {"params": FORM, "into": "arguments"}})},
            "before_start",
            "'x' is filled twice",
        ),
        (rounds({"a": {"params": FORM, "into": "arguments"}}), "before_start", "'x' is asked for"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_that_names_tool_place_and_rule(
    load: Load, members: dict[str, Any], place: str, rule: str
) -> None:
    told = mistake(load, entry(**members))

    assert told.startswith("tool 'job': ")
    assert place in told
    assert rule in told
    assert len(told) < 500


@pytest.mark.requirement("R-55")
@pytest.mark.parametrize("name", ["", "a b", "a/b", "jöb", "a" * 129, "a\n", "a,b", 'a"b'])
def test_a_name_outside_the_alphabet_is_refused(load: Load, name: str) -> None:
    assert "1-128 of A-Z a-z 0-9 _ . -" in mistake(load, entry(name=name))


@pytest.mark.requirement("R-55")
@pytest.mark.parametrize("name", ["a", "A.b-c_9", "a" * 128, ".", "-"])
def test_a_name_within_the_alphabet_is_taken(load: Load, name: str) -> None:
    assert load(entry(name=name)).get(name) is not None


@pytest.mark.parametrize(
    "value",
    ["!!binary aGk=", "{1: a}", "!!set {a}", "123456789012345678901234567890", "&a [*a]"],
)
def test_what_json_cannot_express_is_refused(load: Load, value: str) -> None:
    told = mistake(
        load,
        f"tools: [{{name: job, description: D, state_machine: s, input_schema: {{type: object, default: {value}}}}}]",
    )

    assert told.startswith("tool 'job': holds something that JSON cannot express")


def test_merged_mappings_may_override(load: Load) -> None:
    catalog = load(
        """
        tools:
          - &first {name: a, description: D, state_machine: s, timeout: 1h}
          - &second {<<: *first, name: b, timeout: 2h}
          - {<<: *second, name: c}
        """
    )

    assert [(tool.name, tool.timeout) for tool in catalog] == [("a", 3600), ("b", 7200), ("c", 7200)]
