"""HTTP as the legacy protocols use it: statuses, headers, ids, GET and DELETE."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from adapter.errors import StoreUnavailable
from adapter.mcp.exchange import Request
from tests.support.adapter import Mcp, tool
from tests.support.legacy import LATEST, VERSIONS, LegacyClient

EARLY = ("2025-06-18", "2025-03-26")


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool())


async def reply(client: LegacyClient, method: str, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Status and headers of a request without a body."""
    answer = await client.mcp.parts.endpoint.handle(Request(method, headers, b"", "anonymous"))
    assert isinstance(answer.body, bytes)
    assert "error" in orjson.loads(answer.body)
    return answer.status, answer.headers


# --- statuses -------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-11")
@pytest.mark.era_rows("legacy", 6)
@pytest.mark.parametrize("version", VERSIONS)
async def test_errors_of_requests_travel_on_status_200(mcp: Mcp, version: str) -> None:
    client = await LegacyClient.opened(mcp, version)

    assert (await client.call("nothing/known")).refusal == (200, -32601)
    assert (await client.call("tools/call", {"name": "unknown"})).refusal == (200, -32602)
    assert (await client.call("tools/call", {})).refusal == (200, -32602)
    assert (await client.call("tools/call", {"name": "job", "arguments": []})).refusal == (200, -32602)


@pytest.mark.requirement("L-11")
async def test_our_own_failures_are_errors_on_status_200(mcp: Mcp, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await LegacyClient.opened(mcp)
    task_id = await client.start()

    async def unreachable(_task_id: str) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(mcp.store, "read", unreachable)

    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert (await client.call(method, {"taskId": task_id})).refusal == (200, -32603)
    assert (await client.call("ping")).result == {}


@pytest.mark.requirement("L-11")
async def test_a_defect_is_told_as_an_error_and_logged(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = await LegacyClient.opened(mcp)

    async def broken(_task_id: str) -> None:
        raise KeyError("defect")

    monkeypatch.setattr(mcp.store, "read", broken)

    answer = await client.call("tasks/get", {"taskId": "mcp-1"})

    assert answer.refusal == (200, -32603)
    assert "defect" not in answer.error["message"]
    assert "KeyError" in caplog.text


@pytest.mark.requirement("L-12", "B-16")
@pytest.mark.parametrize("version", ["not-a-version", "2024-11-05", "2099-01-01", ""])
@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "x", "result": {}},
        [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
    ],
    ids=["request", "notification", "response", "batch"],
)
async def test_a_version_that_is_not_served_is_400_with_a_json_rpc_error(
    mcp: Mcp, version: str, body: object
) -> None:
    client = await LegacyClient.opened(mcp)
    reply = await mcp.parts.endpoint.handle(client.posted(body, {"mcp-protocol-version": version}))

    assert reply.status == 400
    assert isinstance(reply.body, bytes)
    assert LATEST in orjson.loads(reply.body)["error"]["message"]


@pytest.mark.requirement("L-13")
@pytest.mark.era_rows("legacy", 7)
async def test_the_routing_headers_of_the_modern_era_are_ignored(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp)
    wrong = {"mcp-method": "tools/call", "mcp-name": "other", "mcp-param-region": "eu"}

    assert (await client.call("ping", headers=wrong)).result == {}


@pytest.mark.requirement("L-14")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_foreign_origin_is_forbidden_on_every_method(mcp: Mcp, version: str) -> None:
    client = await LegacyClient.opened(mcp, version)
    foreign = {"origin": "https://evil.example.com"}

    assert (await client.call("ping", headers=foreign)).status == 403
    assert (await client.notify("notifications/initialized", headers=foreign)).status == 403
    assert (await client.resume("any", **foreign)).status == 403
    assert (await client.call("ping", headers={"origin": "http://localhost:3000"})).status == 200


@pytest.mark.requirement("L-10", "B-15")
@pytest.mark.parametrize(
    ("accept", "status"),
    [("*/*", 200), ("application/json", 200), (None, 200), ("text/event-stream", 200), ("text/html", 406)],
)
async def test_json_is_served_to_whoever_does_not_refuse_it(
    mcp: Mcp, accept: str | None, status: int
) -> None:
    client = await LegacyClient.opened(mcp)

    assert (await client.call("tools/list", headers={"accept": accept})).status == status


