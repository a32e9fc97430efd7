"""Plain tools by which a host that knows no tasks goes on with one: status, result, answer, cancel (D11).

They are the same for every caller and listed last. Each call is bounded; `task_result` waits as long as it may, so
that a model need not ask often.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson

from adapter.errors import EngineUnavailable, InvalidAnswer, StoreUnavailable, TaskNotFound
from adapter.tasks.clock import Clock
from adapter.tasks.model import Question, Task
from adapter.tasks.service import TaskService
from adapter.tasks.watcher import Watcher
from adapter.tools.catalog import Catalog
from adapter.tools.schema import Schema

from .exchange import Request
from .following import ClientGone, follow
from .jsonrpc import RpcError
from .results import cut, error_result, render, text_of
from .task_shapes import progress_text

logger = logging.getLogger(__name__)

RESERVED = ("task_status", "task_result", "task_answer", "task_cancel")

_TASK_ID = {
    "type": "string",
    "description": "The task id that the tool named when it went on in the background.",
}
_STATUS = {
    "type": "object",
    "properties": {
        "task_id": {"type": "string"},
        "status": {"enum": ["working", "input_required", "completed", "failed", "cancelled"]},
        "message": {"type": "string", "description": "What is going on, in words."},
        "seconds_running": {"type": "integer"},
        "questions": {
            "type": "array",
            "description": "What the job waits for, if it waits for an answer.",
            "items": {
                "type": "object",
                "properties": {
                    "question": {"type": "string"},
                    "message": {"type": "string"},
                    "schema": {"type": "object"},
                    "you_may_answer": {"type": "boolean"},
                },
                "required": ["question", "you_may_answer"],
            },
        },
    },
    "required": ["task_id", "status", "seconds_running"],
}


@dataclass(frozen=True, slots=True)
class _Companion:
    name: str
    title: str
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...]
    read_only: bool

    def described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": _STATUS,
            "annotations": {
                "readOnlyHint": self.read_only,
                "destructiveHint": self.name == "task_cancel",
                "idempotentHint": True,
                "openWorldHint": False,
            },
        }

    @property
    def input_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }


_COMPANIONS = (
    _Companion(
        "task_status",
        "Status of a background job",
        "Tells how far a job is that went on in the background, and what it waits for. Answers at once. To wait "
        "for the result, call task_result instead.",
        {"task_id": _TASK_ID},
        ("task_id",),
        read_only=True,
    ),
    _Companion(
        "task_result",
        "Result of a background job",
        "Waits for a job that went on in the background and returns its result. If the job needs longer than "
        "one call may wait, the answer says so: call task_result again with the same task id, and do not start the "
        "job again.",
        {
            "task_id": _TASK_ID,
            "offset": {
                "type": "integer",
                "minimum": 0,
                "maximum": 10_000_000,
                "description": "Where to go on in a long result: the number that the cut result named.",
            },
        },
        ("task_id",),
        read_only=True,
    ),
    _Companion(
        "task_answer",
        "Answer a question of a background job",
        "Answers a question that a background job asks (see task_status). Works only where the job's owner "
        "lets a model answer; for any other question a person must decide, and the reply says how.",
        {
            "task_id": _TASK_ID,
            "question": {"type": "string", "description": "The question's key, from task_status."},
            "action": {"enum": ["accept", "decline"], "description": "Answer it, or decline to."},
            "content": {
                "type": "object",
                "description": "With accept: the fields that the question's schema asks for.",
            },
        },
        ("task_id", "question", "action"),
        read_only=False,
    ),
    _Companion(
        "task_cancel",
        "Stop a background job",
        "Stops a job that went on in the background. What it has done so far is not undone.",
        {"task_id": _TASK_ID},
        ("task_id",),
        read_only=False,
    ),
)

_Handler = Callable[["_Ask"], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Ask:
    arguments: Mapping[str, Any]
    request: Request

    @property
    def task_id(self) -> str:
        return str(self.arguments["task_id"])

    @property
    def owner(self) -> str:
        return self.request.caller


class Companions:
    """`limit`: seconds that one call may wait. `max_chars`: longer text is cut."""

    def __init__(
        self,
        service: TaskService,
        watcher: Watcher,
        catalog: Catalog,
        clock: Clock,
        *,
        on: bool,
        limit: float,
        max_chars: int,
    ) -> None:
        self._service = service
        self._watcher = watcher
        self._catalog = catalog
        self._clock = clock
        self._limit = limit
        self._max_chars = max_chars
        self._on = on
        self._schemas = {companion.name: Schema(companion.input_schema) for companion in _COMPANIONS}
        self._handlers: dict[str, _Handler] = {
            "task_status": self._status,
            "task_result": self._result,
            "task_answer": self._answer,
            "task_cancel": self._cancel,
        }

    def described(self) -> list[dict[str, Any]]:
        return [companion.described() for companion in _COMPANIONS] if self._on else []

    def serves(self, name: str) -> bool:
        return self._on and name in self._handlers

    async def call(self, name: str, arguments: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """A CallToolResult without resultType; what goes wrong is told in it."""
        problem = self._schemas[name].violation(dict(arguments))
        if problem is not None:
            return error_result(f"The arguments do not match the input schema: {problem}")
        try:
            return await self._handlers[name](_Ask(arguments, request))
        except TaskNotFound:
            return error_result("There is no such task: the id is wrong, or its result is no longer kept.")
        except StoreUnavailable:
            return error_result("The server is busy. Wait a little and call this again.")

    async def _status(self, ask: _Ask) -> dict[str, Any]:
        return self._shown(await self._service.get(ask.task_id, ask.owner))

    async def _result(self, ask: _Ask) -> dict[str, Any]:
        task = await self._waited(ask)
        if task.outcome is None:
            return self._shown(task, "It goes on: call task_result again with the same task id.")
        try:
            rendered = render(task.outcome, task.record.result_settings)
        except RpcError as problem:
            return error_result(problem.message)
        if rendered.result is None:
            return {**self._shown(task), "isError": True}
        offset = int(ask.arguments.get("offset", 0))
        shown = {key: value for key, value in rendered.result.items() if key != "structuredContent"}
        result = cut(_from(shown, offset), ask.task_id, self._max_chars, more=True, start=offset)
        return {**result, "structuredContent": self._summary(task)}

    async def _waited(self, ask: _Ask) -> Task:
        left = ask.request.left()
        seconds = self._limit if left is None else max(0.0, min(self._limit, left - 1.0))
        last: Task | None = None
        updates = follow(
            self._watcher, ask.task_id, ask.owner, seconds=seconds, gone=ask.request.disconnected
        )
        try:
            async with aclosing(updates):
                async for task in updates:
                    last = task or last
                    if last is not None and last.open_questions(self._clock()):
                        break
        except ClientGone:
            logger.debug("task %s: its caller waits no longer", ask.task_id)
        return last or await self._service.get(ask.task_id, ask.owner)

    async def _answer(self, ask: _Ask) -> dict[str, Any]:
        task = await self._service.get(ask.task_id, ask.owner)
        key = str(ask.arguments["question"])
        question = next((q for q in task.open_questions(self._clock()) if q.key == key), None)
        if question is None:
            return error_result("This question is not open (any more). See task_status for what is.")
        if not self._may_answer(task, question):
            return error_result(_for_a_person(task, question))
        answer: dict[str, Any] = {"action": ask.arguments["action"]}
        if answer["action"] == "accept":
            answer["content"] = ask.arguments.get("content", {})
        try:
            await self._service.answer(ask.task_id, ask.owner, {key: answer})
        except InvalidAnswer as problem:
            return error_result(f"The answer does not fit the question: {problem.rule}")
        return self._shown(await self._service.get(ask.task_id, ask.owner), "The answer was given.")

    async def _cancel(self, ask: _Ask) -> dict[str, Any]:
        try:
            await self._service.cancel(ask.task_id, ask.owner)
        except EngineUnavailable:
            return error_result("The job could not be told to stop just now. Call task_cancel again.")
        return self._shown(await self._service.get(ask.task_id, ask.owner))

    def _may_answer(self, task: Task, question: Question) -> bool:
        tool = self._catalog.get(task.record.tool)
        allowed = tool is not None and tool.model_may_answer
        return allowed and question.method == "elicitation/create" and "requestedSchema" in _params(question)

    def _shown(self, task: Task, note: str = "") -> dict[str, Any]:
        summary = self._summary(task)
        running = f"after {summary['seconds_running']} s" if task.outcome is None else ""
        parts = [f"Status: {summary['status']} {running}".strip() + ".", summary.get("message", ""), note]
        parts += [_question_text(question) for question in summary.get("questions", [])]
        text = "\n".join(part for part in parts if part)
        return {"content": [{"type": "text", "text": text}], "structuredContent": summary}

    def _summary(self, task: Task) -> dict[str, Any]:
        now = self._clock()
        questions = task.open_questions(now)
        status, message = _status_of(task, questions)
        ended_at = now if task.outcome is None else max(task.outcome.ended_at, task.record.created_at)
        summary: dict[str, Any] = {
            "task_id": task.record.task_id,
            "status": status,
            "seconds_running": (ended_at - task.record.created_at) // 1000,
        }
        if message:
            summary["message"] = message
        if questions:
            summary["questions"] = [self._question(task, question) for question in questions]
        return summary

    def _question(self, task: Task, question: Question) -> dict[str, Any]:
        params = _params(question)
        shown: dict[str, Any] = {
            "question": question.key,
            "you_may_answer": self._may_answer(task, question),
        }
        if isinstance(params.get("message"), str):
            shown["message"] = params["message"]
        if isinstance(params.get("requestedSchema"), dict):
            shown["schema"] = params["requestedSchema"]
        return shown


def _status_of(task: Task, questions: tuple[Question, ...]) -> tuple[str, str | None]:
    if task.outcome is None:
        return ("input_required" if questions else "working"), progress_text(task)
    try:
        rendered = render(task.outcome, task.record.result_settings)
    except RpcError as problem:
        return "completed", problem.message
    if rendered.failure is not None or (rendered.result is not None and rendered.result.get("isError")):
        return "failed", rendered.message
    return ("completed" if rendered.result is not None else "cancelled"), rendered.message


def _question_text(question: Mapping[str, Any]) -> str:
    lines = [f"It asks ({question['question']}): {question.get('message', 'for input')}"]
    if "schema" in question:
        lines.append(f"Answer schema: {orjson.dumps(question['schema']).decode()}")
    may = question["you_may_answer"]
    lines.append("Answer it with task_answer." if may else "A person must answer it; see task_answer.")
    return "\n".join(lines)


def _for_a_person(task: Task, question: Question) -> str:
    message = _params(question).get("message", "for input")
    return (
        f"A person must decide this, not a model: {message}\n"
        f"Ask the person to run: adapter call --task {task.record.task_id}\n"
        "or to open the task in a client that supports tasks and elicitation. "
        "Then go on with task_result."
    )


def _params(question: Question) -> Mapping[str, Any]:
    params = orjson.loads(question.params)
    return params if isinstance(params, dict) else {}


def _from(result: dict[str, Any], offset: int) -> dict[str, Any]:
    """The result from a character of its text on."""
    if not offset:
        return result
    content, skip = [], offset
    for block in result["content"]:
        text = text_of(block)
        if skip < len(text):
            content.append({"type": "text", "text": text[skip:]} if skip else block)
        skip = max(0, skip - len(text))
    return {**result, "content": content or [{"type": "text", "text": "(no more)"}]}
