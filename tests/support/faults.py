"""An AWS endpoint that misbehaves as a test says, in front of one that does not."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

import aiohttp
from aiohttp import web


@dataclass(frozen=True)
class Fault:
    """What happens to one request.

    `forward`: the endpoint behind carries it out. Then the reply is lost (`status` 0), never comes (`hang`),
    or is this one.
    """

    status: int = 0
    code: str = ""
    message: str = "scripted"
    body: dict[str, Any] = field(default_factory=dict)
    forward: bool = False
    hang: bool = False

    def response(self) -> web.Response:
        error = {"__type": self.code, "message": self.message} if self.code else {}
        body = json.dumps({**error, **self.body}).encode()
        return web.Response(body=body, status=self.status, content_type="application/x-amz-json-1.0")


LOST_REPLY = Fault(forward=True)
"""It is carried out, and the connection breaks before the reply."""
LOST_REQUEST = Fault()
HANG = Fault(hang=True)
SERVER_ERROR = Fault(500, "InternalFailure")
_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem"})


def error(code: str, message: str = "scripted", status: int = 400) -> Fault:
    return Fault(status, code, message)


def reply(**body: Any) -> Fault:
    return Fault(200, body=body)


def _called(request: web.Request, body: bytes) -> tuple[str, dict[str, Any]]:
    target = request.headers.get("X-Amz-Target")
    if target is not None:
        return target.rpartition(".")[2], json.loads(body)
    parameters = dict(parse_qsl(body.decode()))  # as STS is called
    return parameters["Action"], parameters


class FaultyAws:
    """A server on loopback. `script` gives an operation its next faults; other requests are forwarded."""

    def __init__(self, upstream: str | None = None) -> None:
        self._upstream = upstream
        self._script: dict[str, deque[Fault]] = defaultdict(deque)
        self._closing = asyncio.Event()
        self._write = asyncio.Lock()
        self.requests: list[tuple[str, dict[str, Any]]] = []
        """Operation and parameters of every attempt, in the order of arrival."""

    def script(self, operation: str, *faults: Fault) -> None:
        self._script[operation].extend(faults)

    def reset(self) -> None:
        self._script.clear()
        self.requests.clear()

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.requests]

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=2**22)
        application.router.add_post("/", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._client = aiohttp.ClientSession(auto_decompress=False)
        self.endpoint = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        await self._client.close()
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        operation, parameters = _called(request, body)
        self.requests.append((operation, parameters))
        faults = self._script[operation]
        if not faults:
            return await self._forward(request, operation, body)
        fault = faults.popleft()
        if fault.forward:
            await self._forward(request, operation, body)
        if fault.hang:
            await self._closing.wait()
        if not fault.status:
            if request.transport is not None:  # the client may have gone before
                request.transport.abort()
            return web.Response()
        return fault.response()

    async def _forward(self, request: web.Request, operation: str, body: bytes) -> web.Response:
        if self._upstream is None:
            return error("NotScripted").response()
        headers = {name: value for name, value in request.headers.items() if name != "Host"}
        # The engine behind may carry out two conditional writes at once; DynamoDB does not.
        in_turn = self._write if operation in _WRITES else nullcontext()
        async with in_turn, self._client.post(self._upstream, data=body, headers=headers) as answer:
            kept = {"Content-Type": answer.headers["Content-Type"]}
            return web.Response(body=await answer.read(), status=answer.status, headers=kept)