@pytest.mark.requirement("L-10", "B-63")
async def test_swapped_headers_are_told_apart_in_words(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp)

    swapped = await client.call(
        "ping", headers={"accept": "application/json", "content-type": "text/event-stream"}
    )

    assert swapped.status == 415
    assert "Content-Type: application/json" in swapped.error["message"]


# --- responses and ids ----------------------------------------------------------------------------------


@pytest.mark.requirement("L-10")
@pytest.mark.era_rows("legacy", 13)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "body",
    [
        {"id": 7, "result": {}},
        {"id": "task-question:no.signature", "result": {"action": "accept"}},
        {"id": "no colon", "error": {"code": -1, "message": "no"}},
        {"id": None, "error": {"code": -32700, "message": "what?"}},
        {"error": {"code": -32700, "message": "what?"}},
    ],
)
async def test_a_response_is_accepted_even_if_it_answers_nothing(
    mcp: Mcp, version: str, body: dict[str, Any]
) -> None:
    client = await LegacyClient.opened(mcp, version)

    answer = await client.post({"jsonrpc": "2.0", **body})

    assert (answer.status, answer.body, answer.headers) == (202, b"", {})


UNREADABLE = [
    b"{",
    b"\xff\xfe",
    {"jsonrpc": "2.0", "id": None, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": True, "method": "tools/list"},
    {"jsonrpc": "1.0", "method": "tools/list"},
    {"jsonrpc": "2.0"},
    5,
    None,
]


@pytest.mark.requirement("L-22", "B-19", "B-22")
@pytest.mark.era_rows("legacy", 17)
@pytest.mark.parametrize("body", UNREADABLE, ids=repr)
async def test_an_error_about_an_unreadable_id_leaves_the_id_out(mcp: Mcp, body: object) -> None:
    client = await LegacyClient.opened(mcp)

    answer = await client.post(body)

    assert answer.refusal in {(400, -32700), (400, -32600)}
    assert "id" not in answer.message


@pytest.mark.requirement("L-22", "B-22")
@pytest.mark.era_rows("legacy", 17)
@pytest.mark.parametrize("says_version", [True, False])
@pytest.mark.parametrize("version", EARLY)
@pytest.mark.parametrize("body", UNREADABLE, ids=repr)
async def test_before_2025_11_25_such_an_error_has_a_null_id(
    mcp: Mcp, version: str, body: object, says_version: bool
) -> None:
    client = await LegacyClient.opened(mcp, version)
    client.says_version = says_version

    answer = await client.post(body)

    assert answer.status == 400
    assert answer.message["id"] is None


@pytest.mark.requirement("L-22")
@pytest.mark.parametrize("session", [None, "mwa1.broken", "aws-agent"])
async def test_where_the_version_is_not_known_the_id_is_left_out(mcp: Mcp, session: str | None) -> None:
    client = LegacyClient(mcp, session=session, says_version=False)

    assert "id" not in (await client.post(b"{")).message


@pytest.mark.parametrize("identifier", ["007", "+7", " 7 ", "7", 7, 0, -1, "", 2**60, "é"])
async def test_an_id_comes_back_as_it_was(mcp: Mcp, identifier: object) -> None:
    client = await LegacyClient.opened(mcp)

    (message,) = (await client.call("ping", identifier=identifier)).messages

    assert message["id"] == identifier
    assert type(message["id"]) is type(identifier)


# --- GET and DELETE -------------------------------------------------------------------------------------


@pytest.mark.requirement("L-17", "L-18")
@pytest.mark.era_rows("legacy", 10)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
async def test_other_methods_than_post_are_not_allowed(mcp: Mcp, version: str, method: str) -> None:
    client = await LegacyClient.opened(mcp, version)
    headers = {"accept": "text/event-stream", "mcp-session-id": client.session or ""}

    status, sent = await reply(client, method, headers)

    assert (status, sent["allow"]) == (405, "POST")
    assert (await client.call("ping")).result == {}, "a session cannot be ended"


@pytest.mark.requirement("L-18")
@pytest.mark.parametrize("event_id", ["", "1", "a.b", "é", "x" * 5000])
async def test_get_with_an_event_id_that_is_not_ours_is_not_allowed(mcp: Mcp, event_id: str) -> None:
    client = await LegacyClient.opened(mcp)

    answer = await client.resume(event_id)

    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.requirement("L-18")
async def test_get_in_a_session_that_is_not_known_is_not_found(mcp: Mcp) -> None:
    client = LegacyClient(mcp, session="mwa1.x")

    assert (await client.resume("any")).status == 404
