"""Questions asked before a task exists: `before_start` of a tool.

Each round is a set of input requests; the client's answers become part of the execution's input. A form that
fills arguments is left out when the caller has given them already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

RequestMethod = Literal["elicitation/create", "sampling/createMessage", "roots/list"]
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class InputRequestConfig(BaseModel):
    """One request of a round, as written in the tools file."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    method: RequestMethod = "elicitation/create"
    params: dict[str, Any] = Field(default_factory=dict)
    into: str | None = None
    """`arguments`: the accepted form's fields become arguments of their names. Any other name: the whole answer
    becomes that member of the execution's input. Default: the request's key."""
    proceed_if: dict[str, Any] | None = None
    """Field values an accepted form must have; with any other, nothing is started."""
    on_decline: Literal["stop", "continue"] = "stop"
    when_supported: bool = False
    """Ask only clients that declare the capability; other clients are not asked and not refused."""

    @property
    def fills_arguments(self) -> bool:
        return self.into == "arguments"

    @property
    def fields(self) -> Mapping[str, Any]:
        schema = self.params.get("requestedSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return properties if isinstance(properties, dict) else {}

    def answered_by(self, arguments: Mapping[str, Any]) -> bool:
        """True where the caller has already given every field that this form would fill."""
        if not self.fills_arguments:
            return False
        required = self.params.get("requestedSchema", {}).get("required") or list(self.fields)
        return all(name in arguments for name in required)

    @model_validator(mode="after")
    def _consistent(self) -> InputRequestConfig:
        is_form = self.method == "elicitation/create" and self.params.get("mode", "form") == "form"
        if (self.fills_arguments or self.proceed_if) and not is_form:
            raise ValueError("`into: arguments` and `proceed_if` need a form elicitation")
        unknown = set(self.proceed_if or ()) - set(self.fields)
        if unknown:
            raise ValueError(f"proceed_if names {sorted(unknown)}, which requestedSchema does not ask for")
        return self


class Round(BaseModel):
    """Requests asked at the same time, by key."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    requests: dict[str, InputRequestConfig] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        return {"requests": value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _names(self) -> Round:
        for key, request in self.requests.items():
            if not _NAME.fullmatch(key):
                raise ValueError(f"request key {key!r}: use 1-64 of A-Z a-z 0-9 _ . -")
            if request.into is not None and not _NAME.fullmatch(request.into):
                raise ValueError(
                    f"request {key!r}: `into` must be `arguments` or a name, not {request.into!r}"
                )
        return self
