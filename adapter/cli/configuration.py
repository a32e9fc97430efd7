"""Settings as a command takes them."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, field_validator

from adapter.local.samples import sample_tools_file
from adapter.settings import Keys, S, Settings, load, random_keys


class DevSettings(Settings):
    """Defaults for one developer and a local engine that has no quotas; the environment still wins."""

    tools: Path = Field(default_factory=sample_tools_file)
    signing_keys: Keys = Field(default_factory=random_keys)
    refresh_min: float = Field(0.2, gt=0)
    refresh_max: float = Field(1.0, gt=0)
    watch_max: float = Field(0.5, gt=0)
    describe_rate: float = Field(1000.0, gt=0)
    describe_burst: int = Field(1000, ge=1)

    @field_validator("signing_keys")
    @classmethod
    def _some(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        return keys or random_keys()  # the variable may be there, and empty


def load_settings(kind: type[S], tools: Path | None) -> S:
    """The settings of the environment, with the tools file of the command line. Raises ConfigurationError."""
    return load(kind) if tools is None else load(kind, tools=tools)
