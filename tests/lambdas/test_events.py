"""What the function reads from the events of its four sources, and what it returns to each."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from lambdas.mcp.events import HttpEvent, UnknownEvent, read_event
from tests.lambdas.hosting import HTTP_EVENTS, event


@pytest.mark.parametrize("name", HTTP_EVENTS)
def test_every_source_gives_the_same_request(name: str) -> None:
    request = read_event(event(name))
    assert request.method == "POST"
    assert request.path.endswith("/mcp")
    assert request.headers["mcp-protocol-version"] == "2026-07-28"
    assert request.headers["mcp-method"] == "tools/list"
    assert request.headers["accept"] == "application/json, text/event-stream"
    assert json.loads(request.body)["method"] == "tools/list"
    assert request.context == event(name)["requestContext"]


@pytest.mark.requirement("B-07")
@pytest.mark.parametrize("name", HTTP_EVENTS)
def test_a_body_in_base64_is_the_same_body(name: str) -> None:
    body = json.dumps({"message": "Grüße ✓"}, ensure_ascii=False).encode()
    given = event(name, body=b64encode(body).decode(), isBase64Encoded=True)
    assert read_event(given).body == body


@pytest.mark.parametrize("name", HTTP_EVENTS)
@pytest.mark.parametrize("missing", [None, ""])
def test_a_request_without_a_body_has_an_empty_one(name: str, missing: str | None) -> None:
    assert read_event(event(name, body=missing)).body == b""


def test_what_is_no_base64_stays_for_the_endpoint_to_refuse() -> None:
    assert read_event(event("alb", body="{not base64}", isBase64Encoded=True)).body == b"{not base64}"


def test_half_a_character_in_a_body_stays_for_the_endpoint_to_refuse() -> None:
    assert read_event(event("alb", body="\ud800")).body == b"\xed\xa0\x80"


@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
@pytest.mark.parametrize("name", HTTP_EVENTS)
def test_names_of_headers_are_read_in_any_case(name: str, case: Any) -> None:
    given = event(name)
    for member in ("headers", "multiValueHeaders"):
        if member in given:
            given[member] = {case(header): value for header, value in given[member].items()}
    assert read_event(given).headers == read_event(event(name)).headers


@pytest.mark.requirement("B-08")
@pytest.mark.parametrize("name", HTTP_EVENTS)
def test_headers_may_be_null_or_missing(name: str) -> None:
    assert read_event(event(name, headers=None, multiValueHeaders=None)).headers == {}
    given = event(name)
    given.pop("headers", None)
    given.pop("multiValueHeaders", None)
    assert read_event(given).headers == {}


def test_a_header_without_a_value_is_not_there() -> None:
    given = event("rest_cognito", headers={"Origin": None, "Host": "a"}, multiValueHeaders={"Origin": None})
    assert read_event(given).headers == {"host": "a"}
    given = event("alb_multi_value", multiValueHeaders={"origin": [], "host": [None, "a"]})
    assert read_event(given).headers == {"host": "a"}


def test_values_of_a_header_sent_twice_are_joined() -> None:
    given = event("rest_cognito", headers={"Accept": "b"}, multiValueHeaders={"Accept": ["a", "b"]})
    assert read_event(given).headers == {"accept": "a, b"}
    assert read_event(event("http_api_jwt", headers={"X-One": "a", "x-one": "b"})).headers == {
        "x-one": "a, b"
    }


@pytest.mark.parametrize(
    "given",
    [
        None,
        "text",
        [],
        {},
        {"requestContext": None},
        {"requestContext": {}},
        {"requestContext": {}, "httpMethod": "GET"},
        {"requestContext": {"http": {}}, "rawPath": "/mcp"},
        {"requestContext": {"http": {"method": "GET"}}},
        {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}},
        event("states_succeeded"),
    ],
)
def test_other_events_are_no_http_requests(given: object) -> None:
    with pytest.raises(UnknownEvent):
        read_event(given)


# --- replies -----------------------------------------------------------------------------------------------


def _reply(name: str, status: int = 200) -> dict[str, Any]:
    headers = {"content-type": "application/json", "mcp-session-id": "mwa1.abc"}
    return read_event(event(name)).reply(status, headers, '{"text":"Grüße"}'.encode())


@pytest.mark.parametrize("name", [name for name in HTTP_EVENTS if not name.startswith("alb")])
def test_a_gateway_gets_its_reply(name: str) -> None:
    assert _reply(name) == {
        "statusCode": 200,
        "headers": {"content-type": "application/json", "mcp-session-id": "mwa1.abc"},
        "body": '{"text":"Grüße"}',
        "isBase64Encoded": False,
    }


def test_a_load_balancer_gets_a_description_of_the_status_too() -> None:
    reply = _reply("alb", 202)
    assert reply["statusDescription"] == "202 Accepted"
    assert reply["headers"]["mcp-session-id"] == "mwa1.abc"
    assert _reply("alb", 499)["statusDescription"] == "499 Unknown"


def test_a_load_balancer_that_sends_several_values_gets_several_values() -> None:
    reply = _reply("alb_multi_value")
    assert reply["multiValueHeaders"] == {
        "content-type": ["application/json"],
        "mcp-session-id": ["mwa1.abc"],
    }
    assert "headers" not in reply


def test_a_reply_of_the_function_is_json_throughout() -> None:
    request = read_event(event("alb"))
    assert isinstance(request, HttpEvent)
    assert json.loads(json.dumps(request.reply(202, {}, b"")))["body"] == ""
