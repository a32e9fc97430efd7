from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from adapter.cli.app import app
from adapter.cli.call import result_lines

from .memory_server import MemoryServer

_NO_TEXT = "\udcff"
"""The byte 0xff of a command line, as Python has it."""

Run = Callable[..., Result]


@pytest.fixture
def call(server: MemoryServer) -> Run:
    """Runs `adapter call` without a terminal, against the server."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["call", *arguments, "--url", server.url])

    return run


def test_the_result_goes_to_stdout_and_the_rest_to_stderr(call: Run) -> None:
    result = call("echo", "-a", "text=hello")
    assert (result.exit_code, result.stdout) == (0, '{"text":"hello"}\n')
    assert "completed (task mcp-" in result.stderr


def test_json_prints_the_last_state_of_the_task_as_one_object(call: Run) -> None:
    result = call("echo", "--args", '{"text": "hello"}', "--json")
    final = json.loads(result.stdout)
    assert (result.exit_code, final["status"], result.stderr) == (0, "completed", "")
    assert final["taskId"].startswith("mcp-")
    assert json.loads(final["result"]["content"][0]["text"]) == {"text": "hello"}


def test_a_tool_that_answers_in_the_reply_has_no_task(call: Run) -> None:
    result = call("inline", "-a", "text=now", "--json")
    final = json.loads(result.stdout)
    assert (result.exit_code, final["status"]) == (0, "completed")
    assert "taskId" not in final


def test_arguments_come_from_a_file_and_single_ones_win(call: Run, tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_text('{"text": "from the file", "more": [1]}', encoding="utf-8")
    result = call("echo", "--args", f"@{file}", "-a", "text=17")
    assert json.loads(result.stdout) == {"text": "17", "more": [1]}


def test_an_argument_without_a_string_schema_is_read_as_json(call: Run) -> None:
    result = call("echo", "-a", "count=3", "-a", "word=three")
    assert json.loads(result.stdout) == {"count": 3, "word": "three"}


@pytest.mark.parametrize("text", ["NaN", "1e999"])
def test_a_single_argument_that_is_no_json_is_text(call: Run, text: str) -> None:
    assert json.loads(call("echo", "-a", f"count={text}").stdout) == {"count": text}


def test_a_mirrored_argument_travels_as_a_header_too(call: Run) -> None:
    result = call("mirrored", "-a", "region=Île-de-France")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"region": "Île-de-France"})


def test_an_error_result_ends_with_1(call: Run) -> None:
    result = call("fail")
    assert (result.exit_code, result.stdout) == (1, "Broken: the disk is full\n")
    assert "the tool reported an error" in result.stderr


def test_a_failed_task_ends_with_1_and_tells_its_error(call: Run) -> None:
    result = call("protocol_error")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "failed: no such ledger (4711)" in result.stderr


def test_a_given_answer_is_used_for_the_question(call: Run) -> None:
    result = call("ask", "--answer", '{"delivery": "express"}')
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [{"action": "accept", "content": {"delivery": "express"}}]


def test_given_answers_are_used_in_order_and_the_rest_declined(call: Run) -> None:
    result = call("ask_twice", "--answer", '{"delivery": "express"}', "--decline")
    given = json.loads(result.stdout)
    assert sorted(answer["action"] for answer in given) == ["accept", "decline"]


def test_an_answer_to_a_url_has_no_content(call: Run) -> None:
    result = call("ask_website", "--answer", "{}")
    assert json.loads(result.stdout) == [{"action": "accept"}]


def test_a_given_answer_that_the_server_refuses_ends_with_2_and_the_rule(call: Run) -> None:
    result = call("ask", "--answer", '{"delivery": "drone"}')
    assert result.exit_code == 2
    assert '"drone" is not one of' in result.stderr
    assert "adapter call --task mcp-" in result.stderr


def test_without_an_answer_it_ends_with_4_and_the_way_back(call: Run) -> None:
    result = call("ask")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "an answer is needed: Approve order 7" in result.stderr
    assert "adapter call --task mcp-" in result.stderr


def test_the_open_question_is_part_of_the_json(call: Run) -> None:
    result = call("ask", "--json")
    state = json.loads(result.stdout)
    assert (result.exit_code, state["status"]) == (4, "input_required")
    assert state["inputRequests"]["question-0"]["params"]["message"] == "Approve order 7?"


def test_a_task_is_found_again_and_answered(call: Run) -> None:
    task_id = json.loads(call("ask", "--json").stdout)["taskId"]
    result = call("--task", task_id, "--answer", '{"delivery": "standard"}')
    assert (result.exit_code, json.loads(result.stdout)[0]["action"]) == (0, "accept")


def test_a_task_that_nobody_knows_ends_with_5(call: Run) -> None:
    result = call("--task", "mcp-unknown")
    assert result.exit_code == 5
    assert "Task not found (-32602)" in result.stderr
    assert "Get back" not in result.stderr


def test_a_confirmation_is_given_before_there_is_a_task(call: Run, server: MemoryServer) -> None:
    result = call("confirmed", "--answer", '{"sure": true}')
    confirmation = json.loads(result.stdout)["confirmation"]
    assert (result.exit_code, confirmation) == (0, {"action": "accept", "content": {"sure": True}})
    assert server.methods.count("tools/call") == 2


def test_a_confirmation_that_nobody_can_give_starts_nothing(call: Run, server: MemoryServer) -> None:
    result = call("confirmed")
    assert result.exit_code == 4
    assert "nothing was started" in result.stderr
    assert server.store.tasks == {}


def test_a_wrong_confirmation_is_refused_and_starts_nothing(call: Run, server: MemoryServer) -> None:
    result = call("confirmed", "--answer", '{"sure": "maybe"}')
    assert result.exit_code == 2
    assert "content/sure" in result.stderr
    assert server.store.tasks == {}


def test_an_unknown_tool_is_told_with_those_that_exist(call: Run) -> None:
    result = call("ehco")
    assert result.exit_code == 2
    assert "there is no tool 'ehco'; the server has: echo, fail" in result.stderr


def test_a_lost_server_is_tried_again_while_the_task_goes_on(call: Run, server: MemoryServer) -> None:
    server.refusals = [503, 500]
    result = call("echo", "-a", "text=hello")
    assert (result.exit_code, result.stdout) == (0, '{"text":"hello"}\n')
    assert "connection lost  trying again" in result.stderr


def test_when_patience_is_over_it_ends_with_5_and_the_way_back(call: Run, server: MemoryServer) -> None:
    server.refusals = [503] * 100
    result = call("echo", "--patience", "0.3")
    assert result.exit_code == 5
    assert "HTTP 503" in result.stderr
    assert "adapter call --task mcp-" in result.stderr


def test_a_reply_that_is_not_mcp_ends_with_5_at_once(call: Run, server: MemoryServer) -> None:
    server.refusals = [418] * 100
    result = call("echo")
    assert (result.exit_code, len(server.refusals)) == (5, 99)


def test_a_server_that_is_not_there_ends_with_5(server: MemoryServer) -> None:
    server.stop()
    result = CliRunner().invoke(app, ["call", "echo", "--url", server.url])
    assert result.exit_code == 5
    assert f"cannot reach {server.url}: Connection refused" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name a tool, or a task"),
        (["echo", "--task", "mcp-1"], "name a tool, or a task"),
        (["--task", "mcp-1", "-a", "x=1"], "--task takes no arguments"),
        (["echo", "--args", "[1]"], "--args: must be a JSON object"),
        (["echo", "--args", "{"], "--args: not valid JSON at column 2"),
        (["echo", "--args", '{"n": NaN}'], "--args: NaN is no JSON value"),
        (["echo", "--args", '{"n": [-Infinity]}'], "--args: -Infinity is no JSON value"),
        (["echo", "--args", '{"n": 1e999}'], "--args: 1e999 is too large"),
        (["echo", "--answer", '{"n": NaN}'], "--answer: NaN is no JSON value"),
        (["echo", "--args", f'{{"n": {10**30}}}'], "--args: cannot be sent: Integer exceeds 64-bit range"),
        (["echo", "--args", "@/no/such/file"], "/no/such/file cannot be read: No such file"),
        (["echo", "-a", "text"], "-a text: write it as key=value"),
        (["echo", "--answer", "yes"], "--answer: not valid JSON"),
        (["echo", "--url", "ftp://example.com"], "is not an http or https URL"),
        (["echo", "--url", "http://[::1"], "is not an http or https URL"),
        (["echo", "--url", "http://..:8911/mcp"], "is not an http or https URL"),
        (["echo", "--url", f"http://{'a' * 300}/mcp"], "is not an http or https URL"),
        (["echo", "--url", "http://example.com:99999/mcp"], "is not an http or https URL"),
        (["echo", "--url", f"http://{_NO_TEXT}/mcp"], "is not an http or https URL"),
        (["echo", "--url", f"http://example.com/{_NO_TEXT}"], "is not an http or https URL"),
        (["echo", "-a", f"day={_NO_TEXT}"], "-a day: '\\udcff' is not UTF-8 text"),
        (["echo", "-a", f"{_NO_TEXT}=day"], "-a: '\\udcff' is not UTF-8 text"),
        (["echo", "--args", f'{{"day": "{_NO_TEXT}"}}'], "--args: cannot be sent"),
        (["echo", "--args", f"@{_NO_TEXT}"], "cannot be read"),
        ([_NO_TEXT], "TOOL: '\\udcff' is not UTF-8 text"),
        (["--task", _NO_TEXT], "--task: '\\udcff' is not UTF-8 text"),
    ],
)
def test_wrong_options_end_with_2_before_anything_is_sent(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["call", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_bytes(b"\xff\xfe")
    result = CliRunner().invoke(app, ["call", "echo", "--args", f"@{file}"])
    assert result.exit_code == 2
    assert "is not UTF-8 text" in result.stderr


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ({"content": [{"type": "text", "text": "a\x1b[2J\nb"}]}, ["a[2J\nb"]),
        (
            {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]},
            ["[image image/png, 3 bytes]"],
        ),
        ({"content": [{"type": "resource", "resource": {"uri": "x:y", "text": "hello"}}]}, ["hello"]),
        ({"content": [{"type": "resource", "resource": {"uri": "x:y", "blob": "AA"}}]}, ["[resource x:y]"]),
        ({"content": [{"type": "resource_link", "uri": "x:y", "name": "Y"}]}, ["[Y: x:y]"]),
        ({"content": [], "structuredContent": {"é": 1}}, ['{\n  "é": 1\n}']),
        ({}, []),
    ],
)
def test_every_kind_of_content_has_its_text(result: dict[str, object], lines: list[str]) -> None:
    assert result_lines(result) == lines
