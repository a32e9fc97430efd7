"""Web pages that call the mcp function: those of listed origins can, whatever the reply; others cannot read any."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lambdas.hosting import ANONYMOUS_EVENTS, HTTP_EVENTS, Function, Returned, event
from tests.support.adapter import tool

ORIGIN = "https://inspector.example.com"
EVIL = "https://evil.example.com"
METADATA = "/.well-known/oauth-protected-resource/mcp"
ASKED = "authorization,content-type,mcp-method,mcp-name,mcp-param-day,mcp-protocol-version,last-event-id"


@pytest.fixture
def function() -> Iterator[Function]:
    with Function(tool(), allowed_origins=(ORIGIN,)) as function:
        yield function


def _from(origin: str | None, name: str = "rest_cognito", **changes: Any) -> Any:
    """A page's request, as its source sends it."""
    payload = event(name, **changes)
    for member, value in (("headers", origin), ("multiValueHeaders", [origin])):
        if member in payload and origin is not None:
            payload[member] = {**payload[member], "Origin": value}
    return payload


def _preflight(origin: str, name: str = "rest_none", **changes: Any) -> Any:
    """No credentials and no body."""
    payload = _from(origin, name, body=None, **changes)
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": ASKED}
    if "headers" in payload:
        payload["headers"] |= asked
    if "multiValueHeaders" in payload:
        payload["multiValueHeaders"] |= {header: [value] for header, value in asked.items()}
    if "httpMethod" in payload:
        payload["httpMethod"] = "OPTIONS"
    else:
        payload["requestContext"]["http"]["method"] = "OPTIONS"
    return payload


def _headers(returned: Returned) -> dict[str, str]:
    several = returned.raw.get("multiValueHeaders")
    return {name: value for name, (value,) in several.items()} if several else dict(returned.headers)


def _told(returned: Returned) -> dict[str, str]:
    """What the reply says to a browser."""
    return {name: value for name, value in _headers(returned).items() if name.startswith("access-control")}


# --- preflights --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ANONYMOUS_EVENTS)
def test_a_preflight_needs_no_caller(function: Function, name: str) -> None:
    returned = function.invoke(_preflight(ORIGIN, name))
    assert (returned.status, returned.body) == (204, "")
    told = _told(returned)
    assert told["access-control-allow-origin"] == ORIGIN
    assert told["access-control-allow-headers"] == ASKED
    assert "POST" in told["access-control-allow-methods"]
    assert "Access-Control-Request-Headers" in _headers(returned)["vary"]


def test_a_preflight_of_another_origin_is_refused(function: Function) -> None:
    returned = function.invoke(_preflight(EVIL))
    assert (returned.status, _told(returned)) == (403, {})
    assert returned.message["error"]["code"] == -32600


def test_what_only_says_that_it_is_a_preflight_opens_no_door(function: Function) -> None:
    payload = _preflight(ORIGIN)
    payload["httpMethod"] = "POST"
    payload["body"] = event("rest_none")["body"]
    assert function.invoke(payload).status == 403


def test_without_allowed_origins_there_are_no_preflights() -> None:
    with Function(tool()) as function:
        returned = function.invoke(_preflight(ORIGIN, "rest_cognito"))
    assert (returned.status, _told(returned)) == (405, {})


# --- replies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in HTTP_EVENTS if name not in ANONYMOUS_EVENTS])
def test_a_page_of_an_allowed_origin_may_read_its_reply(function: Function, name: str) -> None:
    returned = function.invoke(_from(ORIGIN, name))
    assert returned.status == 200
    assert _told(returned) == {
        "access-control-allow-origin": ORIGIN,
        "access-control-expose-headers": "Mcp-Session-Id, WWW-Authenticate",
    }
    assert _headers(returned)["vary"] == "Origin"


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (_from(ORIGIN, "rest_none"), 403),
        (_from(ORIGIN, path="/other"), 404),
        (_from(ORIGIN, httpMethod="GET"), 405),
        (_from(ORIGIN, httpMethod="DELETE"), 405),
        (_from(ORIGIN, body="{"), 400),
        (_from(ORIGIN, path=METADATA), 404),
    ],
)
def test_a_page_may_read_what_is_wrong(function: Function, payload: Any, status: int) -> None:
    returned = function.invoke(payload)
    assert returned.status == status
    assert _told(returned)["access-control-allow-origin"] == ORIGIN


def test_a_page_may_read_that_time_or_room_was_not_enough(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("lambdas.mcp.app.MAX_REPLY_BYTES", 10)
        large = function.invoke(_from(ORIGIN))

    async def hang(_: object) -> None:
        await asyncio.get_running_loop().create_future()

    function.mcp.parts.endpoint.handle = hang  # type: ignore[method-assign,assignment]
    late = function.invoke(_from(ORIGIN), seconds=2)
    assert [each.status for each in (large, late)] == [500, 504]
    for each in (large, late):
        assert _told(each)["access-control-allow-origin"] == ORIGIN


@pytest.mark.parametrize(("origin", "status"), [(EVIL, 403), (None, 200)])
def test_nobody_else_is_told_anything(function: Function, origin: str | None, status: int) -> None:
    returned = function.invoke(_from(origin))
    assert (returned.status, _told(returned)) == (status, {})
    assert _headers(returned)["vary"] == "Origin"


def test_every_page_may_read_where_to_get_a_token() -> None:
    oauth = {
        "resource": "https://mcp.example.com/mcp",
        "authorization_servers": ("https://login.example.com",),
    }
    with Function(tool(), allowed_origins=(ORIGIN,), **oauth) as function:
        for origin in (ORIGIN, EVIL):
            returned = function.invoke(_from(origin, "rest_none", path=METADATA, httpMethod="GET", body=None))
            assert returned.status == 200
            assert _told(returned)["access-control-allow-origin"] == "*"
        assert function.invoke(_preflight(ORIGIN, path=METADATA)).status == 204
