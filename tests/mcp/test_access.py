"""Host, origin, size, content type and Accept: what is refused before any JSON is read."""

from __future__ import annotations

import pytest

from tests.support.adapter import Mcp, tool

EVENTS = "text/event-stream"


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool())


async def status(mcp: Mcp, **headers: str | None) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await mcp.call("tools/list", headers=named)
    if answer.status != 200:
        assert answer.error["code"] == -32600
        assert "id" not in answer.message
    return answer.status


@pytest.mark.requirement("R-31")
@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000", "LOCALHOST:80", None],
)
async def test_loopback_names_are_served_by_default(mcp: Mcp, host: str | None) -> None:
    assert await status(mcp, host=host) == 200


@pytest.mark.requirement("R-31")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com",
        "evil.example.com:8000",
        "localhost.evil.example.com",
        "127.0.0.1.nip.io",
        "10.0.0.1",
        "[::2]:8000",
        "[::1",
        "::1",
        "",
        "0.0.0.0",
        "user@localhost",
    ],
)
async def test_other_hosts_are_refused_and_the_setting_is_named(mcp: Mcp, host: str) -> None:
    answer = await mcp.call("tools/list", headers={"host": host})

    assert answer.refusal == (403, -32600)
    assert "ADAPTER_ALLOWED_HOSTS" in answer.error["message"]


@pytest.mark.requirement("R-31")
@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:3000",
        "https://localhost",
        "http://127.0.0.1:6274",
        "http://[::1]:1",
        "HTTP://LOCALHOST",
        None,
    ],
)
async def test_loopback_origins_are_fine_by_default(mcp: Mcp, origin: str | None) -> None:
    assert await status(mcp, origin=origin) == 200


@pytest.mark.requirement("R-31")
@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:3000@evil.example.com",
        "http://localhost@evil",
        "https://evil.example.com",
        "http://localhost.evil.example.com",
        "http://evil.example.com:8000",
        "http://localhost@evil.example.com",
        "http://evil.example.com#localhost",
        "null",
        "",
        "localhost",
        "http://",
        "http://[::1",
        "http://[zz]",
        "file://",
    ],
)
async def test_other_origins_are_refused_and_the_setting_is_named(mcp: Mcp, origin: str) -> None:
    answer = await mcp.call("tools/list", headers={"origin": origin})

    assert answer.refusal == (403, -32600)
    assert "ADAPTER_ALLOWED_ORIGINS" in answer.error["message"]


@pytest.mark.requirement("R-31", "B-05")
async def test_hosts_behind_a_load_balancer_can_be_allowed() -> None:
    mcp = Mcp(tool(), allowed_hosts="mcp.example.com, Other.Example.Com")

    assert await status(mcp, host="mcp.example.com") == 200
    assert await status(mcp, host="other.example.com:443", origin="https://mcp.example.com") == 200
    assert await status(mcp, host="localhost") == 403


@pytest.mark.requirement("R-31", "B-05")
async def test_any_host_can_be_allowed_without_allowing_any_origin() -> None:
    mcp = Mcp(tool(), allowed_hosts="*")

    assert await status(mcp, host="anything.example.com") == 200
    assert await status(mcp, host="anything.example.com", origin="https://anything.example.com") == 403


@pytest.mark.requirement("R-31")
@pytest.mark.parametrize("written", ["https://inspector.example.com", "https://Inspector.example.com/"])
async def test_single_origins_can_be_allowed(written: str) -> None:
    mcp = Mcp(tool(), allowed_origins=written)

    assert await status(mcp, origin="https://inspector.example.com") == 200
    assert await status(mcp, origin="http://inspector.example.com") == 403
    assert await status(mcp, origin="https://inspector.example.com:8443") == 403


@pytest.mark.parametrize(
    ("listed", "sent"),
    [
        ("https://inspector.example.com:443", "https://inspector.example.com"),
        ("https://inspector.example.com", "https://inspector.example.com:443"),
        ("http://inspector.example.com:80", "http://inspector.example.com"),
    ],
)
async def test_the_port_that_a_scheme_implies_makes_no_difference(listed: str, sent: str) -> None:
    mcp = Mcp(tool(), allowed_origins=listed)
    assert await status(mcp, origin=sent) == 200


