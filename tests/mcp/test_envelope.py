"""What a body must be, and what every reply has."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from adapter.mcp.exchange import Request
from tests.support.adapter import PREFIX, VERSION, Mcp, tool

META = {PREFIX + "protocolVersion": VERSION, PREFIX + "clientCapabilities": {}}


def listing(**members: Any) -> dict[str, Any]:
    """A whole `tools/list` request; None takes a member away."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}, **members}
    return {name: value for name, value in message.items() if value is not None}


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool())


@pytest.mark.requirement("R-01", "R-02")
@pytest.mark.parametrize(
    "identifier",
    [0, 1, -7, 2**53, 2**63 - 1, 2**64 - 1, "", "1", "007", "+7", " 7 ", "é", "x" * 5000, "server-error"],
)
async def test_a_response_repeats_the_id_with_its_type(mcp: Mcp, identifier: str | int) -> None:
    good = await mcp.post(listing(id=identifier))
    bad = await mcp.post({**listing(id=identifier), "params": {}})

    assert good.status == 200
    assert [type(a.message["id"]) for a in (good, bad)] == [type(identifier)] * 2
    assert [a.message["id"] for a in (good, bad)] == [identifier] * 2


@pytest.mark.requirement("R-02", "R-08", "B-21")
async def test_the_same_id_may_be_used_again_and_in_the_other_type(mcp: Mcp) -> None:
    answers = [await mcp.post(listing(id=identifier)) for identifier in (1, "1", 1)]

    assert [a.message["id"] for a in answers] == [1, "1", 1]
    assert [a.result for a in answers] == [answers[0].result] * 3


@pytest.mark.requirement("R-01", "R-03", "R-12")
@pytest.mark.parametrize("identifier", [1.0, 1.5, True, False, [], {}, ["1"]])
async def test_an_id_that_is_neither_string_nor_integer_is_refused_without_an_id(
    mcp: Mcp, identifier: object
) -> None:
    answer = await mcp.post(listing(id=identifier))

    assert answer.refusal == (400, -32600)
    assert "id" not in answer.message


@pytest.mark.requirement("R-01", "R-02", "R-03")
@pytest.mark.parametrize("digits", [str(2**64), "-9223372036854775809", "1" + "0" * 40, "1e3"])
async def test_an_integer_id_too_large_to_repeat_exactly_is_refused(mcp: Mcp, digits: str) -> None:
    body = orjson.dumps(listing(id=424242)).replace(b"424242", digits.encode())

    answer = await mcp.post(body)

    assert answer.refusal == (400, -32600)
    assert "id" not in answer.message


@pytest.mark.requirement("R-01", "R-03", "R-14", "B-19")
@pytest.mark.parametrize("jsonrpc", ["2.0", None])
async def test_a_null_id_makes_neither_a_request_nor_a_notification(mcp: Mcp, jsonrpc: str | None) -> None:
    answer = await mcp.post({**listing(jsonrpc=jsonrpc), "id": None})

    assert answer.refusal == (400, -32600)
    assert "id" not in answer.message


@pytest.mark.era_rows("modern", 16)
@pytest.mark.requirement("R-01", "R-03", "R-12")
@pytest.mark.parametrize(
    "body",
    [[], [listing()], [listing(), listing(id=2)], "text", 1, 1.5, True, None],
    ids=["empty", "one", "two", "text", "number", "float", "boolean", "null"],
)
async def test_a_body_that_is_not_one_object_is_refused(mcp: Mcp, body: object) -> None:
    answer = await mcp.post(body)

    assert answer.refusal == (400, -32600)
    assert "id" not in answer.message


@pytest.mark.era_rows("modern", 17)
@pytest.mark.requirement("R-01", "R-03", "R-12", "B-22")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"{'id': 1}",
        b'{"id":1}{"id":2}',
        b'{"id": NaN}',
        b'{"id": 1e999}',
        b"\xff\xfe{\x00}\x00",
        b'{"jsonrpc":"2.0","id":"\xe9"}',
        b"\xef\xbb\xbf{}",
        b'{"id": "\\ud800"}',
        b"[" * 100_000,
    ],
)
async def test_what_is_not_json_in_utf_8_is_a_parse_error_without_an_id(mcp: Mcp, body: bytes) -> None:
    answer = await mcp.post(body)

    assert answer.refusal == (400, -32700)
    assert "id" not in answer.message


@pytest.mark.requirement("R-01", "R-02", "R-12")
@pytest.mark.parametrize(
    "wrong",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2.0},
        {"method": 7},
        {"method": []},
        {"params": []},
        {"params": "text"},
        {"params": 0},
        {"params": False},
    ],
    ids=str,
)
async def test_a_broken_envelope_is_an_invalid_request_that_repeats_a_readable_id(
    mcp: Mcp, wrong: dict[str, Any]
) -> None:
    answer = await mcp.post({**listing(id="a"), **wrong})

    assert answer.refusal == (400, -32600)
    assert answer.message["id"] == "a"


