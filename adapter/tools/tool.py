"""A tool: one state machine as a caller sees it, and how it is run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from .before_start import Round
from .duration import Seconds
from .schema import MAX_DEPTH, HeaderParameter, Schema, header_parameters, too_deep

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "additionalProperties": False}


class Annotations(BaseModel):
    """Hints for clients; the names are the wire's."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    title: str | None = None
    readOnlyHint: bool | None = None  # noqa: N815
    destructiveHint: bool | None = None  # noqa: N815
    idempotentHint: bool | None = None  # noqa: N815
    openWorldHint: bool | None = None  # noqa: N815


def _twice(names: Sequence[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)


TaskSupport = Literal["required", "optional", "forbidden"]


class Tool(BaseModel):
    """One entry of `tools:` in the tools file. Times are seconds (written as `90s`, `15m`, `24h`, `7d`)."""

    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))

    name: str
    title: str | None = None
    description: str = Field(min_length=1)
    state_machine: str = Field(min_length=1)
    definition: str | None = None
    task_support: TaskSupport = "optional"
    input_schema: dict[str, Any] = Field(default_factory=lambda: dict(_NO_ARGUMENTS))
    output_schema: dict[str, Any] | None = None
    annotations: Annotations | None = None
    timeout: Seconds = 3600.0
    retention: Seconds = 86_400.0
    poll_interval: Seconds = 5.0
    inline_wait: Seconds = 20.0
    task_after: Seconds = 0.0
    model_may_answer: bool = False
    on_disconnect: Literal["stop", "continue"] = "stop"
    on_expire: Literal["leave", "stop"] = "leave"
    result: Literal["auto", "result", "data"] = "auto"
    before_start: tuple[Round, ...] = ()

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("use 1-128 of A-Z a-z 0-9 _ . -")
        return name

    @field_validator("input_schema")
    @classmethod
    def _input_schema(cls, schema: dict[str, Any]) -> dict[str, Any]:
        if schema.get("type") != "object":
            raise ValueError("the root needs `type: object`")
        Schema(schema)
        header_parameters(schema)
        return schema

    @field_validator("output_schema")
    @classmethod
    def _output_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            Schema(schema)
        return schema

    @field_validator("timeout", "retention", "poll_interval")
    @classmethod
    def _positive(cls, value: float, info: ValidationInfo) -> float:
        if value <= 0:
            raise ValueError("must be more than 0")
        return value

    @model_validator(mode="after")
    def _rounds(self) -> Self:
        requests = [item for round_ in self.before_start for item in round_.requests.items()]
        twice = _twice([key for key, _ in requests])
        if twice:
            raise ValueError(f"before_start: request key {twice!r} is used twice")
        filled = [name for _, request in requests if request.fills_arguments for name in request.fields]
        twice = _twice([*self.answer_names, *filled])
        if twice:
            raise ValueError(f"before_start: {twice!r} is filled twice; choose another `into`")
        properties = self.input_schema.get("properties", {})
        clash = next((name for name in self.answer_names if name in properties), None)
        if clash is not None:
            raise ValueError(f"before_start: {clash!r} is an argument; choose another `into`")
        unknown = next((name for name in filled if name not in properties), None)
        if unknown is not None and self.input_schema.get("additionalProperties") is False:
            raise ValueError(f"before_start: {unknown!r} is asked for, but is no argument of input_schema")
        return self

    @property
    def ttl(self) -> float:
        """Seconds from creation that a task of this tool is kept, however long it runs (D6)."""
        return self.timeout + self.retention

    @cached_property
    def validator(self) -> Schema:
        return Schema(self.input_schema)

    @cached_property
    def validator_before_answers(self) -> Schema:
        """The input schema without the requirement of what `before_start` will still ask for."""
        asked = {
            name
            for round_ in self.before_start
            for request in round_.requests.values()
            if request.fills_arguments
            for name in request.fields
        }
        required = [name for name in self.input_schema.get("required", []) if name not in asked]
        return Schema({**self.input_schema, "required": required}) if asked else self.validator

    @cached_property
    def header_parameters(self) -> tuple[HeaderParameter, ...]:
        return header_parameters(self.input_schema)

    @cached_property
    def answer_names(self) -> tuple[str, ...]:
        """Members of the execution's input that come from answers only; a caller may not send them."""
        return tuple(
            request.into or key
            for round_ in self.before_start
            for key, request in round_.requests.items()
            if not request.fills_arguments
        )

    @cached_property
    def questions(self) -> str:
        """`before_start` as JSON text, to see whether it is still what somebody answered."""
        return orjson.dumps([round_.model_dump() for round_ in self.before_start]).decode()

    @cached_property
    def result_settings(self) -> str:
        """How output becomes a tool result, as JSON text: pinned to each task, whatever the file says later."""
        settings: dict[str, Any] = {"mode": self.result}
        if self.output_schema is not None:
            settings["outputSchema"] = self.output_schema
        return orjson.dumps(settings).decode()

    def violation(self, arguments: Mapping[str, Any], *, before_answers: bool = False) -> str | None:
        """None, or how the arguments break the input schema, as path and rule."""
        reserved = [name for name in self.answer_names if name in arguments]
        if reserved:
            return f"/{reserved[0]}: is filled from an answer and cannot be sent as an argument"
        if too_deep(arguments):
            return f"they nest deeper than {MAX_DEPTH} levels"
        validator = self.validator_before_answers if before_answers else self.validator
        return validator.violation(arguments)
