"""Every error this package raises on purpose, as one tree.

The domain knows no wire format: which JSON-RPC code an error becomes is decided in `adapter.mcp`.
Messages are safe to show to a client; anything that is not (ARNs, account ids, AWS texts) goes to the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class AdapterError(Exception):
    """Root of the tree."""


class ConfigurationError(AdapterError):
    """The settings or the tools file cannot be used. The message names the file, the place and the rule."""


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Where, with dots between the steps ("" for the whole), and the rule, in one line."""
    first = error.errors(include_url=False, include_input=False)[0]
    rule = " ".join(first["msg"].removeprefix("Value error, ").split())
    return ".".join(str(step) for step in first["loc"]), rule


class TaskNotFound(AdapterError):
    """No such task for this caller: unknown, expired and someone else's look the same."""

    def __init__(self) -> None:
        super().__init__("Task not found")


class InvalidAnswer(AdapterError):
    """An answer does not fit its question. `key` names the question, `rule` says what it breaks."""

    def __init__(self, key: str, rule: str) -> None:
        super().__init__(f"Answer {key!r} is not valid: {rule}")
        self.key = key
        self.rule = rule


class EngineError(AdapterError):
    """The job system did not do what was asked."""


class StartRejected(EngineError):
    """Nothing was started, and that is certain.

    `retryable` is true when the same call may succeed later (a quota or throttle); `caller_fault` is true
    when the caller can mend it by sending another input.
    """

    def __init__(self, message: str, *, retryable: bool = False, caller_fault: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.caller_fault = caller_fault


class StartUncertain(EngineError):
    """The start may have happened: its reply was lost or a server error came back."""


class ExecutionUnknown(EngineError):
    """The job system does not know the execution (yet, or any more)."""


class QuestionClosed(EngineError):
    """The question waits no longer: answered, timed out, or its execution ended."""


class AnswerRefused(EngineError):
    """The job system will never take this answer, such as one over its size limit; the question waits on."""


class EngineUnavailable(EngineError):
    """The job system could not be asked now. `throttled` says that it asked us to slow down."""

    def __init__(
        self, message: str = "The job system cannot be reached now", *, throttled: bool = False
    ) -> None:
        super().__init__(message)
        self.throttled = throttled


class StoreUnavailable(AdapterError):
    """The record store could not be read or written now."""

    def __init__(self, message: str = "The task store cannot be reached now") -> None:
        super().__init__(message)
