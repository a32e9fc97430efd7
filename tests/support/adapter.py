"""An adapter over memory, and a client that checks every message it gets.

Nothing of AWS may ever reach a client: the targets and task tokens used here are looked for in every reply.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from adapter.main import Parts, assemble
from adapter.mcp import sse
from adapter.mcp.exchange import Frame, Reply, Request
from adapter.settings import Settings
from adapter.tasks.model import Ending, Event, Outcome, Question
from adapter.tools.catalog import Catalog
from adapter.tools.tool import Tool
from tests.support.memory import ManualClock, MemoryEngine, MemoryStore
from tests.support.wire import check_message

Json = dict[str, Any]
VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
EXTENSION = PREFIX + "tasks"
TASKS: Json = {"extensions": {EXTENSION: {}}}
FORMS: Json = {**TASKS, "elicitation": {}}
ACCOUNT = "123456789012"
TOKEN = "task-token-AAAAKgAAAAIAAAAA"
UNREAD = frozenset({401, 403, 405, 406, 413, 415})
"""Statuses of requests whose body is not looked at, so that their id is not known."""
PATIENCE = 60.0
"""Seconds after which something awaited counts as not happening, also on a machine that is busy."""


def tool(name: str = "job", **members: Any) -> Tool:
    return Tool.model_validate({"name": name, "description": "Does a job.", "state_machine": name, **members})


def form(
    message: str = "Sure?", required: Collection[str] = (), properties: Json | None = None, **fields: str
) -> Json:
    """The params of a form elicitation; `fields` are names and primitive types."""
    shown = {name: {"type": kind} for name, kind in fields.items()} | (properties or {})
    schema: Json = {"type": "object", "properties": shown}
    if required:
        schema["required"] = list(required)
    return {"message": message, "requestedSchema": schema}


def accepted(**content: Any) -> Json:
    return {"action": "accept", "content": content}


KEEP_ALIVE = sse.encode(Frame())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that other tasks bring about."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


@dataclass(slots=True)
class Answer:
    """A whole reply: one message of a JSON body, or all messages of an event stream."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    messages: list[Json] = field(default_factory=list)

    @property
    def message(self) -> Json:
        assert self.messages, f"no message in the reply with status {self.status}"
        return self.messages[-1]

    @property
    def result(self) -> Json:
        assert "result" in self.message, self.message
        return cast(Json, self.message["result"])

    @property
    def error(self) -> Json:
        assert "error" in self.message, self.message
        return cast(Json, self.message["error"])

    @property
    def refusal(self) -> tuple[int, int]:
        """HTTP status and error code."""
        return self.status, self.error["code"]

    @property
    def text(self) -> str:
        """The first text block of a tool result."""
        return cast(str, self.result["content"][0]["text"])


class Stream:
    """An event stream that a test reads step by step."""

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], check: Callable[[Json], None], gone: asyncio.Event
    ) -> None:
        self._chunks = chunks
        self._check = check
        self._gone = gone
        self.seen: list[Json] = []

    async def next(self) -> Json:
        """The next message, keep-alives skipped."""
        async with asyncio.timeout(PATIENCE):
            while await self.chunk() == KEEP_ALIVE:
                pass
        return self.seen[-1]

    async def chunk(self) -> bytes:
        """The next chunk as sent. Raises StopAsyncIteration at the end."""
        async with asyncio.timeout(PATIENCE):
            chunk = await anext(self._chunks)
        if chunk != KEEP_ALIVE:
            message = read_event(chunk)
            self._check(message)
            self.seen.append(message)
        return chunk

    async def rest(self) -> list[Json]:
        """All messages until the server closes the stream."""
        before = len(self.seen)
        async with asyncio.timeout(PATIENCE):
            try:
                while True:
                    await self.chunk()
            except StopAsyncIteration:
                return self.seen[before:]

    def leave(self) -> None:
        """The client closes its connection."""
        self._gone.set()


def read_event(chunk: bytes) -> Json:
    """The message of one event; its JSON must be on one line (R-43)."""
    head, _, tail = chunk.partition(b"data: ")
    assert head == b"event: message\n", chunk
    assert tail.endswith(b"\n\n"), chunk
    data = tail.removesuffix(b"\n\n")
    assert b"\n" not in data, chunk
    assert b"\r" not in data, chunk
    return cast(Json, orjson.loads(data))


