"""tasks/get, tasks/update, tasks/cancel (R-103 to R-117)."""

from __future__ import annotations

from typing import Any

from adapter.errors import EngineUnavailable, InvalidAnswer
from adapter.tasks.service import TaskService

from .call import Call
from .inputs import invalid_response
from .jsonrpc import INTERNAL_ERROR, RpcError
from .meta import TASKS_EXTENSION, TASKS_REQUIRED, missing_capability
from .task_shapes import TaskShapes


def require_tasks(call: Call) -> None:
    """Raises RpcError -32021 where this request does not declare the tasks extension."""
    if not call.meta.takes_tasks:
        raise missing_capability(TASKS_REQUIRED, f"This request needs the extension {TASKS_EXTENSION}")


class TaskMethods:
    """The three methods that follow a task; each is proxied to the job system by the service."""

    def __init__(self, service: TaskService, shapes: TaskShapes) -> None:
        self._service = service
        self._shapes = shapes

    async def get(self, call: Call) -> dict[str, Any]:
        require_tasks(call)
        task_id = call.text("taskId")
        task = await self._service.get(task_id, call.owner)
        return self._shapes.detailed(task, call.meta.capabilities)

    async def update(self, call: Call) -> dict[str, Any]:
        require_tasks(call)
        task_id = call.text("taskId")
        responses = call.objects("inputResponses")
        try:
            await self._service.answer(task_id, call.owner, responses)
        except InvalidAnswer as problem:
            raise invalid_response(problem) from None
        return {}

    async def cancel(self, call: Call) -> dict[str, Any]:
        require_tasks(call)
        task_id = call.text("taskId")
        try:
            await self._service.cancel(task_id, call.owner)
        except EngineUnavailable:
            text = "The job could not be told to stop just now; it is tried again with the next tasks/get"
            raise RpcError(INTERNAL_ERROR, text) from None
        return {}
