"""Checks what the server sends against the official models of its protocol version.

Some rules the schema leaves to prose and to extensions; they are checked here too and cite their requirement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcp_types import _v2025_11_25 as v2025
from mcp_types import _v2026_07_28 as v2026
from mcp_types.methods import SERVER_NOTIFICATIONS, SERVER_REQUESTS
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter, ValidationError

from tests.support import tasks_extension as tasks
from tests.support.conform import conform

Message = dict[str, Any]
TASKS_IN_CORE = "2025-11-25"
LISTEN = "subscriptions/listen"
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
_NULL_ID_VERSIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18"})
"""Their schemas require the member, so for an unreadable id plain JSON-RPC's null is all there is."""

_STANDARD_CODES = frozenset({-32700, -32600, -32601, -32602, -32603})
_MODERN_ERRORS: dict[int, type[BaseModel]] = {
    -32020: v2026.HeaderMismatchError,
    -32021: v2026.MissingRequiredClientCapabilityError,
    -32022: v2026.UnsupportedProtocolVersionError,
}
_CALL_RESULTS: dict[object, type[BaseModel]] = {
    "complete": v2026.CallToolResult,
    "input_required": v2026.InputRequiredResult,
    "task": tasks.CreateTaskResult,
}
_MODERN_RESULTS: dict[str | None, type[BaseModel]] = {
    "server/discover": v2026.DiscoverResult,
    "tools/list": v2026.ListToolsResult,
    "subscriptions/listen": v2026.SubscriptionsListenResult,
    "tasks/get": tasks.GetTaskResult,
    "tasks/update": tasks.Acknowledgement,
    "tasks/cancel": tasks.Acknowledgement,
}
_MODERN_NOTIFICATIONS: dict[str, type[BaseModel]] = {
    "notifications/tasks": tasks.TaskNotification,
    "notifications/subscriptions/acknowledged": tasks.AcknowledgedNotification,
}
_LEGACY_RESULTS: dict[str | None, type[BaseModel]] = {
    "initialize": v2025.InitializeResult,
    "tools/list": v2025.ListToolsResult,
    "tools/call": v2025.CallToolResult,
}
_LEGACY_TASK_RESULTS: dict[str | None, type[BaseModel]] = {
    "tasks/get": v2025.GetTaskResult,
    "tasks/cancel": v2025.CancelTaskResult,
    "tasks/list": v2025.ListTasksResult,
    "tasks/result": v2025.CallToolResult,
}
_FORM_FIELD: TypeAdapter[object] = TypeAdapter(v2026.PrimitiveSchemaDefinition)


def check_message(
    version: str, message: Message, *, request_method: str | None, tool_call_may_be_task: bool = True
) -> None:
    """Raises AssertionError, with pydantic's words, unless a server of `version` may send `message`.

    `request_method`: the method of the request that the message answers, or on whose stream it travels; None
    where it could not be read. `tool_call_may_be_task`: whether that request allowed a task handle as answer.
    """
    assert version in KNOWN_PROTOCOL_VERSIONS, f"{version!r} is no protocol version"
    assert isinstance(message, dict), f"a message is one object, not {type(message).__name__}"
    if "method" in message and "id" in message:
        _check_request(version, message)
    elif "method" in message:
        _check_notification(version, message, request_method)
    elif "error" in message:
        _check_error(version, message)
    else:
        _check_result(version, message, request_method, tool_call_may_be_task)
    _check_forms(message)


def _check_request(version: str, message: Message) -> None:
    assert version not in MODERN_PROTOCOL_VERSIONS, "a server sends no requests in this era (R-14)"
    conform(_row(SERVER_REQUESTS, version, message), message, "request")


def _check_notification(version: str, message: Message, request_method: str | None) -> None:
    method = message["method"]
    if version in MODERN_PROTOCOL_VERSIONS:
        model = _MODERN_NOTIFICATIONS.get(method) or _row(SERVER_NOTIFICATIONS, version, message)
        conform(model, message, "notification")
        _check_stream(message, request_method)
    elif version == TASKS_IN_CORE and method == "notifications/tasks/status":
        conform(v2025.TaskStatusNotification, message, "notification")
    else:
        conform(_row(SERVER_NOTIFICATIONS, version, message), message, "notification")
    if "error" in message.get("params", {}):
        _check_code(version, message["params"]["error"]["code"])


def _check_stream(message: Message, request_method: str | None) -> None:
    method = message["method"]
    if request_method != LISTEN and method not in _MODERN_NOTIFICATIONS:
        return
    assert method not in {"notifications/progress", "notifications/message"}, (
        f"{method} on a listen stream (R-94)"
    )
    meta = message.get("params", {}).get("_meta", {})
    identity = meta.get(tasks.SUBSCRIPTION_ID)
    assert isinstance(identity, str | int), f"{method} does not name its subscription (R-91)"


