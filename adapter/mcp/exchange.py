"""What a transport hands in and gets back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

ANONYMOUS = "anonymous"
"""The owner where nobody is authenticated: then a task's id is the only credential (D12)."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a streamed reply: a JSON-RPC message, or none, which keeps the line open.

    `event_id` lets the client come back for the rest after `retry_ms` milliseconds. `final` marks the response.
    """

    message: bytes | None = None
    event_id: str | None = None
    retry_ms: int | None = None
    final: bool = False


KEEP_ALIVE = Frame()


async def _never() -> None:
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
    """How long the transport can wait for the reply, at its arrival; None where it sets no limit."""
    disconnected: Callable[[], Awaitable[None]] = field(default=_never)
    """Returns when the client has gone away."""
    cancelled: Callable[[], bool] = field(default=lambda: False)
    """Whether it has gone away by cancelling this request, where a transport can tell that from a lost line."""
    connection: str | None = None
    """The session of a transport that is one long connection (stdio); HTTP has a header for it."""
    arrived: float = field(default_factory=time.monotonic)

    def left(self) -> float | None:
        """Seconds that the transport can still wait for the reply; None where it sets no limit."""
        if self.seconds_left is None:
            return None
        return max(0.0, self.seconds_left - (time.monotonic() - self.arrived))


@dataclass(slots=True)
class Reply:
    """Status, headers (lower-case names) and a body: bytes, or a stream of frames."""

    status: int
    headers: dict[str, str]
    body: bytes | AsyncGenerator[Frame, None]
