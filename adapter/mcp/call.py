"""One request of 2026-07-28 after its envelope, `_meta` and headers have been checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .exchange import Request
from .jsonrpc import JsonObject, RequestId, invalid_params
from .meta import Meta


@dataclass(slots=True)
class Call:
    """What a method's handler gets."""

    request: Request
    id: RequestId
    params: JsonObject
    meta: Meta

    @property
    def owner(self) -> str:
        return self.request.caller

    def text(self, name: str) -> str:
        """A required string member of `params`. Raises RpcError -32602."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise invalid_params(f"params.{name} is required and must be a string")
        return value

    def objects(self, name: str) -> Mapping[str, Any]:
        """A required object member of `params` whose values are objects. Raises RpcError -32602."""
        value = self.params.get(name)
        if not isinstance(value, dict):
            raise invalid_params(f"params.{name} is required and must be an object")
        odd = next((key for key, member in value.items() if not isinstance(member, dict)), None)
        if odd is not None:
            raise invalid_params(f"params.{name}[{odd!r}] must be an object")
        return value
