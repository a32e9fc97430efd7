"""Where the answers to questions come from: the command line first, then the person at the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .exits import CommandError, ExitCode
from .output import plain
from .prompts import Terminal, ask

JsonObject = dict[str, Any]

FORM = "elicitation/create"


class NoAnswer(CommandError):
    """Nobody here can answer."""

    def __init__(self, question: str) -> None:
        super().__init__(f"an answer is needed: {question.rstrip('.?! ')}", ExitCode.INPUT_NEEDED)


class AnswerSource(Protocol):
    """Answers questions, one at a time."""

    def answer(self, request: Mapping[str, Any], problem: str | None) -> JsonObject:
        """The answer to an input request; `problem` is why the server refused the one before.

        Raises NoAnswer, and Interrupted for a signal at a prompt.
        """
        ...


class Answers:
    """`given` contents are used in order, one for each question; then `decline`, or the terminal."""

    def __init__(self, given: Sequence[JsonObject], *, decline: bool, terminal: Terminal | None) -> None:
        self._given = list(given)
        self._decline = decline
        self._terminal = terminal
        self._last_was_given = False

    def answer(self, request: Mapping[str, Any], problem: str | None) -> JsonObject:
        if problem is not None:
            self._refused(problem)
        if request.get("method") != FORM:
            raise NoAnswer(f"{request.get('method')} is nothing that this command can do")
        self._last_was_given = bool(self._given) or self._decline
        if self._given:
            return _accepted(request, self._given.pop(0))
        if self._decline:
            return {"action": "decline"}
        if self._terminal is None:
            raise NoAnswer(plain(request.get("params", {}).get("message", "a form")))
        try:
            return ask(request, self._terminal)
        except EOFError:
            raise NoAnswer("the input has ended") from None

    def _refused(self, problem: str) -> None:
        if self._last_was_given or self._terminal is None:
            raise CommandError(f"the answer was refused: {plain(problem)}", ExitCode.USAGE)
        self._terminal.write(f"  Not accepted: {plain(problem)}")


def _accepted(request: Mapping[str, Any], content: JsonObject) -> JsonObject:
    by_url = request.get("params", {}).get("mode") == "url"
    return {"action": "accept"} if by_url else {"action": "accept", "content": content}
