"""A client of both eras over lines, which checks every message that the server writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import orjson

from adapter.stdio.transport import StdioTransport
from tests.support.adapter import ACCOUNT, PREFIX, TOKEN, Json, Mcp
from tests.support.adapter import VERSION as MODERN
from tests.support.legacy import CLIENT, LATEST, patience
from tests.support.wire import check_message

MODERN_META: Json = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}}


def modern(params: Json | None = None, capabilities: Json | None = None) -> Json:
    """The params of a request of the modern era."""
    meta = {**MODERN_META, PREFIX + "clientCapabilities": capabilities or {}}
    return {**(params or {}), "_meta": meta}


class Lines:
    """What a client writes and reads; `version` is the legacy one that it has initialized."""

    def __init__(self, mcp: Mcp) -> None:
        self.mcp = mcp
        self.version = LATEST
        self.written: list[bytes] = []
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._output: asyncio.Queue[Json] = asyncio.Queue()
        self._numbers = count(1)
        self._sent: dict[object, tuple[str, str]] = {}
        self.transport = StdioTransport(mcp.parts.endpoint, self._input.get, self.write)
        self.serving = asyncio.create_task(self.transport.run())

    @classmethod
    @asynccontextmanager
    async def opened(cls, mcp: Mcp) -> AsyncIterator[Lines]:
        """A client that closes its output at the end of the block, upon which the server has to end."""
        lines = cls(mcp)
        try:
            yield lines
        finally:
            lines.close()
            async with asyncio.timeout(patience()):
                await lines.serving
        assert not any(b"\n" in line for line in lines.written)

    async def write(self, message: bytes) -> None:
        """The server writes a line."""
        self.written.append(message)
        self._output.put_nowait(orjson.loads(message))

    # --- the client's side -------------------------------------------------------------------------------

    def send(self, value: object) -> None:
        """Write a line: bytes as they are."""
        line = value if isinstance(value, bytes) else orjson.dumps(value) + b"\n"
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            message = None
        if isinstance(message, dict) and "method" in message and "id" in message:
            era = MODERN if PREFIX + "protocolVersion" in str(message.get("params")) else self.version
            self._sent[_key(message["id"])] = message["method"], era
        self._input.put_nowait(line)

    def close(self) -> None:
        self._input.put_nowait(b"")

    def ask(self, method: str, params: Json | None = None, identifier: object = None) -> object:
        """Send a request; its id."""
        identifier = next(self._numbers) if identifier is None else identifier
        message: Json = {"jsonrpc": "2.0", "id": identifier, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return identifier

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, request: Mapping[str, Any], result: Json) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def next(self) -> Json:
        """The next message of the server."""
        async with asyncio.timeout(patience()):
            message = await self._output.get()
        self._check(message)
        return message

    async def call(self, method: str, params: Json | None = None, **options: Any) -> Json:
        """Send a request and take the response, which has to be the next message."""
        identifier = self.ask(method, params, **options)
        message = await self.next()
        assert message.get("id") == identifier, message
        return message

    async def initialize(self, capabilities: Json | None = None, version: str = LATEST) -> Json:
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": CLIENT}
        answer = await self.call("initialize", params)
        self.version = answer["result"]["protocolVersion"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return dict(answer["result"])

    @property
    def unread(self) -> int:
        """How many messages of the server have not been taken."""
        return self._output.qsize()

    def _check(self, message: Json) -> None:
        method, era = self._sent.get(_key(message.get("id")), (None, self.version))
        if "method" in message and message["method"] == "notifications/cancelled":
            era = MODERN  # only a subscription is ended by the server
        elif "method" in message and PREFIX + "subscriptionId" in str(message):
            method, era = "subscriptions/listen", MODERN
        check_message(era, message, request_method=method)
        text = orjson.dumps(message).decode()
        for secret in (ACCOUNT, TOKEN, "arn:aws"):
            assert secret not in text, f"{secret} in {text}"


def _key(identifier: object) -> tuple[str, object]:
    return type(identifier).__name__, identifier if isinstance(identifier, str | int) else None
