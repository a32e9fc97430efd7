from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from adapter.cli.authorization import Authorization, AwsSignature, BearerToken
from adapter.cli.client import (
    FORMS,
    TASKS,
    McpClient,
    NotAdmitted,
    RequestRefused,
    ServerUnreachable,
    UnfitReply,
    connected,
)
from adapter.cli.exits import CommandError

from .certificates import own_certificate

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def _client_of(handler: Handler, who: Authorization | None = None) -> AsyncIterator[McpClient]:
    """A client of a server that answers as the handler says."""
    application = web.Application()
    application.router.add_post("/mcp", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with connected(f"http://127.0.0.1:{port}/mcp", {**TASKS, **FORMS}, who) as client:
            yield client
    finally:
        await runner.cleanup()


def _answering(*results: dict[str, Any]) -> tuple[Handler, list[web.Request], list[Any]]:
    """A handler that gives these results in turn, and the requests and bodies that came."""
    waiting = list(results)
    requests: list[web.Request] = []
    bodies: list[Any] = []

    async def handler(request: web.Request) -> web.Response:
        body = await request.json()
        requests.append(request)
        bodies.append(body)
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], **waiting.pop(0)})

    return handler, requests, bodies


def _streaming(text: str, chunk: int = 10_000) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        raw = text.encode()
        for start in range(0, len(raw), chunk):
            await response.write(raw[start : start + chunk])
        await response.write_eof()
        return response

    return handler


async def test_each_request_says_who_calls_and_what_it_can_take() -> None:
    handler, requests, bodies = _answering({"result": {"taskId": "mcp-1", "status": "working"}})
    async with _client_of(handler) as client:
        await client.on_task("tasks/get", "mcp-1")
    meta = bodies[0]["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {
        "extensions": {"io.modelcontextprotocol/tasks": {}},
        "elicitation": {"form": {}, "url": {}},
    }
    names = ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")
    assert [requests[0].headers[name] for name in names] == ["2026-07-28", "tasks/get", "mcp-1"]


@pytest.mark.requirement("B-02")
async def test_all_pages_of_the_list_are_read() -> None:
    handler, _, bodies = _answering(
        {"result": {"tools": [{"name": "a", "inputSchema": {}}], "nextCursor": ""}},
        {"result": {"tools": [{"name": "b", "inputSchema": {}}], "nextCursor": None}},
    )
    async with _client_of(handler) as client:
        assert [tool["name"] for tool in await client.tools()] == ["a", "b"]
    assert bodies[1]["params"]["cursor"] == ""


async def test_a_list_without_an_end_is_given_up() -> None:
    handler, _, bodies = _answering(*[{"result": {"tools": [], "nextCursor": "x"}}] * 100)
    async with _client_of(handler) as client:
        assert await client.tools() == []
    assert len(bodies) == 100


async def test_a_streamed_reply_is_read_with_its_notifications() -> None:
    long = "x" * 300_000
    notification = {"method": "notifications/progress", "params": {"progress": 1, "message": long}}
    reply = {"id": 1, "result": {"content": []}}
    text = f": hello\r\n\r\nevent: message\r\ndata: {json.dumps(notification)}\r\n\r\ndata: {json.dumps(reply)}\n\n"
    told: list[Any] = []
    async with _client_of(_streaming(text)) as client:
        tool = {"name": "a", "inputSchema": {"type": "object"}}
        assert await client.call_tool(tool, {}, on_notification=told.append) == {"content": []}
    assert told == [notification]


async def test_data_on_several_lines_is_one_message_wherever_the_chunks_end() -> None:
    text = 'event: message\ndata: {"id": 1,\ndata: "result": {"é": 1}}\n\n'
    async with _client_of(_streaming(text, chunk=7)) as client:
        assert await client.request("tools/list", {}) == {"é": 1}


async def test_a_notification_that_nobody_wants_is_passed_over() -> None:
    text = 'data: {"method": "notifications/message", "params": {}}\n\ndata: {"id": 1, "result": {}}\n\n'
    async with _client_of(_streaming(text)) as client:
        assert await client.request("tools/list", {}) == {}


