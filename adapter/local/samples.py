"""Where the sample pipelines are."""

from __future__ import annotations

from pathlib import Path

from adapter.errors import ConfigurationError

_PLACES = (
    Path(__file__).parent / "pipelines",
    Path(__file__).parents[2] / "infra" / "pipelines",
)
"""In an installed wheel, and in a checkout of the repository."""


def sample_tools_file() -> Path:
    """The tools file of the sample pipelines; raises ConfigurationError where this installation has none."""
    for place in _PLACES:
        if (tools_file := place / "tools.yaml").is_file():
            return tools_file
    raise ConfigurationError("the sample pipelines are not part of this installation; pass --tools FILE")
