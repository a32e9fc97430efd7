"""Server-sent events: the framing of a streamed reply."""

from __future__ import annotations

from collections.abc import AsyncIterator

from .exchange import Reply

KEEP_ALIVE = b":\r\n\r\n"
KEEP_ALIVE_SECONDS = 15.0


def event(message: bytes) -> bytes:
    """One JSON-RPC message as one event."""
    return b"event: message\ndata: " + message + b"\n\n"


def stream(chunks: AsyncIterator[bytes]) -> Reply:
    headers = {
        "content-type": "text/event-stream",
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no",
    }
    return Reply(200, headers, chunks)