async def test_any_origin_can_be_allowed() -> None:
    mcp = Mcp(tool(), allowed_origins="*")

    assert await status(mcp, origin="https://anything.example.com") == 200
    assert await status(mcp, origin="null") == 200


@pytest.mark.requirement("R-32")
@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/json; charset=utf-8", "Application/JSON", " application/json ;x=y"],
)
async def test_json_is_taken_with_parameters_and_in_any_case(mcp: Mcp, content_type: str) -> None:
    assert await status(mcp, content_type=content_type) == 200


@pytest.mark.requirement("R-32")
@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "application/jsonp",
        "application/json5",
        "text/json",
        "application/json, text/plain",
    ],
)
async def test_another_content_type_is_415_and_says_what_to_send(mcp: Mcp, content_type: str | None) -> None:
    answer = await mcp.call("tools/list", headers={"content-type": content_type})

    assert answer.refusal == (415, -32600)
    assert "application/json" in answer.error["message"]


@pytest.mark.requirement("R-32", "B-15")
@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        "*/*",
        "application/json",
        "application/*",
        "text/event-stream",
        "text/*",
        "Application/JSON;q=0.5",
        "text/html, application/json",
        "text/html,*/*;q=0.1",
        "application/json, text/event-stream",
    ],
)
async def test_accept_is_read_leniently(mcp: Mcp, accept: str | None) -> None:
    assert await status(mcp, accept=accept) == 200


@pytest.mark.requirement("R-32")
@pytest.mark.parametrize(
    "accept", ["text/html", "application/xml", "image/*", "text/plain, application/xml", "json"]
)
async def test_only_a_client_that_can_take_neither_form_is_refused(mcp: Mcp, accept: str) -> None:
    answer = await mcp.call("tools/list", headers={"accept": accept})

    assert answer.refusal == (406, -32600)
    assert "application/json, text/event-stream" in answer.error["message"]


@pytest.mark.requirement("B-63")
async def test_accept_and_content_type_swapped_are_told_apart(mcp: Mcp) -> None:
    swapped = {"content-type": "application/json, text/event-stream", "accept": "application/json"}

    answer = await mcp.call("tools/list", headers={**swapped, "x-api-key": "abc"})

    assert answer.refusal == (415, -32600)
    assert "Content-Type: application/json" in answer.error["message"]


@pytest.mark.parametrize(("extra", "expected"), [(0, 200), (1, 413)])
async def test_a_body_over_the_limit_is_413(extra: int, expected: int) -> None:
    mcp = Mcp(tool(), max_body_bytes=2000)
    request = mcp.request("tools/list")
    request.body = request.body.ljust(2000 + extra)

    answer = await mcp.send(request)

    assert answer.status == expected
    assert expected == 200 or "2000" in answer.error["message"]


@pytest.mark.requirement("R-33", "R-41", "B-15")
@pytest.mark.parametrize(
    ("accept", "token", "form"),
    [
        ("application/json, text/event-stream", None, "application/json"),
        ("application/json, text/event-stream", "t", EVENTS),
        ("application/json", "t", "application/json"),
        (None, "t", "application/json"),
        ("text/event-stream", None, EVENTS),
        ("text/*", None, EVENTS),
        ("*/*", None, "application/json"),
        ("*/*", "t", EVENTS),
    ],
)
async def test_an_inline_call_is_answered_in_a_form_that_the_client_takes(
    accept: str | None, token: str | None, form: str
) -> None:
    mcp = Mcp(tool(inline_wait="0s"))

    answer = await mcp.call(
        "tools/call", {"name": "job"}, caps={}, headers={"accept": accept}, meta={"progressToken": token}
    )

    assert answer.headers["content-type"] == form
    assert answer.result["isError"] is True
