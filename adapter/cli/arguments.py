"""Arguments of a tool from the command line: JSON, a file, or `key=value` pairs read by the tool's schema."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import orjson

from .exits import CommandError, ExitCode

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GivenArguments:
    """What the command line says, before the tool's schema is known."""

    members: JsonObject
    pairs: Mapping[str, str]

    @classmethod
    def read(cls, text: str | None, pairs: Sequence[str]) -> GivenArguments:
        """From `--args` and `-a`. Raises CommandError."""
        members = json_object(text, "--args") if text is not None else {}
        return cls(members, dict(_split(pair) for pair in pairs))

    def fitted(self, schema: JsonObject) -> JsonObject:
        """The arguments for a tool with this input schema; a pair wins over the same member of the JSON."""
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        typed = {key: _typed(text, known.get(key)) for key, text in self.pairs.items()}
        return {**self.members, **typed}


def _split(pair: str) -> tuple[str, str]:
    key, separator, value = pair.partition("=")
    if not key or not separator:
        raise _wrong(f"-a {pair}: write it as key=value")
    return sendable(key, "-a"), sendable(value, f"-a {key}")


def sendable(text: str, option: str) -> str:
    """A text of the command line, if it is one: other bytes arrive as surrogates. Raises CommandError."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _wrong(f"{option}: {text!a} is not UTF-8 text") from None
    return text


def json_object(text: str, option: str) -> JsonObject:
    """The object of a JSON text or, after `@`, of a file. Raises CommandError."""
    if text.startswith("@"):
        text = _read(Path(text[1:]), option)
    try:
        value = _parsed(text)
    except json.JSONDecodeError as error:
        raise _wrong(f"{option}: not valid JSON at column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise _wrong(f"{option}: {error}") from None
    if not isinstance(value, dict):
        raise _wrong(f'{option}: must be a JSON object, such as \'{{"name": "value"}}\'')
    return value


def _read(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise _wrong(f"{option}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _wrong(f"{option}: {path} is not UTF-8 text") from None


def _typed(text: str, schema: object) -> object:
    """Text stays text where the schema wants a string; elsewhere what is JSON becomes its value."""
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return _parsed(text)
    except ValueError:
        return text


def _parsed(text: str) -> Any:
    """The value of a JSON text, if it can be sent as it is. Raises ValueError."""
    value = json.loads(text, parse_constant=_refused, parse_float=_finite)
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"cannot be sent: {error}") from None
    return value


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    return value


def _wrong(message: str) -> CommandError:
    return CommandError(message, ExitCode.USAGE)