def _check_error(version: str, message: Message) -> None:
    if version in _NULL_ID_VERSIONS:
        assert "id" in message, f"{version} requires an id member"
        message = message if message["id"] is not None else {**message, "id": 0}
    assert message.get("id", 0) is not None, "an error without a readable id has no id member (R-03)"
    frame = v2026.JSONRPCErrorResponse if version in MODERN_PROTOCOL_VERSIONS else v2025.JSONRPCErrorResponse
    conform(frame, message, "error")
    error = message["error"]
    _check_code(version, error["code"])
    assert error["message"].strip(), "error.message is empty"
    typed = _typed_error(version, error["code"])
    if typed is not None:
        conform(typed, message, "error")
    if error["code"] == -32021:
        assert error["data"]["requiredCapabilities"], "error.data.requiredCapabilities names nothing (R-09)"


def _typed_error(version: str, code: int) -> type[BaseModel] | None:
    if version in MODERN_PROTOCOL_VERSIONS:
        return _MODERN_ERRORS.get(code)
    return v2025.URLElicitationRequiredError if (version, code) == (TASKS_IN_CORE, -32042) else None


def _check_code(version: str, code: int) -> None:
    own = not -32768 <= code <= -32000
    allowed = own or code in _STANDARD_CODES or _typed_error(version, code) is not None
    assert allowed, f"{version} forbids error code {code} (R-13)"


def _check_result(version: str, message: Message, request_method: str | None, may_be_task: bool) -> None:
    if version in MODERN_PROTOCOL_VERSIONS:
        conform(v2026.JSONRPCResultResponse, message, "response")
        _check_modern_result(message["result"], request_method, may_be_task)
        if request_method == LISTEN:
            identity = message["result"]["_meta"][tasks.SUBSCRIPTION_ID]
            assert identity == message["id"], "the result names another subscription (R-95)"
    else:
        conform(v2025.JSONRPCResultResponse, message, "response")
        _check_legacy_result(version, message["result"], request_method, may_be_task)


def _check_modern_result(result: Message, request_method: str | None, may_be_task: bool) -> None:
    kind = result["resultType"]
    if request_method == "tools/call":
        assert kind in _CALL_RESULTS, f"resultType {kind!r} is no result of tools/call (R-04)"
        assert kind != "task" or may_be_task, "a task handle for a request that did not allow it (R-101)"
        model = _CALL_RESULTS[kind]
    else:
        assert request_method in _MODERN_RESULTS, f"the server has no result for {request_method}"
        assert kind == "complete", f"resultType {kind!r} is no result of {request_method} (R-04)"
        model = _MODERN_RESULTS[request_method]
    conform(model, result, "result")
    if kind == "input_required":
        assert result.keys() & {"inputRequests", "requestState"}, "neither questions nor state (R-81)"
    if "error" in result:
        _check_code(MODERN_PROTOCOL_VERSIONS[-1], result["error"]["code"])
    conform(v2026.Implementation, result.get("_meta", {}).get(_SERVER_INFO), "serverInfo (R-10)")


def _check_legacy_result(
    version: str, result: Message, request_method: str | None, may_be_task: bool
) -> None:
    if request_method in {"ping", "logging/setLevel"}:
        assert result == {}, f"the result of {request_method} is empty (L-04)"
        return
    table = _LEGACY_RESULTS | (_LEGACY_TASK_RESULTS if version == TASKS_IN_CORE else {})
    if request_method == "tools/call" and "task" in result and version == TASKS_IN_CORE:
        assert may_be_task, "a task handle for a request that did not allow it (L-40)"
        table = {"tools/call": v2025.CreateTaskResult}
    assert request_method in table, f"{version} has no result for {request_method}"
    conform(table[request_method], result, "result")
    if request_method == "tasks/result":
        related = result.get("_meta", {}).get(tasks.RELATED_TASK)
        conform(v2025.RelatedTaskMetadata, related, "related-task (L-44)")


def _row(table: Any, version: str, message: Message) -> type[BaseModel]:
    method = message["method"]
    model: type[BaseModel] | None = table.get((method, version))
    assert model is not None, f"{version} has no {method} from a server"
    return model


def _check_forms(message: Message) -> None:
    """The models take any property schema in a form, the specification flat primitives and enums (R-88)."""
    for schema in _form_schemas(message):
        for name, field in schema["properties"].items():
            try:
                _FORM_FIELD.validate_python(field, strict=True, by_alias=True, by_name=False)
            except ValidationError as error:
                raise AssertionError(
                    f"form field {name!r} is not a flat primitive (R-88): {error}"
                ) from error


def _form_schemas(message: Message) -> Iterator[Message]:
    if "requestedSchema" in message.get("params", {}):
        yield message["params"]["requestedSchema"]
    for holder in (message.get("result"), message.get("params")):
        questions = holder.get("inputRequests", {}) if isinstance(holder, dict) else {}
        for question in questions.values():
            yield from _form_schemas(question)
