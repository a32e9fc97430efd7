"""Starts a tool and follows its task to the end: polls, answers, waits out lost connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from .answers import AnswerSource
from .client import JsonObject, McpClient, Notify, RequestRefused, ServerUnreachable
from .display import Display
from .exits import CommandError, ExitCode

ENDED = ("completed", "failed", "cancelled")

_FIRST_LOOK = 0.5
"""Many jobs are short: the first look waits no longer than this, the others as long as the server says."""
_DEFAULT_POLL = 1.0
_MAX_ROUNDS = 20
_INVALID_PARAMS = -32602


class CallOnItsWay:
    """A `tools/call` that goes on where nobody waits for it any more: its reply tells what there is to cancel."""

    def __init__(self, client: McpClient, tool: JsonObject, params: JsonObject, notify: Notify) -> None:
        self.sent = False
        """Whether the server may have got it."""
        self.runs_inline = False
        """Whether the server tells how its work goes on: closing the connection then cancels that (R-42)."""
        self._notify = notify
        self.reply = asyncio.ensure_future(
            client.call_tool(tool, params, on_notification=self._notified, on_sent=self._note_sent)
        )

    def _note_sent(self) -> None:
        self.sent = True

    def _notified(self, message: JsonObject) -> None:
        self.runs_inline = True
        self._notify(message)


class Follower:
    """One call. `task_id` is set from the moment that there is a task; times are seconds."""

    def __init__(
        self, client: McpClient, answers: AnswerSource, display: Display, *, patience: float
    ) -> None:
        self._client = client
        self._answers = answers
        self._display = display
        self._patience = patience
        self._answered: set[str] = set()
        self.task_id: str | None = None
        self.open_task: JsonObject | None = None
        """The task as last seen, while it waits for input."""
        self.on_its_way: CallOnItsWay | None = None
        """The last `tools/call`."""

    async def start(self, tool: JsonObject, arguments: JsonObject) -> JsonObject:
        """Call `tool`, answer what it asks first, and follow its task; the last state of the task.

        A tool that answers at once gives `{status: "completed", result}`.
        """
        result = await self._begin(tool, {"arguments": arguments})
        if result.get("resultType") == "task":
            return await self.follow(result)
        return {"status": "completed", "result": result}

    async def resume(self, task_id: str) -> JsonObject:
        """Follow a task that exists already."""
        self.task_id = task_id
        return await self.follow(await self._persistently("tasks/get", task_id))

    async def follow(self, task: JsonObject) -> JsonObject:
        """The task once it has ended."""
        task_id = self.task_id = str(task["taskId"])
        pause = min(_FIRST_LOOK, _poll_seconds(task))
        while task["status"] not in ENDED:
            self._display.show(task["status"], task.get("statusMessage"))
            if await self._answer_open(task):
                pause = 0.0
            await asyncio.sleep(pause)
            task = await self._persistently("tasks/get", task_id)
            pause = _poll_seconds(task)
        return task

    async def cancel(self, task_id: str) -> JsonObject:
        """Ask for the end of a task and wait for it; it may have completed before the wish arrived."""
        self._display.show("cancelling", None)
        await self._persistently("tasks/cancel", task_id)
        task = await self._persistently("tasks/get", task_id)
        while task["status"] not in ENDED:
            self._display.show("cancelling", task.get("statusMessage"))
            await asyncio.sleep(min(_DEFAULT_POLL, _poll_seconds(task)))
            task = await self._persistently("tasks/get", task_id)
        return task

    # --- before there is a task ----------------------------------------------------------------------------

    async def _begin(self, tool: JsonObject, params: JsonObject) -> JsonObject:
        self._display.show("starting", None)
        result = await self._call(tool, params)
        for _ in range(_MAX_ROUNDS):
            if result.get("resultType") != "input_required":
                return result
            result = await self._next_round(tool, params, result)
        raise CommandError(f"the tool asked {_MAX_ROUNDS} times and did not start", ExitCode.UNREACHABLE)

    async def _next_round(self, tool: JsonObject, params: JsonObject, asked: JsonObject) -> JsonObject:
        """Answer one round of questions; asked again where the server refuses an answer."""
        requests = asked.get("inputRequests", {})
        state = {"requestState": asked["requestState"]} if "requestState" in asked else {}
        problem: str | None = None
        while True:
            responses = {key: self._ask(request, problem) for key, request in requests.items()}
            try:
                return await self._call(tool, {**params, **state, "inputResponses": responses})
            except RequestRefused as refusal:
                if refusal.rpc_code != _INVALID_PARAMS or not requests:
                    raise
                problem = refusal.rpc_message

    async def _call(self, tool: JsonObject, params: JsonObject) -> JsonObject:
        self.on_its_way = CallOnItsWay(self._client, tool, params, self._notified)
        return await asyncio.shield(self.on_its_way.reply)

    def _notified(self, message: JsonObject) -> None:
        params = message.get("params", {})
        if message["method"] == "notifications/progress" and params.get("message"):
            self._display.show("working", str(params["message"]))

    # --- questions of a running task -----------------------------------------------------------------------

    async def _answer_open(self, task: JsonObject) -> bool:
        """Answer what is open; False where nothing was."""
        requests: Mapping[str, JsonObject] = task.get("inputRequests", {})
        fresh = {key: request for key, request in requests.items() if key not in self._answered}
        self.open_task = task if fresh else None
        for key, request in fresh.items():
            await self._answer(str(task["taskId"]), key, request)
            self._answered.add(key)
        self.open_task = None
        return bool(fresh)

    async def _answer(self, task_id: str, key: str, request: JsonObject) -> None:
        """Until an answer is taken, or the question waits no longer."""
        problem: str | None = None
        is_open = True
        while is_open:
            response = self._ask(request, problem)
            try:
                await self._persistently("tasks/update", task_id, inputResponses={key: response})
            except RequestRefused as refusal:
                if refusal.rpc_code != _INVALID_PARAMS:
                    raise
                problem = refusal.rpc_message
                is_open = await self._is_open(task_id, key)
            else:
                return

    async def _is_open(self, task_id: str, key: str) -> bool:
        task = await self._persistently("tasks/get", task_id)
        return key in task.get("inputRequests", {})

    def _ask(self, request: JsonObject, problem: str | None) -> JsonObject:
        with self._display.paused():
            return self._answers.answer(request, problem)

    # --- the connection ------------------------------------------------------------------------------------

    async def _persistently(self, method: str, task_id: str, **params: object) -> JsonObject:
        """A request about a task, repeated while the server is away: the task goes on without us."""
        loop = asyncio.get_running_loop()
        give_up_at: float | None = None
        for pause in _backoff():
            try:
                return await self._client.on_task(method, task_id, **params)
            except (ServerUnreachable, RequestRefused) as problem:
                give_up_at = give_up_at or loop.time() + self._patience
                if not problem.passing or loop.time() + pause > give_up_at:
                    raise
                self._display.show("connection lost", f"trying again: {problem}")
            await asyncio.sleep(pause)
        raise AssertionError("the pauses have no end")


def _backoff() -> Iterator[float]:
    pause = 0.2
    while True:
        yield pause
        pause = min(pause * 2, 10.0)


def _poll_seconds(task: Mapping[str, Any]) -> float:
    milliseconds = task.get("pollIntervalMs")
    return milliseconds / 1000 if isinstance(milliseconds, int) and milliseconds > 0 else _DEFAULT_POLL