class Mcp:
    """An adapter with these tools and a client of it. `settings` are members of Settings.

    Time stands still unless a test moves it, and watched tasks are read every few milliseconds.
    """

    patience = PATIENCE

    def __init__(
        self,
        *tools: Tool,
        store: MemoryStore | None = None,
        engine: MemoryEngine | None = None,
        clock: ManualClock | None = None,
        **settings: Any,
    ) -> None:
        self.clock = clock or ManualClock()
        self.store = store or MemoryStore()
        self.engine = engine or MemoryEngine()
        self.targets = {t.name: f"arn:aws:states:eu-west-1:{ACCOUNT}:stateMachine:{t.name}" for t in tools}
        self.settings = Settings(
            **{"watch_max": 0.003, "companion_tools": "off", "describe_burst": 1000, **settings}
        )
        keys = self.settings.keys or (secrets.token_bytes(32),)
        self.parts: Parts = assemble(
            self.settings, Catalog(tools), self.targets, self.store, self.engine, keys=keys, clock=self.clock
        )

    def sibling(self, *tools: Tool, **settings: Any) -> Mcp:
        """Another instance over the same store and job system."""
        return Mcp(*tools, store=self.store, engine=self.engine, clock=self.clock, **settings)

    @property
    def followers(self) -> int:
        """How many wait for changes of a task; who does has read it once."""
        return sum(len(watched.followers) for watched in self.parts.watcher._watched.values())

    # --- requests ----------------------------------------------------------------------------------------

    async def call(self, method: str, params: Json | None = None, **options: Any) -> Answer:
        """Send one request (options: those of `request`) and read the whole reply."""
        return await self.send(self.request(method, params, **options))

    def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        caps: Json | None = None,
        meta: Json | None = None,
        identifier: object = 1,
        headers: Mapping[str, str | None] | None = None,
        caller: str = "anonymous",
        seconds_left: float | None = None,
        disconnected: Callable[[], Awaitable[None]] | None = None,
    ) -> Request:
        """A well-formed request. `headers` and `meta` are added to it; None as a header takes it away."""
        said = {
            PREFIX + "protocolVersion": VERSION,
            PREFIX + "clientCapabilities": FORMS if caps is None else caps,
        }
        full = {**(params or {}), "_meta": {**said, **(meta or {})}}
        body = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": full}
        sent = {**routing_headers(method, full), **(headers or {})}
        request = Request(
            "POST",
            {name: value for name, value in sent.items() if value is not None},
            orjson.dumps(body),
            caller,
            seconds_left,
        )
        if disconnected is not None:
            request.disconnected = disconnected
        return request

    async def post(self, body: object, headers: Mapping[str, str | None] | None = None) -> Answer:
        """Send any body, bytes as they are, with the headers of a well-formed `tools/list`."""
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        sent = {**routing_headers("tools/list", {}), **(headers or {})}
        given = {name: value for name, value in sent.items() if value is not None}
        return await self.send(Request("POST", given, raw, "anonymous"))

    async def send(self, request: Request) -> Answer:
        async with asyncio.timeout(self.patience):
            reply = await self.parts.endpoint.handle(request)
        check = _checker(request, read=reply.status not in UNREAD)
        if isinstance(reply.body, bytes):
            check_body(reply)
            messages = [orjson.loads(reply.body)] if reply.body else []
            for message in messages:
                check(message)
            return Answer(reply.status, reply.headers, reply.body, messages)
        messages = await Stream(_stream_of(reply), check, asyncio.Event()).rest()
        return Answer(reply.status, reply.headers, b"", messages)

    @asynccontextmanager
    async def stream(self, method: str, params: Json | None = None, **options: Any) -> AsyncIterator[Stream]:
        """The event stream that answers a request, closed at the end of the block."""
        gone = asyncio.Event()

        async def disconnected() -> None:
            await gone.wait()

        request = self.request(method, params, disconnected=disconnected, **options)
        reply = await self.parts.endpoint.handle(request)
        chunks = _stream_of(reply)
        try:
            yield Stream(chunks, _checker(request), gone)
        finally:
            async with asyncio.timeout(PATIENCE):
                await chunks.aclose()

    # --- what callers and workflows do -------------------------------------------------------------------

    async def start(self, name: str = "job", arguments: Json | None = None, **options: Any) -> str:
        """Call a tool as a task; its id."""
        answer = await self.call("tools/call", {"name": name, "arguments": arguments or {}}, **options)
        assert answer.result["resultType"] == "task", answer.result
        return cast(str, answer.result["taskId"])

    async def get(self, task_id: str, **options: Any) -> Json:
        """The result of tasks/get."""
        return (await self.call("tasks/get", {"taskId": task_id}, **options)).result

    def execution(self, task_id: str) -> str:
        return self.store.tasks[task_id].record.execution

    def input(self, task_id: str) -> Any:
        """What the execution was started with."""
        return orjson.loads(self.engine.inputs[self.execution(task_id)])

    @property
    def only_task(self) -> str:
        """The id of the one task there is."""
        (task_id,) = self.store.tasks
        return task_id

    def end(
        self, task_id: str, output: str | None = "{}", ending: Ending = Ending.SUCCEEDED, **members: Any
    ) -> None:
        """The execution ends, and enough time passes for the next read to see it."""
        shown = output if ending is Ending.SUCCEEDED else None
        self.engine.end(self.execution(task_id), Outcome(ending, output=shown, **members))
        self.clock.advance(61)

    def ask(
        self,
        task_id: str,
        key: str = "q",
        params: Json | None = None,
        method: str = "elicitation/create",
        **members: Any,
    ) -> None:
        """The workflow asks a question and waits."""
        text = orjson.dumps(form(sure="boolean") if params is None else params).decode()
        question = Question(
            key=key,
            item=f"input#{key}",
            token=f"{TOKEN}-{key}",
            method=method,
            params=text,
            asked_at=self.clock(),
            **members,
        )
        self.store.ask(task_id, question)

    def report(self, task_id: str, number: int, kind: Any = "progress", **members: Any) -> None:
        """The workflow reports progress or a log line."""
        self.store.report(task_id, Event(key=f"event#{number:04}", kind=kind, **members))

    @property
    def given(self) -> dict[str, Any]:
        """The answers that reached the workflow, by key."""
        return {
            token.removeprefix(f"{TOKEN}-"): orjson.loads(answer) if isinstance(answer, str) else answer
            for token, answer in self.engine.answers
        }


