"""One signal is enough, whenever it comes."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from adapter.cli.call import CallOptions, result_lines, run
from adapter.cli.client import JsonObject
from adapter.cli.exits import ExitCode
from adapter.cli.signals import ENDING
from adapter.stores.table import create_table
from tests.support.aws import aws_at, local_engine

from .console import Console
from .memory_server import MemoryServer

_SAMPLES = str(Path(__file__).parents[2] / "infra" / "pipelines" / "tools.yaml")
_TABLE = "tasks-of-signals"
_FIRST = "import adapter.cli.app"
_CLIENT = "dynamodb/2012-08-10/service-2.json"
"""The event loop runs, and makes its clients of AWS."""
_LATE = "uvicorn/protocols/http/"
"""The server is about to take requests."""

numbers = pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)


def _interrupted(number: int, moment: str, *arguments: str, **environment: str) -> Console:
    return Console(str(number), moment, *arguments, module="tests.cli.interrupted", environment=environment)


async def _create_table() -> None:
    async with aws_at(local_engine().endpoint) as aws:
        await create_table(aws.dynamodb, _TABLE)


@numbers
@pytest.mark.parametrize(
    ("moment", "options"),
    [
        (_FIRST, ["--port", "0"]),
        ("import adapter.cli.dev", ["--port", "0"]),
        ("subprocess.Popen", ["--port", "0"]),
        (_CLIENT, ["--port", "0"]),
        (_LATE, ["--port", "0"]),
        (_CLIENT, ["--stdio"]),
    ],
)
def test_dev_ends_with_0(number: int, moment: str, options: list[str]) -> None:
    with _interrupted(number, moment, "dev", "--tools", _SAMPLES, *options) as console:
        assert console.ended() == 0
    assert console.stderr == ""


@numbers
@pytest.mark.parametrize(
    ("moment", "options"),
    [
        (_FIRST, ["--port", "0"]),
        (_CLIENT, ["--port", "0"]),
        (_LATE, ["--port", "0"]),
        (_FIRST, ["--stdio"]),
        (_CLIENT, ["--stdio"]),
    ],
)
def test_serve_ends_with_0(number: int, moment: str, options: list[str]) -> None:
    asyncio.run(_create_table())
    arguments = ("serve", "--tools", _SAMPLES, *options)
    with _interrupted(
        number, moment, *arguments, **local_engine().environment, ADAPTER_TABLE=_TABLE
    ) as console:
        assert console.ended() == 0
    assert "rror" not in console.stderr
    assert console.stdout == ""


@numbers
@pytest.mark.parametrize("moment", [_FIRST, "import adapter.cli.call", "import aiohttp"])
def test_call_ends_with_3_before_it_has_sent_anything(server: MemoryServer, number: int, moment: str) -> None:
    with _interrupted(number, moment, "call", "slow", "--url", server.url) as console:
        assert console.ended() == 3
    assert console.printed == ""
    assert server.methods == []


@numbers
def test_call_says_so_where_it_is_left_before_there_is_a_task(server: MemoryServer, number: int) -> None:
    with _interrupted(number, "socket.connect", "call", "slow", "--url", server.url) as console:
        assert console.ended() == 3
    assert console.stderr.endswith("adapter: Left before there was a task; nothing was started\n")
    assert server.store.tasks == {}


@numbers
@pytest.mark.parametrize("moment", ["atexit", "teardown"])
@pytest.mark.parametrize(("tool", "code"), [("echo", 0), ("fail", 1), ("no_such_tool", 2)])
def test_a_signal_after_the_end_changes_no_exit_code(
    server: MemoryServer, number: int, moment: str, tool: str, code: int
) -> None:
    with _interrupted(number, moment, "call", tool, "--url", server.url) as console:
        assert console.ended() == code


@numbers
def test_a_signal_while_the_result_is_printed_changes_nothing(
    server: MemoryServer, number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(result: JsonObject) -> list[str]:
        signal.raise_signal(number)
        return result_lines(result)

    monkeypatch.setattr("adapter.cli.call.result_lines", interrupted)
    assert run(CallOptions(tool="echo", url=server.url)) is ExitCode.OK
    assert capsys.readouterr().out == "{}\n"


@numbers
@pytest.mark.parametrize("command", ["check", "tour"])
def test_commands_that_have_nothing_to_finish_die_of_it(number: int, command: str) -> None:
    with _interrupted(number, f"import adapter.cli.{command}", command) as console:
        assert console.ended() == -number
    assert console.printed == ""
