"""A stand-in for DynamoDB that answers every Query at once with the same record: `python -m bench.dynamodb_stub`.

An emulator spends more on a call than the call itself costs, so nothing could be seen beside it.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from typing import cast

import httptools
import orjson
import uvloop

from adapter.stores import _items
from bench.exchanges import COMPLETED, RUNNING, outcome, running_task


def reply(task_id: str) -> bytes:
    """The HTTP reply to a Query for that task: one page with its record."""
    task = running_task(task_id)
    item = _items.new_record(task.record, refresh_at=task.refresh_at)
    item |= {"step": _items.string(task.message or ""), "op": _items.string("0123456789abcdef")}
    if task_id == COMPLETED:
        item |= _items.outcome_attributes(outcome())
    body = orjson.dumps({"Count": 1, "Items": [item], "ScannedCount": 1})
    head = (
        "HTTP/1.1 200 OK\r\nServer: Server\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"Content-Length: {len(body)}\r\nConnection: keep-alive\r\n"
        "x-amzn-RequestId: 3B1UVT5QH8A0LQ0J8M5TLBGNBRVV4KQNSO5AEMVJF66Q9ASUAAJG\r\n"
        f"x-amz-crc32: {zlib.crc32(body)}\r\nDate: Fri, 15 Jan 2027 08:00:00 GMT\r\n\r\n"
    )
    return head.encode() + body


REPLIES = {task_id.encode(): reply(task_id) for task_id in (RUNNING, COMPLETED)}


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._transport.write(next(reply for task_id, reply in REPLIES.items() if task_id in self._body))


async def serve() -> None:
    """Writes the port, then serves until stdin ends."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    listener = await loop.create_server(Connection, "127.0.0.1", 0)
    loop.add_reader(sys.stdin, ended.set)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(serve())
