from __future__ import annotations

from typing import Any

import pytest

from adapter.cli.prompts import ask

from .scripted_terminal import ScriptedTerminal


def _form(required: list[str] | None = None, **properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required or []}
    return {"method": "elicitation/create", "params": {"message": "Well?", "requestedSchema": schema}}


def _asked(field: dict[str, Any], *lines: str, required: bool = True) -> tuple[Any, ScriptedTerminal]:
    """What is answered for a form of this one field, and the terminal afterwards."""
    terminal = ScriptedTerminal(["", *lines])
    answer = ask(_form(["field"] if required else [], field=field), terminal)
    assert terminal.unused == []
    assert answer["action"] == "accept"
    return answer["content"].get("field"), terminal


@pytest.mark.parametrize(
    ("field", "line", "value"),
    [
        ({"type": "string"}, "Ada", "Ada"),
        ({"type": "string"}, "17", "17"),
        ({"type": "integer"}, "17", 17),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number"}, "2", 2),
        ({"type": "boolean"}, "y", True),
        ({"type": "boolean"}, "No", False),
        ({"type": "string", "enum": ["red", "green"]}, "green", "green"),
        ({"type": "string", "enum": ["red", "green"]}, "2", "green"),
        ({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}, "Green", "g"),
        ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]}, "1", "r"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}, "1, 3", ["a", "c"]),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "First"}]}}, "First", ["a"]),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, "", []),
    ],
)
def test_what_is_typed_becomes_a_value_of_the_fields_type(
    field: dict[str, Any], line: str, value: Any
) -> None:
    given, _ = _asked(field, line)
    assert (given, type(given)) == (value, type(value))


@pytest.mark.parametrize(
    ("field", "wrong", "told", "right"),
    [
        ({"type": "string"}, "", "A value is needed", "x"),
        ({"type": "string", "minLength": 3}, "ab", "shorter than 3", "abc"),
        ({"type": "string", "format": "email"}, "ada", "email", "ada@example.com"),
        ({"type": "string", "format": "date"}, "tomorrow", "date", "2026-07-28"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "10", "maximum of 9", "9"),
        ({"type": "integer"}, "1.5", "integer", "2"),
        ({"type": "number"}, "many", "'many' is not a number", "3"),
        ({"type": "number"}, "nan", "'nan' is not a number", "3"),
        ({"type": "boolean"}, "perhaps", "Please type y or n", "n"),
        ({"type": "string", "enum": ["a", "b"]}, "3", "type one of the numbers 1 to 2", "1"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2}, "1", "less than 2", "1,2"),
    ],
)
def test_what_does_not_fit_is_told_and_asked_again(
    field: dict[str, Any], wrong: str, told: str, right: str
) -> None:
    _, terminal = _asked(field, wrong, right)
    assert told in terminal.text


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ({"type": "string", "enum": ["a", "b"], "default": "b"}, "b", "Enter for b"),
        ({"type": "boolean", "default": False}, False, "y/n; Enter for no"),
        ({"type": "integer", "default": 0, "minimum": 0}, 0, "0 to …; Enter for 0"),
        ({"type": "array", "items": {"enum": ["a"]}, "default": []}, [], "Enter for none"),
        (
            {"type": "array", "items": {"anyOf": [{"const": "a", "title": "First"}]}, "default": ["a"]},
            ["a"],
            "Enter for First",
        ),
    ],
)
def test_enter_takes_the_default(field: dict[str, Any], value: Any, hint: str) -> None:
    given, terminal = _asked(field, "")
    assert given == value
    assert hint in terminal.text


def test_enter_leaves_out_what_is_not_required() -> None:
    given, terminal = _asked(
        {"type": "string", "title": "Note", "description": "For the driver"}, "", required=False
    )
    assert given is None
    assert "For the driver" in terminal.text
    assert "Note (Enter to leave out): " in terminal.text


def test_a_schema_that_cannot_be_checked_here_is_left_to_the_server() -> None:
    given, _ = _asked({"type": "string", "pattern": "("}, "anything")
    assert given == "anything"


@pytest.mark.parametrize(("word", "action"), [("d", "decline"), ("Cancel", "cancel")])
def test_a_form_can_be_declined_or_cancelled(word: str, action: str) -> None:
    terminal = ScriptedTerminal(["what?", word])
    assert ask(_form(field={"type": "string"}), terminal) == {"action": action}
    assert "Please press Enter, or type d or c." in terminal.text


def test_a_url_is_shown_with_its_host_and_confirmed() -> None:
    params = {"mode": "url", "message": "Sign", "url": "https://sign.example.com/c/17?x=1"}
    terminal = ScriptedTerminal([""])
    assert ask({"method": "elicitation/create", "params": params}, terminal) == {"action": "accept"}
    assert "page of sign.example.com" in terminal.text
    assert "https://sign.example.com/c/17?x=1" in terminal.text


def test_a_url_can_be_declined() -> None:
    params = {"mode": "url", "message": "Sign", "url": "https://sign.example.com/c/17"}
    terminal = ScriptedTerminal(["d"])
    assert ask({"method": "elicitation/create", "params": params}, terminal) == {"action": "decline"}


def test_a_question_cannot_move_the_cursor_or_reorder_text() -> None:
    request = _form(field={"type": "string", "title": "\x1b[31mName\u202e"})
    request["params"]["message"] = "Approve?\x1b[2J\x07\r"
    terminal = ScriptedTerminal(["", "x"])
    ask(request, terminal)
    assert not set("\x1b\x07\r\u202e") & set(terminal.text)
