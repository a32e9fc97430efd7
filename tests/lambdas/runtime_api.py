"""A Runtime API on loopback, and a function that the real runtime client runs against it in a process of its own."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

PATIENCE = 60.0
_STOP_SECONDS = 60.0


class FunctionFailed(Exception):
    """The function raised: Lambda's error document."""


@dataclass(slots=True)
class _Invocation:
    event: object
    deadline_ms: int
    identifier: str = field(default_factory=lambda: str(uuid4()))
    outcome: queue.SimpleQueue[tuple[str, Any]] = field(default_factory=queue.SimpleQueue)


class RuntimeApi:
    """What a function process talks to. `invoke` hands it one event and waits for what it returns."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[_Invocation | None] = queue.SimpleQueue()
        self._running: dict[str, _Invocation] = {}
        self.ready = threading.Event()
        """The function asked for its first event."""
        self.restored = threading.Event()
        """The function was ready for a snapshot."""
        self.init_error: Any = None
        self._server = _Server(("127.0.0.1", 0), _handler(self))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def served(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._waiting.put(None)
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def invoke(self, event: object, *, seconds: float = 29.0) -> Any:
        """What the function returns for `event`; it is told to have `seconds`. Raises FunctionFailed."""
        invocation = _Invocation(event, int((time.time() + seconds) * 1000))
        self._waiting.put(invocation)
        kind, document = invocation.outcome.get(timeout=PATIENCE)
        if kind == "error":
            raise FunctionFailed(document)
        return document

    def next(self) -> _Invocation | None:
        self.ready.set()
        invocation = self._waiting.get()
        if invocation is not None:
            self._running[invocation.identifier] = invocation
        return invocation

    def done(self, identifier: str, kind: str, document: Any) -> None:
        self._running.pop(identifier).outcome.put((kind, document))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A function process that ends leaves its connection open in the middle."""


def _handler(api: RuntimeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            if self.path.endswith("/restore/next"):
                api.restored.set()
                return self._reply(200, b"{}")
            invocation = api.next()
            if invocation is None:
                self.close_connection = True
                return None
            headers = {
                "Lambda-Runtime-Aws-Request-Id": invocation.identifier,
                "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
                "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:123456789012:function:mcp",
                "Lambda-Runtime-Trace-Id": "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0",
            }
            return self._reply(200, json.dumps(invocation.event).encode(), headers)

        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            *_, identifier, kind = self.path.split("/")
            if identifier == "init":
                api.init_error = document
            else:
                api.done(identifier, kind, document)
            self._reply(202, b"{}")

        def _reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@dataclass(frozen=True, slots=True)
class RunningFunction:
    """A function process and the API it talks to."""

    api: RuntimeApi
    process: subprocess.Popen[str]


@contextmanager
def running(
    handler: str,
    environment: Mapping[str, str],
    *,
    initialization: str = "on-demand",
    prepare: Callable[[], None] | None = None,
) -> Iterator[RunningFunction]:
    """`handler` as `module.function`, run by awslambdaric with this environment besides Lambda's own.

    `prepare` is called in the new process before anything else.
    """
    api = RuntimeApi()
    with api.served():
        process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", handler],
            env={**_inherited(), **_lambda_environment(api.address, initialization), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=prepare,
        )
        try:
            yield RunningFunction(api, process)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _inherited() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ADAPTER_"))}
    return {**kept, "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)}


def _lambda_environment(address: str, initialization: str) -> dict[str, str]:
    return {
        "AWS_LAMBDA_RUNTIME_API": address,
        "AWS_LAMBDA_INITIALIZATION_TYPE": initialization,
        "AWS_LAMBDA_FUNCTION_NAME": "mcp",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/mcp",
        "AWS_LAMBDA_LOG_STREAM_NAME": "2027/01/15/[$LATEST]0123456789abcdef",
    }