async def test_a_stream_that_ends_without_a_reply_may_be_tried_again() -> None:
    async with _client_of(_streaming(": nothing\n\n")) as client:
        with pytest.raises(ServerUnreachable, match="closed the connection without a reply") as lost:
            await client.request("tools/list", {})
    assert lost.value.passing


@pytest.mark.parametrize(("status", "passing"), [(200, False), (404, False), (429, True), (503, True)])
async def test_a_reply_that_is_no_message_is_told_by_its_status(status: int, passing: bool) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"hello": "world"}, status=status)

    async with _client_of(handler) as client:
        with pytest.raises(ServerUnreachable, match=f"HTTP {status} without an MCP message") as lost:
            await client.request("tools/list", {})
    assert lost.value.passing is passing
    assert ("its log may say why" in str(lost.value)) is (status >= 500)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            '{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Missing Authentication Token"}}',
            "Missing",
        ),
        ('{"message": "Forbidden"}', "Forbidden"),
        ('{"error": "invalid_token"}', "invalid_token"),
        ("<html>no</html>", "no reason given"),
    ],
)
async def test_who_is_not_admitted_learns_how_to_say_who_calls(status: int, body: str, reason: str) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text=body, status=status, content_type="application/json")

    async with _client_of(handler) as client:
        with pytest.raises(NotAdmitted, match=rf"HTTP {status} \({reason}.*--iam.*ADAPTER_TOKEN"):
            await client.request("tools/list", {})


async def test_a_host_that_does_not_exist_is_told_as_that() -> None:
    async with connected("http://no-such-host.invalid/mcp", TASKS) as client:
        with pytest.raises(ServerUnreachable, match="there is no host of that name"):
            await client.request("tools/list", {})


async def _refusal(url: str) -> ServerUnreachable:
    async with connected(url, TASKS) as client:
        with pytest.raises(ServerUnreachable) as refused:
            await client.request("tools/list", {})
    return refused.value


@contextmanager
def _port(reply: bytes, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server that takes one connection, gives this reply, and waits until the client goes."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            talking = tls.wrap_socket(connection, server_side=True) if tls else connection
            with talking:
                talking.recv(1)
                talking.sendall(reply)
                while talking.recv(65536):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(60)


async def test_a_certificate_that_nobody_vouches_for_is_told_as_that(tmp_path: Path) -> None:
    with _port(b"", own_certificate(tmp_path)) as port:
        refusal = await _refusal(f"https://127.0.0.1:{port}/mcp")
    assert "certificate verify failed: self-signed certificate" in str(refusal)


async def test_tls_to_a_server_that_speaks_none_is_told_as_that() -> None:
    with _port(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        refusal = await _refusal(f"https://127.0.0.1:{port}/mcp")
    assert "the server speaks no TLS here, perhaps the URL begins with http://" in str(refusal)


async def test_a_server_that_wants_a_certificate_of_ours_is_told_as_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = own_certificate(tmp_path)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    trusting = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
    with _port(b"", tls) as port:
        refusal = await _refusal(f"https://127.0.0.1:{port}/mcp")
    assert "TLS failed: " in str(refusal)


async def test_a_server_that_says_nothing_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapter.cli.client._SILENCE_SECONDS", 0.05)
    with _port(b"") as port:
        refusal = await _refusal(f"http://127.0.0.1:{port}/mcp")
    assert str(refusal).endswith("/mcp: no answer in time")


@pytest.mark.parametrize(
    ("who", "remedy"), [(BearerToken("abc"), "ADAPTER_TOKEN"), (AwsSignature(), "execute-api:Invoke")]
)
async def test_who_is_refused_with_a_proof_learns_what_to_look_at(
    who: Authorization, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=403)

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "eu-west-1")
    async with _client_of(handler, who) as client:
        with pytest.raises(NotAdmitted, match=remedy) as told:
            await client.request("tools/list", {})
    assert "--iam" not in str(told.value)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_told_and_not_followed(status: int) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status, headers={"Location": "https://elsewhere.example.com/mcp"})

    async with _client_of(handler) as client:
        with pytest.raises(ServerUnreachable, match=r"redirects to https://elsewhere.*--url") as told:
            await client.request("tools/list", {})
    assert (asked, told.value.passing) == (["/mcp"], False)


