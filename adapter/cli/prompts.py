"""Asks an elicitation in the terminal: a form field by field, or the visit of a URL."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

from adapter.tools.schema import Schema

from .output import plain

JsonObject = dict[str, Any]
Choices = list[tuple[Any, str]]
"""Each value with what is shown for it."""

_ACTIONS = {"d": "decline", "decline": "decline", "c": "cancel", "cancel": "cancel"}
_YES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_NOT_CHECKED_HERE = ("default", "title", "description", "enumNames")


class Terminal(Protocol):
    """Where questions are written and answers read."""

    def write(self, text: str) -> None:
        """One line for the person."""
        ...

    def read(self, prompt: str) -> str:
        """The line that the person enters. Raises EOFError, and Interrupted for a signal."""
        ...


def ask(request: Mapping[str, Any], terminal: Terminal) -> JsonObject:
    """The answer to an `elicitation/create` request: `{action, content?}`."""
    params = request.get("params", {})
    terminal.write("")
    terminal.write(f"? {plain(params.get('message', 'The tool asks for input'))}")
    if params.get("mode", "form") == "url":
        return _ask_url(str(params.get("url")), terminal)
    schema = params.get("requestedSchema", {})
    action = _ask_action("Enter to answer, d to decline, c to cancel", terminal)
    if action != "accept":
        return {"action": action}
    return {"action": "accept", "content": _ask_form(schema, terminal)}


def _ask_url(url: str, terminal: Terminal) -> JsonObject:
    terminal.write(f"  Open this page of {plain(urlsplit(url).hostname)} in your browser:")
    terminal.write(f"  {plain(url)}")
    return {
        "action": _ask_action("Enter when you agree and have opened it, d to decline, c to cancel", terminal)
    }


def _ask_action(hint: str, terminal: Terminal) -> str:
    while True:
        word = terminal.read(f"  {hint}: ").strip().lower()
        if not word:
            return "accept"
        if word in _ACTIONS:
            return _ACTIONS[word]
        terminal.write("  Please press Enter, or type d or c.")


def _ask_form(schema: JsonObject, terminal: Terminal) -> JsonObject:
    required = schema.get("required", [])
    content = {}
    for name, field in schema.get("properties", {}).items():
        value = _ask_field(name, field, terminal, required=name in required)
        if value is not None:
            content[name] = value
    return content


def _ask_field(name: str, field: JsonObject, terminal: Terminal, *, required: bool) -> object:
    """The value of one field, asked until it fits; None where it is left out."""
    choices = _choices(field)
    if field.get("description"):
        terminal.write(f"  {plain(field['description'])}")
    for number, (_, shown) in enumerate(choices, 1):
        terminal.write(f"    {number}  {plain(shown)}")
    prompt = f"  {plain(field.get('title') or name)}{_hint(field, choices, required=required)}: "
    while True:
        text = terminal.read(prompt).strip()
        if not text and "default" in field:
            return field["default"]
        if not text and not required:
            return None
        try:
            return _checked(_value(field, choices, text), field)
        except ValueError as problem:
            terminal.write(f"  {plain(problem)}")


def _hint(field: JsonObject, choices: Choices, *, required: bool) -> str:
    parts = []
    kind = field.get("type")
    if kind == "boolean":
        parts.append("y/n")
    elif kind in ("integer", "number") and ("minimum" in field or "maximum" in field):
        parts.append(f"{field.get('minimum', '…')} to {field.get('maximum', '…')}")
    elif kind == "array":
        parts.append("numbers, separated by commas")
    elif "format" in field:
        parts.append(str(field["format"]))
    if "default" in field:
        parts.append(f"Enter for {_shown(field['default'], choices)}")
    elif not required:
        parts.append("Enter to leave out")
    return plain(f" ({'; '.join(parts)})") if parts else ""


def _shown(value: object, choices: Choices) -> str:
    if isinstance(value, list):
        return ", ".join(_shown(member, choices) for member in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return next((shown for choice, shown in choices if choice == value), str(value))


def _choices(field: JsonObject) -> Choices:
    """The values that a field offers: `enum` (with `enumNames`), or `oneOf`/`anyOf` of titled constants."""
    source = field.get("items", {}) if field.get("type") == "array" else field
    titled = source.get("oneOf") or source.get("anyOf") or []
    if titled:
        return [(o["const"], o.get("title") or str(o["const"])) for o in titled if "const" in o]
    values = source.get("enum", [])
    names = source.get("enumNames") or [str(value) for value in values]
    return list(zip(values, names, strict=False))


def _value(field: JsonObject, choices: Choices, text: str) -> object:
    """Raises ValueError with what to do instead."""
    kind = field.get("type")
    if not text and kind != "array":
        raise ValueError("A value is needed")
    if kind == "array":
        return [_chosen(choices, part.strip()) for part in text.split(",") if part.strip()]
    if choices:
        return _chosen(choices, text)
    return _READERS.get(str(kind), str)(text)


def _chosen(choices: Choices, text: str) -> object:
    for value, shown in choices:
        if text in (str(value), shown):
            return value
    if text.isdecimal() and 1 <= int(text) <= len(choices):
        return choices[int(text) - 1][0]
    raise ValueError(f"{text!r} is not offered: type one of the numbers 1 to {len(choices)}")


def _boolean(text: str) -> bool:
    if text.lower() not in _YES:
        raise ValueError("Please type y or n")
    return _YES[text.lower()]


def _number(text: str) -> int | float:
    for read in (int, float):
        with suppress(ValueError):
            value = read(text)
            if math.isfinite(value):
                return value
    raise ValueError(f"{text!r} is not a number")


_READERS: Mapping[str, Callable[[str], object]] = {"boolean": _boolean, "number": _number, "integer": _number}


def _checked(value: object, field: JsonObject) -> object:
    """The value, if it fits; a schema that cannot be used here is left to the server. Raises ValueError."""
    try:
        schema = Schema({key: rule for key, rule in field.items() if key not in _NOT_CHECKED_HERE})
    except ValueError:
        return value
    problem = schema.violation(value)
    if problem is not None:
        raise ValueError(problem)
    return value
