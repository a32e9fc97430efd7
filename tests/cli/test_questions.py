"""Questions of a call, answered by a person at the terminal."""

from __future__ import annotations

import json
import signal

import pytest

from adapter.cli.call import CallOptions, ConsoleTerminal, run
from adapter.cli.exits import CommandError, ExitCode
from adapter.cli.signals import ENDING
from adapter.cli.wishes import Wishes

from .memory_server import MemoryServer
from .scripted_terminal import CTRL_C, ScriptedTerminal


def _call(server: MemoryServer, tool: str, *lines: str) -> tuple[ExitCode, ScriptedTerminal]:
    terminal = ScriptedTerminal(lines)
    return run(CallOptions(tool=tool, url=server.url), terminal), terminal


def test_a_form_is_filled_in(server: MemoryServer, capsys: pytest.CaptureFixture[str]) -> None:
    code, terminal = _call(server, "ask", "", "express", "3")
    content = {"delivery": "express", "copies": 3}
    assert code is ExitCode.OK
    assert json.loads(capsys.readouterr().out) == [{"action": "accept", "content": content}]
    assert "? Approve order 7?" in terminal.text


def test_a_declined_question_is_data_for_the_workflow(
    server: MemoryServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = _call(server, "ask", "d")
    assert code is ExitCode.OK
    assert json.loads(capsys.readouterr().out) == [{"action": "decline"}]


def test_two_questions_at_once_are_asked_one_after_the_other(
    server: MemoryServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, terminal = _call(server, "ask_twice", "", "1", "", "c")
    answers = json.loads(capsys.readouterr().out)
    assert code is ExitCode.OK
    assert [answer["action"] for answer in answers] == ["accept", "cancel"]
    assert terminal.text.count("? Approve order 7?") == 2


def test_what_only_the_server_can_judge_is_asked_again(
    server: MemoryServer, capsys: pytest.CaptureFixture[str]
) -> None:
    form = {
        "message": "Dates?",
        "requestedSchema": {
            "type": "object",
            "properties": {"start": {"type": "string"}, "end": {"type": "string"}},
            "dependentRequired": {"start": ["end"]},
        },
    }
    server.jobs.questions["ask"] = [form]
    code, terminal = _call(server, "ask", "", "monday", "", "", "monday", "friday")
    assert code is ExitCode.OK
    assert "Not accepted: params.inputResponses['question-0']" in terminal.text
    answers = json.loads(capsys.readouterr().out)
    assert answers == [{"action": "accept", "content": {"start": "monday", "end": "friday"}}]


def test_a_confirmation_is_asked_before_anything_starts(server: MemoryServer) -> None:
    code, terminal = _call(server, "confirmed", "", "y")
    assert code is ExitCode.OK
    assert "? Really?" in terminal.text


def test_a_declined_confirmation_starts_nothing(
    server: MemoryServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = _call(server, "confirmed", "d")
    assert code is ExitCode.FAILED
    assert "Nothing was started" in capsys.readouterr().out
    assert server.store.tasks == {}


def test_ctrl_c_at_a_prompt_cancels_the_task(server: MemoryServer) -> None:
    code, _ = _call(server, "ask", "", CTRL_C)
    assert code is ExitCode.CANCELLED
    assert len(server.jobs.stopped) == 1


def test_ctrl_c_before_there_is_a_task_just_leaves(server: MemoryServer) -> None:
    with pytest.raises(CommandError, match="Left before there was a task") as ended:
        _call(server, "confirmed", CTRL_C)
    assert ended.value.code is ExitCode.CANCELLED


def test_the_end_of_the_input_leaves_the_question_open(server: MemoryServer) -> None:
    with pytest.raises(CommandError, match=r"the input has ended.*adapter call --task mcp-") as ended:
        _call(server, "ask", "")
    assert ended.value.code is ExitCode.INPUT_NEEDED
    assert server.jobs.stopped == []


def test_given_answers_come_before_the_terminal(
    server: MemoryServer, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = ScriptedTerminal(["d"])
    options = CallOptions(tool="ask_twice", url=server.url, answers=['{"delivery": "express"}'])
    assert run(options, terminal) is ExitCode.OK
    actions = [answer["action"] for answer in json.loads(capsys.readouterr().out)]
    assert actions == ["accept", "decline"]


class _PressedTooEarly(ScriptedTerminal):
    """A signal comes just before the prompt begins to read."""

    def __init__(self, number: signal.Signals, wishes: Wishes) -> None:
        super().__init__([])
        self._number = number
        self._wishes = wishes

    def read(self, prompt: str) -> str:
        signal.raise_signal(self._number)
        return ConsoleTerminal(self._wishes).read(prompt)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_just_before_a_prompt_is_noticed_by_it(server: MemoryServer, number: signal.Signals) -> None:
    wishes = Wishes()
    terminal = _PressedTooEarly(number, wishes)
    assert run(CallOptions(tool="ask", url=server.url), terminal, wishes) is ExitCode.CANCELLED
    assert len(server.jobs.stopped) == 1
