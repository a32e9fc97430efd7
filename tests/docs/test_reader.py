"""The reader notices what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .comparison import missing_line
from .markdown import Snippet, anchors_of, snippets_of, table
from .reader import Problem, Reader, commands_of

MACHINE = json.dumps({"StartAt": "A", "States": {"A": {"Type": "Pass", "End": True}}})


def snippet(language: str, text: str, **marker: object) -> Snippet:
    return Snippet("page.md:1", language, text, **marker)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        (snippet("sh", "exit_with() { return $1; }; exit_with 3"), "ends with 3"),
        (snippet("console", "$ echo one\ntwo"), "does not print 'two'"),
        (snippet("console", "echo one"), "starts with `\\$ `"),
        (snippet("yaml", "timeout: soon"), "timeout: 'soon' is not a duration"),
        (snippet("json", MACHINE), "needs a marker"),
        (snippet("json", '{"a": 1}', file="a.json"), "needs a marker"),
        (snippet("python", "raise SystemExit(4)"), "ends with 4"),
        (snippet("text", "  adapter dev"), "has a command in it"),
        (snippet("", "ls"), "no language"),
        (snippet("ruby", "puts 1"), "ruby"),
    ],
    ids=lambda value: value.language or "none" if isinstance(value, Snippet) else None,
)
def test_what_does_not_work_is_a_problem(reader: Reader, shown: Snippet, problem: str) -> None:
    with pytest.raises(Problem, match=problem):
        reader.follow(shown)


def test_a_state_machine_that_is_never_called_is_a_problem(reader: Reader) -> None:
    reader.follow(snippet("json", MACHINE, file="a.asl.json"))
    with pytest.raises(Problem, match=r"page\.md:1 is never called"):
        reader.finish()


def test_what_is_marked_as_not_run_is_only_read(reader: Reader) -> None:
    reader.follow(snippet("sh", "exit 1", not_run="it would end the shell"))
    reader.follow(snippet("json", '{"a": 1}', not_run="it is not a state machine"))
    with pytest.raises(ValueError, match="Expecting value"):
        reader.follow(snippet("json", "…", not_run="it is not a state machine"))
    reader.finish()


def test_commands_share_a_shell_and_prompts_are_answered(reader: Reader) -> None:
    reader.follow(snippet("sh", "name=Ada\nmkdir below\ncd below"))
    asks = (
        "$ read -r -p 'Who: ' other; echo \"$name and $other in ${PWD##*/}\"\nWho: Bob\nAda and Bob in below"
    )
    reader.follow(snippet("console", asks, typed=("Bob",)))
    with pytest.raises(Problem, match="does not print 'Who: Bob'"):
        reader.follow(snippet("console", asks, typed=("Joe",)))


def test_a_command_goes_on_while_a_quote_is_open_or_a_backslash_ends_it() -> None:
    shown = "$ echo 'a\nb'\na\nb\n$ echo \\\n  c\nc"
    commands = [(c.text, c.shown) for c in commands_of(snippet("console", shown))]
    assert commands == [("echo 'a\nb'", "a\nb\n"), ("echo \\\n  c", "c\n")]


def test_shown_lines_may_leave_out_and_differ_in_what_varies() -> None:
    printed = "starting\n12 s  working  mcp-abcdefgh1234\n\nthe end of it\n"
    assert missing_line("3 s working mcp-zzzzzzzz9999\nthe … it\n…", printed) is None
    assert missing_line("the end of it\nstarting", printed) == "starting"
    assert missing_line("12 s  waiting  mcp-abcdefgh1234", printed) == "12 s waiting mcp-abcdefgh1234"


def test_blocks_are_found_with_their_place_and_marker() -> None:
    text = "1. step\n\n   <!-- not run: why -->\n   ```sh\n   a\n     b\n   ```\n\n<!-- remark -->\n```text\nc\n```\n"
    first, second = snippets_of(text, "page.md")
    assert first == Snippet("page.md:4", "sh", "a\n  b", not_run="why")
    assert second == Snippet("page.md:10", "text", "c")


def test_a_marker_without_a_reason_does_not_count() -> None:
    (found,) = snippets_of("<!-- not run: -->\n```sh\nls\n```\n", "page.md")
    assert found.not_run is None


def test_headings_give_anchors() -> None:
    assert anchors_of("# A `b`: c_d-e\n```sh\n# not one\n```\n## Two words\n") == {"a-b-c_d-e", "two-words"}


def test_tables_are_told_apart_by_their_first_column(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| A | B |\n|---|---|\n| 1 | 2 |\n\n| C | B |\n|---|---|\n| 3 | 4 |\n", encoding="utf-8")
    assert table(page, "C") == [{"C": "3", "B": "4"}]
