"""The mcp function over an adapter in memory, invoked as Lambda does, one call after the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import pytest

from adapter.mcp.cors import Cors
from adapter.mcp.exchange import Request
from adapter.tools.tool import Tool
from lambdas.deadline import Deadline
from lambdas.hosted import Hosted, HostedSettings, protected_resource
from lambdas.loop import Container
from lambdas.mcp import app
from tests.support.adapter import VERSION, Json, Mcp
from tests.support.virtual_time import VirtualTimeLoop
from tests.support.wire import check_message

R = TypeVar("R")
EVENTS = Path(__file__).parent / "events"
LEGACY = "2025-11-25"
HTTP_EVENTS = sorted(path.stem for path in EVENTS.glob("*.json") if not path.stem.startswith("states_"))
ANONYMOUS_EVENTS = ("rest_none", "function_url_none", "alb", "alb_multi_value")


def event(name: str, **changes: Any) -> Json:
    """A payload as its source sends it, with other members where `changes` says so."""
    return {**json.loads((EVENTS / f"{name}.json").read_text()), **changes}


def event_of(request: Request, name: str = "http_api_jwt") -> Json:
    """The payload for a request, sent through that source."""
    assert request.headers is not None
    return event(name, headers=dict(request.headers), body=request.body.decode())


@dataclass(frozen=True)
class Context:
    """What Lambda tells about an invocation."""

    seconds: float = 29.0
    passed: Callable[[], float] = lambda: 0.0

    def get_remaining_time_in_millis(self) -> int:
        return int((self.seconds - self.passed()) * 1000)


@dataclass(frozen=True)
class Returned:
    """What the function returned."""

    raw: Json

    @property
    def status(self) -> int:
        return cast(int, self.raw["statusCode"])

    @property
    def headers(self) -> Mapping[str, str]:
        return cast(Mapping[str, str], self.raw["headers"])

    @property
    def body(self) -> str:
        return cast(str, self.raw["body"])

    @property
    def message(self) -> Json:
        return cast(Json, json.loads(self.body))

    @property
    def events(self) -> list[dict[str, str]]:
        """The fields of each event of a stream."""
        blocks = [block for block in self.body.split("\n\n") if block.strip() and not block.startswith(":")]
        return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]

    @property
    def messages(self) -> list[Json]:
        return [json.loads(each["data"]) for each in self.events if each["data"]]


class Function:
    """One container, which opens in `opening` seconds. Its time jumps from one timer to the next; `settings` are
    members of HostedSettings."""

    def __init__(self, *tools: Tool, mcp: Mcp | None = None, opening: float = 0.0, **settings: Any) -> None:
        self.mcp = mcp or Mcp(*tools, **{"allowed_hosts": ("*",), **settings})
        self.opened = 0
        self._opening = opening
        hosted = HostedSettings(**settings)
        self._hosted = Hosted(
            hosted, self.mcp.parts, protected_resource(hosted), Cors(hosted.allowed_origins)
        )
        self._container = Container(self._open)
        self._deadline = Deadline()
        self._container._runner = asyncio.Runner(loop_factory=VirtualTimeLoop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.__exit__(kind, error, trace)

    def invoke(self, payload: object, *, seconds: float = 29.0) -> Returned:
        loop = self._container._runner.get_loop()
        began = loop.time()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(app, "_container", self._container)
            patch.setattr(app, "_deadline", self._deadline)
            return Returned(app.handler(payload, Context(seconds, lambda: loop.time() - began)))

    def call(
        self, method: str, params: Json | None = None, *, source: str = "http_api_jwt", seconds: float = 29.0
    ) -> Returned:
        """A request of 2026-07-28; what comes back is checked."""
        returned = self.invoke(event_of(self.mcp.request(method, params), source), seconds=seconds)
        is_json = returned.headers["content-type"] == "application/json"
        for message in [returned.message] if is_json else returned.messages:
            check_message(VERSION, message, request_method=method)
        return returned

    def run(self, use: Callable[[Mcp], Awaitable[R]]) -> R:
        """What happens between invocations, on the container's loop."""

        async def used(_: Hosted) -> R:
            return await use(self.mcp)

        return self._container.run(used)

    @property
    def time(self) -> float:
        """Of the container's loop, in seconds."""

        async def now(_: object) -> float:
            return asyncio.get_running_loop().time()

        return self._container.run(now)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Hosted]:
        self.opened += 1
        await asyncio.sleep(self._opening)
        yield self._hosted


class Legacy:
    """A client of 2025-11-25."""

    def __init__(self, function: Function, capabilities: Json | None = None) -> None:
        self._function = function
        self._session: dict[str, str] = {}
        params = {
            "protocolVersion": LEGACY,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "example-client", "version": "1"},
        }
        reply = self.call("initialize", params)
        self._session = {"mcp-session-id": reply.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}

    def call(self, method: str, params: Json | None = None, *, seconds: float = 29.0) -> Returned:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return self._checked(self._send("POST", message, {}, seconds), method)

    def answer(self, identifier: object, result: Json) -> Returned:
        """The response to a request of the server."""
        return self._send("POST", {"jsonrpc": "2.0", "id": identifier, "result": result}, {}, 29.0)

    def resume(self, event_id: str, method: str, *, seconds: float = 29.0) -> Returned:
        return self._checked(self._send("GET", None, {"last-event-id": event_id}, seconds), method)

    def _send(self, verb: str, message: object, headers: dict[str, str], seconds: float) -> Returned:
        sent = {
            "host": "mcp.example.com",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **self._session,
            **headers,
        }
        body = None if message is None else json.dumps(message)
        payload = event("http_api_jwt", headers=sent, body=body)
        payload["requestContext"]["http"]["method"] = verb
        return self._function.invoke(payload, seconds=seconds)

    def _checked(self, returned: Returned, method: str) -> Returned:
        is_json = returned.headers["content-type"] == "application/json"
        for message in [returned.message] if is_json else returned.messages:
            check_message(LEGACY, message, request_method=method)
        return returned
