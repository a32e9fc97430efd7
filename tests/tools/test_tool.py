"""A tool: what it derives from its entry."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from adapter.tools.before_start import InputRequestConfig
from adapter.tools.catalog import Catalog
from adapter.tools.duration import parse_duration
from tests.support.adapter import form, tool

SCHEMA = {
    "type": "object",
    "properties": {"day": {"type": "string"}, "n": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["day", "n"],
}
FILL = {"into": "arguments", "params": form("Which day?", ["day"], day="string", note="string")}
CONFIRM = {"params": form("Sure?", sure="boolean")}


# --- durations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("24h", 86_400),
        ("7d", 604_800),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("0s", 0),
        (" 5s ", 5),
        ("366d", 31_622_400),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "5",
        "s",
        "5 s",
        "5S",
        "-5s",
        "+5s",
        "1e3s",
        ".5s",
        "5.s",
        "1h30m",
        "5w",
        5,
        5.0,
        None,
        True,
        ["5s"],
        "٣s",
    ],
)
def test_anything_else_is_no_duration(value: object) -> None:
    with pytest.raises(ValueError, match="write a number and a unit, such as 90s, 15m, 24h or 7d"):
        parse_duration(value)


@pytest.mark.parametrize("text", ["367d", "9" * 400 + "h"])
def test_a_duration_of_more_than_a_year_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="longer than a year"):
        parse_duration(text)


# --- the tool -------------------------------------------------------------------------------------------


@pytest.mark.requirement("R-120", "B-31")
def test_a_task_is_kept_for_its_longest_run_and_its_retention() -> None:
    assert tool(timeout="2h", retention="30m").ttl == 9000


def test_a_tool_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        tool().name = "other"  # type: ignore[misc]


def test_each_tool_has_a_schema_of_its_own() -> None:
    first, second = tool("a"), tool("b")
    first.input_schema["x"] = 1

    assert "x" not in second.input_schema


@pytest.mark.requirement("R-58")
def test_arguments_are_judged_with_and_without_what_will_be_asked_for() -> None:
    asking = tool(input_schema=SCHEMA, before_start=[{"more": FILL}])

    assert asking.violation({"n": 1}, before_answers=True) is None
    assert asking.violation({"n": 1}) is not None
    assert asking.violation({}, before_answers=True) is not None
    assert asking.violation({"n": 1, "day": "x"}) is None


@pytest.mark.requirement("R-58")
def test_what_is_not_asked_for_is_required_from_the_start() -> None:
    asking = tool(input_schema=SCHEMA, before_start=[{"ok": CONFIRM}])

    assert asking.validator_before_answers is asking.validator
    assert asking.violation({"n": 1}, before_answers=True) is not None


def test_names_that_answers_fill_cannot_be_sent() -> None:
    asking = tool(
        input_schema={"type": "object"}, before_start=[{"ok": CONFIRM}, {"b": {**CONFIRM, "into": "c"}}]
    )

    assert asking.answer_names == ("ok", "c")
    for name in asking.answer_names:
        told = asking.violation({name: 1})
        assert told is not None
        assert told.startswith(f"/{name}: ")
    assert asking.violation({"b": 1}) is None


def test_result_settings_are_pinned_as_text() -> None:
    assert orjson.loads(tool().result_settings) == {"mode": "auto"}
    pinned = tool(result="data", output_schema={"type": "array"}).result_settings
    assert orjson.loads(pinned) == {"mode": "data", "outputSchema": {"type": "array"}}


@pytest.mark.parametrize(
    ("config", "given", "expected"),
    [
        (FILL, {"day": "x"}, True),
        (FILL, {"note": "x"}, False),
        (FILL, {}, False),
        ({"into": "arguments", "params": form(a="string", b="string")}, {"a": "x"}, False),
        ({"into": "arguments", "params": form(a="string", b="string")}, {"a": "x", "b": None}, True),
        (CONFIRM, {"sure": True}, False),
    ],
)
def test_a_form_is_answered_by_arguments_that_are_there(
    config: dict[str, Any], given: dict[str, Any], expected: bool
) -> None:
    assert InputRequestConfig.model_validate(config).answered_by(given) is expected


@pytest.mark.parametrize("params", [{}, {"requestedSchema": "x"}, {"requestedSchema": {"properties": []}}])
def test_a_form_that_is_not_yet_checked_has_no_fields(params: dict[str, Any]) -> None:
    assert InputRequestConfig.model_validate({"params": params}).fields == {}


# --- the catalog ----------------------------------------------------------------------------------------


def test_a_catalog_keeps_order_and_finds_by_name() -> None:
    tools = [tool(name) for name in ("z", "a", "Z")]
    catalog = Catalog(tools)

    assert list(catalog) == tools
    assert len(catalog) == 3
    assert catalog.get("Z") is tools[2]
    assert catalog.get("none") is None


def test_two_tools_of_one_name_make_no_catalog() -> None:
    with pytest.raises(ValueError, match="two tools are named 'a'"):
        Catalog([tool("b"), tool("a"), tool("a")])


def test_the_digest_tells_catalogs_apart() -> None:
    digests = {
        Catalog(tools).digest
        for tools in (
            [tool("a"), tool("b")],
            [tool("b"), tool("a")],
            [tool("a")],
            [tool("a", title="T"), tool("b")],
        )
    }

    assert len(digests) == 4
    assert Catalog([tool("a")]).digest == Catalog([tool("a")]).digest
