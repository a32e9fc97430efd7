"""The legacy protocols through the real HTTP server: headers, event streams as bytes, lost connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from tests.http.serving import Site, serving
from tests.support.adapter import Json, Mcp, accepted, tool, until
from tests.support.legacy import CLIENT, FORMS, LATEST, Event, read_event

YES = accepted(sure=True)


class Client:
    """A bare client: what it does not send, nobody sends."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

    async def post(self, **message: Any) -> httpx.Response:
        return await self.site.client.post(
            self.site.url, json={"jsonrpc": "2.0", **message}, headers=self.headers
        )

    async def initialize(self, capabilities: Json) -> httpx.Response:
        params = {"protocolVersion": LATEST, "capabilities": capabilities, "clientInfo": CLIENT}
        reply = await self.post(id=0, method="initialize", params=params)
        self.headers |= {
            "mcp-session-id": reply.headers["mcp-session-id"],
            "mcp-protocol-version": reply.json()["result"]["protocolVersion"],
        }
        return reply

    async def start(self) -> str:
        reply = await self.post(id=1, method="tools/call", params={"name": "job", "task": {}})
        return str(reply.json()["result"]["task"]["taskId"])


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    mcp = Mcp(tool(inline_wait="20s"), legacy_hold=2)
    async with serving(mcp) as site:
        yield site


def events(reply: httpx.Response) -> list[Event]:
    assert reply.headers["content-type"] == "text/event-stream"
    return [read_event(chunk + b"\n\n") for chunk in reply.content.split(b"\n\n") if chunk]


@pytest.mark.requirement("L-01", "L-10", "L-16", "L-20", "L-46", "L-48")
async def test_a_task_from_initialize_to_a_resumed_result(site: Site) -> None:
    client, mcp = Client(site), site.mcp
    opened = await client.initialize(FORMS)
    noted = await client.post(method="notifications/initialized")
    task_id = await client.start()
    mcp.ask(task_id)

    first = events(await client.post(id="r", method="tasks/result", params={"taskId": task_id}))
    question = next(event.message for event in first if event.message and "id" in event.message)
    answered = await client.post(id=question["id"], result=YES)
    mcp.end(task_id, '"done"')
    resumed = events(
        await site.client.get(site.url, headers={**client.headers, "last-event-id": str(first[-1].id)})
    )

    assert opened.status_code == 200
    assert (noted.status_code, noted.content, "content-type" in noted.headers) == (202, b"", False)
    assert (answered.status_code, answered.content) == (202, b"")
    assert [bool(event.id) for event in (first[0], first[-1])] == [True, True]
    assert resumed[-1].message is not None
    assert resumed[-1].message["id"] == "r"
    assert resumed[-1].message["result"]["content"][0]["text"] == "done"
    assert mcp.given == {"q": YES}


@pytest.mark.requirement("L-19")
async def test_a_lost_connection_stops_no_plain_call(site: Site) -> None:
    client, mcp = Client(site), site.mcp
    await client.initialize({})
    calling = asyncio.create_task(client.post(id=1, method="tools/call", params={"name": "job"}))
    await until(lambda: bool(mcp.parts.watcher._watched))

    calling.cancel()
    await asyncio.wait({calling})
    await until(lambda: not mcp.parts.watcher._watched)

    assert mcp.engine.stopped == []
    assert (await client.post(id=2, method="ping")).json()["result"] == {}


@pytest.mark.requirement("L-60")
async def test_a_cancelled_plain_call_ends_with_an_empty_success(site: Site) -> None:
    client, mcp = Client(site), site.mcp
    await client.initialize({})
    calling = asyncio.create_task(client.post(id=1, method="tools/call", params={"name": "job"}))
    await until(lambda: bool(mcp.parts.watcher._watched))

    await client.post(method="notifications/cancelled", params={"requestId": 1})
    reply = await calling

    assert (reply.status_code, reply.content) == (202, b"")
    assert len(mcp.engine.stopped) == 1


@pytest.mark.requirement("L-17", "L-18", "B-14")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    "headers", [{}, {"accept": "text/event-stream"}, {"last-event-id": "unknown"}], ids=repr
)
async def test_get_without_an_event_of_ours_and_delete_are_405_at_once(
    site: Site, method: str, headers: Mapping[str, str]
) -> None:
    reply = await site.client.request(method, site.url, headers=headers)

    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
    assert "error" in reply.json()


@pytest.mark.requirement("L-16")
async def test_a_browser_may_resume_and_read_its_session_id() -> None:
    origin = {"origin": "http://localhost:3000"}
    asks = {
        **origin,
        "access-control-request-method": "GET",
        "access-control-request-headers": "last-event-id",
    }
    async with serving(Mcp(tool()), origins=["http://localhost:3000"]) as site:
        preflight = await site.client.options(site.url, headers=asks)
        client = Client(site)
        client.headers |= origin
        opened = await client.initialize({})

    assert preflight.status_code == 204
    assert "GET" in preflight.headers["access-control-allow-methods"]
    assert "Mcp-Session-Id" in opened.headers["access-control-expose-headers"]
