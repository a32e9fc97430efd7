"""The same job on the official SDK, as its documentation adds an extension: stateless, with JSON or event streams."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Literal

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolRequestParams, RequestParams
from pydantic import BaseModel, Field
from starlette.applications import Starlette

from adapter.mcp.legacy_shapes import V_2025_11_25
from adapter.mcp.meta import TASKS_EXTENSION
from adapter.mcp.task_shapes import timestamp
from adapter.tasks.model import Task
from bench.exchanges import COMPLETED, OUTPUT, RUNNING, TOOL, running_task

Context = ServerRequestContext[Any, Any]


class TaskParams(RequestParams):
    """What `tasks/get` takes."""

    task_id: str = Field(alias="taskId")


class TaskResult(BaseModel):
    """A task on the wire."""

    result_type: Literal["complete", "task"] = Field(serialization_alias="resultType")
    task_id: str = Field(serialization_alias="taskId")
    status: str = "working"
    created_at: str = Field(serialization_alias="createdAt")
    last_updated_at: str = Field(serialization_alias="lastUpdatedAt")
    ttl_ms: int = Field(serialization_alias="ttlMs")
    poll_interval_ms: int = Field(serialization_alias="pollIntervalMs")
    status_message: str | None = Field(serialization_alias="statusMessage")
    result: dict[str, Any] | None = None


class LegacyTaskResult(BaseModel):
    """A task on the wire of 2025-11-25."""

    task_id: str = Field(serialization_alias="taskId")
    status: str
    created_at: str = Field(serialization_alias="createdAt")
    last_updated_at: str = Field(serialization_alias="lastUpdatedAt")
    ttl: int
    poll_interval: int = Field(serialization_alias="pollInterval")
    status_message: str | None = Field(serialization_alias="statusMessage")


class Tasks(Extension):
    """The tasks extension over a dictionary."""

    identifier = TASKS_EXTENSION

    def __init__(self) -> None:
        self._store = {task_id: running_task(task_id) for task_id in (RUNNING, COMPLETED)}

    def methods(self) -> Sequence[MethodBinding]:
        return [MethodBinding("tasks/get", TaskParams, self._get)]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        await call_next(ctx)  # which validates the arguments and runs the tool: here that starts a job
        task = running_task(f"mcp-{secrets.token_urlsafe(16)}", age_ms=0)
        self._store[task.record.task_id] = task
        return _shown(task, "task")

    async def _get(self, context: Context, params: TaskParams) -> HandlerResult:
        if context.protocol_version == V_2025_11_25:
            return _shown_to_legacy(self._store[params.task_id])
        shown = _shown(self._store[params.task_id], "complete")
        if params.task_id == COMPLETED:
            shown.status = "completed"
            shown.result = {"content": [{"type": "text", "text": OUTPUT}], "resultType": "complete"}
        return shown


def create(_tasks: int, *, json_response: bool = True) -> Starlette:
    """The application; it holds the running and the completed task that `bench.adapter_server` holds."""

    started: list[tuple[str, str, list[str]]] = []

    async def run(day: str, region: Literal["emea", "apac", "amer"], recipients: list[str]) -> None:
        started.append((day, region, recipients))

    server = MCPServer("sdk", version="1", extensions=[Tasks()], log_level="WARNING")
    server.add_tool(run, name=TOOL.name, description=TOOL.description)
    return server.streamable_http_app(stateless_http=True, json_response=json_response)


def _shown(task: Task, result_type: Literal["complete", "task"]) -> TaskResult:
    return TaskResult(
        result_type=result_type,
        task_id=task.record.task_id,
        created_at=timestamp(task.record.created_at),
        last_updated_at=timestamp(task.updated_at),
        ttl_ms=task.record.ttl_ms,
        poll_interval_ms=task.record.poll_ms,
        status_message=task.message,
    )


def _shown_to_legacy(task: Task) -> LegacyTaskResult:
    return LegacyTaskResult(
        task_id=task.record.task_id,
        status="completed" if task.record.task_id == COMPLETED else "working",
        created_at=timestamp(task.record.created_at),
        last_updated_at=timestamp(task.updated_at),
        ttl=task.record.ttl_ms,
        poll_interval=task.record.poll_ms,
        status_message=task.message,
    )
