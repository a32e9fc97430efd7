"""Versions, eras and discovery."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.adapter import EXTENSION, PREFIX, VERSION, Mcp, tool
from tests.support.legacy import LegacyClient

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "client", "version": "1"},
}


SERVED = [VERSION, "2025-11-25", "2025-06-18", "2025-03-26"]


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool(), list_ttl_ms=1234)


async def opened(
    mcp: Mcp, method: str, params: dict[str, Any] | None, version: str | None
) -> tuple[int, int, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await mcp.post(body, {"mcp-method": method, "mcp-protocol-version": version})
    return *answer.refusal, answer.error.get("data")


def meta(version: object) -> dict[str, Any]:
    return {"_meta": {PREFIX + "protocolVersion": version, PREFIX + "clientCapabilities": {}}}


@pytest.mark.era_rows("modern", 1, 18, 19)
@pytest.mark.requirement("R-21", "R-22", "R-26")
async def test_discovery_tells_versions_capabilities_and_how_long_they_may_be_kept(mcp: Mcp) -> None:
    result = (await mcp.call("server/discover", caps={})).result

    del result["_meta"]
    assert result == {
        "resultType": "complete",
        "supportedVersions": SERVED,
        "capabilities": {"tools": {}, "extensions": {EXTENSION: {}}},
        "ttlMs": 1234,
        "cacheScope": "public",
    }


@pytest.mark.era_rows("modern", 2)
@pytest.mark.requirement("R-20", "R-26", "R-12", "B-16")
@pytest.mark.parametrize("version", ["v999.0.0", "2024-11-05", "2026-07-29", "", "2026-07-28 "])
async def test_an_unserved_version_is_answered_with_the_served_ones(mcp: Mcp, version: str) -> None:
    found = await opened(mcp, "server/discover", meta(version), version)

    if version.strip() == version:
        assert found == (400, -32022, {"supported": SERVED, "requested": version})
    else:
        assert found[:2] == (400, -32020)


@pytest.mark.requirement("R-20")
@pytest.mark.parametrize("odd", [{"progressToken": 1.5}, {PREFIX + "logLevel": "trace"}], ids=str)
async def test_a_version_that_is_not_served_may_have_other_rules_for_optional_members(
    mcp: Mcp, odd: dict[str, Any]
) -> None:
    params = meta("2027-01-01")
    params["_meta"].update(odd)

    assert (await opened(mcp, "tools/list", params, "2027-01-01"))[:2] == (400, -32022)


@pytest.mark.era_rows("modern", 15, 28, 29)
@pytest.mark.requirement("R-24", "R-25")
@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
    ],
)
async def test_removed_methods_are_unknown_with_modern_meta(mcp: Mcp, method: str) -> None:
    params = {**INITIALIZE, "taskId": "mcp-1", "level": "info", "uri": "x:y"}

    answer = await mcp.call(method, params, headers={"mcp-name": None})

    assert answer.refusal == (404, -32601)


@pytest.mark.era_rows("modern", 6)
@pytest.mark.requirement("R-23", "R-12", "R-45")
@pytest.mark.parametrize(
    "method",
    [
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "completion/complete",
    ],
)
async def test_methods_of_undeclared_features_are_unknown_and_say_so_in_json_rpc(
    mcp: Mcp, method: str
) -> None:
    answer = await mcp.call(method, {"name": "x", "uri": "x:y"})

    assert answer.refusal == (404, -32601)
    assert method in answer.error["message"]


@pytest.mark.requirement("R-124")
@pytest.mark.parametrize(
    "method", ["tasks/list", "tasks/result", "tasks/delete", "tasks/", "tasks", "Tasks/get"]
)
async def test_there_are_no_methods_of_our_own_under_tasks(mcp: Mcp, method: str) -> None:
    assert (await mcp.call(method, {"taskId": "mcp-1"}, headers={"mcp-name": None})).refusal == (404, -32601)


@pytest.mark.requirement("R-25")
@pytest.mark.parametrize("params", [None, {}, {"cursor": "x"}, {"_meta": {"progressToken": 1}}])
@pytest.mark.parametrize(("version", "code"), [(VERSION, -32602), ("", -32022), ("not-a-version", -32022)])
async def test_a_request_without_modern_meta_is_judged_by_its_header(
    mcp: Mcp, params: dict[str, Any] | None, version: str, code: int
) -> None:
    status, found, data = await opened(mcp, "tools/list", params, version)

    assert (status, found) == (400, code)
    assert code != -32022 or data == {"supported": SERVED, "requested": version}


@pytest.mark.requirement("R-25")
@pytest.mark.parametrize("params", [{}, {"_meta": {"progressToken": 1}}])
@pytest.mark.parametrize("version", [None, "2025-11-25", "2025-06-18", "2025-03-26"])
async def test_a_request_without_modern_meta_and_header_is_a_legacy_one(
    mcp: Mcp, params: dict[str, Any], version: str | None
) -> None:
    legacy = LegacyClient(mcp, version or "2025-03-26", says_version=version is not None)

    assert "resultType" not in (await legacy.call("tools/list", params)).result
    assert "serverInfo" in (await legacy.call("initialize", INITIALIZE)).result


@pytest.mark.requirement("R-25", "R-26")
@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26"])
async def test_modern_meta_with_a_legacy_version_is_served_as_that_version(mcp: Mcp, version: str) -> None:
    answer = await LegacyClient(mcp, version).call("tools/list", meta(version))

    assert "ttlMs" not in answer.result


@pytest.mark.requirement("R-25")
async def test_a_legacy_version_in_modern_meta_must_not_differ_from_the_header(mcp: Mcp) -> None:
    assert (await opened(mcp, "tools/list", meta("2025-11-25"), "2025-06-18"))[:2] == (400, -32020)


@pytest.mark.era_rows("modern", 8)
@pytest.mark.requirement("R-25")
async def test_modern_meta_makes_a_request_modern_whatever_its_header_says(mcp: Mcp) -> None:
    for version in (None, "2025-11-25", "not-a-version"):
        assert (await opened(mcp, "tools/list", meta(VERSION), version))[:2] == (400, -32020)
