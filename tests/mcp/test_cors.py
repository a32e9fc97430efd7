"""What browsers are told: nothing, unless the page's origin is listed."""

from __future__ import annotations

import pytest

from adapter.mcp.cors import Cors
from tests.support.adapter import Json

ORIGIN = "https://inspector.example.com"
ASKED = "authorization,content-type,last-event-id,mcp-method,mcp-param-day,mcp-protocol-version"
PREFLIGHT = {
    "origin": ORIGIN,
    "access-control-request-method": "POST",
    "access-control-request-headers": ASKED,
}


def test_a_preflight_of_a_listed_origin_is_allowed_what_it_asks_for() -> None:
    reply = Cors([ORIGIN]).preflight("OPTIONS", PREFLIGHT)
    assert reply is not None
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["access-control-allow-headers"] == ASKED
    assert reply.headers["access-control-allow-methods"] == "GET, POST, DELETE"
    assert reply.headers["access-control-max-age"] == "3600"
    assert reply.headers["vary"] == "Origin, Access-Control-Request-Headers"


def test_a_preflight_that_asks_for_no_header_is_told_of_none() -> None:
    asked = {name: value for name, value in PREFLIGHT.items() if value != ASKED}
    reply = Cors([ORIGIN]).preflight("OPTIONS", asked)
    assert reply is not None
    assert "access-control-allow-headers" not in reply.headers


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example.com",
        "http://inspector.example.com",
        f"{ORIGIN}:8443",
        f"{ORIGIN}.evil.com",
        "null",
        "",
    ],
)
def test_a_preflight_of_another_origin_is_refused(origin: str) -> None:
    reply = Cors([ORIGIN]).preflight("OPTIONS", {**PREFLIGHT, "origin": origin})
    assert reply is not None
    assert reply.status == 403
    assert not [name for name in reply.headers if name.startswith("access-control")]
    assert isinstance(reply.body, bytes)
    assert b"ADAPTER_ALLOWED_ORIGINS" in reply.body


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", PREFLIGHT),
        ("OPTIONS", {"origin": ORIGIN}),
        ("OPTIONS", {"access-control-request-method": "POST"}),
        ("OPTIONS", {}),
    ],
)
def test_other_requests_are_no_preflights(method: str, headers: Json) -> None:
    assert Cors([ORIGIN]).preflight(method, headers) is None


def test_a_page_of_a_listed_origin_may_read_replies_and_the_headers_it_needs() -> None:
    assert Cors([ORIGIN]).headers({"origin": ORIGIN}) == {
        "access-control-allow-origin": ORIGIN,
        "access-control-expose-headers": "Mcp-Session-Id, WWW-Authenticate",
        "vary": "Origin",
    }


@pytest.mark.parametrize("asked", [{}, {"origin": "https://evil.example.com"}])
def test_others_are_told_only_that_the_origin_matters(asked: dict[str, str]) -> None:
    assert Cors([ORIGIN]).headers(asked) == {"vary": "Origin"}


@pytest.mark.parametrize("written", [f"{ORIGIN}/", "https://Inspector.Example.com", "*"])
def test_an_origin_counts_however_it_is_written(written: str) -> None:
    assert Cors([written]).headers({"origin": ORIGIN})["access-control-allow-origin"] == ORIGIN


def test_without_listed_origins_nothing_is_said() -> None:
    cors = Cors([])
    assert cors.preflight("OPTIONS", PREFLIGHT) is None
    assert cors.headers({"origin": ORIGIN}) == {}
