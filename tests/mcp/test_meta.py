"""`_meta`: who speaks which version and can do what, in each request anew."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.adapter import EXTENSION, PREFIX, TASKS, VERSION, Mcp, tool

VERSION_KEY = PREFIX + "protocolVersion"
CAPABILITIES_KEY = PREFIX + "clientCapabilities"
LEVEL_KEY = PREFIX + "logLevel"
META: dict[str, Any] = {VERSION_KEY: VERSION, CAPABILITIES_KEY: {}}
EVERY_METHOD = (
    "server/discover",
    "tools/list",
    "tools/call",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "subscriptions/listen",
)


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool(), tool("quick", inline_wait="0s"))


async def sent(mcp: Mcp, method: str, params: object) -> tuple[int, int]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return (await mcp.post(body, {"mcp-method": method})).refusal


@pytest.mark.era_rows("modern", 1, 6)
@pytest.mark.requirement("R-05", "R-06", "R-12", "R-25")
@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"_meta": None},
        {"_meta": []},
        {"_meta": "x"},
        {"_meta": {}},
        {"_meta": {CAPABILITIES_KEY: {}}},
        {"_meta": {**META, VERSION_KEY: None}},
        {"_meta": {**META, VERSION_KEY: 2026}},
        {"_meta": {**META, VERSION_KEY: [VERSION]}},
        {"_meta": {VERSION_KEY: VERSION}},
        {"_meta": {**META, CAPABILITIES_KEY: None}},
        {"_meta": {**META, CAPABILITIES_KEY: []}},
        {"_meta": {**META, CAPABILITIES_KEY: "all"}},
        None,
    ],
    ids=str,
)
async def test_a_missing_or_mistyped_required_member_is_32602_at_400(
    mcp: Mcp, method: str, params: object
) -> None:
    assert await sent(mcp, method, params) == (400, -32602)


@pytest.mark.requirement("R-06")
async def test_absent_params_are_missing_meta(mcp: Mcp) -> None:
    answer = await mcp.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})

    assert answer.refusal == (400, -32602)
    assert "_meta" in answer.error["message"]


@pytest.mark.requirement("R-05", "R-11")
@pytest.mark.parametrize(
    "info", [None, {"name": "inspector", "version": "1"}, {"name": "mcp-admin", "version": "9"}, {}, "odd", 7]
)
async def test_client_info_changes_nothing(mcp: Mcp, info: object) -> None:
    plain = await mcp.call("tools/list")

    answer = await mcp.call("tools/list", meta={PREFIX + "clientInfo": info})

    assert (answer.status, answer.result) == (200, plain.result)


@pytest.mark.requirement("R-05")
@pytest.mark.parametrize(
    "level", ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", None]
)
async def test_each_log_level_is_accepted(mcp: Mcp, level: str | None) -> None:
    assert (await mcp.call("tools/list", meta={LEVEL_KEY: level})).status == 200


@pytest.mark.requirement("R-05")
@pytest.mark.parametrize("level", ["verbose", "INFO", "", 1, True, ["info"], {}])
async def test_an_unknown_log_level_is_32602(mcp: Mcp, level: object) -> None:
    answer = await mcp.call("tools/list", meta={LEVEL_KEY: level})

    assert answer.error["code"] == -32602
    assert "logLevel" in answer.error["message"]


@pytest.mark.parametrize("token", ["t", "", 0, 7])
async def test_a_progress_token_is_a_string_or_an_integer(mcp: Mcp, token: object) -> None:
    assert (await mcp.call("tools/list", meta={"progressToken": token})).status == 200


@pytest.mark.parametrize("token", [1.5, True, [], {}])
async def test_another_progress_token_is_32602(mcp: Mcp, token: object) -> None:
    answer = await mcp.call("tools/list", meta={"progressToken": token})

    assert answer.error["code"] == -32602
    assert "progressToken" in answer.error["message"]


@pytest.mark.era_rows("modern", 3)
@pytest.mark.requirement("R-08", "R-28", "R-100", "R-101")
async def test_a_declaration_counts_for_its_own_request_only(mcp: Mcp) -> None:
    first = await mcp.call("tools/call", {"name": "quick"}, caps=TASKS)
    second = await mcp.call("tools/call", {"name": "quick"}, caps={})
    task_id = first.result["taskId"]

    assert second.result["resultType"] == "complete"
    assert (await mcp.call("tasks/get", {"taskId": task_id}, caps={})).refusal == (400, -32021)


@pytest.mark.requirement("R-28", "R-100", "R-101", "R-123")
@pytest.mark.parametrize(
    "caps",
    [
        {"tasks": {"requests": {"tools": {"call": {}}}}},
        {"extensions": {}},
        {"extensions": None},
        {"extensions": {EXTENSION: None}},
        {"extensions": {EXTENSION: True}},
        {"extensions": [EXTENSION]},
        {"extensions": {"io.modelcontextprotocol/Tasks": {}}},
        {"experimental": {EXTENSION: {}}},
        {EXTENSION: {}},
    ],
    ids=str,
)
async def test_only_the_extension_as_an_object_is_a_declaration(mcp: Mcp, caps: dict[str, Any]) -> None:
    called = await mcp.call("tools/call", {"name": "quick"}, caps=caps)
    read = await mcp.call("tasks/get", {"taskId": "mcp-1"}, caps=caps)

    assert called.result["resultType"] == "complete"
    assert read.refusal == (400, -32021)
    assert read.error["data"] == {"requiredCapabilities": TASKS}


@pytest.mark.requirement("R-100")
async def test_settings_inside_the_declaration_are_ignored(mcp: Mcp) -> None:
    await mcp.start(caps={"extensions": {EXTENSION: {"future": 1}, "other": {}}})

    assert len(mcp.engine.started) == 1


@pytest.mark.era_rows("modern", 20, 26)
@pytest.mark.requirement("R-07", "R-118", "B-24")
@pytest.mark.parametrize("legacy", [{"ttl": 60000}, {}, None, 7])
async def test_a_legacy_task_param_is_neither_an_error_nor_an_opt_in(mcp: Mcp, legacy: object) -> None:
    params = {"name": "quick", "task": legacy}

    plain = await mcp.call("tools/call", params, caps={})
    as_task = await mcp.call("tools/call", params, caps=TASKS)

    assert plain.result["resultType"] == "complete"
    assert as_task.result["resultType"] == "task"
    assert as_task.result["ttlMs"] == 90_000_000
