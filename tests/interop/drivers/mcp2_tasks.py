"""A tasks extension for PyPI mcp 2.x, which brings none: what an application has to add to take tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from pydantic import Field

EXTENSION = "io.modelcontextprotocol/tasks"
Answer = Callable[[str], Awaitable[dict[str, Any]]]


class CreateTaskResult(types.Result):
    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    poll_interval_ms: int = Field(alias="pollIntervalMs")


class Task(types.Result):
    task_id: str = Field(alias="taskId")
    status: str
    poll_interval_ms: int = Field(default=1000, alias="pollIntervalMs")
    input_requests: dict[str, Any] = Field(default_factory=dict, alias="inputRequests")
    result: dict[str, Any] | None = None
    error: types.ErrorData | None = None


class TaskParams(types.RequestParams):
    task_id: str = Field(serialization_alias="taskId")


class AnswerParams(TaskParams):
    input_responses: dict[str, Any] = Field(serialization_alias="inputResponses")


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class UpdateTask(types.Request[AnswerParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: AnswerParams
    name_param = "taskId"


class CancelTask(types.Request[TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


class TaskFailed(Exception):
    """The task ended without a result; `task` is its last state."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.status)
        self.task = task


async def get_task(session: ClientSession, task_id: str) -> Task:
    return await session.send_request(GetTask(params=TaskParams(task_id=task_id)), Task)


async def cancel_task(session: ClientSession, task_id: str) -> None:
    await session.send_request(CancelTask(params=TaskParams(task_id=task_id)), types.Result)


async def follow_task(session: ClientSession, task_id: str, answer: Answer) -> types.CallToolResult:
    """Polls to the end and answers questions. Raises TaskFailed."""
    while True:
        task = await get_task(session, task_id)
        if task.status == "completed":
            return types.CallToolResult.model_validate(task.result)
        if task.status in ("failed", "cancelled"):
            raise TaskFailed(task)
        if task.input_requests:
            await _answer_all(session, task, answer)
        else:
            await asyncio.sleep(task.poll_interval_ms / 1000)


async def _answer_all(session: ClientSession, task: Task, answer: Answer) -> None:
    answers = {
        key: await answer(request["params"]["message"]) for key, request in task.input_requests.items()
    }
    params = AnswerParams(task_id=task.task_id, input_responses=answers)
    await session.send_request(UpdateTask(params=params), types.Result)


class Tasks(ClientExtension):
    """Declares that this client takes tasks, and drives them behind `call_tool`."""

    identifier = EXTENSION

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CreateTaskResult, resolve=self._resolve),)

    async def _resolve(self, created: CreateTaskResult, context: ClaimContext) -> types.CallToolResult:
        return await follow_task(context.session, created.task_id, self._answer)
