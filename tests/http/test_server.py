"""The endpoint over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from adapter.tasks.model import Ending, Outcome
from tests.http.serving import Site, serving
from tests.support.adapter import PATIENCE, VERSION, Json, Mcp, read_event, tool, until
from tests.support.memory import MemoryEngine

OPEN = {"type": "object"}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    mcp = Mcp(
        tool(inline_wait="10s", input_schema=OPEN),
        tool("patient", inline_wait="10s", on_disconnect="continue"),
    )
    async with serving(mcp) as site:
        yield site


async def nobody_follows(site: Site) -> None:
    await until(lambda: not site.mcp.parts.watcher._watched)


@pytest.mark.requirement("R-33")
async def test_a_request_is_answered_with_one_json_object(site: Site) -> None:
    response = await site.post("tools/list", identifier="a")

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert int(response.headers["content-length"]) == len(response.content)
    assert response.json()["id"] == "a"


@pytest.mark.requirement("R-33", "R-14", "B-04")
async def test_a_notification_is_202_with_neither_body_nor_content_type(site: Site) -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    response = await site.client.post(site.url, json=body)

    assert (response.status_code, response.content) == (202, b"")
    assert "content-type" not in response.headers


@pytest.mark.requirement("R-30", "B-14")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD"])
async def test_other_methods_are_405_at_once_with_allow(site: Site, method: str) -> None:
    headers = {"accept": "text/event-stream", "last-event-id": "1", "mcp-session-id": "x"}

    response = await site.client.request(method, site.url, headers=headers)

    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert "mcp-session-id" not in response.headers
    if method != "HEAD":
        assert response.json()["error"]["code"] == -32600


@pytest.mark.requirement("R-45")
@pytest.mark.parametrize("path", ["/", "/mc", "/mcp/x", "/sse", "/messages", "/healthz/x", "/.well-known/x"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_unknown_path_is_404_with_a_json_rpc_body(site: Site, path: str, method: str) -> None:
    response = await site.client.request(method, f"http://127.0.0.1:{site.port}{path}")

    assert response.status_code == 404
    assert response.headers["content-type"] == "application/json"
    message = response.json()
    assert message["error"]["code"] == -32601
    assert "id" not in message


@pytest.mark.requirement("R-45", "R-12")
async def test_a_slash_at_the_end_makes_no_difference(site: Site) -> None:
    """And is not redirected: that would name the address behind a balancer, which is a plain http one."""
    request = site.mcp.request("tools/list")
    assert request.headers is not None
    headers = {name: value for name, value in request.headers.items() if name != "host"}
    response = await site.client.post(f"{site.url}/", content=request.body, headers=headers)
    assert response.status_code == 200
    assert response.json()["result"]["tools"]


async def test_an_unknown_method_is_404_with_its_json_rpc_error(site: Site) -> None:
    response = await site.post("prompts/list", identifier=7)

    assert response.status_code == 404
    assert response.json()["id"] == 7
    assert response.json()["error"]["code"] == -32601


async def test_a_health_check_needs_nothing(site: Site) -> None:
    response = await site.client.get(f"http://127.0.0.1:{site.port}/healthz", headers={"host": "10.0.0.7"})

    assert (response.status_code, response.text) == (200, "ok")


@pytest.mark.requirement("R-31")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example.com", "origin": "http://evil.example.com"}, 403),
        ({"origin": "http://evil.example.com"}, 403),
        ({"host": "localhost:8000", "origin": "http://localhost:8000"}, 200),
        ({"content-type": "text/plain"}, 415),
        ({"accept": "text/html"}, 406),
    ],
)
async def test_what_access_refuses_is_refused_here_too(
    site: Site, headers: dict[str, str], status: int
) -> None:
    request = site.mcp.request("tools/list", headers={"host": f"127.0.0.1:{site.port}", **headers})
    given = {name: value for name, value in (request.headers or {}).items() if value}

    response = await site.client.post(site.url, content=request.body, headers=given)

    assert response.status_code == status


@pytest.mark.requirement("R-35", "R-36", "R-37")
async def test_header_names_have_no_case_and_values_may_have_white_space(site: Site) -> None:
    raw = site.raw("tools/call", {"name": "job", "arguments": {}})
    raw = raw.replace(b"mcp-method: tools/call", b"MCP-Method:   tools/call \t").replace(
        b"mcp-name", b"MCP-NAME"
    )

    head, body = await exchange(site, raw)

    assert b" 200 " in head
    assert body["result"]["resultType"] == "task"


@pytest.mark.requirement("R-35")
async def test_a_header_sent_twice_does_not_pass_as_one(site: Site) -> None:
    raw = site.raw("tools/list").replace(b"mcp-method:", b"mcp-method: tools/list\r\nmcp-method:")

    head, body = await exchange(site, raw)

    assert b" 400 " in head
    assert body["error"]["code"] == -32020


@pytest.mark.requirement("R-39")
async def test_raw_bytes_in_a_header_are_refused(site: Site) -> None:
    raw = site.raw("tools/call", {"name": "job"}).replace(b"mcp-name: job", "mcp-name: jöb".encode())

    head, body = await exchange(site, raw)

    assert b" 400 " in head
    assert body["error"]["code"] == -32020


async def exchange(site: Site, raw: bytes) -> tuple[bytes, Json]:
    """Send these bytes; the head of the reply and its body."""
    async with site.connection() as (reader, writer), asyncio.timeout(PATIENCE):
        writer.write(raw)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        body: Json = json.loads(await reader.readexactly(length))
        return head, body


# --- bodies ---------------------------------------------------------------------------------------------


async def test_a_body_may_come_in_chunks(site: Site) -> None:
    request = site.mcp.request("tools/list")

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(request.body), 7):
            yield request.body[start : start + 7]

    response = await site.client.post(site.url, content=pieces(), headers=site.headers("tools/list", {}))

    assert response.status_code == 200
    assert response.json()["result"]["tools"]


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_413_and_read_no_further(chunked: bool) -> None:
    async with serving(Mcp(tool(), max_body_bytes=1000)) as site, site.connection() as (reader, writer):
        length = b"transfer-encoding: chunked" if chunked else b"content-length: 1000000000"
        writer.write(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n" + length + b"\r\n\r\n")
        piece = b" " * 600
        writer.write((b"258\r\n" + piece + b"\r\n" if chunked else piece) * 3)
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readuntil(b"}}")

    assert b" 413 " in head.split(b"\r\n")[0]
    assert json.loads(body)["error"]["code"] == -32600


@pytest.mark.parametrize(("size", "status"), [(1000, 200), (1001, 413)])
async def test_the_limit_itself_is_allowed(size: int, status: int) -> None:
    async with serving(Mcp(tool(), max_body_bytes=1000)) as site:
        request = site.mcp.request("tools/list")
        response = await site.client.post(
            site.url, content=request.body.ljust(size), headers=site.headers("tools/list", {})
        )

    assert response.status_code == status


async def test_a_client_that_leaves_while_it_sends_starts_nothing(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    raw = site.raw("tools/call", {"name": "job"})
    async with site.connection() as (_, writer):
        writer.write(raw[:-5])
        await writer.drain()

    assert (await site.post("tools/list")).status_code == 200
    assert site.mcp.engine.started == []
    assert "Exception" not in caplog.text


# --- calls and streams ----------------------------------------------------------------------------------


async def test_a_task_from_call_to_result(site: Site) -> None:
    created = (await site.post("tools/call", {"name": "job", "arguments": {"a": 1}})).json()["result"]
    task_id = created["taskId"]
    site.mcp.ask(task_id)
    asked = (await site.post("tasks/get", {"taskId": task_id})).json()["result"]
    update = {"taskId": task_id, "inputResponses": {"q": {"action": "decline"}}}
    updated = (await site.post("tasks/update", update)).json()["result"]
    site.mcp.end(task_id, '"done"')
    done = (await site.post("tasks/get", {"taskId": task_id})).json()["result"]

    assert [created["status"], asked["status"], done["status"]] == ["working", "input_required", "completed"]
    assert updated["resultType"] == "complete"
    assert done["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("R-33", "R-08")
async def test_many_requests_at_once_get_their_own_answers() -> None:
    engine = MemoryEngine(ends_at_once=lambda given: Outcome(Ending.SUCCEEDED, output=given.decode()))
    async with serving(Mcp(tool(inline_wait="10s", input_schema=OPEN), engine=engine)) as site:
        calls = [
            asyncio.create_task(
                site.post("tools/call", {"name": "job", "arguments": {"n": n}}, caps={}, identifier=n)
            )
            for n in range(20)
        ]
        lists = await asyncio.gather(*(site.post("tools/list", identifier=f"l{n}") for n in range(20)))
        await until(lambda: len(engine.started) == 20)
        site.mcp.clock.advance(61)
        answers = [response.json() for response in await asyncio.gather(*calls)]

    assert [r.json()["id"] for r in lists] == [f"l{n}" for n in range(20)]
    assert [a["id"] for a in answers] == list(range(20))
    assert [a["result"]["content"][0]["text"] for a in answers] == [f'{{"n":{n}}}' for n in range(20)]


@pytest.mark.requirement("R-42")
@pytest.mark.parametrize(("name", "stops"), [("job", 1), ("patient", 0)])
@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["json", "events"])
async def test_a_client_that_leaves_an_inline_call_cancels_it_as_the_tool_says(
    site: Site, name: str, stops: int, meta: Json, caplog: pytest.LogCaptureFixture
) -> None:
    async with site.connection() as (_, writer):
        writer.write(site.raw("tools/call", {"name": name}, caps={}, meta=meta))
        await until(lambda: bool(site.mcp.parts.watcher._watched))

    await nobody_follows(site)
    await until(lambda: len(site.mcp.engine.stopped) == stops)
    assert "Exception" not in caplog.text
    assert "failed" not in caplog.text


@pytest.mark.requirement("R-42", "B-37")
async def test_leaving_after_a_task_was_made_leaves_the_task(site: Site) -> None:
    async with site.connection() as (reader, writer):
        writer.write(site.raw("tools/call", {"name": "job"}))
        await reader.readuntil(b"\r\n\r\n")
    task_id = site.mcp.only_task

    assert (await site.post("tasks/get", {"taskId": task_id})).json()["result"]["status"] == "working"
    assert site.mcp.engine.stopped == []


@pytest.mark.requirement("R-41", "R-91", "R-95")
async def test_a_subscription_is_a_live_stream(site: Site) -> None:
    task_id = (await site.post("tools/call", {"name": "job"})).json()["result"]["taskId"]
    request = site.mcp.request("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
    headers = site.headers("subscriptions/listen", {})
    messages: list[Json] = []
    async with site.client.stream("POST", site.url, content=request.body, headers=headers) as response:
        async for event in events(response):
            messages.append(event)
            if len(messages) == 2:
                site.mcp.end(task_id)

    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["cache-control"] == "no-cache, no-transform"
    assert "content-length" not in response.headers
    methods = [message.get("method") for message in messages]
    assert methods == ["notifications/subscriptions/acknowledged", *["notifications/tasks"] * 2, None]


async def events(response: httpx.Response) -> AsyncIterator[Json]:
    buffer = b""
    async for piece in response.aiter_raw():
        buffer += piece
        while b"\n\n" in buffer:
            event, _, buffer = buffer.partition(b"\n\n")
            yield read_event(event + b"\n\n")


@pytest.mark.requirement("R-42")
async def test_a_listener_that_leaves_frees_its_followers(site: Site) -> None:
    task_id = (await site.post("tools/call", {"name": "job"})).json()["result"]["taskId"]
    async with site.connection() as (reader, writer):
        writer.write(site.raw("subscriptions/listen", {"notifications": {"taskIds": [task_id]}}))
        await reader.readuntil(b"notifications/tasks")
        assert site.mcp.parts.watcher._watched

    await nobody_follows(site)
    assert site.mcp.engine.stopped == []


async def test_a_shutdown_ends_open_streams_with_their_result() -> None:
    mcp = Mcp(tool())
    async with serving(mcp) as site:
        request = site.mcp.request("subscriptions/listen", {"notifications": {}})
        headers = site.headers("subscriptions/listen", {})
        messages: list[Json] = []
        async with site.client.stream("POST", site.url, content=request.body, headers=headers) as response:
            async for event in events(response):
                messages.append(event)
                mcp.parts.watcher.close()

    assert [message.get("method", "result") for message in messages] == [
        "notifications/subscriptions/acknowledged",
        "result",
    ]


# --- browsers, callers, paths ---------------------------------------------------------------------------

ORIGIN = "https://inspector.example.com"


def asks(origin: str) -> dict[str, str]:
    return {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "mcp-method,mcp-protocol-version,content-type",
    }


@pytest.mark.requirement("R-31")
@pytest.mark.parametrize("written", [ORIGIN, "https://Inspector.example.com/"])
async def test_allowed_origins_may_call_from_a_browser(written: str) -> None:
    async with serving(Mcp(tool(), allowed_origins=written), origins=[written]) as site:
        preflight = await site.client.options(site.url, headers=asks(ORIGIN))
        call = await site.post("tools/list", headers={"origin": ORIGIN})
        stranger = await site.client.options(site.url, headers=asks("https://evil.example.com"))
        get = await site.client.get(site.url, headers={"origin": ORIGIN})
        elsewhere = await site.client.get(f"{site.url}/other", headers={"origin": ORIGIN})

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == ORIGIN
    assert "mcp-method" in preflight.headers["access-control-allow-headers"]
    assert (call.status_code, call.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert call.headers["access-control-expose-headers"] == "Mcp-Session-Id, WWW-Authenticate"
    assert call.headers["vary"] == "Origin"
    assert stranger.status_code == 403
    assert "access-control-allow-origin" not in stranger.headers
    assert (get.status_code, get.headers["allow"]) == (405, "POST")
    assert (elsewhere.status_code, elsewhere.headers["access-control-allow-origin"]) == (404, ORIGIN)


async def test_without_origins_a_browser_is_told_nothing(site: Site) -> None:
    preflight = await site.client.options(site.url, headers=asks("http://localhost:3000"))

    assert preflight.status_code == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]


@pytest.mark.requirement("R-122", "R-117", "B-38")
async def test_tasks_belong_to_who_the_application_says_the_caller_is() -> None:
    def identify(scope: Any) -> str:
        return next((value.decode() for name, value in scope["headers"] if name == b"x-caller"), "nobody")

    async with serving(Mcp(tool()), identify=identify) as site:
        created = await site.post("tools/call", {"name": "job"}, headers={"x-caller": "ada"})
        task = {"taskId": created.json()["result"]["taskId"]}
        mine = await site.post("tasks/get", task, headers={"x-caller": "ada"})
        foreign = await site.post("tasks/get", task, headers={"x-caller": "mallory"})

    assert mine.json()["result"]["status"] == "working"
    assert foreign.json()["error"] == {"code": -32602, "message": "Task not found"}


@pytest.mark.requirement("B-12")
async def test_the_endpoint_can_have_another_path() -> None:
    async with serving(Mcp(tool()), path="/Prod/mcp") as site:
        site.url = f"http://127.0.0.1:{site.port}/Prod/mcp"
        there = await site.post("server/discover")
        site.url = f"http://127.0.0.1:{site.port}/mcp"
        gone = await site.post("server/discover")

    assert there.json()["result"]["supportedVersions"][0] == VERSION
    assert gone.status_code == 404
