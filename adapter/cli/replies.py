"""What `call` relies on in the messages of a server, checked once, where they arrive.

Only that: members that are not named here are the server's own business, and may be anything.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from adapter.errors import first_problem

JsonObject = dict[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True)


class Error(_Part):
    code: int = 0
    message: str = ""
    data: Any = None


class Message(_Part):
    """A response, or a notification that comes before it."""

    result: JsonObject = {}
    error: Error = Error()
    method: str = ""
    params: JsonObject = {}

    @model_validator(mode="after")
    def _one_kind(self) -> Message:
        if not self.model_fields_set & {"result", "error", "method"}:
            raise ValueError("neither result nor error nor method")
        return self


class Tool(_Part):
    name: str
    input_schema: JsonObject


class ToolsPage(_Part):
    tools: list[Tool]
    next_cursor: str | None = None


class _Block(_Part):
    type: str
    resource: JsonObject = {}


class CallResult(_Part):
    """The result of a tool; `content` is missing in too many servers to insist on it."""

    content: list[_Block] = []
    is_error: bool = False


class _Choices(_Part):
    enum: list[Any] = []
    enum_names: list[Any] = []
    one_of: list[JsonObject] = []
    any_of: list[JsonObject] = []


class _Field(_Choices):
    items: _Choices = _Choices()


class _Form(_Part):
    properties: dict[str, _Field] = {}
    required: list[Any] = []


class _Elicitation(_Part):
    message: str = ""
    mode: str = "form"
    url: str = ""
    requested_schema: _Form = _Form()

    @field_validator("url")
    @classmethod
    def _readable(cls, url: str) -> str:
        urlsplit(url)
        return url


class InputRequest(_Part):
    method: str
    params: JsonObject = {}

    @model_validator(mode="after")
    def _elicitation(self) -> InputRequest:
        if self.method == "elicitation/create":
            _Elicitation.model_validate(self.params)
        return self


class Asked(_Part):
    """The reply of a tool that asks before it starts."""

    request_state: str | None = None
    input_requests: dict[str, InputRequest] = {}


class Task(_Part):
    task_id: str
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: str | None = None
    input_requests: dict[str, InputRequest] = {}
    result: CallResult = CallResult()
    error: Error = Error()


def problem(kind: type[BaseModel], value: object) -> str | None:
    """Where `value` is not what it has to be, and the rule, in one line; None where it is."""
    try:
        kind.model_validate(value)
    except ValidationError as error:
        place, rule = first_problem(error)
        rule = rule.partition(" or instance of ")[0]  # names a class of ours
        return f"{place}: {rule}" if place else rule
    return None


def kind_of_call(result: JsonObject) -> type[BaseModel]:
    """What the result of a `tools/call` has to be: that of the tool, or what it says to be in its place."""
    kinds: dict[object, type[BaseModel]] = {"task": Task, "input_required": Asked}
    return kinds.get(str(result.get("resultType")), CallResult)
