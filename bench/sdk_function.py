"""The same function on the official SDK and Mangum, in the way that works on a warm container.

Mangum would start the application anew for each invocation, which the SDK's session manager refuses; so it is
started once, on one event loop, and Mangum does not know of it. Of the adapter it uses the table alone.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Literal

from mangum import Mangum
from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp_types import RequestParams
from pydantic import BaseModel, Field

from adapter.aws import open_aws
from adapter.stores.dynamodb import DynamoTaskStore


class TaskParams(RequestParams):
    """What `tasks/get` takes."""

    task_id: str = Field(alias="taskId")


class TaskResult(BaseModel):
    """A task on the wire."""

    result_type: str = Field("complete", serialization_alias="resultType")
    task_id: str = Field(serialization_alias="taskId")
    status: str = "working"
    created_at: str = Field(serialization_alias="createdAt")
    last_updated_at: str = Field(serialization_alias="lastUpdatedAt")
    ttl_ms: int = Field(serialization_alias="ttlMs")
    poll_interval_ms: int = Field(serialization_alias="pollIntervalMs")
    status_message: str | None = Field(serialization_alias="statusMessage")


class StoredTasks(Extension):
    """The tasks extension over the table."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, store: DynamoTaskStore) -> None:
        self._store = store

    def methods(self) -> list[MethodBinding]:
        return [MethodBinding("tasks/get", TaskParams, self._get)]

    async def _get(self, _context: ServerRequestContext[Any, Any], params: TaskParams) -> TaskResult:
        task = await self._store.read(params.task_id)
        assert task is not None
        return TaskResult(
            task_id=task.record.task_id,
            created_at=_timestamp(task.record.created_at),
            last_updated_at=_timestamp(task.updated_at),
            ttl_ms=task.record.ttl_ms,
            poll_interval_ms=task.record.poll_ms,
            status_message=task.message,
        )


async def nightly_report(day: str, region: Literal["emea", "apac", "amer"], recipients: list[str]) -> None:
    """Builds the sales report for one day."""


async def _started(stack: AsyncExitStack) -> Mangum:
    aws = await stack.enter_async_context(open_aws())
    tasks = StoredTasks(DynamoTaskStore(aws.dynamodb, "mcp-tasks"))
    server = MCPServer("sdk", version="1", extensions=[tasks], log_level="WARNING")
    server.add_tool(nightly_report)
    app = server.streamable_http_app(stateless_http=True, json_response=True)
    await stack.enter_async_context(app.router.lifespan_context(app))
    return Mangum(app, lifespan="off")


def _timestamp(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")


_loop = asyncio.new_event_loop()
asyncio.set_event_loop(_loop)
_stack = AsyncExitStack()
handler = _loop.run_until_complete(_started(_stack))