def routing_headers(method: str, params: Mapping[str, Any]) -> dict[str, str | None]:
    """The headers of a well-behaved client."""
    headers: dict[str, str | None] = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": method,
    }
    name = params.get("name" if method == "tools/call" else "taskId")
    if isinstance(name, str):
        headers["mcp-name"] = name
    return headers


def check_body(reply: Reply) -> None:
    """A body that is no stream is empty without a content type, or one JSON object (R-33)."""
    if not reply.body:
        assert "content-type" not in reply.headers
        return
    assert reply.headers["content-type"] == "application/json"
    assert isinstance(reply.body, bytes)
    assert b"\n" not in reply.body


def _stream_of(reply: Reply) -> AsyncGenerator[bytes, None]:
    assert not isinstance(reply.body, bytes), reply.body
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.headers["x-accel-buffering"] == "no"
    return _encoded(reply.body)


async def _encoded(frames: AsyncGenerator[Frame, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(frames):
        async for frame in frames:
            yield sse.encode(frame)


def _checker(request: Request, *, read: bool = True) -> Callable[[Json], None]:
    """Checks a message as an answer to this request: its shape, its id, and that it keeps our secrets."""
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        body = None
    method = body.get("method") if isinstance(body, dict) else None
    method = method if isinstance(method, str) else None
    declared = _declares_tasks(body)
    identifier = body.get("id") if isinstance(body, dict) else None

    def check(message: Json) -> None:
        check_message(VERSION, message, request_method=method, tool_call_may_be_task=declared)
        if "method" not in message:
            _check_id(message, identifier if read else None)
        text = orjson.dumps(message).decode()
        for secret in (ACCOUNT, TOKEN, "arn:aws"):
            assert secret not in text, f"{secret} in {text}"

    return check


def _declares_tasks(body: object) -> bool:
    try:
        meta = cast(Any, body)["params"]["_meta"]
        return isinstance(meta[PREFIX + "clientCapabilities"]["extensions"][EXTENSION], dict)
    except (KeyError, TypeError):
        return False


def _check_id(message: Json, identifier: object) -> None:
    usable = isinstance(identifier, str) or type(identifier) is int
    if usable:
        assert message["id"] == identifier
        assert type(message["id"]) is type(identifier)
    else:
        assert "id" not in message
