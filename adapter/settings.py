"""Configuration from the environment (prefix `ADAPTER_`). Times are seconds unless a name says otherwise."""

from __future__ import annotations

import os
import secrets
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)

from .errors import ConfigurationError, first_problem

PREFIX = "ADAPTER_"
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A list that is comma-separated in the environment."""
Keys = Annotated[tuple[SecretStr, ...], BeforeValidator(_split)]


def random_keys() -> tuple[SecretStr, ...]:
    """Signing keys for one process that needs to share none."""
    return (SecretStr(secrets.token_urlsafe(32)),)


class Settings(BaseModel):
    """Everything an operator can set; what is given wins over the environment. Raises pydantic.ValidationError."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    tools: Path = Path("tools.yaml")
    table: str = "mcp-tasks"
    path: str = "/mcp"

    signing_keys: Keys = ()
    """The first signs, all verify. At least 32 characters each."""

    allowed_hosts: Words = LOOPBACK_HOSTS
    """Host names (without port) that are served; `*` for any, as behind a gateway that routes by host."""

    allowed_origins: Words = ()
    """Browser origins besides those of the allowed hosts, such as `https://inspector.example.com`."""

    max_body_bytes: int = Field(default=1_048_576, gt=0)
    """Larger request bodies are refused with 413. Step Functions itself takes 262,144 bytes of input."""

    page_size: int = Field(default=1000, gt=0, le=1000)
    """Tools per page of `tools/list`. As many as may be: hosts in use read the first page only."""

    list_ttl_ms: int = Field(default=300_000, ge=0)
    """How long a client may cache `tools/list` and `server/discover`."""

    max_ttl: float = Field(default=90 * 86_400, gt=0)
    """Upper bound of any task's time to live. Step Functions forgets executions after 90 days."""

    inline_wait_limit: float = Field(default=25.0, ge=0)
    """Upper bound of any tool's `inline_wait`: below the 29 s at which API Gateway gives up."""

    companion_tools: Literal["on", "off"] = "on"
    """Whether `task_status`, `task_result`, `task_answer`, `task_cancel` continue what outlasts a plain call."""

    max_result_chars: int = Field(default=100_000, gt=0)
    """Longer text in the result of a plain call is cut, with a note of how to get the rest."""

    legacy_hold: float = Field(default=20.0, gt=0)
    """How long `tasks/result` of 2025-11-25 holds its stream before the client has to come back."""

    legacy_input_status: Literal["input_required", "working"] = "input_required"
    """The status that 2025-11-25 clients see while a question is open."""

    isolation: Literal["caller", "session"] = "caller"
    """Who owns a task where nobody is authenticated: everybody who knows its id, or one legacy session."""

    refresh_min: float = Field(default=2.0, gt=0)
    refresh_max: float = Field(default=60.0, gt=0)
    """The pause between two DescribeExecution calls for one task: it starts at the one and grows to the other."""

    events: Literal["on", "off"] = "off"
    """Whether status events are written through by the `execution_status` function."""

    describe_rate: float = Field(default=5.0, gt=0)
    describe_burst: int = Field(default=50, ge=1)
    """DescribeExecution calls per second of this process; an account has 15 (10 in most Regions) in all."""

    watch_max: float = Field(default=5.0, gt=0)
    """Longest pause between two reads of a task that somebody is waiting on or subscribed to."""

    def __init__(self, **given: Any) -> None:
        names = {name: PREFIX + name.upper() for name in type(self).model_fields}
        found = {name: os.environ[variable] for name, variable in names.items() if variable in os.environ}
        super().__init__(**{**found, **given})

    @field_validator("signing_keys")
    @classmethod
    def _long_enough(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(key.get_secret_value()) < 32 for key in keys):
            raise ValueError("each signing key needs at least 32 characters")
        return keys

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str) -> str:
        if not path.startswith("/") or path.endswith("/"):
            raise ValueError("the endpoint path starts with / and does not end with /")
        return path

    @cached_property
    def keys(self) -> tuple[bytes, ...]:
        return tuple(key.get_secret_value().encode() for key in self.signing_keys)


S = TypeVar("S", bound=Settings)


def load(kind: type[S], **given: Any) -> S:
    """The settings of the environment, but for those that are given.

    Raises ConfigurationError, which tells a wrong one by its environment variable and rule.
    """
    try:
        return kind(**given)
    except ValidationError as error:
        where, rule = first_problem(error)
        name, _, _ = where.partition(".")
        raise ConfigurationError(f"{PREFIX}{name.upper()}: {rule}") from None
