"""Somebody who follows a document from top to bottom."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from adapter.errors import ConfigurationError
from adapter.tools.file import load_catalog
from tests.cli.console import Console

from .comparison import missing_line
from .markdown import ROOT, Snippet
from .terminal import Terminal

_DEFAULT_ADDRESS = "http://127.0.0.1:8000"
_SERVERS = ("dev", "serve")
_READY = re.compile(r"(?:Serving MCP|serving \d+ tools) at (http://127\.0\.0\.1:\d+)(/\S*)")
_SOME_TOOL = {"name": "some_tool", "description": "A tool.", "state_machine": "some-state-machine"}
_CALL = re.compile(r"\badapter call (\w+)")


class Problem(Exception):
    """A document and the product differ."""


@dataclass(frozen=True, slots=True)
class Command:
    """`shown`: the lines that it prints, according to the document."""

    text: str
    shown: str = ""


class Reader(AbstractContextManager["Reader"]):
    """Follows snippets in an empty directory; `environment` leads to an AWS with nothing in it."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._environment = {**environment, "PYTHONPATH": str(ROOT)}
        self._address = _DEFAULT_ADDRESS
        self._server = ExitStack()
        self._uncalled: dict[str, str] = {}
        """By the file of each state machine that nobody has called yet: where it is shown."""
        self._tool_of: dict[str, str] = {}

    def __enter__(self) -> Self:
        _put_adapter_on_the_path(self._directory)
        self._stack = ExitStack()
        self._terminal = self._stack.enter_context(Terminal(self._directory, self._shell_environment()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self._stack.close()

    def follow(self, snippet: Snippet) -> None:
        """Do what the snippet is for. Raises Problem."""
        if snippet.file:
            (self._directory / snippet.file).write_text(snippet.text + "\n", encoding="utf-8")
        match snippet.language:
            case "sh" | "console" | "python" if snippet.not_run:
                return
            case "sh":
                self._succeed(Command(snippet.text), snippet)
            case "console":
                for command in commands_of(snippet):
                    self._succeed(command, snippet)
            case "python":
                self._python(snippet)
            case "yaml":
                self._yaml(snippet)
            case "json":
                self._json(snippet)
            case "text":
                _check_drawing(snippet)
            case language:
                raise Problem(f"nobody knows what to do with a block of {language or 'no language'}")

    def finish(self) -> None:
        """Raises Problem where a state machine was shown and never run."""
        for place in self._uncalled.values():
            raise Problem(f"the state machine at {place} is never called")

    # --- commands ------------------------------------------------------------------------------------------

    def _succeed(self, command: Command, snippet: Snippet) -> None:
        words = shlex.split(command.text, comments=True)
        if words[:1] == ["adapter"] and words[1] in _SERVERS and "||" not in words:
            printed = self._serve(words[1:])
        else:
            code, printed = self._terminal.run(self._here(command.text), snippet.typed)
            if code != 0:
                raise Problem(f"`{command.text}` ends with {code}:\n{printed}")
        if line := missing_line(self._here(command.shown), printed):
            raise Problem(f"`{command.text}` does not print {line!r}, but:\n{printed}")
        for name in _CALL.findall(command.text):
            self._uncalled.pop(self._tool_of.get(name, ""), None)

    def _serve(self, words: list[str]) -> str:
        """Start a server in place of the one before it; what it prints until it is ready."""
        self._server.close()
        here = [self._path(word) for word in _without_port(words)]
        console = Console(*here, "--port", "0", environment=self._environment)
        self._server.enter_context(console)
        console.wait_for("Ctrl-C ends it." if words[0] == "dev" else "serving")
        ready = _READY.search(console.printed)
        if ready is None:
            raise Problem(f"`adapter {shlex.join(words)}` does not serve:\n{console.printed}")
        self._address = ready[1]
        self._terminal.run(f"export ADAPTER_URL={ready[1]}{ready[2]}")
        return console.printed

    def _path(self, word: str) -> str:
        """A file of the reader's, as a process in another directory finds it; any other word as it is."""
        file = self._directory / word
        return str(file) if file.is_file() else word

    def _here(self, text: str) -> str:
        """The text with the address that the server has here."""
        return text.replace(_DEFAULT_ADDRESS, self._address)

    def _python(self, snippet: Snippet) -> None:
        program = self._directory / (snippet.file or "program.py")
        program.write_text(self._here(snippet.text) + "\n", encoding="utf-8")
        self._succeed(Command(f"python {program.name}"), snippet)

    def _shell_environment(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("ADAPTER_", "AWS_"))}
        path = os.pathsep.join([str(self._directory / ".bin"), os.environ["PATH"]])
        screen = {"COLUMNS": "160", "LINES": "40", "TERM": "xterm", "NO_COLOR": "1"}
        return {**inherited, **screen, **self._environment, "PATH": path}

    # --- files ---------------------------------------------------------------------------------------------

    def _yaml(self, snippet: Snippet) -> None:
        document = yaml.safe_load(snippet.text)
        whole = document if "tools" in document else {"tools": [{**_SOME_TOOL, **document}]}
        file = self._directory / ".snippet.yaml"
        file.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")
        try:
            catalog = load_catalog(file)
        except ConfigurationError as error:
            raise Problem(str(error)) from None
        self._tool_of.update({tool.name: tool.definition for tool in catalog if tool.definition})

    def _json(self, snippet: Snippet) -> None:
        document: dict[str, Any] = json.loads(snippet.text)
        if snippet.not_run:
            return
        if "StartAt" not in document or snippet.file is None:
            raise Problem("JSON that is not a state machine with a file needs a marker: why it is not run")
        self._uncalled[snippet.file] = snippet.place


def commands_of(snippet: Snippet) -> Iterator[Command]:
    """The commands of a `console` block; one with an open quote or a backslash at its end has more lines."""
    text, shown = "", ""
    for line in snippet.text.splitlines():
        if text and not _is_whole(text):
            text += f"\n{line}"
        elif line.startswith("$ "):
            if text:
                yield Command(text, shown)
            text, shown = line.removeprefix("$ "), ""
        elif not text:
            raise Problem("a console block starts with `$ ` and a command")
        else:
            shown += f"{line}\n"
    yield Command(text, shown)


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


def _check_drawing(snippet: Snippet) -> None:
    commands = re.compile(r"\s*(\$ |adapter |make |curl |npx )")
    if line := next(filter(commands.match, snippet.text.splitlines()), None):
        raise Problem(f"the drawing has a command in it: {line}")


def _without_port(words: list[str]) -> list[str]:
    if "--port" not in words:
        return words
    place = words.index("--port")
    return words[:place] + words[place + 2 :]


def _put_adapter_on_the_path(directory: Path) -> None:
    """`adapter` and `python` as they are in the environment of these tests."""
    binaries = directory / ".bin"
    binaries.mkdir()
    python = shlex.quote(sys.executable)
    for name, command in (("adapter", f"{python} -m adapter.cli"), ("python", python)):
        file = binaries / name
        file.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        file.chmod(0o755)
