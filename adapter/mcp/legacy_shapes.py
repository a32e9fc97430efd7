"""Tools, results and tasks as the protocols before 2026-07-28 show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapter.tasks.clock import Clock
from adapter.tasks.model import Ending, Task

from .jsonrpc import JsonObject
from .meta import PREFIX, can_take
from .results import Rendered, render
from .task_shapes import STARTING, input_request, timestamp, working_text

V_2025_03_26 = "2025-03-26"
V_2025_06_18 = "2025-06-18"
V_2025_11_25 = "2025-11-25"
VERSIONS = (V_2025_11_25, V_2025_06_18, V_2025_03_26)
"""Newest first."""

RELATED_TASK = PREFIX + "related-task"


def related(task_id: str) -> dict[str, Any]:
    """The `_meta` that ties a message to a task (L-44)."""
    return {RELATED_TASK: {"taskId": task_id}}


def listed_tool(described: JsonObject, task_support: str, version: str) -> dict[str, Any]:
    """A tool of `tools/list` as this version knows tools (L-30)."""
    tool = dict(described)
    if not has_structured_content(version):
        tool.pop("title", None)
        tool.pop("outputSchema", None)
    schema = tool.get("outputSchema")
    if schema is not None and not (isinstance(schema, Mapping) and schema.get("type") == "object"):
        del tool["outputSchema"]
    if version == V_2025_11_25:
        tool["execution"] = {"taskSupport": task_support}
    return tool


def tool_result(result: JsonObject, version: str) -> dict[str, Any]:
    """A CallToolResult as this version knows it (L-33, M-33, M-36)."""
    shown = {key: value for key, value in result.items() if key != "resultType"}
    structured = shown.get("structuredContent")
    if not has_structured_content(version) or not isinstance(structured, Mapping):
        shown.pop("structuredContent", None)
    if version == V_2025_03_26:
        shown["content"] = [_early_block(block) for block in shown["content"]]
    return shown


def has_structured_content(version: str) -> bool:
    return version != V_2025_03_26


def _early_block(block: JsonObject) -> JsonObject:
    if block.get("type") != "resource_link":
        return block
    return {"type": "text", "text": f"{block['name']}: {block['uri']}"}


class LegacyShapes:
    """Shows tasks as 2025-11-25 clients see them.

    `input_status`: what they see while a question is open, `input_required` or `working`.
    """

    def __init__(self, clock: Clock, input_status: str) -> None:
        self._clock = clock
        self._input_status = input_status

    def task(self, task: Task, capabilities: JsonObject) -> dict[str, Any]:
        """The flat Task. Raises RpcError -32603 where a result exists but is not available."""
        status, message = self._status(task, capabilities)
        shown: dict[str, Any] = {
            "taskId": task.record.task_id,
            "status": status,
            "createdAt": timestamp(task.record.created_at),
            "lastUpdatedAt": timestamp(max(task.updated_at, task.record.created_at)),
            "ttl": task.record.ttl_ms,
            "pollInterval": task.poll_ms,
        }
        return {**shown, "statusMessage": message} if message else shown

    def created(self, task: Task) -> dict[str, Any]:
        """A CreateTaskResult: nested; a new task is `working` (L-42)."""
        shown = {**self.task(task, {}), "statusMessage": STARTING}
        return {"task": shown, "_meta": related(task.record.task_id)}

    def _status(self, task: Task, capabilities: JsonObject) -> tuple[str, str | None]:
        if was_cancelled(task):
            return "cancelled", "Cancelled by the client" if task.outcome is None else _message(task)
        if task.outcome is not None:
            rendered = render(task.outcome, task.record.result_settings)
            return ("failed" if _failed(rendered) else "completed"), rendered.message
        now = self._clock()
        asked = task.open_questions(now)
        takes = [q for q in asked if can_take(capabilities, q.method, input_request(q)["params"])]
        if takes:
            return self._input_status, "Waiting for input"
        return "working", working_text(task, now, asked)


def was_cancelled(task: Task) -> bool:
    """Whether this era must call the task cancelled: once it was, it stays so, however the work ended (L-54).

    It is once the job system has taken the stop, not before: until then the work goes on.
    """
    if task.outcome is not None and task.outcome.ending is Ending.ABORTED:
        return True
    return task.stopped_at is not None


def _failed(rendered: Rendered) -> bool:
    return rendered.failure is not None or bool(rendered.result and rendered.result.get("isError"))


def _message(task: Task) -> str | None:
    assert task.outcome is not None
    if task.outcome.ending is Ending.ABORTED:
        return render(task.outcome, task.record.result_settings).message
    return "Cancelled by the client; the work ended all the same"
