"""What a transport hands in and gets back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field


async def _never() -> None:
    import asyncio  # the transports that can see a disconnect do not come here

    await asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class Request:
    """One HTTP request, or one line of stdio (`headers` is None, `method` "POST")."""

    method: str
    headers: Mapping[str, str] | None
    """Names in lower case."""
    body: bytes
    caller: str
    """The owner of what this request creates or reads."""
    seconds_left: float | None = None
    """How long the transport can wait for the reply; None where it sets no limit."""
    disconnected: Callable[[], Awaitable[None]] = field(default=_never)
    """Returns when the client has gone away."""


@dataclass(slots=True)
class Reply:
    """Status, headers (lower-case names) and a body: bytes, or a stream of chunks."""

    status: int
    headers: dict[str, str]
    body: bytes | AsyncIterator[bytes]
