"""Server-sent events: the framing of a streamed reply, and when a reply needs to be one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from .exchange import Frame, Reply
from .jsonrpc import RpcError, told_as

KEEP_ALIVE_SECONDS = 15.0


def encode(frame: Frame) -> bytes:
    """One frame as it goes over HTTP; the message on one line."""
    if frame.message is None and frame.event_id is None:
        return b":\r\n\r\n"
    lines = []
    if frame.event_id is not None:
        lines.append(b"id: " + frame.event_id.encode())
    if frame.retry_ms is not None:
        lines.append(b"retry: %d" % frame.retry_ms)
    if frame.message is not None:
        lines.append(b"event: message")
    lines.append(b"data: " + (frame.message or b""))
    return b"\n".join(lines) + b"\n\n"


def stream(frames: AsyncGenerator[Frame, None]) -> Reply:
    headers = {
        "content-type": "text/event-stream",
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no",
    }
    return Reply(200, headers, frames)


def json(message: bytes) -> Reply:
    return Reply(200, {"content-type": "application/json"}, message)


async def shortest(
    frames: AsyncGenerator[Frame, None], *, events: bool, plain: bool, told: Callable[[RpcError], bytes]
) -> Reply:
    """Plain JSON where the response is all there is to send; a stream where something comes before it.

    `events` and `plain` say what the client accepts; `told` makes an error of a stream that has begun a message.
    Raises RpcError where that is the whole reply.
    """
    if not plain and events:
        return stream(guarded(frames, told))
    async for frame in frames:
        if frame.final and frame.message is not None:
            await frames.aclose()
            return json(frame.message)
        if events:
            return stream(_resumed(frame, guarded(frames, told)))
    return Reply(
        202, {}, b""
    )  # the client has left, or has cancelled: then anything but success would be an error


async def _resumed(first: Frame, rest: AsyncGenerator[Frame, None]) -> AsyncGenerator[Frame, None]:
    try:
        yield first
        async for frame in rest:
            yield frame
    finally:
        await rest.aclose()


async def guarded(
    frames: AsyncGenerator[Frame, None], told: Callable[[RpcError], bytes]
) -> AsyncGenerator[Frame, None]:
    """The frames; an error among them is told as the last one: a stream that just ends leaves clients waiting."""
    try:
        async for frame in frames:
            yield frame
    except Exception as problem:  # noqa: BLE001 - `told_as` logs what should not have happened
        yield Frame(told(told_as(problem)), final=True)
    finally:
        await frames.aclose()
