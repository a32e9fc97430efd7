"""The mcp function: which requests reach the endpoint, as whom, and what comes back."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator

import pytest

from adapter.mcp.exchange import Reply, Request
from lambdas.mcp import app
from lambdas.mcp.events import read_event
from tests.lambdas.hosting import ANONYMOUS_EVENTS, HTTP_EVENTS, Function, event, event_of
from tests.support.adapter import Mcp, tool

AUTHENTICATED_EVENTS = [name for name in HTTP_EVENTS if name not in ANONYMOUS_EVENTS]
RESOURCE = "https://mcp.example.com/mcp"
ISSUER = "https://login.example.com"
RENAMED = {
    *("authorization", "connection", "content-md5", "date"),
    *("max-forwards", "server", "user-agent", "www-authenticate"),
}
"""A REST API puts `x-amzn-Remapped-` before these names where a function returns them."""
FORGED = {
    "x-amzn-request-context": json.dumps({"authorizer": {"principalId": "admin"}}),
    "x-amzn-oidc-identity": "admin",
    "x-amz-user-agent": "admin",
    "x-forwarded-user": "admin",
    "authorization": "Bearer admin",
}


@pytest.fixture
def function() -> Iterator[Function]:
    with Function(tool()) as function:
        yield function


@pytest.fixture
def public() -> Iterator[Function]:
    """Who calls does not matter."""
    with Function(tool(), require_identity=False) as function:
        yield function


def _tools(function: Function, payload: object) -> list[str]:
    returned = function.invoke(payload)
    assert returned.status == 200, returned.body
    return [shown["name"] for shown in returned.message["result"]["tools"]]


# --- sources -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HTTP_EVENTS)
def test_a_request_is_answered_whatever_its_source(public: Function, name: str) -> None:
    assert _tools(public, event(name)) == ["job"]


@pytest.mark.parametrize("name", AUTHENTICATED_EVENTS)
def test_a_request_whose_caller_is_known_is_answered(function: Function, name: str) -> None:
    assert _tools(function, event(name)) == ["job"]


@pytest.mark.requirement("B-07")
def test_a_body_in_base64_is_answered(function: Function) -> None:
    body = b64encode(event("http_api_jwt")["body"].encode()).decode()
    assert _tools(function, event("http_api_jwt", body=body, isBase64Encoded=True)) == ["job"]


@pytest.mark.requirement("B-10")
@pytest.mark.parametrize("name", HTTP_EVENTS)
@pytest.mark.parametrize("value", ["John+Smith", "John%2BSmith", "%", "a%00b"])
def test_a_query_means_nothing(public: Function, name: str, value: str) -> None:
    query = {"rawQueryString": f"name={value}", "queryStringParameters": {"name": value}}
    assert _tools(public, event(name, **query)) == ["job"]
    several = {"queryStringParameters": None, "multiValueQueryStringParameters": {"name": [value, value]}}
    assert _tools(public, event(name, **several)) == ["job"]


@pytest.mark.requirement("B-04")
@pytest.mark.parametrize("name", HTTP_EVENTS)
def test_a_notification_gets_neither_body_nor_content_type(public: Function, name: str) -> None:
    returned = public.invoke(event(name, body='{"jsonrpc":"2.0","method":"notifications/initialized"}'))
    assert (returned.status, returned.body) == (202, "")
    assert not returned.raw.get("headers")
    assert not returned.raw.get("multiValueHeaders")


@pytest.mark.requirement("B-12")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/live/mcp", "/base/path/mcp"])
def test_a_stage_or_base_path_before_the_path_does_not_matter(function: Function, path: str) -> None:
    assert _tools(function, event("http_api_jwt", rawPath=path)) == ["job"]
    assert _tools(function, event("rest_cognito", path=path)) == ["job"]


@pytest.mark.parametrize("path", ["/", "/other", "/mcp/other", "/xmcp", "/mcp-", ""])
def test_there_is_nothing_at_other_paths(function: Function, path: str) -> None:
    returned = function.invoke(event("http_api_jwt", rawPath=path))
    assert (returned.status, returned.message["error"]["code"]) == (404, -32601)


@pytest.mark.requirement("B-12")
def test_the_path_can_be_another() -> None:
    with Function(tool(), path="/tools/mcp") as function:
        assert function.invoke(event("http_api_jwt")).status == 404
        assert _tools(function, event("http_api_jwt", rawPath="/live/tools/mcp")) == ["job"]


@pytest.mark.parametrize("payload", [None, {}, event("states_succeeded"), {"warm": True}])
def test_an_event_that_is_no_request_is_told_so(function: Function, payload: object) -> None:
    assert function.invoke(payload).status == 400
    assert function.opened == 0


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "PUT"])
def test_only_post_is_served(function: Function, method: str) -> None:
    payload = event("rest_cognito", httpMethod=method)
    returned = function.invoke(payload)
    assert (returned.status, returned.headers["allow"]) == (405, "POST")


@pytest.mark.requirement("B-14")
@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD"])
def test_a_probe_is_told_so_whether_or_not_its_caller_is_known(function: Function, method: str) -> None:
    before = function.time
    for name in ("rest_none", "rest_cognito", "rest_iam"):
        returned = function.invoke(event(name, httpMethod=method, body=None))
        assert (returned.status, returned.headers["allow"]) == (405, "POST")
        assert returned.message["error"]["code"] == -32600
    assert function.time == before, "nothing is waited for"


def test_who_is_not_known_comes_back_to_nothing(function: Function) -> None:
    payload = event("rest_none", httpMethod="GET", body=None)
    payload["headers"]["Last-Event-ID"] = "x"
    payload["multiValueHeaders"]["Last-Event-ID"] = ["x"]
    assert function.invoke(payload).status == 403


@pytest.mark.requirement("B-13")
def test_no_header_is_returned_that_a_gateway_would_rename(oauth: Function) -> None:
    metadata = {"path": "/.well-known/oauth-protected-resource", "httpMethod": "GET"}
    payloads = [
        *(event(name) for name in HTTP_EVENTS),
        *(event("rest_none", **changes) for changes in ({"httpMethod": "GET"}, {"path": "/x"}, metadata)),
        event("rest_cognito", body="{"),
        event("rest_cognito", headers=None, multiValueHeaders=None),
        event("rest_cognito", body='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'),
    ]
    replies = [oauth.invoke(payload) for payload in payloads]
    assert {reply.status for reply in replies} == {200, 400, 403, 404, 405, 415}
    for reply in replies:
        headers = reply.raw.get("headers") or reply.raw["multiValueHeaders"]
        assert not {name.lower() for name in headers} & RENAMED
        assert reply.status != 401, "the challenge is the gateway's to give"


@pytest.mark.requirement("B-08")
def test_requests_without_headers_are_refused_and_not_fatal(function: Function) -> None:
    returned = function.invoke(event("rest_cognito", headers=None, multiValueHeaders=None))
    assert (returned.status, returned.message["error"]["code"]) == (415, -32600)


def test_a_browser_origin_is_refused_unless_it_is_allowed() -> None:
    payload = event("http_api_jwt")
    payload["headers"]["origin"] = "https://inspector.example.com"
    with Function(tool(), allowed_hosts=("mcp.example.com",)) as strict:
        payload["headers"]["host"] = "mcp.example.com"
        assert strict.invoke(payload).status == 403
    with Function(tool(), allowed_origins=("https://inspector.example.com",)) as open_to_it:
        assert open_to_it.invoke(payload).status == 200


# --- identity ----------------------------------------------------------------------------------------------


def _callers(function: Function, payload: object) -> list[str]:
    seen: list[str] = []
    handle = function.mcp.parts.endpoint.handle

    async def noted(request: Request) -> Reply:
        seen.append(request.caller)
        return await handle(request)

    function.mcp.parts.endpoint.handle = noted  # type: ignore[method-assign]
    function.invoke(payload)
    return seen


@pytest.mark.parametrize("name", ANONYMOUS_EVENTS)
def test_a_request_whose_caller_the_gateway_does_not_name_is_refused(function: Function, name: str) -> None:
    returned = function.invoke(event(name))
    assert returned.status == 403
    assert returned.message["error"]["code"] == -32600


def test_without_required_identity_it_is_anonymous(public: Function) -> None:
    assert _callers(public, event("rest_none")) == ["anonymous"]


@pytest.mark.parametrize("name", HTTP_EVENTS)
def test_no_header_makes_a_caller(public: Function, name: str) -> None:
    (honest,) = _callers(public, event(name))
    payload = event(name)
    if "headers" in payload:
        payload["headers"] |= FORGED
    if "multiValueHeaders" in payload:
        payload["multiValueHeaders"] |= {header: [value] for header, value in FORGED.items()}
    assert set(_callers(public, payload)) == {honest}


@pytest.mark.parametrize("name", ANONYMOUS_EVENTS)
def test_forged_headers_do_not_open_the_door(function: Function, name: str) -> None:
    payload = event(name)
    payload.setdefault("headers", {}).update(FORGED)
    payload["authorizer"] = {"claims": {"iss": "x", "sub": "admin"}}
    payload["body"] = json.dumps({**json.loads(payload["body"]), "requestContext": {"authorizer": {}}})
    assert function.invoke(payload).status == 403


@pytest.mark.requirement("B-38")
def test_a_task_is_its_owners_alone(function: Function) -> None:
    created = function.call("tools/call", {"name": "job", "arguments": {}})
    task_id = created.message["result"]["taskId"]
    mine = function.call("tasks/get", {"taskId": task_id})
    assert mine.message["result"]["status"] == "working"
    theirs = function.call("tasks/get", {"taskId": task_id}, source="rest_cognito")
    unknown = function.call("tasks/get", {"taskId": "mcp-unknown"}, source="rest_cognito")
    assert theirs.message["error"] == unknown.message["error"]


# --- metadata ----------------------------------------------------------------------------------------------


@pytest.fixture
def oauth() -> Iterator[Function]:
    with Function(
        tool(), resource=RESOURCE, authorization_servers=(ISSUER,), scopes=("mcp:invoke",)
    ) as function:
        yield function


@pytest.mark.requirement("B-12", "B-13")
@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/prod/.well-known/oauth-protected-resource/prod/mcp",
    ],
)
def test_everybody_may_read_where_to_get_a_token(oauth: Function, path: str) -> None:
    payload = event("rest_none", path=path, httpMethod="GET", body=None)
    returned = oauth.invoke(payload)
    assert returned.status == 200
    assert returned.headers["access-control-allow-origin"] == "*"
    assert returned.headers["content-type"] == "application/json"
    assert returned.message == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["mcp:invoke"],
        "bearer_methods_supported": ["header"],
    }


def test_the_metadata_can_only_be_read(oauth: Function) -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    assert oauth.invoke(event("rest_cognito", path=path)).status == 405


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_an_authorization_server_there_is_no_metadata_and_no_back_door(
    public: Function, method: str
) -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    assert public.invoke(event("rest_none", path=path, httpMethod=method)).status == 404


def test_a_path_that_only_looks_like_the_metadata_is_none(oauth: Function) -> None:
    path = "/.well-known/oauth-protected-resources"
    assert oauth.invoke(event("rest_none", path=path, httpMethod="GET")).status == 404


# --- one container, many invocations -----------------------------------------------------------------------


@pytest.mark.requirement("B-61")
def test_a_hundred_invocations_share_one_loop_and_one_set_of_clients(function: Function) -> None:
    loops = set()
    for _ in range(100):
        assert _tools(function, event("http_api_jwt")) == ["job"]
        loops.add(function.run(_loop))
    assert (function.opened, len(loops)) == (1, 1)


async def _loop(_: Mcp) -> int:
    return id(asyncio.get_running_loop())


def test_an_invocation_after_one_that_failed_is_answered(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: Request) -> Reply:
        raise RuntimeError("out of order")

    with monkeypatch.context() as patch:
        patch.setattr(function.mcp.parts.endpoint, "handle", broken)
        with pytest.raises(RuntimeError, match="out of order"):
            function.invoke(event("http_api_jwt"))
    assert _tools(function, event("http_api_jwt")) == ["job"]
    assert function.opened == 1


def test_two_requests_at_once_on_one_loop_do_not_meet(function: Function) -> None:
    """Lambda never sends two at once, but what one leaves behind runs on during the next."""

    async def both(mcp: Mcp) -> list[int]:
        payloads = [event_of(mcp.request("tools/list", identifier=number)) for number in range(2)]
        replies = await asyncio.gather(
            *(app.answer(function._hosted, read_event(payload), 29.0) for payload in payloads)
        )
        return [json.loads(reply["body"])["id"] for reply in replies]

    assert function.run(both) == [0, 1]


# --- limits ------------------------------------------------------------------------------------------------


def test_a_reply_that_does_not_come_in_time_is_given_up(function: Function) -> None:
    async def hang(_: str) -> None:
        await asyncio.get_running_loop().create_future()

    function.mcp.store.read = hang  # type: ignore[method-assign,assignment]
    before = function.time
    request = function.mcp.request("tasks/get", {"taskId": "mcp-any"}, identifier="seven")
    returned = function.invoke(event_of(request), seconds=12)
    assert (returned.status, returned.message["error"]["code"]) == (504, -32603)
    assert returned.message["id"] == "seven"
    assert 11 < function.time - before < 12


def test_what_opening_takes_of_an_invocation_is_not_there_for_its_work() -> None:
    with Function(tool(), opening=4) as function:

        async def hang(_: Request) -> Reply:
            raise await asyncio.get_running_loop().create_future()

        function.mcp.parts.endpoint.handle = hang  # type: ignore[method-assign]
        returned = function.invoke(event("http_api_jwt"), seconds=12)
        assert returned.status == 504
        assert 11 < function.time < 12


def test_a_plain_call_in_an_invocation_that_opens_ends_in_time_too() -> None:
    with Function(tool(inline_wait="20s"), opening=4) as function:
        params = {"name": "job", "arguments": {}}
        request = function.mcp.request("tools/call", params, caps={})
        returned = function.invoke(event_of(request), seconds=12)
        assert returned.status == 200
        assert 9 < function.time <= 11


def test_an_invocation_without_time_left_is_given_up_at_once(function: Function) -> None:
    async def slow(_: Request) -> Reply:
        await asyncio.sleep(0.001)
        raise AssertionError("not reached")

    function.mcp.parts.endpoint.handle = slow  # type: ignore[method-assign]
    returned = function.invoke(event("http_api_jwt", body="[1,"), seconds=0.1)
    assert returned.status == 504
    assert "id" not in returned.message


@pytest.mark.parametrize("filler", ["x", '"', "\\", "\n"])
def test_a_reply_that_is_larger_than_lambda_takes_is_an_error(function: Function, filler: str) -> None:
    async def large(_: Request) -> Reply:
        size = app.MAX_REPLY_BYTES // len(json.dumps(filler)[1:-1])
        return Reply(200, {"content-type": "application/json"}, (filler * (size + extra)).encode())

    function.mcp.parts.endpoint.handle = large  # type: ignore[method-assign]
    extra = 1
    returned = function.invoke(event("http_api_jwt"))
    assert (returned.status, returned.message["error"]["code"]) == (500, -32603)
    assert returned.message["id"] == 7
    extra = 0
    assert function.invoke(event("http_api_jwt")).status == 200
