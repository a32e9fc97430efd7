from __future__ import annotations

import asyncio
import io
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as Screen

from adapter.cli.client import TASKS, McpClient, connected
from adapter.cli.dev import first_command, welcome
from adapter.cli.signals import ENDING
from adapter.tools.catalog import Catalog
from adapter.tools.tool import Tool

from .console import Console, children_of, is_alive, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="child processes are looked up in /proc")

_NOWHERE = "http://127.0.0.1:9"
_SLOW = """
{"StartAt": "Work", "States": {"Work": {"Type": "Wait", "Seconds": 600, "End": true}}}
"""
_TOOLS = """
tools:
  - name: slow
    title: A slow job
    description: Takes ten minutes.
    state_machine: slow
    definition: slow.asl.json
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    (tmp_path / "slow.asl.json").write_text(_SLOW, encoding="utf-8")
    file = tmp_path / "tools.yaml"
    file.write_text(_TOOLS, encoding="utf-8")
    return file


@pytest.fixture
def dev(tools: Path) -> Iterator[Console]:
    """`adapter dev` on a free port, ready; what is set for other uses of AWS does not lead it astray."""
    astray = {"AWS_PROFILE": "nobody", "AWS_ENDPOINT_URL_DYNAMODB": _NOWHERE, "HTTP_PROXY": _NOWHERE}
    with Console("dev", "--tools", str(tools), "--port", "0", environment=astray) as console:
        console.wait_for("Ctrl-C ends it.")
        yield console


def _url(dev: Console) -> str:
    return dev.stdout.splitlines()[0].removeprefix("Serving MCP at ")


async def _start_and_listen(client: McpClient, dev: Console) -> list[dict[str, Any]]:
    """All messages of a subscription to a running task; Ctrl-C is pressed after the first state."""
    task = await client.call_tool((await client.tools())[0], {})
    messages = []
    async with aclosing(client.listen([task["taskId"]])) as stream:
        async for message in stream:
            messages.append(message)
            if message.get("method") == "notifications/tasks" and len(messages) == 2:
                dev.process.send_signal(signal.SIGINT)
    return messages


def test_ctrl_c_ends_open_streams_with_their_result_and_leaves_no_child(dev: Console) -> None:
    engines = children_of(dev.process.pid)
    assert len(engines) == 1

    async def listen() -> list[dict[str, Any]]:
        async with connected(_url(dev), TASKS) as client:
            return await _start_and_listen(client, dev)

    messages = asyncio.run(listen())
    assert dev.ended() == 0
    assert messages[1]["params"]["status"] == "working"
    assert messages[-1]["result"]["resultType"] == "complete"
    assert dev.stderr == ""
    assert not is_alive(engines[0])


def test_its_engine_ends_when_it_is_killed(dev: Console) -> None:
    (engine,) = children_of(dev.process.pid)
    dev.process.kill()
    wait_until(lambda: not is_alive(engine), otherwise="ended with its parent")


def test_the_banner_names_the_address_the_tools_and_a_first_command() -> None:
    screen = Screen(file=io.StringIO(), width=100)
    tool = Tool(name="slow", title="A slow job", description="Takes ten minutes.", state_machine="slow")
    welcome(screen, Catalog([tool]), "http://127.0.0.1:4711/mcp")
    assert isinstance(screen.file, io.StringIO)
    banner = screen.file.getvalue()
    assert banner.startswith("Serving MCP at http://127.0.0.1:4711/mcp\n")
    assert "slow  A slow job" in banner
    assert "adapter call slow --url http://127.0.0.1:4711/mcp\n" in banner


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_it_ends_quietly_with_its_engine_when_asked_before_it_is_ready(
    tools: Path, number: signal.Signals
) -> None:
    with Console("dev", "--tools", str(tools), "--port", "0") as console:
        wait_until(lambda: children_of(console.process.pid), otherwise="started its engine")
        (engine,) = children_of(console.process.pid)
        console.process.send_signal(number)
        assert console.ended() == 0
        assert console.printed == ""
        wait_until(lambda: not is_alive(engine), otherwise="ended with its parent")


def test_a_port_in_use_is_one_line_and_2(tools: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Console("dev", "--tools", str(tools), "--port", str(port)) as console:
            assert console.ended() == 2
    told = f"adapter: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port\n"
    assert console.printed == told


def test_a_missing_extra_is_one_line_and_2(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "moto.py").write_text("raise ImportError", encoding="utf-8")
    environment = {"PYTHONPATH": str(tmp_path)}
    with Console("dev", "--tools", str(tools), "--port", "0", environment=environment) as console:
        assert console.ended() == 2
    assert console.printed.startswith("adapter: the local engine needs the extra: pip install")
    assert console.printed.count("\n") == 1


def test_an_endpoint_of_ones_own_is_used_in_place_of_the_engine(tools: Path) -> None:
    environment = {
        "AWS_ENDPOINT_URL": _NOWHERE,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "eu-west-1",
    }
    with Console("dev", "--tools", str(tools), "--port", "0", environment=environment) as console:
        assert console.ended() == 2
    assert "The table 'mcp-tasks' cannot be created: Could not connect to" in console.printed
    assert console.printed.count("\n") == 1


def test_the_first_command_fills_in_examples() -> None:
    properties = {
        "day": {"type": "string", "examples": ["2026-07-28"]},
        "region": {"enum": ["north", "south"]},
        "copies": {"type": "integer"},
        "name": {"type": "string"},
        "since": {"type": "string", "format": "date"},
    }
    schema = {"type": "object", "properties": properties, "required": [*properties, "unknown"]}
    tool = Tool(name="report", description="x", state_machine="x", input_schema=schema)
    command = "adapter call report -a day=2026-07-28 -a region=north -a copies=1 -a name=x"
    command += " -a since=2026-07-28 -a unknown=x"
    assert first_command(tool, "http://127.0.0.1:8000/mcp") == command
