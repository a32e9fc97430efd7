"""One request of a legacy protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .exchange import Request
from .jsonrpc import JsonObject, RequestId, invalid_params
from .session import Session

MAX_TOKEN = 1024


@dataclass(frozen=True, slots=True)
class LegacyCall:
    """What a method's handler gets."""

    request: Request
    id: RequestId
    params: JsonObject
    session: Session
    gone: Callable[[], Awaitable[None]]
    """Returns when nobody reads the reply any more."""
    cancelled: Callable[[], bool]
    """Whether it is gone because the client cancelled it; closing the connection is no cancellation (L-19)."""

    @property
    def owner(self) -> str:
        return self.request.caller

    @property
    def version(self) -> str:
        return self.session.version

    @property
    def progress_token(self) -> str | int | None:
        meta = self.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if (
            isinstance(token, str) and len(token) > MAX_TOKEN
        ):  # it is kept with the task, whose room is limited
            raise invalid_params(f"params._meta.progressToken must have at most {MAX_TOKEN} characters")
        return token if isinstance(token, str) or type(token) is int else None

    def text(self, name: str) -> str:
        """A required string member of `params`. Raises RpcError -32602."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise invalid_params(f"params.{name} is required and must be a string")
        return value

    def task_wish(self) -> dict[str, Any] | None:
        """`params.task`: the caller wants a task. Raises RpcError -32602 where it makes no sense."""
        wish = self.params.get("task")
        if wish is None:
            return None
        if not isinstance(wish, dict):
            raise invalid_params("params.task must be an object")
        ttl = wish.get("ttl")
        if ttl is not None and (type(ttl) is not int or ttl < 0):
            raise invalid_params("params.task.ttl must be an integer of milliseconds")
        return wish
