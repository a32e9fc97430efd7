"""`initialize`: versions, capabilities, and the small methods that every client may call."""

from __future__ import annotations

from typing import Any

import pytest

from adapter import __version__
from tests.support.adapter import EXTENSION, PREFIX, Mcp, tool
from tests.support.legacy import CLIENT, FORMS, LATEST, VERSIONS, LegacyClient

OPENING: dict[str, Any] = {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": CLIENT}
MODERN_MEMBERS = {"resultType", "ttlMs", "cacheScope", "_meta", "pollIntervalMs"}


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool())


@pytest.mark.requirement("L-01", "L-07")
@pytest.mark.era_rows("legacy", 1, 4, 5)
@pytest.mark.parametrize("version", VERSIONS)
async def test_initialize_tells_version_capabilities_and_server_in_its_body(mcp: Mcp, version: str) -> None:
    result = await LegacyClient(mcp, version).initialize()

    assert result["protocolVersion"] == version
    assert result["serverInfo"] == {"name": "mcp-workflow-adapter", "version": __version__}
    assert not result.keys() & MODERN_MEMBERS


@pytest.mark.requirement("L-02")
@pytest.mark.era_rows("legacy", 2)
@pytest.mark.parametrize(
    "asked", ["2026-07-28", "2024-11-05", "2099-01-01", "", "latest", "2025-11-25 ", "0" * 500]
)
async def test_an_unserved_version_is_offered_the_newest_legacy_one(mcp: Mcp, asked: str) -> None:
    answer = await LegacyClient(mcp).call("initialize", {**OPENING, "protocolVersion": asked})

    assert (answer.status, answer.result["protocolVersion"]) == (200, LATEST)


@pytest.mark.requirement("L-02", "L-12")
@pytest.mark.parametrize("header", [None, LATEST, "2025-03-26", "2024-11-05", "not-a-version"])
async def test_a_version_header_on_initialize_decides_nothing(mcp: Mcp, header: str | None) -> None:
    client = LegacyClient(mcp, "2025-06-18")

    answer = await client.call(
        "initialize", {**OPENING, "protocolVersion": "2025-06-18"}, headers={"mcp-protocol-version": header}
    )

    assert answer.result["protocolVersion"] == "2025-06-18"


@pytest.mark.requirement("L-01")
@pytest.mark.parametrize("version", [None, 7, ["2025-11-25"], {}])
async def test_initialize_without_a_version_is_refused(mcp: Mcp, version: object) -> None:
    answer = await LegacyClient(mcp).call("initialize", {**OPENING, "protocolVersion": version})

    assert answer.refusal == (200, -32602)
    assert "protocolVersion" in answer.error["message"]
    assert "mcp-session-id" not in answer.headers


@pytest.mark.requirement("L-01")
@pytest.mark.parametrize("odd", [None, [], "all", 5])
async def test_initialize_is_lenient_about_everything_else(mcp: Mcp, odd: object) -> None:
    answer = await LegacyClient(mcp).call("initialize", {"protocolVersion": LATEST, "capabilities": odd})

    assert answer.result["protocolVersion"] == LATEST


@pytest.mark.requirement("L-05")
@pytest.mark.era_rows("legacy", 18, 19, 51)
@pytest.mark.parametrize(
    ("version", "tasks"),
    [
        (LATEST, {"cancel": {}, "requests": {"tools": {"call": {}}}}),
        ("2025-06-18", None),
        ("2025-03-26", None),
    ],
)
async def test_tasks_are_declared_in_the_version_that_knows_them(
    mcp: Mcp, version: str, tasks: object
) -> None:
    declared = (await LegacyClient(mcp, version).initialize())["capabilities"]

    assert declared.get("tasks") == tasks
    assert declared["tools"] == {}
    assert declared["logging"] == {}
    assert "extensions" not in declared


@pytest.mark.requirement("L-05", "L-56")
async def test_a_task_list_is_declared_to_callers_that_can_be_told_apart(mcp: Mcp) -> None:
    known = await LegacyClient(mcp, caller="ada").initialize()

    assert known["capabilities"]["tasks"]["list"] == {}


@pytest.mark.requirement("L-05")
async def test_the_modern_extension_means_nothing_in_a_legacy_session(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp, capabilities={"extensions": {EXTENSION: {}}})

    created = await client.call("tools/call", {"name": "job", "task": {}})

    assert created.result.keys() == {"task", "_meta"}
    assert not created.result["task"].keys() & {"ttlMs", "resultType"}


@pytest.mark.requirement("L-06")
@pytest.mark.era_rows("legacy", 3)
async def test_what_a_client_can_take_is_settled_by_initialize_alone(mcp: Mcp) -> None:
    silent, able = await LegacyClient.opened(mcp), await LegacyClient.opened(mcp, capabilities=FORMS)
    task_id = await silent.start()
    mcp.ask(task_id)
    meta = {"_meta": {PREFIX + "clientCapabilities": FORMS}}

    none = await silent.call("tasks/get", {"taskId": task_id, **meta})
    asked = await able.call("tasks/get", {"taskId": task_id})

    assert (len(none.requests), none.result["status"]) == (0, "working")
    assert (len(asked.requests), asked.result["status"]) == (1, "input_required")


@pytest.mark.requirement("L-03", "L-10", "B-04")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_notification_is_accepted_without_body_and_content_type(mcp: Mcp, version: str) -> None:
    client = await LegacyClient.opened(mcp, version)

    for method in ("notifications/initialized", "notifications/roots/list_changed", "notifications/unknown"):
        answer = await client.notify(method)
        assert (answer.status, answer.body, answer.headers) == (202, b"", {})


@pytest.mark.requirement("L-03")
async def test_requests_before_the_initialized_notification_are_served(mcp: Mcp) -> None:
    opened = await LegacyClient(mcp).call("initialize", OPENING)
    client = LegacyClient(mcp, session=opened.headers["mcp-session-id"])

    assert (await client.call("tools/list")).result["tools"]


@pytest.mark.requirement("L-04", "L-07")
@pytest.mark.era_rows("legacy", 15)
@pytest.mark.parametrize("version", VERSIONS)
async def test_ping_and_set_level_are_answered_with_an_empty_object(mcp: Mcp, version: str) -> None:
    client = await LegacyClient.opened(mcp, version)

    assert (await client.call("ping")).result == {}
    assert (await client.call("logging/setLevel", {"level": "debug"})).result == {}


@pytest.mark.parametrize("params", [None, {}, {"level": "loud"}, {"level": 3}])
async def test_a_level_that_does_not_exist_is_refused(mcp: Mcp, params: dict[str, Any] | None) -> None:
    client = await LegacyClient.opened(mcp)

    answer = await client.call("logging/setLevel", params)

    assert answer.refusal == (200, -32602)
    assert "params.level" in answer.error["message"]


@pytest.mark.requirement("L-07")
@pytest.mark.parametrize("version", VERSIONS)
async def test_methods_of_the_modern_era_and_unknown_ones_do_not_exist(mcp: Mcp, version: str) -> None:
    client = await LegacyClient.opened(mcp, version)
    long = "x" * 5000

    for method in ("server/discover", "tasks/update", "subscriptions/listen", "resources/list", long):
        answer = await client.call(method, {"taskId": "mcp-1"})
        assert answer.refusal == (200, -32601)
        assert len(answer.error["message"]) < 300
