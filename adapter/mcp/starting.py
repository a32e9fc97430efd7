"""What both protocol eras do to start a tool: check arguments, ask first where the tool says so, create the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from adapter.errors import StartRejected
from adapter.tasks.model import Task
from adapter.tasks.service import NewTask, TaskService
from adapter.tools.catalog import Catalog
from adapter.tools.tool import Tool

from .exchange import ANONYMOUS
from .jsonrpc import INTERNAL_ERROR, JsonObject, RpcError
from .rounds import Ask, Declined, Go, Rounds, Said

ENGINE = "step_functions"


@dataclass(frozen=True, slots=True)
class Exposed:
    """The tools that are served and what each of them starts."""

    catalog: Catalog
    targets: Mapping[str, str]
    """By tool name: the state machine, version or alias, fully resolved."""
    list_ttl_ms: int
    max_ttl_ms: int


class NotStarted(Exception):
    """Nothing was started, for a reason that the caller can understand and act on.

    `invalid` is true where other arguments would help; otherwise somebody declined, or later is better.
    """

    def __init__(self, reason: str, *, invalid: bool = False) -> None:
        super().__init__(reason)
        self.invalid = invalid


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a caller may add to a start."""

    ttl_ms: int | None = None
    progress_token: str | int | None = None


class Starter:
    """Turns a checked call into a task, or into what has to be asked first."""

    def __init__(self, exposed: Exposed, service: TaskService, rounds: Rounds) -> None:
        self._exposed = exposed
        self._service = service
        self._rounds = rounds

    def decide(self, said: Said) -> Ask | Go:
        """Raises NotStarted, and what Rounds.decide raises."""
        tool = said.tool
        problem = tool.violation(said.arguments, before_answers=True)
        if problem is not None:
            text = f"The arguments do not match the input schema: {problem}"
            raise NotStarted(text, invalid=True)
        if not tool.before_start:
            return Go(dict(said.arguments), {}, None)
        decision = self._rounds.decide(said)
        if isinstance(decision, Declined):
            raise NotStarted(f"Nothing was started: {decision.reason}")
        if isinstance(decision, Go):
            problem = tool.violation(decision.arguments)
            if problem is not None:
                text = f"The arguments with the answers do not match the input schema: {problem}"
                raise NotStarted(text, invalid=True)
        return decision

    async def create(self, tool: Tool, decision: Go, owner: str, wishes: Wishes) -> Task:
        """Raises NotStarted for what the caller can mend or try again; RpcError -32603 for our own failure."""
        try:
            return await self._service.create(self._new_task(tool, decision, owner, wishes))
        except StartRejected as rejection:
            if rejection.caller_fault or rejection.retryable:
                raise NotStarted(str(rejection), invalid=rejection.caller_fault) from None
            raise RpcError(INTERNAL_ERROR, str(rejection)) from None

    def _new_task(self, tool: Tool, decision: Go, owner: str, wishes: Wishes) -> NewTask:
        token = wishes.progress_token
        return NewTask(
            owner=owner,
            tool=tool.name,
            engine=ENGINE,
            target=self._exposed.targets[tool.name],
            input_json=orjson.dumps({**decision.arguments, **decision.additions}),
            ttl_ms=self._ttl_ms(tool, wishes.ttl_ms),
            poll_ms=max(1, int(tool.poll_interval * 1000)),
            on_expire=tool.on_expire,
            result_settings=tool.result_settings,
            nonce=decision.nonce,
            progress_token=None if token is None else orjson.dumps(token).decode(),
            listed=owner != ANONYMOUS,
        )

    def _ttl_ms(self, tool: Tool, asked: int | None) -> int:
        """Never less than the work may take and its result is kept for; what is asked beyond is cut (D6)."""
        least = int(tool.ttl * 1000)
        return least if asked is None else min(max(least, asked), self._exposed.max_ttl_ms)


def described(tool: Tool) -> dict[str, Any]:
    """A tool as 2026-07-28 lists it."""
    listed: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.title is not None:
        listed["title"] = tool.title
    listed["inputSchema"] = tool.input_schema
    if tool.output_schema is not None:
        listed["outputSchema"] = tool.output_schema
    if tool.annotations is not None:
        listed["annotations"] = tool.annotations.model_dump(exclude_none=True)
    return listed


def arguments_of(params: JsonObject) -> dict[str, Any] | None:
    """The arguments of a `tools/call`, empty where there are none; None where they are not an object."""
    arguments = params.get("arguments")
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, dict) else None
