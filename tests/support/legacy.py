"""A client of the protocols before 2026-07-28. It checks every message that it gets for its version.

Beyond the shapes it expects what clients in use rely on: ids of requests and events never repeat, and a stream
never just ends, but with its response or with an event id by which it can be resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import orjson

from adapter.mcp import sse
from adapter.mcp.exchange import Frame, Reply, Request
from tests.support.adapter import ACCOUNT, PATIENCE, TOKEN, UNREAD, Answer, Json, Mcp, check_body
from tests.support.virtual_time import LoopClock, VirtualTimeLoop
from tests.support.wire import check_message

LATEST = "2025-11-25"
VERSIONS = (LATEST, "2025-06-18", "2025-03-26")
RELATED = "io.modelcontextprotocol/related-task"
FORMS: Json = {"elicitation": {}}
CLIENT = {"name": "client", "version": "1"}


@dataclass(frozen=True, slots=True)
class Event:
    """One event as sent; without message and id it only keeps the line open."""

    message: Json | None = None
    id: str | None = None
    retry: int | None = None


@dataclass(slots=True)
class LegacyAnswer(Answer):
    """A whole reply."""

    events: list[Event] = field(default_factory=list)

    @property
    def responses(self) -> list[Json]:
        return [message for message in self.messages if "method" not in message]

    @property
    def requests(self) -> list[Json]:
        """What the server asks."""
        return [message for message in self.messages if "method" in message and "id" in message]

    def notified(self, method: str) -> list[Json]:
        """The params of the notifications of a method."""
        return [message["params"] for message in self.messages if message.get("method") == method]

    @property
    def ids(self) -> list[str]:
        return [event.id for event in self.events if event.id is not None]

    @property
    def retries(self) -> list[int]:
        return [event.retry for event in self.events if event.retry is not None]


class LegacyStream:
    """An event stream that a test reads step by step."""

    def __init__(self, client: LegacyClient, frames: AsyncGenerator[Frame, None], method: str | None) -> None:
        self._client = client
        self._frames = frames
        self._method = method
        self.gone = asyncio.Event()
        self.events: list[Event] = []

    async def event(self) -> Event:
        """The next event, also one that only keeps the line open. Raises StopAsyncIteration at the end."""
        async with asyncio.timeout(patience()):
            frame = await anext(self._frames)
        event = read_event(sse.encode(frame))
        self.events.append(event)
        self._client.saw(event, self._method)
        return event

    async def next(self) -> Json:
        """The next message."""
        while (event := await self.event()).message is None:
            pass
        return event.message

    async def rest(self, *, bare: bool = False) -> LegacyAnswer:
        """The whole reply, once the server has closed the stream. `bare`: it may end without a response."""
        try:
            while True:
                await self.event()
        except StopAsyncIteration:
            pass
        messages = [event.message for event in self.events if event.message is not None]
        answer = LegacyAnswer(200, {}, b"", messages, self.events)
        assert bare or answer.responses or answer.ids, f"a bare stream: {self.events}"
        return answer

    def leave(self) -> None:
        """The client closes its connection."""
        self.gone.set()


class LegacyClient:
    """One client on one adapter, after `initialize` in one session."""

    def __init__(
        self,
        mcp: Mcp,
        version: str = LATEST,
        *,
        caller: str = "anonymous",
        session: str | None = None,
        says_version: bool = True,
        seconds_left: float | None = None,
    ) -> None:
        self.mcp = mcp
        self.version = version
        self.caller = caller
        self.session = session
        self.says_version = says_version
        self.seconds_left = seconds_left
        self._numbers = count(1)
        self._seen: set[str] = set()

    @classmethod
    async def opened(
        cls, mcp: Mcp, version: str = LATEST, capabilities: Json | None = None, **options: Any
    ) -> LegacyClient:
        """A client that has initialized; `options` are those of the constructor."""
        client = cls(mcp, version, **options)
        await client.initialize(capabilities or {})
        return client

    async def initialize(self, capabilities: Json | None = None, version: str | None = None) -> Json:
        """Open a new session; the result of `initialize`."""
        params = {
            "protocolVersion": version or self.version,
            "capabilities": capabilities or {},
            "clientInfo": CLIENT,
        }
        headers = {"mcp-session-id": None, "mcp-protocol-version": None}
        answer = await self.call("initialize", params, headers=headers)
        self.version = answer.result["protocolVersion"]
        self.session = answer.headers["mcp-session-id"]
        assert (await self.notify("notifications/initialized")).status == 202
        return answer.result

    def at(self, mcp: Mcp) -> LegacyClient:
        """The same client and session at another instance."""
        other = LegacyClient(mcp, self.version, caller=self.caller, session=self.session)
        other.says_version, other.seconds_left = self.says_version, self.seconds_left
        other._numbers, other._seen = self._numbers, self._seen
        return other

    # --- sending -----------------------------------------------------------------------------------------

    async def call(self, method: str, params: Json | None = None, **options: Any) -> LegacyAnswer:
        """Send one request (options: those of `request`) and read the whole reply."""
        return await self.send(self.request(method, params, **options))

    def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        identifier: object = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Request:
        number = next(self._numbers) if identifier is None else identifier
        body: Json = {"jsonrpc": "2.0", "id": number, "method": method}
        return self.posted(body if params is None else {**body, "params": params}, headers)

    def posted(self, body: object, headers: Mapping[str, str | None] | None = None) -> Request:
        """A POST of any body, bytes as they are. None as a header takes it away."""
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        sent = {"content-type": "application/json", **self._headers(), **(headers or {})}
        given = {name: value for name, value in sent.items() if value is not None}
        return Request("POST", given, raw, self.caller, self.seconds_left)

    async def post(self, body: object, headers: Mapping[str, str | None] | None = None) -> LegacyAnswer:
        return await self.send(self.posted(body, headers))

    async def notify(self, method: str, params: Json | None = None, **options: Any) -> LegacyAnswer:
        body: Json = {"jsonrpc": "2.0", "method": method}
        return await self.post(body if params is None else {**body, "params": params}, **options)

    async def answer(self, request: Json, result: Json | None = None, **error: Any) -> None:
        """Answer a request of the server, with an error where there is no result."""
        body: Json = {"jsonrpc": "2.0", "id": request["id"]}
        said = {"error": {"code": -32601, "message": "Method not found", **error}}
        answer = await self.post({**body, **(said if result is None else {"result": result})})
        assert (answer.status, answer.body, answer.headers) == (202, b"", {})

    async def resume(self, event_id: str, method: str = "tasks/result", **headers: Any) -> LegacyAnswer:
        """Come back for the rest of a reply to `method`, to its next end."""
        return await self.send(self.coming_back(event_id, **headers), method)

    def coming_back(self, event_id: str, **headers: Any) -> Request:
        sent = {**self._headers(), "accept": "text/event-stream", "last-event-id": event_id, **headers}
        given = {name: value for name, value in sent.items() if value is not None}
        return Request("GET", given, b"", self.caller, self.seconds_left)

    async def send(self, request: Request, method: str | None = None) -> LegacyAnswer:
        async with asyncio.timeout(max(patience(), self.mcp.patience)):
            reply = await self.mcp.parts.endpoint.handle(request)
        if isinstance(reply.body, bytes):
            return self._whole(request, reply)
        stream = LegacyStream(self, _frames(reply), method or _method(request))
        async with aclosing(stream._frames):
            answer = await stream.rest()
        return LegacyAnswer(reply.status, reply.headers, b"", answer.messages, answer.events)

    @asynccontextmanager
    async def stream(self, request: Request, method: str | None = None) -> AsyncIterator[LegacyStream]:
        """The event stream that answers a request, closed at the end of the block."""
        gone = asyncio.Event()

        async def disconnected() -> None:
            await gone.wait()

        request.disconnected = disconnected
        reply = await self.mcp.parts.endpoint.handle(request)
        stream = LegacyStream(self, _frames(reply), method or _method(request))
        stream.gone = gone
        async with aclosing(stream._frames):
            yield stream

    def _headers(self) -> dict[str, str | None]:
        return {
            "host": "127.0.0.1:8000",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": self.version if self.says_version else None,
            "mcp-session-id": self.session,
        }

    # --- what callers do ---------------------------------------------------------------------------------

    async def start(self, name: str = "job", arguments: Json | None = None, **task: Any) -> str:
        """Call a tool as a task; its id."""
        params = {"name": name, "arguments": arguments or {}, "task": task}
        return cast(str, (await self.call("tools/call", params)).result["task"]["taskId"])

    async def get(self, task_id: str) -> Json:
        """The result of tasks/get."""
        return (await self.call("tasks/get", {"taskId": task_id})).result

    async def status(self, task_id: str) -> str:
        return cast(str, (await self.get(task_id))["status"])

    async def asked(self, task_id: str) -> list[Json]:
        """The requests that come with tasks/get."""
        return (await self.call("tasks/get", {"taskId": task_id})).requests

    # --- checking ----------------------------------------------------------------------------------------

    def _whole(self, request: Request, reply: Reply) -> LegacyAnswer:
        assert isinstance(reply.body, bytes)
        check_body(reply)
        value = orjson.loads(reply.body) if reply.body else []
        messages = value if isinstance(value, list) else [value]
        if reply.status not in UNREAD:
            method = _method(request)
            for message in messages:
                self.check(message, method, may_be_task=_wants_task(request))
        return LegacyAnswer(reply.status, reply.headers, reply.body, messages)

    def saw(self, event: Event, method: str | None) -> None:
        if event.id is not None:
            self._see(event.id)
        if event.message is not None:
            self.check(event.message, method, may_be_task=True)
            if "method" in event.message and "id" in event.message:
                self._see(event.message["id"])

    def check(self, message: Json, method: str | None, *, may_be_task: bool) -> None:
        if method is not None or "error" in message:  # in a batch it is unknown what a result answers
            check_message(self.version, message, request_method=method, tool_call_may_be_task=may_be_task)
        text = orjson.dumps(message).decode()
        for secret in (ACCOUNT, TOKEN, "arn:aws"):
            assert secret not in text, f"{secret} in {text}"

    def _see(self, identifier: str) -> None:
        assert identifier not in self._seen, f"{identifier} is used twice"
        self._seen.add(identifier)


def patience() -> float:
    """Seconds after which something awaited counts as not happening; in virtual time, any time passes."""
    return 1e6 if isinstance(asyncio.get_running_loop(), VirtualTimeLoop) else PATIENCE


def timed(*tools: Any, **settings: Any) -> Mcp:
    """An adapter whose clock is that of the event loop, for tests in virtual time."""
    return Mcp(*tools, clock=LoopClock(), **{"watch_max": 2.0, **settings})


def read_event(chunk: bytes) -> Event:
    """One event of a stream; a message is on one line."""
    if chunk == sse.encode(Frame()):
        return Event()
    lines = chunk.removesuffix(b"\n\n").split(b"\n")
    fields = dict(line.split(b": ", 1) for line in lines)
    assert chunk.endswith(b"\n\n"), chunk
    assert fields.keys() <= {b"id", b"retry", b"event", b"data"}, chunk
    assert len(fields) == len(lines), chunk
    data = fields[b"data"]
    assert (fields.get(b"event") == b"message") == bool(data), chunk
    identifier = fields.get(b"id")
    return Event(
        message=orjson.loads(data) if data else None,
        id=None if identifier is None else identifier.decode("ascii"),
        retry=int(fields[b"retry"]) if b"retry" in fields else None,
    )


def _frames(reply: Reply) -> AsyncGenerator[Frame, None]:
    assert not isinstance(reply.body, bytes), reply.body
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.headers["x-accel-buffering"] == "no"
    return reply.body


def _method(request: Request) -> str | None:
    method = _sent(request).get("method")
    return method if isinstance(method, str) else None


def _wants_task(request: Request) -> bool:
    return "task" in (_sent(request).get("params") or {})


def _sent(request: Request) -> Json:
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
