"""`adapter serve --stdio` and `adapter dev --stdio` as a host starts them: child processes behind pipes."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any

import pytest

from adapter.cli.signals import ENDING
from adapter.stores.table import create_table
from tests.support.adapter import until
from tests.support.aws import REGION, aws_at, deploy, local_engine
from tests.support.legacy import CLIENT, FORMS, LATEST
from tests.support.stdio import modern
from tests.support.wire import check_message

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
Json = dict[str, Any]


class Child:
    """A server process, spoken to in lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.stdout: list[bytes] = []
        self.stderr: list[bytes] = []
        self._lines: Queue[bytes] = Queue()
        outputs = ((process.stdout, self.stdout), (process.stderr, self.stderr))
        self._threads = [
            threading.Thread(target=self._read, args=output, daemon=True)
            for output in outputs
            if output[0] is not None
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: IO[bytes], kept: list[bytes]) -> None:
        with stream:
            for line in stream:
                kept.append(line)
                if kept is self.stdout:
                    self._lines.put(line)

    def send(self, message: object) -> None:
        assert self.process.stdin is not None
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()

    def next(self) -> Json:
        try:
            line = self._lines.get(timeout=SECONDS)
        except Empty:
            raise AssertionError(b"".join(self.stderr).decode()) from None
        return dict(json.loads(line))

    def call(self, method: str, params: Json | None = None, version: str = LATEST) -> Json:
        """The result of a request, which has to be the next message."""
        identifier = secrets.token_hex(4)
        self.send({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params or {}})
        message = self.next()
        check_message(version, message, request_method=method)
        assert message["id"] == identifier, message
        return dict(message["result"])

    def initialize(self, capabilities: Json | None = None) -> Json:
        params = {"protocolVersion": LATEST, "capabilities": capabilities or {}, "clientInfo": CLIENT}
        result = self.call("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def end(self) -> int:
        """Close its input; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(SECONDS)
        for thread in self._threads:
            thread.join(SECONDS)
        return code


@contextmanager
def child(*arguments: str, environment: Mapping[str, str] | None = None, **options: Any) -> Iterator[Child]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("ADAPTER_", "AWS_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "adapter.cli", *arguments],
        stderr=subprocess.PIPE,
        env={**inherited, **(environment or {}), "PYTHONPATH": str(ROOT)},
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options},
    )
    try:
        yield Child(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


@pytest.fixture
async def served(tmp_path: Path) -> dict[str, str]:
    """The environment of a server over the local engine with one tool: a state machine that repeats its input."""
    engine, table = local_engine(), f"tasks-{secrets.token_hex(4)}"
    async with aws_at(engine.endpoint) as aws:
        await create_table(aws.dynamodb, table)
        machine = await deploy(aws, {"StartAt": "Echo", "States": {"Echo": {"Type": "Pass", "End": True}}})
    tools = tmp_path / "tools.yaml"
    entry = {"name": "echo", "description": "Repeats.", "state_machine": machine, "poll_interval": "1s"}
    tools.write_text(json.dumps({"tools": [{**entry, "input_schema": {"type": "object"}}]}))
    return {**engine.environment, "ADAPTER_TOOLS": str(tools), "ADAPTER_TABLE": table}


@pytest.mark.requirement("R-140", "R-143", "R-144", "R-134")
async def test_serve_speaks_both_eras_and_nothing_else_on_its_output(served: dict[str, str]) -> None:
    assert served["AWS_DEFAULT_REGION"] == REGION, "credentials come from the environment"
    with child("serve", "--stdio", environment=served) as server:
        found = server.call("server/discover", modern(), "2026-07-28")
        server.initialize()
        listed = server.call("tools/list")
        plain = server.call("tools/call", {"name": "echo", "arguments": {"n": 1}})
        task_id = server.call("tools/call", {"name": "echo", "arguments": {"n": 2}, "task": {}})["task"][
            "taskId"
        ]
        result = server.call("tasks/result", {"taskId": task_id})
        server.send(b"no json")
        refused = server.next()
        code = server.end()

    assert code == 0
    assert found["supportedVersions"][0] == "2026-07-28"
    assert [tool["name"] for tool in listed["tools"]][:1] == ["echo"]
    assert json.loads(plain["content"][0]["text"]) == {"n": 1}
    assert json.loads(result["content"][0]["text"]) == {"n": 2}
    assert refused["error"]["code"] == -32700
    assert len(server.stdout) == 7
    assert all(line.startswith(b'{"jsonrpc":"2.0"') for line in server.stdout)
    assert b"over standard input and output" in b"".join(server.stderr)


@pytest.mark.requirement("R-140")
async def test_a_very_long_line_costs_one_error(served: dict[str, str]) -> None:
    with child("serve", "--stdio", environment=served) as server:
        server.send(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"x" * 9_000_000 + b'"}}')
        refused = server.next()
        assert server.call("ping") == {}
        assert server.end() == 0

    assert refused["error"]["code"] == -32700
    assert len(server.stdout) == 2


@pytest.mark.requirement("R-143")
@pytest.mark.parametrize("source", ["nothing", "a file"])
async def test_input_need_not_be_a_pipe(served: dict[str, str], source: str, tmp_path: Path) -> None:
    requests = tmp_path / "requests"
    requests.write_text('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    with requests.open() as file:
        stdin = subprocess.DEVNULL if source == "nothing" else file
        with child("serve", "--stdio", environment=served, stdin=stdin) as server:
            assert server.process.wait(SECONDS) == 0
            for thread in server._threads:
                thread.join(SECONDS)

    answers = [b'{"jsonrpc":"2.0","id":1,"result":{}}\n'] if source == "a file" else []
    assert server.stdout == answers


@pytest.mark.requirement("R-143")
@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
async def test_a_signal_ends_it_quietly(served: dict[str, str], number: signal.Signals) -> None:
    with child("serve", "--stdio", environment=served) as server:
        assert server.call("ping") == {}
        server.process.send_signal(number)
        assert server.process.wait(SECONDS) == 0
        for thread in server._threads:
            thread.join(SECONDS)

    assert b"Traceback" not in b"".join(server.stderr)


@pytest.mark.requirement("R-143")
async def test_a_signal_ends_it_though_nobody_reads_its_output(served: dict[str, str]) -> None:
    read, write = os.pipe()
    try:
        with child("serve", "--stdio", environment=served, stdout=write) as server:
            for number in range(2_000):
                server.send({"jsonrpc": "2.0", "id": number, "method": "ping"})
            await until(lambda: not select.select([], [write], [], 0)[1])
            server.process.terminate()
            assert server.process.wait(SECONDS) == 0
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.requirement("R-140", "R-143", "L-48")
def test_dev_runs_the_samples_and_asks_on_the_line() -> None:
    order = {"order_id": "A-7", "customer": "Ada", "amount": 250}
    with child("dev", "--stdio") as server:
        server.initialize(FORMS)
        task = server.call("tools/call", {"name": "place_order", "arguments": order, "task": {}})["task"]
        server.send(
            {"jsonrpc": "2.0", "id": "w", "method": "tasks/result", "params": {"taskId": task["taskId"]}}
        )
        messages = [server.next()]
        while "result" not in messages[-1]:
            if "id" in messages[-1]:
                answer = {"action": "accept", "content": {"delivery": "express"}}
                server.send({"jsonrpc": "2.0", "id": messages[-1]["id"], "result": answer})
            messages.append(server.next())
        code = server.end()

    for message in messages:
        check_message(LATEST, message, request_method="tasks/result")
    assert code == 0
    assert [m["method"] for m in messages if "id" in m and "method" in m] == ["elicitation/create"]
    assert messages[-1]["result"]["structuredContent"]["status"] == "shipped"
    assert all(line.startswith(b"{") for line in server.stdout)
