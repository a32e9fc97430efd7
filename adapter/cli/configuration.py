"""Settings as a command takes them; a wrong one is told by its environment variable and rule."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import Field, SecretStr, ValidationError

from adapter.errors import ConfigurationError
from adapter.local.samples import sample_tools_file
from adapter.settings import PREFIX, Keys, Settings


def _random_key() -> tuple[SecretStr, ...]:
    return (SecretStr(secrets.token_urlsafe(32)),)


class DevSettings(Settings):
    """Defaults for one developer and a local engine that has no quotas; the environment still wins."""

    tools: Path = Field(default_factory=sample_tools_file)
    signing_keys: Keys = Field(default_factory=_random_key)
    refresh_min: float = Field(0.2, gt=0)
    refresh_max: float = Field(1.0, gt=0)
    watch_max: float = Field(0.5, gt=0)
    describe_rate: float = Field(1000.0, gt=0)
    describe_burst: int = Field(1000, ge=1)


_S = TypeVar("_S", bound=Settings)


def load_settings(kind: type[_S], tools: Path | None) -> _S:
    """The settings of the environment, with the tools file of the command line. Raises ConfigurationError."""
    make: Callable[..., _S] = kind
    try:
        return make() if tools is None else make(tools=tools)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = f"{PREFIX}{first['loc'][0]}".upper()
        raise ConfigurationError(f"{name}: {first['msg'].removeprefix('Value error, ')}") from None
