"""A real HTTP server over the in-memory store and jobs that are scripted by the name of their tool."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from adapter.http.app import create_app
from adapter.main import Parts, assemble
from adapter.mcp.endpoint import Endpoint
from adapter.settings import Settings
from adapter.tasks.engine import Refusal, Snapshot
from adapter.tasks.model import Ending, Event, Outcome, Question
from adapter.tools.catalog import Catalog
from adapter.tools.tool import Tool
from tests.support.memory import MemoryEngine, MemoryStore

APPROVAL = {
    "message": "Approve order 7?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "delivery": {"type": "string", "enum": ["standard", "express"], "default": "standard"},
            "copies": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["delivery"],
    },
}
WEBSITE = {"mode": "url", "message": "Sign the contract", "url": "https://sign.example.com/c/17"}

_HELD_SECONDS = 60.0


class ScriptedJobs(MemoryEngine):
    """What each tool's job does: `echo` ends with its input, `fail` fails, `ask…` end with their answers,
    `slow` runs until it is stopped, `telling` as well and reports its progress, `stubborn` runs for ever."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self.store = store
        self.questions: dict[str, list[dict[str, Any]]] = {}
        self._given: dict[str, list[Any]] = {}
        self.reset()

    def reset(self) -> None:
        for memory in (self.executions, self.inputs, self.started, self.stopped, self.answers, self._given):
            memory.clear()
        self.closed_tokens.clear()
        self.questions = {"ask": [APPROVAL], "ask_website": [WEBSITE], "ask_twice": [APPROVAL, APPROVAL]}

    async def start(self, target: str, name: str, input_json: bytes, *, within: float) -> None:
        await super().start(target, name, input_json, within=within)
        execution = self.execution_of(target, name)
        if target == "echo":
            self.end(execution, Outcome(Ending.SUCCEEDED, output=input_json.decode()))
        elif target == "fail":
            self.end(execution, Outcome(Ending.FAILED, error="Broken", cause="the disk is full"))
        elif target == "protocol_error":
            cause = '{"code": 4711, "message": "no such ledger"}'
            self.end(execution, Outcome(Ending.FAILED, error="McpError", cause=cause))
        elif target == "telling":
            self.store.report(name, Event(key="event#1", kind="progress", message="Half way", progress=1))
        for number, params in enumerate(self.questions.get(target, [])):
            self.store.ask(name, _question(execution, number, params))

    async def answer(self, token: str, answer: str | Refusal) -> None:
        await super().answer(token, answer)
        execution = token.partition("#")[0]
        given = self._given.setdefault(execution, [])
        given.append(orjson.loads(answer) if isinstance(answer, str) else answer.error)
        if len(given) == len(self.questions[execution.partition(":")[0]]):
            self.end(execution, Outcome(Ending.SUCCEEDED, output=orjson.dumps(given).decode()))

    async def stop(self, execution: str, *, error: str, cause: str) -> None:
        if not execution.startswith("stubborn"):
            await super().stop(execution, error=error, cause=cause)

    async def describe(self, execution: str, *, with_step: bool = True) -> Snapshot:
        snapshot = await super().describe(execution, with_step=with_step)
        return snapshot if snapshot.outcome else Snapshot(message="Half way")


def _question(execution: str, number: int, params: dict[str, Any]) -> Question:
    return Question(
        key=f"question-{number}",
        item=f"input#{number}",
        token=f"{execution}#{number}",
        method="elicitation/create",
        params=orjson.dumps(params).decode(),
        asked_at=0,
    )


CONFIRMED = {
    "confirm": {
        "into": "confirmation",
        "params": {
            "message": "Really?",
            "requestedSchema": {
                "type": "object",
                "properties": {"sure": {"type": "boolean"}},
                "required": ["sure"],
            },
        },
    }
}


def _tool(name: str, **more: Any) -> Tool:
    anything = {"type": "object", "properties": {"text": {"type": "string"}}}
    settings = {"input_schema": anything, "poll_interval": "50ms", "inline_wait": "20s", **more}
    return Tool.model_validate({"name": name, "description": name, "state_machine": name, **settings})


_MIRRORED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
CATALOG = Catalog(
    [
        *map(
            _tool, ("echo", "fail", "protocol_error", "ask", "ask_website", "ask_twice", "slow", "stubborn")
        ),
        _tool("confirmed", state_machine="echo", before_start=[CONFIRMED]),
        _tool("inline", state_machine="echo", task_support="forbidden"),
        _tool("inline_telling", state_machine="telling", task_support="forbidden"),
        _tool("mirrored", state_machine="echo", input_schema=_MIRRORED),
    ]
)


class MemoryServer:
    """A server in a thread of its own. `refusals`: HTTP statuses that answer the next requests of tasks/*.

    While `open` is cleared, calls wait before anything is done for them, as behind a function that starts.
    """

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.jobs = ScriptedJobs(self.store)
        self.refusals: list[int] = []
        self.methods: list[str] = []
        self.open = threading.Event()
        self.open.set()
        self._kept = (
            socket.socket()
        )  # bound, not listening: while the server is stopped nobody else gets the port
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.port: int = self._kept.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        """Serve, always on the same port."""
        listener = socket.create_server(("127.0.0.1", self.port), reuse_port=True)
        ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(listener, ready),))
        self._thread.start()
        assert ready.wait(60), "the server did not start"

    def reset(self) -> None:
        """Forget all that was done, and serve again if it was stopped."""
        self.store.tasks.clear()
        self.jobs.reset()
        self.refusals.clear()
        self.methods.clear()
        self.open.set()
        if self._server is None:
            self.start()

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(60)
            assert not self._thread.is_alive()
            self._server = None

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        self._kept.close()

    async def _serve(self, listener: socket.socket, ready: threading.Event) -> None:
        parts = self._parts()

        @asynccontextmanager
        async def endpoint() -> AsyncIterator[Endpoint]:
            ready.set()
            yield parts.endpoint
            parts.watcher.close()

        app = self._between(create_app(endpoint, path="/mcp"))
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        await self._server.serve([listener])

    def _parts(self) -> Parts:
        settings = Settings(
            refresh_min=0.01, refresh_max=0.05, watch_max=0.05, describe_rate=1e6, describe_burst=10**6
        )
        targets = {tool.name: tool.state_machine for tool in CATALOG}
        return assemble(settings, CATALOG, targets, self.store, self.jobs, keys=(b"k" * 32,))

    def _between(self, app: ASGIApp) -> ASGIApp:
        async def middleware(scope: Scope, receive: Receive, send: Send) -> None:
            method = dict(scope.get("headers", [])).get(b"mcp-method", b"").decode()
            self.methods.append(method)
            if method == "tools/call":
                await asyncio.to_thread(self.open.wait, _HELD_SECONDS)
            if method.startswith("tasks/") and self.refusals:
                await send({"type": "http.response.start", "status": self.refusals.pop(0), "headers": []})
                await send({"type": "http.response.body", "body": b"busy"})
            else:
                await app(scope, receive, send)

        return middleware