async def test_a_connection_that_breaks_is_unreachable() -> None:
    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with _client_of(handler) as client:
        with pytest.raises(ServerUnreachable, match="cannot reach"):
            await client.request("tools/list", {})


@pytest.mark.parametrize(("code", "passing"), [(-32602, False), (-32603, True)])
async def test_an_error_keeps_its_code_and_message(code: int, passing: bool) -> None:
    handler, _, _ = _answering({"error": {"code": code, "message": "no", "data": {"a": 1}}})
    async with _client_of(handler) as client:
        with pytest.raises(RequestRefused) as refused:
            await client.request("tools/list", {})
    problem = refused.value
    assert (problem.rpc_code, problem.rpc_message, problem.data) == (code, "no", {"a": 1})
    assert problem.passing is passing


_NO_MESSAGE = "the server answered HTTP 200 without an MCP message"
_TASK = {"resultType": "task", "taskId": "t", "status": "working"}
_ASKING = {"resultType": "input_required"}


def _form(**schema: Any) -> dict[str, Any]:
    return {"q": {"method": "elicitation/create", "params": {"requestedSchema": schema}}}


@pytest.mark.parametrize(
    "message",
    [
        {"error": "not found"},
        {"error": None},
        {"error": [1]},
        {"error": {"code": "x"}},
        {"error": {"message": 5}},
        {"result": 5},
        {"result": None},
        {"method": 5},
        {"method": "notifications/progress", "params": 5},
        [1],
        5,
        None,
        "text",
    ],
)
async def test_json_that_is_no_message_is_told_as_that(message: Any) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response(message)

    async with _client_of(handler) as client:
        with pytest.raises(ServerUnreachable, match=_NO_MESSAGE) as told:
            await client.request("tools/list", {})
    assert (told.value.code, told.value.passing) == (5, False)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ({}, "tools: Field required"),
        ({"tools": "all"}, "tools: "),
        ({"tools": [5]}, "tools.0: Input should be a valid dictionary$"),
        ({"tools": [{"inputSchema": {}}]}, "tools.0.name: Field required"),
        ({"tools": [{"name": "a"}]}, "tools.0.inputSchema: Field required"),
        ({"tools": [{"name": "a", "inputSchema": []}]}, "tools.0.inputSchema: "),
        ({"tools": [], "nextCursor": 5}, "nextCursor: "),
    ],
)
async def test_a_list_that_is_otherwise_than_prescribed_is_told(page: Any, told: str) -> None:
    handler, _, _ = _answering({"result": page})
    async with _client_of(handler) as client:
        with pytest.raises(UnfitReply, match=f"answered tools/list not as MCP prescribes: {told}") as unfit:
            await client.tools()
    assert (unfit.value.code, unfit.value.passing) == (5, False)


@pytest.mark.parametrize(
    "result",
    [
        {"resultType": "task", "status": "working"},
        {"resultType": "task", "taskId": 5, "status": "working"},
        {"resultType": "task", "taskId": "t"},
        {**_TASK, "status": "asleep"},
        {**_TASK, "statusMessage": 5},
        {**_TASK, "inputRequests": 5},
        {**_TASK, "inputRequests": {"q": 5}},
        {**_TASK, "inputRequests": {"q": {}}},
        {**_TASK, "status": "completed", "result": 5},
        {**_TASK, "status": "failed", "error": "no"},
        {**_ASKING, "inputRequests": []},
        {**_ASKING, "requestState": 5},
        {**_ASKING, "inputRequests": {"q": {"method": "elicitation/create", "params": []}}},
        {
            **_ASKING,
            "inputRequests": {"q": {"method": "elicitation/create", "params": {"url": "http://[::1"}}},
        },
        {**_ASKING, "inputRequests": _form(properties=[])},
        {**_ASKING, "inputRequests": _form(required=5)},
        {**_ASKING, "inputRequests": _form(properties={"x": 5})},
        {**_ASKING, "inputRequests": _form(properties={"x": {"enum": 5}})},
        {**_ASKING, "inputRequests": _form(properties={"x": {"oneOf": [5]}})},
        {**_ASKING, "inputRequests": _form(properties={"x": {"type": "array", "items": 5}})},
        {"content": "text"},
        {"content": ["text"]},
        {"content": [], "isError": "no"},
        {"content": [{"type": "resource", "resource": 5}]},
    ],
)
async def test_a_call_answered_otherwise_than_prescribed_is_told(result: Any) -> None:
    handler, _, _ = _answering({"result": result})
    async with _client_of(handler) as client:
        with pytest.raises(UnfitReply, match="answered tools/call not as MCP prescribes: "):
            await client.call_tool({"name": "a", "inputSchema": {}}, {})


