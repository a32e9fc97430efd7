"""The ordered set of tools that a server exposes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

import orjson

from .tool import Tool


class Catalog:
    """Tools in the order of the configuration. Raises ValueError where two have one name."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)
        self._by_name = {tool.name: tool for tool in tools}
        if len(self._by_name) != len(self._tools):
            names = [tool.name for tool in tools]
            double = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"two tools are named {double!r}; names must be unique")
        listing = orjson.dumps([tool.model_dump() for tool in self._tools], option=orjson.OPT_SORT_KEYS)
        self.digest = sha256(listing).hexdigest()[:16]

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def get(self, name: str) -> Tool | None:
        return self._by_name.get(name)
