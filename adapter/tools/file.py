"""Reads the tools file. Every mistake is told as one line: file, tool, place, rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import yaml
from pydantic import ValidationError
from yaml.composer import ComposerError

from adapter.errors import ConfigurationError, first_problem

from .catalog import Catalog
from .tool import Tool


def load_catalog(path: Path) -> Catalog:
    """The catalog of a tools file. Raises ConfigurationError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: is not UTF-8 text") from None
    return parse_catalog(text, str(path))


def parse_catalog(text: str, source: str) -> Catalog:
    """The catalog that the text of a tools file describes; errors name its `source`. Raises ConfigurationError."""
    entries = _entries(text, source)
    tools = [_tool(source, number, entry) for number, entry in enumerate(entries, 1)]
    try:
        return Catalog(tools)
    except ValueError as error:
        raise ConfigurationError(f"{source}: {error}") from None


def _entries(text: str, path: str) -> list[Any]:
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except RecursionError:
        raise ConfigurationError(f"{path}: nests too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "cannot be parsed"
        raise ConfigurationError(f"{path}: is not valid YAML{where}: {problem}") from None
    if not isinstance(document, dict) or set(document) != {"tools"}:
        raise ConfigurationError(f"{path}: must have one top-level member, `tools`")
    entries = document["tools"]
    if not isinstance(entries, list) or not entries:
        raise ConfigurationError(f"{path}: `tools` must be a list with at least one tool")
    return entries


def _tool(path: str, number: int, entry: object) -> Tool:
    name = entry.get("name") if isinstance(entry, dict) else None
    label = f"tool {name!r}" if isinstance(name, str) else f"tool number {number}"
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{path}: {label}: must be a mapping with name, description, state_machine")
    try:
        return Tool.model_validate(_as_json(entry))
    except ValidationError as error:
        where, rule = first_problem(error)
        raise ConfigurationError(f"{path}: {label}: {f'{where}: ' if where else ''}{rule}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {label}: {error}") from None


def _as_json(entry: dict[Any, Any]) -> Any:
    """As clients will see it: YAML's dates become strings, shared nodes copies. Raises ValueError."""
    try:
        return orjson.loads(orjson.dumps(entry))
    except TypeError as error:
        raise ValueError(f"holds something that JSON cannot express: {error}") from None


class _Loader(yaml.SafeLoader):
    """Refuses a key that is written twice, of which YAML would silently keep the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise ComposerError(None, None, f"{key.value!r} is there twice", key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return node