async def test_a_task_seen_again_is_checked_too_and_the_reply_to_a_wish_may_be_anything() -> None:
    handler, _, _ = _answering({"result": {}}, {"result": {}})
    async with _client_of(handler) as client:
        assert await client.on_task("tasks/cancel", "t") == {}
        with pytest.raises(UnfitReply, match="answered tasks/get not as MCP prescribes: taskId: "):
            await client.on_task("tasks/get", "t")


@pytest.mark.parametrize(
    "result",
    [
        {**_TASK, "ttlMs": None, "statusMessage": None, "other": [1]},
        {**_ASKING, "inputRequests": {"q": {"method": "roots/list"}}},
        {**_ASKING, "inputRequests": _form(properties={"x": {"type": "array", "items": {"enum": ["a"]}}})},
        {"content": [], "structuredContent": [1], "resultType": "complete"},
        {},
    ],
)
async def test_what_can_be_relied_on_arrives_as_it_was_sent(result: Any) -> None:
    handler, _, _ = _answering({"result": result})
    async with _client_of(handler) as client:
        assert await client.call_tool({"name": "a", "inputSchema": {}}, {}) == result


async def test_arguments_are_mirrored_in_headers_as_the_schema_says() -> None:
    handler, requests, _ = _answering({"result": {}})
    properties = {
        "city": {"type": "string", "x-mcp-header": "City"},
        "fast": {"type": "boolean", "x-mcp-header": "Fast"},
        "left": {"type": "string", "x-mcp-header": "Left"},
        "where": {"type": "object", "properties": {"zip": {"type": "integer", "x-mcp-header": "Zip"}}},
    }
    tool = {"name": "a", "inputSchema": {"type": "object", "properties": properties}}
    arguments = {"city": " Köln", "fast": True, "left": None, "where": {"zip": 50667}}
    async with _client_of(handler) as client:
        await client.call_tool(tool, {"arguments": arguments})
    headers = requests[0].headers
    assert headers["Mcp-Param-City"] == "=?base64?IEvDtmxu?="
    assert (headers["Mcp-Param-Fast"], headers["Mcp-Param-Zip"]) == ("true", "50667")
    assert "Mcp-Param-Left" not in headers


async def test_a_tool_with_a_broken_header_annotation_cannot_be_called() -> None:
    handler, requests, _ = _answering()
    schema = {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}}
    async with _client_of(handler) as client:
        with pytest.raises(CommandError, match="tool 'a' cannot be called: x: x-mcp-header needs type"):
            await client.call_tool({"name": "a", "inputSchema": schema}, {"arguments": {"x": 1}})
    assert requests == []


async def test_a_call_tells_when_the_server_may_have_got_it() -> None:
    handler, requests, _ = _answering({"result": {"content": []}})
    sent: list[int] = []
    async with _client_of(handler) as client:
        tool = {"name": "a", "inputSchema": {"type": "object"}}
        await client.call_tool(tool, {}, on_sent=lambda: sent.append(len(requests)))
    assert sent == [0]


async def test_a_call_without_a_connection_is_not_sent() -> None:
    sent: list[bool] = []
    async with connected("http://127.0.0.1:9/mcp", TASKS) as client:
        with pytest.raises(ServerUnreachable):
            await client.call_tool({"name": "a", "inputSchema": {}}, {}, on_sent=lambda: sent.append(True))
    assert sent == []
