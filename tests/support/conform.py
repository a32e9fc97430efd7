"""Strict conformance to a pydantic model of the wire.

The official models are made for reading: they convert types, take Python names for wire names, drop members
that they do not know, and take null for a member that should be absent. A server must need none of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

OPEN_MODELS = frozenset(
    {"TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource"}
    | {"TextResourceContents", "BlobResourceContents", "Annotations", "Icon"}
)
"""Content that a workflow wrote itself may have members of its own; the schema allows them."""


def conform(model: type[BaseModel], value: object, where: str) -> None:
    """Raises AssertionError, in pydantic's words, unless `value` is exactly what `model` describes."""
    try:
        parsed = model.model_validate(value, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        raise AssertionError(f"{where} is not a {model.__name__}: {error}") from error
    defects = list(_defects(parsed, value, where))
    assert not defects, "; ".join(defects)


def _defects(parsed: object, value: object, where: str) -> Iterator[str]:
    """What the model swallowed: walks the parsed value beside the one that was sent."""
    if isinstance(parsed, BaseModel) and isinstance(value, dict):
        yield from _model_defects(parsed, value, where)
    elif isinstance(parsed, dict) and isinstance(value, dict):
        for key, member in parsed.items():
            yield from _defects(member, value[key], f"{where}.{key}")
    elif isinstance(parsed, list) and isinstance(value, list):
        for index, (member, sent) in enumerate(zip(parsed, value, strict=True)):
            yield from _defects(member, sent, f"{where}[{index}]")


def _model_defects(parsed: BaseModel, value: dict[str, Any], where: str) -> Iterator[str]:
    model = type(parsed)
    fields = {field.alias or name: (name, field) for name, field in model.model_fields.items()}
    if model.model_config.get("extra") != "allow" and model.__name__ not in OPEN_MODELS:
        for key in value.keys() - fields.keys():
            yield f"{where}.{key} is unknown to {model.__name__}"
    for key in value.keys() & fields.keys():
        name, field = fields[key]
        if value[key] is None and not _may_be_null(field):
            yield f"{where}.{key} is null, and should be absent"
        yield from _defects(getattr(parsed, name), value[key], f"{where}.{key}")


def _may_be_null(field: FieldInfo) -> bool:
    """A required nullable member and one of any type may; `None` as a default only stands for absence."""
    return field.is_required() or Any in (field.annotation, *get_args(field.annotation))