@pytest.mark.era_rows("modern", 13)
@pytest.mark.requirement("R-01", "R-14")
@pytest.mark.parametrize("member", [{"result": {}}, {"error": {"code": 1, "message": "x"}}])
async def test_responses_from_a_client_are_refused(mcp: Mcp, member: dict[str, Any]) -> None:
    answer = await mcp.post({"jsonrpc": "2.0", "id": 5, **member})

    assert answer.refusal == (400, -32600)


@pytest.mark.requirement("R-14", "R-33", "R-119", "B-04")
@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/initialized"},
        {"method": "notifications/cancelled", "params": {"requestId": 1}},
        {"method": "notifications/unknown", "params": {}},
        {"method": "tools/list", "params": {"_meta": META}},
    ],
    ids=lambda m: m["method"],
)
@pytest.mark.parametrize("headers", [{}, {"mcp-method": None}, {"mcp-method": "tools/call"}], ids=str)
async def test_a_notification_is_taken_with_202_no_body_and_no_content_type(
    mcp: Mcp, message: dict[str, Any], headers: dict[str, str | None]
) -> None:
    answer = await mcp.post({"jsonrpc": "2.0", **message}, headers)

    assert (answer.status, answer.body, dict(answer.headers)) == (202, b"", {})


@pytest.mark.requirement("R-14")
async def test_a_call_without_an_id_starts_nothing(mcp: Mcp) -> None:
    params = {"name": "job", "_meta": META}

    answer = await mcp.post({"jsonrpc": "2.0", "method": "tools/call", "params": params})

    assert answer.status == 202
    assert mcp.engine.started == []


@pytest.mark.requirement("R-33")
async def test_a_notification_that_breaks_the_envelope_is_refused(mcp: Mcp) -> None:
    answer = await mcp.post({"jsonrpc": "2.0", "method": "notifications/initialized", "params": []})

    assert answer.refusal == (400, -32600)


@pytest.mark.era_rows("modern", 4, 5)
@pytest.mark.requirement("R-04", "R-10", "R-43", "R-106")
async def test_every_result_has_its_type_and_names_the_server(mcp: Mcp) -> None:
    task_id = await mcp.start()
    results = [
        (await mcp.call("server/discover")).result,
        (await mcp.call("tools/list")).result,
        (await mcp.call("tasks/get", {"taskId": task_id})).result,
        (await mcp.call("tasks/update", {"taskId": task_id, "inputResponses": {}})).result,
        (await mcp.call("tasks/cancel", {"taskId": task_id})).result,
        (await mcp.call("subscriptions/listen", {"notifications": {"taskIds": []}})).result,
        (await mcp.call("tools/call", {"name": "job", "arguments": {"odd": 1}})).result,
    ]

    assert {r["resultType"] for r in results} == {"complete"}
    assert {r["_meta"][PREFIX + "serverInfo"]["name"] for r in results} == {"mcp-workflow-adapter"}


@pytest.mark.requirement("R-07")
async def test_unknown_members_of_params_and_meta_are_ignored(mcp: Mcp) -> None:
    meta = {"traceparent": "00-1-2-00", "tracestate": 5, "vendor/x": [1], PREFIX + "future": {"a": None}}

    answer = await mcp.call("tools/list", {"unknown": [1], "_other": {}}, meta=meta)

    assert answer.result == (await mcp.call("tools/list")).result


async def test_a_body_without_headers_needs_none(mcp: Mcp) -> None:
    request = mcp.request("tools/list")
    request.headers = None

    assert (await mcp.send(request)).status == 200


async def test_an_unforeseen_failure_is_one_clear_error_and_the_details_are_logged(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(task_id: str) -> None:
        raise ZeroDivisionError("arn:aws:states:us-east-1:123456789012:x")

    monkeypatch.setattr(mcp.store, "read", broken)

    answer = await mcp.call("tasks/get", {"taskId": "mcp-1"}, identifier="a")

    assert answer.error == {"code": -32603, "message": "The server failed; its log says why"}
    assert answer.message["id"] == "a"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.era_rows("modern", 10)
@pytest.mark.requirement("R-30", "B-14")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "post"])
async def test_other_http_methods_are_405_with_allow_before_anything_else_is_read(
    mcp: Mcp, method: str
) -> None:
    answer = await mcp.send(Request(method, {"host": "evil.example.com"}, b"nonsense", "anonymous"))

    assert answer.status == 405
    assert answer.headers["allow"] == "POST"
    assert "id" not in answer.message


@pytest.mark.era_rows("modern", 9, 11)
@pytest.mark.requirement("R-30", "B-65")
async def test_session_and_event_id_headers_are_ignored_and_never_sent(mcp: Mcp) -> None:
    answer = await mcp.call("tools/list", headers={"mcp-session-id": "abc", "last-event-id": "7"})

    assert answer.status == 200
    assert set(answer.headers) == {"content-type"}
