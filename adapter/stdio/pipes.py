"""Standard input and output as lines."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from queue import SimpleQueue

from adapter.mcp.endpoint import Endpoint

from .transport import ReadLine, StdioTransport, WriteLine

MAX_LINE_BYTES = 8 * 1_048_576
TOO_LONG = b"{\n"
"""Stands for a line that is too long to be kept: the endpoint says that it is no JSON."""
_CHUNK = 65_536
_Messages = SimpleQueue[tuple[bytes, Future[None]] | None]


async def serve_stdio(endpoint: Endpoint, asked_to_end: asyncio.Event) -> None:
    """Serve one client until it closes our standard input; `asked_to_end` ends the input, too."""
    async with standard_pipes() as (read, write):
        await StdioTransport(endpoint, partial(_unless, asked_to_end, read), write).run()


async def _unless(asked_to_end: asyncio.Event, read: ReadLine) -> bytes:
    line, asked = asyncio.ensure_future(read()), asyncio.ensure_future(asked_to_end.wait())
    await asyncio.wait((line, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if asked_to_end.is_set():
        line.cancel()
        return b""
    return await line


@asynccontextmanager
async def standard_pipes() -> AsyncIterator[tuple[ReadLine, WriteLine]]:
    """Reads standard input and writes standard output, which afterwards belongs to the protocol alone (R-140).

    Whatever else prints goes to standard error.
    """
    protocol_out, sys.stdout = sys.stdout.fileno(), sys.stderr
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    source = (sys.stdin.fileno(), asyncio.get_running_loop(), reader)
    # A thread, because event loops cannot wait for files and some devices (uvloop aborts the process).
    threading.Thread(target=_pump, args=source, daemon=True, name="standard-input").start()

    messages: _Messages = SimpleQueue()
    threading.Thread(
        target=_write_each, args=(messages, protocol_out), daemon=True, name="standard-output"
    ).start()

    async def write(message: bytes) -> None:
        written: Future[None] = Future()
        messages.put((message, written))
        await asyncio.wrap_future(written)

    try:
        yield partial(read_line, reader), write
    finally:
        messages.put(None)
        sys.stdout = sys.__stdout__ or sys.stderr


def _pump(descriptor: int, loop: asyncio.AbstractEventLoop, reader: asyncio.StreamReader) -> None:
    try:
        while data := os.read(descriptor, _CHUNK):
            loop.call_soon_threadsafe(reader.feed_data, data)
        loop.call_soon_threadsafe(reader.feed_eof)
    except RuntimeError:  # the loop is closed: nobody reads any more
        return


def _write_each(messages: _Messages, descriptor: int) -> None:
    """In a thread that nobody waits for: a client that reads no more may block it for ever."""
    while (waiting := messages.get()) is not None:
        message, written = waiting
        if written.set_running_or_notify_cancel():
            try:
                _write_all(descriptor, message + b"\n")
            except OSError as error:
                written.set_exception(error)
            else:
                written.set_result(None)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


async def read_line(reader: asyncio.StreamReader) -> bytes:
    """The next line, also one without an end; `TOO_LONG` for one over the reader's limit; empty at the end."""
    try:
        return await reader.readuntil()
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as overrun:
        await _skip_line(reader, overrun.consumed)
        return TOO_LONG


async def _skip_line(reader: asyncio.StreamReader, consumed: int) -> None:
    while True:
        await reader.readexactly(consumed)
        try:
            await reader.readuntil()
        except asyncio.LimitOverrunError as overrun:
            consumed = overrun.consumed
        except asyncio.IncompleteReadError:
            return
        else:
            return
