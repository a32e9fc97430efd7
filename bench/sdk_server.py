"""The same job on the official SDK: stateless, JSON replies, tasks in a dictionary, nothing checked by hand."""

from __future__ import annotations

import secrets
from typing import Any

import orjson
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, ListToolsResult, PaginatedRequestParams, RequestParams, Tool
from pydantic import Field
from starlette.applications import Starlette

from adapter.tasks.model import Task
from adapter.mcp.task_shapes import timestamp
from bench.exchanges import COMPLETED, OUTPUT, RUNNING, TOOL, running_task

Context = ServerRequestContext[dict[str, Any], Any]


class TaskParams(RequestParams):
    """What `tasks/get` takes."""

    task_id: str = Field(alias="taskId")


def create(_tasks: int) -> Starlette:
    """The application; its store holds the running and the completed task that the others hold."""
    store = {task_id: running_task(task_id) for task_id in (RUNNING, COMPLETED)}

    async def get(_context: Context, params: TaskParams) -> dict[str, Any]:
        fields = _fields(store[params.task_id])
        if params.task_id == COMPLETED:
            content = [{"type": "text", "text": OUTPUT}]
            result = {"content": content, "resultType": "complete"}
            return {**fields, "status": "completed", "result": result}
        return fields

    async def call(_context: Context, params: CallToolRequestParams) -> Any:
        orjson.dumps(params.arguments)
        task = running_task(f"mcp-{secrets.token_urlsafe(16)}")
        store[task.record.task_id] = task
        return {"resultType": "task", **_fields(task)}

    async def list_tools(_context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name=TOOL.name, input_schema=TOOL.input_schema)])

    server: Server[dict[str, Any]] = Server("sdk", version="1", on_list_tools=list_tools, on_call_tool=call)
    server.add_request_handler("tasks/get", TaskParams, get)
    return server.streamable_http_app(stateless_http=True, json_response=True)


def _fields(task: Task) -> dict[str, Any]:
    return {
        "taskId": task.record.task_id,
        "status": "working",
        "createdAt": timestamp(task.record.created_at),
        "lastUpdatedAt": timestamp(task.updated_at),
        "ttlMs": task.record.ttl_ms,
        "pollIntervalMs": task.record.poll_ms,
        "statusMessage": task.message,
    }
