"""The models of the tasks extension take every legal shape and see each kind of defect."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conform import conform
from tests.support.tasks_extension import CreateTaskResult, GetTaskResult, TaskNotification

TASK: dict[str, Any] = {
    "resultType": "complete",
    "taskId": "mcp-1",
    "status": "working",
    "createdAt": "2026-07-28T10:00:00.000Z",
    "lastUpdatedAt": "2026-07-28T10:00:00.000Z",
    "ttlMs": None,
}
QUESTION = {
    "method": "elicitation/create",
    "params": {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
}
OUTPUT = {"content": [], "resultType": "complete"}
ERROR = {"code": -32603, "message": "It broke"}
MEMBERS: dict[str, dict[str, Any]] = {
    "working": {},
    "cancelled": {},
    "input_required": {"inputRequests": {"k": QUESTION}},
    "completed": {"result": OUTPUT},
    "failed": {"error": ERROR},
}


def task(status: str = "working", **members: Any) -> dict[str, Any]:
    return {**TASK, "status": status, **MEMBERS[status], **members}


def refused(value: dict[str, Any], because: str) -> None:
    with pytest.raises(AssertionError, match=because):
        conform(GetTaskResult, value, "result")


@pytest.mark.parametrize("status", MEMBERS)
def test_a_task_of_each_status_passes(status: str) -> None:
    conform(GetTaskResult, task(status), "result")


def test_optional_members_pass() -> None:
    conform(GetTaskResult, task(statusMessage="", pollIntervalMs=1, ttlMs=1, _meta={"any/key": 1}), "result")


@pytest.mark.parametrize("status", MEMBERS)
@pytest.mark.parametrize("foreign", ["input_required", "completed", "failed"])
def test_a_task_without_its_own_or_with_another_member_is_refused(status: str, foreign: str) -> None:
    if status == foreign:
        refused({**TASK, "status": status}, "R-107")
    else:
        refused({**task(status), **MEMBERS[foreign]}, "R-107")


@pytest.mark.parametrize("member", ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "resultType"])
def test_a_task_that_lacks_a_required_member_is_refused(member: str) -> None:
    refused({name: value for name, value in TASK.items() if name != member}, member)


@pytest.mark.parametrize(
    ("members", "because"),
    [
        ({"ttlMs": 0}, "ttlMs"),
        ({"ttlMs": "60000"}, "ttlMs"),
        ({"ttlMs": 60000.0}, "ttlMs"),
        ({"pollIntervalMs": 0}, "pollIntervalMs"),
        ({"pollIntervalMs": None}, "pollIntervalMs is null"),
        ({"statusMessage": None}, "statusMessage is null"),
        ({"taskId": ""}, "taskId"),
        ({"createdAt": "2026-07-28T10:00:00"}, "zone"),
        ({"createdAt": "yesterday"}, "createdAt"),
        ({"createdAt": 1785232800000}, "createdAt"),
        ({"lastUpdatedAt": "2026-07-28T09:59:59Z"}, "before createdAt"),
        ({"requestState": "s"}, "requestState"),
        ({"ttl": 60000}, "ttl"),
        ({"pollInterval": 5000}, "pollInterval"),
        ({"task": {}}, "task"),
        ({"task_id": "mcp-1"}, "task_id"),
        ({"resultType": "task"}, "resultType"),
        ({"_meta": None}, "_meta is null"),
    ],
)
def test_a_member_of_the_wrong_kind_or_era_is_refused(members: dict[str, Any], because: str) -> None:
    refused(task(**members), because)


@pytest.mark.parametrize(
    ("status", "members", "because"),
    [
        ("done", {}, "status"),
        ("input_required", {"inputRequests": {}}, "inputRequests"),
        ("input_required", {"inputRequests": [QUESTION]}, "inputRequests"),
        ("input_required", {"inputRequests": {"k": {"method": "tools/call"}}}, "inputRequests"),
        ("input_required", {"inputRequests": {"k": {**QUESTION, "id": 1}}}, "id is unknown"),
        ("completed", {"result": {"content": []}}, "resultType"),
        ("completed", {"result": {**OUTPUT, "resultType": "task"}}, "R-108"),
        ("completed", {"result": {"resultType": "complete"}}, "content"),
        ("completed", {"result": {**OUTPUT, "iserror": True}}, "iserror is unknown"),
        ("completed", {"result": {**OUTPUT, "_meta": {"io.modelcontextprotocol/related-task": {}}}}, "R-108"),
        ("completed", {"result": None}, "result is null"),
        ("failed", {"error": {"code": -32603}}, "message"),
        ("failed", {"error": {**ERROR, "code": 1.5}}, "code"),
        ("failed", {"error": {**ERROR, "cause": ""}}, "cause is unknown"),
    ],
)
def test_a_status_member_of_the_wrong_shape_is_refused(
    status: str, members: dict[str, Any], because: str
) -> None:
    refused({**TASK, "status": status, **members}, because)


@pytest.mark.parametrize("member", ["result", "error", "inputRequests", "requestState", "task"])
def test_a_handle_with_more_than_the_task_is_refused(member: str) -> None:
    handle = {**TASK, "resultType": "task"}
    conform(CreateTaskResult, handle, "result")

    with pytest.raises(AssertionError, match=member):
        conform(CreateTaskResult, {**handle, member: {}}, "result")


def test_a_notification_has_the_task_in_its_params() -> None:
    params = {**task("failed"), "_meta": {}}
    del params["resultType"]
    frame = {"jsonrpc": "2.0", "method": "notifications/tasks"}
    conform(TaskNotification, {**frame, "params": params}, "notification")

    with pytest.raises(AssertionError, match="params"):
        conform(TaskNotification, frame, "notification")
