"""What belongs to no single command."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from adapter import __version__
from adapter.cli.app import app
from adapter.cli.exits import CommandError, ExitCode

from .console import Console
from .memory_server import MemoryServer

_HEAVY = ("aiobotocore", "aiohttp", "botocore", "moto", "pydantic", "rich", "starlette", "uvicorn", "yaml")
_HELP = f"""
import sys
from adapter.cli import main
sys.argv = ["adapter", "--help"]
try:
    main()
except SystemExit:
    print("loaded:", [name for name in {_HEAVY} if name in sys.modules])
"""


def test_help_imports_nothing_that_only_commands_need() -> None:
    printed = subprocess.run([sys.executable, "-c", _HELP], capture_output=True, text=True, check=True).stdout
    assert "Usage: adapter" in printed
    assert printed.endswith("loaded: []\n")


def test_the_help_of_call_lists_the_exit_codes() -> None:
    result = CliRunner().invoke(app, ["call", "--help"])
    assert "4  a question is open and nobody here can answer it" in result.stdout


@pytest.mark.parametrize("module", ["adapter", "adapter.cli"])
def test_the_package_can_be_run_as_a_module(module: str) -> None:
    with Console("--version", module=module) as console:
        assert console.ended() == 0
    assert console.stdout == f"{__version__}\n"


def _in_a_shell(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = shlex.join([sys.executable, "-m", "adapter.cli", *arguments])
    return subprocess.run(
        ["sh", "-c", f"exec {command} {redirection}"], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("redirection", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_call_without_stdin_or_stderr_has_its_result(server: MemoryServer, redirection: str) -> None:
    ended = _in_a_shell(redirection, "call", "echo", "-a", "text=hello", "--url", server.url)
    assert (ended.returncode, ended.stdout) == (0, '{"text":"hello"}\n')
    assert ended.stderr.endswith("\n") is ("2>&-" not in redirection)


def test_a_question_without_a_stdin_is_left_open(server: MemoryServer) -> None:
    ended = _in_a_shell("<&-", "call", "ask", "--url", server.url)
    assert ended.returncode == 4
    assert "an answer is needed: Approve order 7" in ended.stderr


@pytest.mark.parametrize("redirection", ["2>&-", ">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("arguments", "code"), [(("call",), 2), (("--version",), 0), (("check",), 1)])
def test_every_command_ends_as_ever_where_nobody_reads(
    redirection: str, arguments: tuple[str, ...], code: int
) -> None:
    assert _in_a_shell(redirection, *arguments).returncode == code


def test_no_command_shows_the_help_and_is_a_usage_error() -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
    assert "Usage" in result.output


def test_what_a_server_says_cannot_move_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise CommandError("no\x1b[2J\x1b]0;owned\x07 \u202e", ExitCode.UNREACHABLE)

    monkeypatch.setattr("adapter.cli.check.run", refused)
    result = CliRunner().invoke(app, ["check"])
    assert result.exit_code == 5
    assert not set("\x1b\x07\u202e") & set(result.stderr)


def test_an_unexpected_error_is_one_line_that_tells_how_to_see_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a\ndefect")

    monkeypatch.setattr("adapter.cli.check.run", broken)
    result = CliRunner().invoke(app, ["check"])
    assert result.exit_code == 1
    assert (
        result.stderr == "adapter: unexpected RuntimeError: a defect (run `adapter --debug …` to see where)\n"
    )


def test_debug_keeps_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("adapter.cli.check.run", broken)
    result = CliRunner().invoke(app, ["--debug", "check"])
    assert isinstance(result.exception, RuntimeError)


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        (["dev"], {"ADAPTER_REFRESH_MIN": "-1"}, "ADAPTER_REFRESH_MIN: Input should be greater than 0"),
        (["serve"], {"ADAPTER_PATH": "mcp"}, "ADAPTER_PATH: the endpoint path starts with /"),
        (["serve"], {"ADAPTER_SIGNING_KEYS": "short"}, "ADAPTER_SIGNING_KEYS: each signing key needs"),
        (["dev", "--tools", "/no/tools.yaml"], {}, "/no/tools.yaml: cannot be read: No such file"),
        (["serve", "--tools", "/no/tools.yaml"], {}, "/no/tools.yaml: cannot be read: No such file"),
        (["serve"], {}, "tools.yaml: cannot be read: No such file"),
    ],
)
def test_bad_configuration_is_one_line_and_2(
    arguments: list[str],
    environment: dict[str, str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    result = CliRunner().invoke(app, arguments, env=environment)
    assert result.exit_code == 2
    assert f"adapter: {told}" in result.stderr
    assert "short" not in result.stderr
    assert "Traceback" not in result.output
