"""Ctrl-C and prompts as they really reach a process."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pytest

from adapter.cli.signals import ENDING

from .console import Console, wait_until
from .memory_server import MemoryServer

_ROOT = Path(__file__).parents[2]
_LESS_THAN_THE_WAIT = 20.0


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_cancels_the_task_and_waits_for_its_end(
    server: MemoryServer, number: signal.Signals
) -> None:
    with Console("call", "slow", "--url", server.url) as console:
        console.wait_for("working  Half way")
        console.process.send_signal(number)
        assert console.ended() == 3
    assert "cancelled: Cancelled by the MCP client" in console.stderr
    assert len(server.jobs.stopped) == 1


def test_a_second_ctrl_c_leaves_at_once_and_tells_the_way_back(server: MemoryServer) -> None:
    with Console("call", "stubborn", "--url", server.url) as console:
        console.wait_for("working  Half way")
        console.process.send_signal(signal.SIGINT)
        wait_until(
            lambda: "tasks/get" in server.methods[_place(server, "tasks/cancel") :], otherwise="waited"
        )
        console.process.send_signal(signal.SIGINT)
        assert console.ended() == 3
    (task_id,) = server.store.tasks
    told = f"adapter: Left before its end was seen. Get back to the task with: adapter call --task {task_id}"
    assert console.stderr.splitlines()[-1] == f"{told} --url {server.url}"


def test_a_repeated_sigterm_goes_on_waiting_and_ctrl_c_then_leaves(server: MemoryServer) -> None:
    with Console("call", "stubborn", "--url", server.url) as console:
        console.wait_for("working  Half way")
        for _ in range(3):
            console.process.send_signal(signal.SIGTERM)
            looked = server.methods.count("tasks/get")
            wait_until(
                lambda looked=looked: (
                    "tasks/cancel" in server.methods and server.methods.count("tasks/get") > looked + 1
                ),
                otherwise="waited",
            )
        console.process.send_signal(signal.SIGINT)
        assert console.ended() == 3
    assert "Get back to the task with: adapter call --task mcp-" in console.stderr
    assert server.methods.count("tasks/cancel") == 1


def _called(server: MemoryServer) -> bool:
    return "tools/call" in server.methods


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_signal_while_the_call_is_on_its_way_waits_for_the_task_and_cancels_it(
    server: MemoryServer, number: signal.Signals, options: tuple[str, ...]
) -> None:
    server.open.clear()
    with Console("call", "slow", "--url", server.url, *options) as console:
        wait_until(lambda: _called(server), otherwise="called")
        console.process.send_signal(number)
        console.wait_for("Waiting for the server's reply, to cancel; Ctrl-C again leaves at once.\n")
        server.open.set()
        assert console.ended() == 3
    assert "cancelled" in console.printed
    assert (len(server.jobs.started), len(server.jobs.stopped)) == (1, 1)


def test_a_second_ctrl_c_does_not_wait_for_the_reply(server: MemoryServer) -> None:
    server.open.clear()
    with Console("call", "slow", "--url", server.url) as console:
        wait_until(lambda: _called(server), otherwise="called")
        console.process.send_signal(signal.SIGINT)
        console.wait_for("Waiting for the server's reply")
        console.process.send_signal(signal.SIGINT)
        assert console.ended(within=_LESS_THAN_THE_WAIT) == 3
    told = "adapter: Left before there was a task; nothing more is known of the call"
    assert console.stderr.splitlines()[-1] == told


def test_a_reply_that_does_not_come_is_waited_for_no_longer_than_patience_allows(
    server: MemoryServer,
) -> None:
    server.open.clear()
    with Console("call", "slow", "--url", server.url, "--patience", "0.1") as console:
        wait_until(lambda: _called(server), otherwise="called")
        console.process.send_signal(signal.SIGINT)
        assert console.ended(within=_LESS_THAN_THE_WAIT) == 3
    assert "nothing more is known of the call" in console.stderr


def test_a_result_that_was_on_its_way_is_shown(server: MemoryServer) -> None:
    server.open.clear()
    with Console("call", "inline", "-a", "text=done", "--url", server.url) as console:
        wait_until(lambda: _called(server), otherwise="called")
        console.process.send_signal(signal.SIGINT)
        console.wait_for("Waiting for the server's reply")
        server.open.set()
        assert console.ended() == 0
    assert console.stdout == '{"text":"done"}\n'


def test_a_question_that_was_on_its_way_is_not_asked(server: MemoryServer) -> None:
    server.open.clear()
    with Console("call", "confirmed", "--url", server.url) as console:
        wait_until(lambda: _called(server), otherwise="called")
        console.process.send_signal(signal.SIGINT)
        console.wait_for("Waiting for the server's reply")
        server.open.set()
        assert console.ended() == 3
    assert console.stderr.endswith("adapter: Left before there was a task; nothing was started\n")


def test_work_without_a_task_is_stopped_by_closing_its_connection(server: MemoryServer) -> None:
    with Console("call", "inline_telling", "--url", server.url) as console:
        console.wait_for("working  Half way")
        console.process.send_signal(signal.SIGINT)
        assert console.ended(within=_LESS_THAN_THE_WAIT) == 3
    assert console.stderr.endswith("its connection is closed, which tells the server to stop\n")
    wait_until(lambda: server.jobs.stopped, otherwise="stopped")


def _place(server: MemoryServer, method: str) -> int:
    return server.methods.index(method) if method in server.methods else len(server.methods)


def test_a_server_that_restarts_is_found_again(server: MemoryServer) -> None:
    with Console("call", "slow", "--url", server.url) as console:
        console.wait_for("working  Half way")
        server.stop()
        console.wait_for("connection lost")
        server.start()
        looked = server.methods.count("tasks/get")
        wait_until(lambda: server.methods.count("tasks/get") > looked, otherwise="asked again")
        console.process.send_signal(signal.SIGINT)
        assert console.ended() == 3


class _Person:
    """Somebody at a real terminal."""

    def __init__(self, *arguments: str) -> None:
        self._leader, follower = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "adapter.cli", *arguments],
            stdin=follower,
            stdout=subprocess.PIPE,
            stderr=follower,
            env={**os.environ, "PYTHONPATH": str(_ROOT), "TERM": "xterm"},
            start_new_session=True,
        )
        os.close(follower)
        self.screen = ""

    def sees(self, text: str, *, within: float = 60.0) -> None:
        """Reads on until `text` is on the screen after all that was seen before."""
        deadline = time.monotonic() + within
        while text not in self.screen:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} is not on the screen: {self.screen!r}"
            if select.select([self._leader], [], [], left)[0]:
                self.screen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(self._leader, 4096).decode())
        self.screen = self.screen.partition(text)[2]

    def types(self, line: str) -> None:
        os.write(self._leader, line.encode())

    def ended(self) -> tuple[int, str]:
        """The exit code and stdout."""
        stdout, _ = self.process.communicate(timeout=60)
        return self.process.returncode, stdout.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        os.close(self._leader)


def test_an_approval_is_given_at_a_terminal(server: MemoryServer) -> None:
    with _Person("call", "ask", "--url", server.url) as person:
        person.sees("? Approve order 7?")
        person.sees("Enter to answer, d to decline, c to cancel: ")
        person.types("\n")
        person.sees("delivery (Enter for standard): ")
        person.types("rocket\n")
        person.sees("'rocket' is not offered")
        person.types("2\n")
        person.sees("copies (1 to 9; Enter to leave out): ")
        person.types("\n")
        person.sees("completed (task mcp-")
        code, stdout = person.ended()
        assert code == 0
        assert json.loads(stdout) == [{"action": "accept", "content": {"delivery": "express"}}]


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_at_a_real_prompt_cancels_the_task(server: MemoryServer, number: signal.Signals) -> None:
    with _Person("call", "ask", "--url", server.url) as person:
        person.sees("Enter to answer")
        person.process.send_signal(number)
        person.sees("cancelled")
        code, stdout = person.ended()
        assert (code, stdout) == (3, "")
        assert len(server.jobs.stopped) == 1


def test_a_terminal_shows_one_live_line(server: MemoryServer) -> None:
    with _Person("call", "slow", "--url", server.url) as person:
        person.sees("working  Half way")
        person.process.send_signal(signal.SIGINT)
        person.sees("cancelled: Cancelled by the MCP client")
        assert person.ended() == (3, "")
