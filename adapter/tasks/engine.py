"""What a job system must be able to do. A new one is one new file that implements `Engine`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .model import Outcome

NAME_PREFIX = "mcp-"
"""How the names of our executions, and so the ids of tasks, begin (D2)."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the job system says of an execution: `outcome` is None while it runs; `message` says which step."""

    outcome: Outcome | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that fails the wait: the workflow may catch `error`."""

    error: str
    cause: str


class Engine(Protocol):
    """Every method may raise EngineUnavailable; AWS texts go to the log, never into an exception's message."""

    def execution_of(self, target: str, name: str) -> str:
        """The execution that `start(target, name)` makes, known before it is started. Does no I/O."""
        ...

    async def start(self, target: str, name: str, input_json: bytes, *, within: float) -> None:
        """Start `target` under the unique `name`; no attempt is made later than `within` seconds from now.

        Repeating it with the same bytes starts nothing new; a name that exists already is ours and counts as
        started. Raises StartRejected (certainly nothing started) or StartUncertain.
        """
        ...

    async def describe(self, execution: str, *, with_step: bool = True) -> Snapshot:
        """Its state now; `with_step` also finds out which step runs. Raises ExecutionUnknown, EngineUnavailable."""
        ...

    async def running(self, target: str) -> set[str]:
        """The names of our running executions of a target, all of them. Raises EngineUnavailable."""
        ...

    async def stop(self, execution: str, *, error: str, cause: str) -> None:
        """Ask it to stop; no error where it has ended. Raises ExecutionUnknown, EngineUnavailable."""
        ...

    async def answer(self, token: str, answer: str | Refusal) -> None:
        """Give the waiting state its answer (JSON text) or refuse it. Raises QuestionClosed, EngineUnavailable."""
        ...
