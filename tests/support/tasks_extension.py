"""The shapes of the tasks extension io.modelcontextprotocol/tasks (2026-07-28); mcp-types has only the core.

Source: https://tasks.extensions.modelcontextprotocol.io/specification/2026-07-28/tasks
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from mcp_types import _v2026_07_28 as v2026
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK = "io.modelcontextprotocol/related-task"
_STATUS_MEMBERS = {"input_required": "inputRequests", "completed": "result", "failed": "error"}

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


def _is_timestamp(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a timestamp names its zone")
    return text


Timestamp = Annotated[str, AfterValidator(_is_timestamp)]
Milliseconds = Annotated[int, Field(gt=0)]


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True, extra="forbid", frozen=True)


class Task(_Shape):
    """A task as every shape carries it, without the member of its status (R-105)."""

    task_id: Annotated[str, Field(min_length=1)]
    status: TaskStatus
    created_at: Timestamp
    last_updated_at: Timestamp
    ttl_ms: Milliseconds | None
    status_message: str | None = None
    poll_interval_ms: Milliseconds | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Task:
        if datetime.fromisoformat(self.last_updated_at) < datetime.fromisoformat(self.created_at):
            raise ValueError("lastUpdatedAt is before createdAt")
        return self


class CreateTaskResult(Task):
    """The handle that tools/call answers: flat, and without any member of a status (R-106)."""

    meta: Annotated[v2026.ResultMetaObject | None, Field(alias="_meta")] = None
    result_type: Literal["task"]


def _is_whole_tool_result(result: v2026.CallToolResult) -> v2026.CallToolResult:
    if result.result_type != "complete":
        raise ValueError(f"resultType of the inner result is {result.result_type!r} (R-108)")
    if RELATED_TASK in (result.meta.model_extra or {} if result.meta else {}):
        raise ValueError("the inner result carries related-task metadata (R-108)")
    return result


class DetailedTask(Task):
    """A task with exactly the member of its status (R-107)."""

    input_requests: Annotated[dict[str, v2026.InputRequest] | None, Field(min_length=1)] = None
    result: Annotated[v2026.CallToolResult, AfterValidator(_is_whole_tool_result)] | None = None
    error: v2026.Error | None = None

    @model_validator(mode="after")
    def _has_the_member_of_its_status(self) -> DetailedTask:
        given = {to_camel(name) for name in self.model_fields_set} & set(_STATUS_MEMBERS.values())
        expected = {_STATUS_MEMBERS[self.status]} if self.status in _STATUS_MEMBERS else set()
        if given != expected:
            raise ValueError(f"a {self.status} task has {sorted(expected)}, not {sorted(given)} (R-107)")
        return self


class GetTaskResult(DetailedTask):
    """The result of tasks/get."""

    meta: Annotated[v2026.ResultMetaObject | None, Field(alias="_meta")] = None
    result_type: Literal["complete"]


class Acknowledgement(_Shape):
    """The empty result of tasks/update and tasks/cancel (R-114, R-116)."""

    meta: Annotated[v2026.ResultMetaObject | None, Field(alias="_meta")] = None
    result_type: Literal["complete"]


class TaskNotificationParams(DetailedTask):
    """The whole current task, without a resultType (R-121)."""

    meta: Annotated[v2026.NotificationMetaObject, Field(alias="_meta")]


class TaskNotification(_Shape):
    """`notifications/tasks`."""

    jsonrpc: Literal["2.0"]
    method: Literal["notifications/tasks"]
    params: TaskNotificationParams


class SubscriptionFilter(v2026.SubscriptionFilter):
    """The core's filter with the member that the extension adds."""

    task_ids: Annotated[list[str] | None, Field(alias="taskIds")] = None


class AcknowledgedParams(v2026.SubscriptionsAcknowledgedNotificationParams):
    """What the server honours of a filter."""

    notifications: SubscriptionFilter


class AcknowledgedNotification(v2026.SubscriptionsAcknowledgedNotification):
    """`notifications/subscriptions/acknowledged`, task ids included."""

    params: AcknowledgedParams
