"""The requests that are measured, as a client in use sends them, and the tasks that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from adapter.mcp.exchange import Request
from adapter.mcp.headers import VERSION as VERSION_HEADER
from adapter.mcp.legacy import SESSION_HEADER
from adapter.mcp.legacy_shapes import V_2025_11_25
from adapter.mcp.meta import CAPABILITIES_KEY, PREFIX, TASKS_EXTENSION, VERSION_KEY
from adapter.mcp.modern import VERSION
from adapter.mcp.session import Sessions
from adapter.mcp.signing import Signer
from adapter.tasks.clock import system_clock
from adapter.tasks.model import Ending, Outcome, Task, TaskRecord
from adapter.tools.catalog import Catalog
from adapter.tools.tool import Tool

OWNER = "anonymous"
TARGET = "arn:aws:states:eu-central-1:123456789012:stateMachine:nightly-report"
RUNNING = "mcp-running-QkVOQ0gtUlVOTklORw"
COMPLETED = "mcp-completed-QkVOQ0gtQ09NUExF"
OUTPUT = '{"day": "2027-01-15", "orders": 1834, "revenue": "48211.90", "url": "https://reports.example.com/2027-01-15"}'
STEP = "Running step CollectOrders"

HOUR_MS = 3_600_000

SIGNING_KEY = "the adapter under measurement signs with this"

TOOL = Tool(
    name="nightly_report",
    title="Nightly report",
    description="Builds the sales report for one day.",
    state_machine=TARGET,
    input_schema={
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "region": {"enum": ["emea", "apac", "amer"]},
            "recipients": {"type": "array", "items": {"type": "string", "format": "email"}},
        },
        "required": ["day"],
        "additionalProperties": False,
    },
)
CATALOG = Catalog([TOOL])

_META = {
    VERSION_KEY: VERSION,
    PREFIX + "clientInfo": {"name": "example-client", "title": "Example Client", "version": "2.4.0"},
    CAPABILITIES_KEY: {"elicitation": {"form": {}, "url": {}}, "extensions": {TASKS_EXTENSION: {}}},
}
_HEADERS = {
    "host": "127.0.0.1:8000",
    "connection": "keep-alive",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "accept-encoding": "gzip, deflate, br",
    "accept-language": "*",
    "sec-fetch-mode": "cors",
    "user-agent": "node",
}


def running_task(task_id: str, age_ms: int = HOUR_MS) -> Task:
    """A task of that age that the job system need not be asked about for an hour."""
    now = system_clock()
    record = TaskRecord(
        task_id=task_id,
        owner=OWNER,
        tool=TOOL.name,
        engine="step_functions",
        target=TARGET,
        execution=f"{TARGET}:{task_id}",
        created_at=now - age_ms,
        ttl_ms=int(TOOL.ttl * 1000),
        poll_ms=int(TOOL.poll_interval * 1000),
        result_settings=TOOL.result_settings,
    )
    return Task(record=record, updated_at=now - age_ms // 2, message=STEP, refresh_at=now + HOUR_MS)


def outcome() -> Outcome:
    return Outcome(Ending.SUCCEEDED, output=OUTPUT, ended_at=system_clock())


def tasks_get(task_id: str) -> Request:
    return _request("tasks/get", {"taskId": task_id}, {"mcp-name": task_id})


def tools_call() -> Request:
    arguments = {"day": "2027-01-15", "region": "emea", "recipients": ["sales@example.com"]}
    return _request("tools/call", {"name": TOOL.name, "arguments": arguments}, {"mcp-name": TOOL.name})


def listen(task_ids: list[str]) -> Request:
    return _request("subscriptions/listen", {"notifications": {"taskIds": task_ids}}, {})


def legacy(method: str, task_id: str, session: str) -> Request:
    """A task method as a 2025-11-25 client sends it."""
    headers = {VERSION_HEADER: V_2025_11_25, SESSION_HEADER: session}
    return _sent(method, {"taskId": task_id}, headers)


def legacy_session() -> str:
    """The id of a new session, as `initialize` gives it to a client that can be asked for input."""
    capabilities = {
        "elicitation": {"form": {}, "url": {}},
        "tasks": {"requests": {"elicitation": {"create": {}}}},
    }
    sessions = Sessions(Signer([SIGNING_KEY.encode()]), system_clock, HOUR_MS / 1000)
    return sessions.issue(V_2025_11_25, capabilities, OWNER)


def wire(request: Request, path: str = "/mcp") -> bytes:
    """The request as HTTP/1.1."""
    assert request.headers is not None
    lines = [f"{request.method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in request.headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + request.body


def _request(method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
    headers = {VERSION_HEADER: VERSION, "mcp-method": method, **headers}
    return _sent(method, {**params, "_meta": _META}, headers)


def _sent(method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    length = {"content-length": str(len(body))}
    return Request("POST", {**_HEADERS, **headers, **length}, body, OWNER)
