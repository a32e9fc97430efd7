"""How commands end: the exit codes, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum

from adapter.errors import AdapterError


class ExitCode(IntEnum):
    """What a command's end means to a script."""

    OK = 0
    """All went well; of `call`: the tool completed."""
    FAILED = 1
    """The tool reported an error or failed; of `check`: problems were found; of `tour`: a surprise."""
    USAGE = 2
    """Wrong options, configuration or environment."""
    CANCELLED = 3
    """The task was cancelled, or left: with a second Ctrl-C, before there was one, or without the reply naming it."""
    INPUT_NEEDED = 4
    """A question is open and nobody here can answer it."""
    UNREACHABLE = 5
    """The server cannot be reached, or refused the request."""


CALL_EXIT_CODES = """\b
Exit codes:
  0  completed
  1  the tool reported an error, or the task failed
  2  wrong options, configuration or environment
  3  cancelled, or left before its end was seen
  4  a question is open and nobody here can answer it
  5  the server cannot be reached, or refused the request"""
"""As the help of `call` shows them."""


class CommandError(AdapterError):
    """Ends a command with one line on stderr and `code`."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code
