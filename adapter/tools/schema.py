"""JSON Schema 2020-12: compiled once, violations told as path and rule."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

JsonObject = Mapping[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 64


def _no_network(uri: str) -> Any:
    raise ValueError(
        f"schema reference {uri} is not in the schema itself; network references are not fetched"
    )


class Schema:
    """A compiled schema.

    Raises ValueError where the schema is not valid 2020-12, names another dialect that is not supported, refers
    to the network, or nests deeper than 64 levels.
    """

    __slots__ = ("_validator",)

    def __init__(self, document: JsonObject) -> None:
        if too_deep(document):
            raise ValueError(f"the schema nests deeper than {MAX_DEPTH} levels")
        try:
            dialect = document.get("$schema", _DIALECT)
            make = _DIALECTS[str(dialect).rstrip("#")]
        except KeyError:
            raise ValueError(f"dialect {dialect} is not supported; use {_DIALECT}") from None
        try:
            self._validator = make(dict(document), validate_formats=True, retriever=_no_network)
        except jsonschema_rs.ValidationError as error:
            raise ValueError(f"not a valid JSON Schema: {_told(error)}") from None

    def violation(self, value: object) -> str | None:
        """None, or the first violation as `path: rule` (path is a JSON pointer, empty for the whole)."""
        if self._validator.is_valid(value):
            return None
        return _told(next(self._validator.iter_errors(value)))


def _told(error: jsonschema_rs.ValidationError) -> str:
    where = "".join(f"/{step}" for step in error.instance_path)
    message = error.message if len(error.message) <= 300 else f"{error.message[:300]}…"
    return f"{where}: {message}" if where else message


_DIALECTS = {
    _DIALECT: jsonschema_rs.Draft202012Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
}


def too_deep(node: object, depth: int = 1) -> bool:
    """Whether a JSON value nests deeper than 64 levels, more than anything made by people."""
    if not isinstance(node, (dict, list)):
        return False
    children = node.values() if isinstance(node, dict) else node
    inner = [child for child in children if isinstance(child, (dict, list))]
    return depth > MAX_DEPTH or any(too_deep(child, depth + 1) for child in inner)


class HeaderParameter:
    """An argument that also travels as the header `Mcp-Param-<suffix>` (`x-mcp-header`)."""

    __slots__ = ("name", "path")

    def __init__(self, suffix: str, path: tuple[str, ...]) -> None:
        self.name = f"mcp-param-{suffix.lower()}"
        self.path = path


def header_parameters(schema: JsonObject) -> tuple[HeaderParameter, ...]:
    """The `x-mcp-header` annotations of an input schema. Raises ValueError where one breaks a rule (R-70)."""
    allowed = {id(node): (path, node) for path, node in _property_schemas(schema)}
    found: dict[str, HeaderParameter] = {}
    for node in _objects(schema):
        if "x-mcp-header" not in node:
            continue
        suffix = node["x-mcp-header"]
        if id(node) not in allowed:
            raise ValueError(
                f"x-mcp-header {suffix!r} must sit on a property reached through `properties` only"
            )
        path, _ = allowed[id(node)]
        parameter = _header_parameter(suffix, path, node)
        if parameter.name in found:
            raise ValueError(f"x-mcp-header {suffix!r} is used twice (letter case does not count)")
        found[parameter.name] = parameter
    return tuple(found.values())


def _header_parameter(suffix: object, path: tuple[str, ...], node: JsonObject) -> HeaderParameter:
    where = ".".join(path)
    if not isinstance(suffix, str) or not _TOKEN.fullmatch(suffix):
        raise ValueError(f"{where}: x-mcp-header must be a non-empty header-name token, not {suffix!r}")
    kind = node.get("type")
    if kind not in ("string", "integer", "boolean"):
        raise ValueError(f"{where}: x-mcp-header needs type string, integer or boolean, not {kind!r}")
    bounds = [node[k] for k in ("minimum", "maximum") if isinstance(node.get(k), int)]
    if kind == "integer" and any(abs(bound) > _SAFE_INTEGER for bound in bounds):
        raise ValueError(f"{where}: x-mcp-header integers must stay within ±{_SAFE_INTEGER}")
    return HeaderParameter(suffix, path)


def _property_schemas(
    schema: JsonObject, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], JsonObject]]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for name, child in properties.items():
        if isinstance(child, Mapping):
            yield (*path, name), child
            yield from _property_schemas(child, (*path, name))


def _objects(node: object) -> Iterator[JsonObject]:
    if isinstance(node, Mapping):
        yield node
        for child in node.values():
            yield from _objects(child)
    elif isinstance(node, list):
        for child in node:
            yield from _objects(child)
