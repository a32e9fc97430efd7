"""Who calls: the owner of what a request creates."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Scope

from adapter.mcp.exchange import ANONYMOUS

Identify = Callable[[Scope], str]


def anonymous(_scope: Scope) -> str:
    """Without authentication everybody is the same owner, and a task's id is the only credential (D12)."""
    return ANONYMOUS
