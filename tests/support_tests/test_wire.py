"""The check of outgoing messages lets every legal message pass and sees each kind of defect."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.wire import check_message

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "adapter", "version": "1"}}
SUBSCRIBED = {"io.modelcontextprotocol/subscriptionId": 7}
RELATED = {"io.modelcontextprotocol/related-task": {"taskId": "mcp-1"}}
TIMES = {"createdAt": "2026-07-28T10:00:00Z", "lastUpdatedAt": "2026-07-28T10:00:01.5Z"}
TASK: dict[str, Any] = {
    "taskId": "mcp-1",
    "status": "working",
    **TIMES,
    "ttlMs": 60000,
    "pollIntervalMs": 5000,
}
LEGACY_TASK: dict[str, Any] = {
    "taskId": "mcp-1",
    "status": "working",
    **TIMES,
    "ttl": 60000,
    "pollInterval": 5000,
}
CONTENT = [{"type": "text", "text": "done"}]
TOOL: dict[str, Any] = {
    "name": "report",
    "description": "A report.",
    "inputSchema": {"type": "object", "$defs": {}},
}
FORM: dict[str, Any] = {
    "method": "elicitation/create",
    "params": {
        "message": "Ship it?",
        "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}},
    },
}
SAMPLE: dict[str, Any] = {
    "method": "sampling/createMessage",
    "params": {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]},
}
URL: dict[str, Any] = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Pay", "url": "https://e.org"},
}
CACHED: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "_meta": SERVER}
DISCOVERED: dict[str, Any] = {
    **CACHED,
    "supportedVersions": [MODERN],
    "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
}
CALLED: dict[str, Any] = {"resultType": "complete", "content": CONTENT, "_meta": SERVER}
ASKED: dict[str, Any] = {"resultType": "input_required", "inputRequests": {"a": FORM}, "_meta": SERVER}


def result(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "result": members}


def error(code: int = -32602, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "error": {"code": code, "message": "Task not found", **members}}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def without(message: dict[str, Any], member: str) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != member}


def refused(
    version: str, message: Any, method: str | None, because: str, *, may_be_task: bool = True
) -> None:
    with pytest.raises(AssertionError, match=because):
        check_message(version, message, request_method=method, tool_call_may_be_task=may_be_task)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("server/discover", result(**DISCOVERED)),
        ("tools/list", result(**CACHED, tools=[TOOL, {**TOOL, "outputSchema": {"type": "array"}}])),
        ("tools/list", result(**CACHED, tools=[], nextCursor="")),
        ("tools/call", result(**CALLED)),
        ("tools/call", result(**CALLED, structuredContent=None, isError=False)),
        ("tools/call", result(**CALLED, structuredContent={"any": [1, None]})),
        ("tools/call", result(**{**CALLED, "content": [{"type": "text", "text": "", "own": "member"}]})),
        ("tools/call", result(**ASKED)),
        ("tools/call", result(**{**ASKED, "inputRequests": {"a": SAMPLE, "b": {"method": "roots/list"}}})),
        ("tools/call", result(**{**ASKED, "inputRequests": {"a": URL}}, requestState="s")),
        ("tools/call", result(**without(ASKED, "inputRequests"), requestState="s")),
        ("tools/call", result(**TASK, resultType="task", _meta=SERVER)),
        ("subscriptions/listen", result(resultType="complete", _meta={**SERVER, **SUBSCRIBED})),
        ("tasks/get", result(**TASK, resultType="complete", _meta=SERVER)),
        ("tasks/update", result(resultType="complete", _meta=SERVER)),
        ("tasks/cancel", result(resultType="complete", _meta=SERVER)),
    ],
)
def test_modern_results_pass(method: str, message: dict[str, Any]) -> None:
    check_message(MODERN, message, request_method=method)


@pytest.mark.parametrize(
    ("method", "message", "because"),
    [
        ("tools/call", result(resultType="complete", _meta=SERVER), "content"),
        ("tools/call", result(content=CONTENT, _meta=SERVER), "resultType"),
        ("tools/call", result(**{**CALLED, "resultType": "done"}), "R-04"),
        ("tools/call", result(**without(CALLED, "_meta")), "R-10"),
        ("tools/call", result(**{**CALLED, "_meta": {}}), "R-10"),
        ("tools/call", result(**CALLED, isError="no"), "isError"),
        ("tools/call", result(**CALLED, isError=None), "null"),
        ("tools/call", result(**CALLED, is_error=True), "is_error is unknown"),
        ("tools/call", result(**CALLED, structuredcontent={}), "structuredcontent is unknown"),
        ("tools/call", result(**{**CALLED, "content": [{"type": "text"}]}), "text"),
        ("tools/call", result(**{**CALLED, "content": [{"type": "video", "data": ""}]}), "type"),
        ("tools/call", result(**without(ASKED, "inputRequests")), "R-81"),
        ("tools/call", result(**{**ASKED, "inputRequests": {"a": {**FORM, "id": 1}}}), "id is unknown"),
        ("tools/call", result(**{**ASKED, "inputRequests": {"a": {"method": "ping"}}}), "method"),
        ("tools/call", result(**TASK, resultType="complete", _meta=SERVER), "content"),
        ("tools/call", result(task=TASK, resultType="task", _meta=SERVER), "taskId"),
        ("tools/list", result(**CACHED, tools=[{**TOOL, "execution": {}}]), "execution is unknown"),
        ("tools/list", result(**CACHED, tools=[{**TOOL, "title": None}]), r"tools\[0\]\.title is null"),
        ("tools/list", result(**CACHED, tools=[{**TOOL, "inputSchema": {}}]), "inputSchema"),
        ("tools/list", result(**{**CACHED, "ttlMs": "0"}, tools=[]), "ttlMs"),
        ("tools/list", result(**{**CACHED, "ttlMs": -1}, tools=[]), "ttlMs"),
        ("tools/list", result(**without(CACHED, "cacheScope"), tools=[]), "cacheScope"),
        ("tools/list", result(**{**CACHED, "resultType": "task"}, tools=[]), "R-04"),
        ("server/discover", result(**DISCOVERED, serverInfo={}), "serverInfo is unknown"),
        ("server/discover", result(**{**DISCOVERED, "capabilities": {"tasks": {}}}), "tasks is unknown"),
        ("subscriptions/listen", result(resultType="complete", _meta=SERVER), "subscriptionId"),
        (
            "subscriptions/listen",
            result(resultType="complete", _meta={**SERVER, "io.modelcontextprotocol/subscriptionId": "7"}),
            "R-95",
        ),
        ("tasks/get", result(**TASK, resultType="task", _meta=SERVER), "R-04"),
        (
            "tasks/get",
            result(
                **{**TASK, "status": "failed"},
                error=error(-32002)["error"],
                resultType="complete",
                _meta=SERVER,
            ),
            "R-13",
        ),
        ("tools/call", {**result(**CALLED), "id": None}, "id"),
        ("tools/call", {**result(**CALLED), "more": 1}, "more is unknown"),
        ("tools/call", {"jsonrpc": "2.0", "id": 7}, "result"),
        ("tasks/cancel", result(**TASK, resultType="complete", _meta=SERVER), "Extra inputs"),
        ("tasks/list", result(tasks=[], resultType="complete", _meta=SERVER), "no result for tasks/list"),
        (None, result(**CALLED), "no result for None"),
    ],
)
def test_defects_of_modern_results_are_seen(
    method: str | None, message: dict[str, Any], because: str
) -> None:
    refused(MODERN, message, method, because)


@pytest.mark.parametrize("form", [CALLED, ASKED])
def test_a_request_that_allows_no_handle_has_its_other_results(form: dict[str, Any]) -> None:
    check_message(MODERN, result(**form), request_method="tools/call", tool_call_may_be_task=False)


def test_a_handle_that_the_request_did_not_allow_is_seen() -> None:
    message = result(**TASK, resultType="task", _meta=SERVER)

    refused(MODERN, message, "tools/call", "R-101", may_be_task=False)
    refused(LEGACY, result(task=LEGACY_TASK), "tools/call", "L-40", may_be_task=False)


@pytest.mark.parametrize(
    "message",
    [
        error(),
        error(data={"anything": None}),
        error(1001),
        without(error(-32700), "id"),
        {**error(), "id": ""},
        error(-32020),
        error(-32021, data={"requiredCapabilities": {"sampling": {}}}),
        error(-32021, data={"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}),
        error(-32022, data={"supported": [MODERN], "requested": "v999.0.0"}),
    ],
)
def test_modern_errors_pass(message: dict[str, Any]) -> None:
    check_message(MODERN, message, request_method=None)


@pytest.mark.parametrize(
    ("message", "because"),
    [
        ({**error(), "id": None}, "R-03"),
        ({**error(), "id": 1.5}, "id"),
        ({**error(), "id": True}, "id"),
        ({**error(), "result": {}}, "result is unknown"),
        ({**error(), "jsonrpc": "1.0"}, "jsonrpc"),
        (without(error(), "jsonrpc"), "jsonrpc"),
        (error(message=" "), "message is empty"),
        (error(details={}), "details is unknown"),
        ({**error(), "error": {"message": "No code"}}, "code"),
        ({**error(), "error": {"code": "-32602", "message": "A string"}}, "code"),
        (error(-32002), "R-13"),
        (error(-32042), "R-13"),
        (error(-32001), "R-13"),
        (error(-32023), "R-13"),
        (error(-32604), "R-13"),
        (error(-32021), "data"),
        (error(-32021, data={"requiredCapabilities": ["sampling"]}), "requiredCapabilities"),
        (error(-32021, data={"requiredCapabilities": {}}), "R-09"),
        (error(-32021, data={"requiredCapabilities": {"tasks": {}}}), "tasks is unknown"),
        (error(-32022, data={"supported": [MODERN]}), "requested"),
        (error(-32022, data={"requested": MODERN}), "supported"),
    ],
)
def test_defects_of_modern_errors_are_seen(message: dict[str, Any], because: str) -> None:
    refused(MODERN, message, None, because)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("tools/call", notification("progress", progressToken="p", progress=1, total=3)),
        ("tools/call", notification("message", level="info", data={"any": "json"})),
        ("subscriptions/listen", notification("tasks", **TASK, _meta=SUBSCRIBED)),
        (
            "subscriptions/listen",
            notification("subscriptions/acknowledged", notifications={"taskIds": []}, _meta=SUBSCRIBED),
        ),
        ("subscriptions/listen", notification("tools/list_changed", _meta=SUBSCRIBED)),
    ],
)
def test_modern_notifications_pass(method: str, message: dict[str, Any]) -> None:
    check_message(MODERN, message, request_method=method)


@pytest.mark.parametrize(
    ("method", "message", "because"),
    [
        ("tools/call", notification("progress", progress=1), "progressToken"),
        ("tools/call", notification("message", level="loud", data=""), "level"),
        ("tools/call", notification("initialized"), "has no notifications/initialized"),
        ("tools/call", {**notification("message", level="info", data=""), "error": {}}, "error is unknown"),
        ("subscriptions/listen", notification("tasks", **TASK), "_meta"),
        ("subscriptions/listen", notification("tasks", **TASK, _meta={}), "R-91"),
        ("tools/call", notification("tasks", **TASK, _meta={}), "R-91"),
        (
            "subscriptions/listen",
            notification("tasks", **TASK, resultType="complete", _meta=SUBSCRIBED),
            "resultType",
        ),
        (
            "subscriptions/listen",
            notification(
                "tasks", **{**TASK, "status": "failed"}, error=error(-32042)["error"], _meta=SUBSCRIBED
            ),
            "R-13",
        ),
        ("subscriptions/listen", notification("subscriptions/acknowledged", notifications={}), "R-91"),
        (
            "subscriptions/listen",
            notification("subscriptions/acknowledged", notifications={"taskIds": "a"}, _meta=SUBSCRIBED),
            "taskIds",
        ),
        (
            "subscriptions/listen",
            notification("subscriptions/acknowledged", notifications={"tasks": []}, _meta=SUBSCRIBED),
            "tasks is unknown",
        ),
        ("subscriptions/listen", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, "R-91"),
        (
            "subscriptions/listen",
            notification("progress", progressToken=1, progress=1, _meta=SUBSCRIBED),
            "R-94",
        ),
    ],
)
def test_defects_of_modern_notifications_are_seen(method: str, message: dict[str, Any], because: str) -> None:
    refused(MODERN, message, method, because)


def test_a_request_of_the_server_is_seen_as_a_defect_in_the_modern_era_only() -> None:
    request = {"jsonrpc": "2.0", "id": "q1", **FORM}

    refused(MODERN, request, "tasks/get", "R-14")
    check_message(LEGACY, request, request_method="tasks/get")
    refused("2025-03-26", request, "tools/call", "has no elicitation/create")


@pytest.mark.parametrize(
    "field",
    [
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"type": "object"}},
        {"oneOf": [{"const": "a"}]},
        "string",
    ],
)
def test_a_form_that_is_not_flat_is_seen_wherever_it_travels(field: object) -> None:
    form = {
        **FORM,
        "params": {**FORM["params"], "requestedSchema": {"type": "object", "properties": {"f": field}}},
    }
    waiting = {**TASK, "status": "input_required", "inputRequests": {"a": form}}

    refused(MODERN, result(**{**ASKED, "inputRequests": {"a": form}}), "tools/call", "R-88")
    refused(MODERN, result(**waiting, resultType="complete", _meta=SERVER), "tasks/get", "R-88")
    refused(MODERN, notification("tasks", **waiting, _meta=SUBSCRIBED), "subscriptions/listen", "R-88")
    refused(LEGACY, {"jsonrpc": "2.0", "id": "q1", **form}, "tasks/get", "R-88")


@pytest.mark.parametrize("message", [[], "text", None])
def test_what_is_no_object_is_refused(message: object) -> None:
    refused(MODERN, message, None, "one object")


def test_an_unknown_version_is_refused() -> None:
    refused("2026-07-29", error(), None, "no protocol version")


@pytest.mark.parametrize(
    ("version", "method", "message"),
    [
        (
            LEGACY,
            "initialize",
            result(
                protocolVersion=LEGACY,
                capabilities={"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
                serverInfo={"name": "adapter", "version": "1"},
            ),
        ),
        (LEGACY, "ping", result()),
        (LEGACY, "tools/list", result(tools=[{**TOOL, "execution": {"taskSupport": "optional"}}])),
        ("2025-03-26", "tools/call", result(content=CONTENT)),
        (LEGACY, "tools/call", result(task=LEGACY_TASK)),
        (LEGACY, "tasks/get", result(**LEGACY_TASK)),
        (LEGACY, "tasks/cancel", result(**{**LEGACY_TASK, "status": "cancelled", "ttl": None})),
        (LEGACY, "tasks/list", result(tasks=[LEGACY_TASK])),
        (LEGACY, "tasks/result", result(content=CONTENT, isError=True, _meta=RELATED)),
        (LEGACY, "tasks/result", notification("tasks/status", **LEGACY_TASK)),
        (LEGACY, "tools/call", notification("progress", progressToken=1, progress=0.5)),
        (LEGACY, None, without(error(-32700), "id")),
        (
            LEGACY,
            "tools/call",
            error(-32042, data={"elicitations": [{**URL["params"], "elicitationId": "e"}]}),
        ),
        ("2025-06-18", None, {**error(-32700), "id": None}),
    ],
)
def test_legacy_messages_pass(version: str, method: str | None, message: dict[str, Any]) -> None:
    check_message(version, message, request_method=method)


@pytest.mark.parametrize(
    ("version", "method", "message", "because"),
    [
        (LEGACY, "ping", result(resultType="complete"), "L-04"),
        (LEGACY, "tools/call", result(**without(CALLED, "_meta")), "resultType is unknown"),
        (LEGACY, "tools/list", result(tools=[], ttlMs=0), "ttlMs is unknown"),
        (LEGACY, "tools/call", result(content=CONTENT, structuredContent=[]), "structuredContent"),
        (LEGACY, "tasks/get", result(**LEGACY_TASK, result={}), "result is unknown"),
        (LEGACY, "tasks/get", result(**without(LEGACY_TASK, "ttl")), "ttl"),
        (LEGACY, "tasks/get", result(**{**LEGACY_TASK, "status": "done"}), "status"),
        (LEGACY, "tasks/result", result(content=CONTENT), "L-44"),
        (LEGACY, "tools/call", {**result(content=CONTENT), "id": 1.5}, "id"),
        (LEGACY, "tools/call", {**result(content=CONTENT), "more": 1}, "more is unknown"),
        (LEGACY, "tasks/result", notification("tasks/status", **TASK), "ttl"),
        ("2025-06-18", "tools/call", result(task=LEGACY_TASK), "content"),
        ("2025-06-18", "tasks/get", result(**LEGACY_TASK), "no result for tasks/get"),
        ("2025-06-18", "tasks/result", notification("tasks/status", **LEGACY_TASK), "has no notifications"),
        (LEGACY, "server/discover", result(), "no result for server/discover"),
        (LEGACY, None, {**error(), "id": None}, "R-03"),
        ("2025-06-18", None, without(error(), "id"), "requires an id"),
        (LEGACY, None, error(-32021, data={"requiredCapabilities": {"sampling": {}}}), "R-13"),
        ("2025-06-18", None, error(-32042), "R-13"),
        (LEGACY, None, error(-32042), "data"),
    ],
)
def test_defects_of_legacy_messages_are_seen(
    version: str, method: str | None, message: dict[str, Any], because: str
) -> None:
    refused(version, message, method, because)
