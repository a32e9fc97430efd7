"""Standard input and output as lines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adapter.mcp.endpoint import Endpoint

from .transport import ReadLine, StdioTransport, WriteLine

MAX_LINE_BYTES = 8 * 1_048_576


async def serve_stdio(endpoint: Endpoint) -> None:
    """Serve one client until it closes our standard input."""
    async with standard_pipes() as (read_line, write):
        await StdioTransport(endpoint, read_line, write).run()


@asynccontextmanager
async def standard_pipes() -> AsyncIterator[tuple[ReadLine, WriteLine]]:
    """Reads standard input and writes standard output, which afterwards belongs to the protocol alone (R-140).

    Whatever else prints goes to standard error.
    """
    protocol_out, sys.stdout = sys.stdout.buffer, sys.stderr
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)

    async def read_line() -> bytes:
        try:
            return await reader.readline()
        except ValueError:  # longer than the limit: the buffer is dropped, and the endpoint says what is wrong
            return b"{\n"

    def write_now(message: bytes) -> None:
        protocol_out.write(message + b"\n")
        protocol_out.flush()

    lock = asyncio.Lock()

    async def write(message: bytes) -> None:
        async with lock:
            await asyncio.to_thread(write_now, message)

    try:
        yield read_line, write
    finally:
        sys.stdout = sys.__stdout__ or sys.stderr
