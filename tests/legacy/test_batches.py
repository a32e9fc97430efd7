"""Batches: 2025-03-26 takes them, no other version does."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from adapter.errors import StoreUnavailable
from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import PREFIX, VERSION, Mcp, tool
from tests.support.legacy import VERSIONS, LegacyClient, timed
from tests.support.memory import MemoryEngine
from tests.support.virtual_time import in_virtual_time

BATCHING = "2025-03-26"
PING: dict[str, Any] = {"jsonrpc": "2.0", "method": "ping"}
NOTIFICATION: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
RESPONSE: dict[str, Any] = {"jsonrpc": "2.0", "id": "x", "result": {}}


def request(identifier: object, method: str = "ping", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}


@pytest.fixture
def mcp() -> Mcp:
    engine = MemoryEngine(ends_at_once=lambda given: Outcome(Ending.SUCCEEDED, output=given.decode()))
    return Mcp(tool(input_schema={"type": "object"}), engine=engine)


async def batch(mcp: Mcp, values: list[Any], version: str = BATCHING) -> Any:
    """Status, and the messages of the reply."""
    client = await LegacyClient.opened(mcp, version)
    mcp.clock.advance(61)
    answer = await client.post(values)
    if answer.messages:
        assert answer.headers["content-type"] == "application/json"
    return answer.status, answer.messages


@pytest.mark.requirement("L-21")
@pytest.mark.era_rows("legacy", 16)
async def test_each_request_of_a_batch_gets_its_response_in_one_array(mcp: Mcp) -> None:
    values = [request(1), NOTIFICATION, request("two", "tools/list"), RESPONSE, request(3, "nothing/known")]

    status, messages = await batch(mcp, values)

    assert status == 200
    assert [message["id"] for message in messages] == [1, "two", 3]
    assert messages[0]["result"] == {}
    assert messages[1]["result"]["tools"][0]["name"] == "job"
    assert messages[2]["error"]["code"] == -32601


@pytest.mark.requirement("L-21")
async def test_a_batch_of_one_is_answered_with_an_array(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp, BATCHING)

    assert (await client.post([request(1)])).body == b'[{"jsonrpc":"2.0","id":1,"result":{}}]'


@pytest.mark.requirement("L-21", "L-10")
@pytest.mark.parametrize("values", [[NOTIFICATION], [RESPONSE], [NOTIFICATION, RESPONSE, NOTIFICATION]])
async def test_a_batch_without_requests_is_only_accepted(mcp: Mcp, values: list[Any]) -> None:
    assert await batch(mcp, values) == (202, [])


@pytest.mark.requirement("L-21")
async def test_initialize_is_never_part_of_a_batch(mcp: Mcp) -> None:
    opening = request(1, "initialize", protocolVersion=BATCHING, capabilities={})

    _, messages = await batch(mcp, [opening, request(2)])

    assert [(m["id"], m.get("error", {}).get("code")) for m in messages] == [(1, -32600), (2, None)]


@pytest.mark.requirement("L-21", "L-22")
async def test_what_is_no_message_costs_only_its_own_place(mcp: Mcp) -> None:
    values = [5, None, [request(8)], {"jsonrpc": "2.0", "id": 9}, {"id": None, "method": "x"}, request(1)]

    status, messages = await batch(mcp, values)

    assert status == 200
    assert [message["id"] for message in messages] == [None, None, None, 9, None, 1]
    assert {message["error"]["code"] for message in messages[:-1]} == {-32600}


@pytest.mark.requirement("L-21")
async def test_a_failure_costs_only_its_own_place(mcp: Mcp, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_task_id: str) -> None:
        raise KeyError("defect")

    monkeypatch.setattr(mcp.store, "create", broken)

    _, messages = await batch(mcp, [request(1, "tools/call", name="job"), request(2)])

    assert [(m["id"], "error" in m) for m in messages] == [(1, True), (2, False)]


@pytest.mark.requirement("L-21", "L-11")
async def test_a_busy_store_costs_only_its_own_place(mcp: Mcp, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreachable(*_: object, **__: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(mcp.store, "create", unreachable)

    _, messages = await batch(mcp, [request(1, "tools/call", name="job"), request(2)])

    assert [(m["id"], m.get("error", {}).get("code")) for m in messages] == [(1, -32603), (2, None)]


@pytest.mark.requirement("L-21")
@pytest.mark.parametrize("version", VERSIONS)
async def test_an_empty_batch_is_refused(mcp: Mcp, version: str) -> None:
    status, (message,) = await batch(mcp, [], version)

    assert (status, message["error"]["code"]) == (400, -32600)
    assert message.get("id", "left out") == ("left out" if version == VERSIONS[0] else None)


@pytest.mark.requirement("L-21")
@pytest.mark.era_rows("legacy", 16)
@pytest.mark.parametrize("version", VERSIONS[:2])
async def test_other_versions_take_no_batch(mcp: Mcp, version: str) -> None:
    status, (message,) = await batch(mcp, [request(1)], version)

    assert (status, message["error"]["code"]) == (400, -32600)


@pytest.mark.requirement("L-21")
@pytest.mark.parametrize(("count", "status"), [(50, 200), (51, 400)])
async def test_a_batch_is_bounded(mcp: Mcp, count: int, status: int) -> None:
    found, messages = await batch(mcp, [request(number) for number in range(count)])

    assert found == status
    assert len(messages) == (count if status == 200 else 1)


@pytest.mark.requirement("L-21")
@in_virtual_time
async def test_the_calls_of_a_batch_wait_at_the_same_time() -> None:
    mcp = timed(tool(inline_wait="20s"), companion_tools="on")
    client = await LegacyClient.opened(mcp, BATCHING)

    answer = await client.post([request(number, "tools/call", name="job") for number in range(3)])

    assert asyncio.get_running_loop().time() == pytest.approx(20, abs=0.5)
    assert len({message["result"]["content"][0]["text"] for message in answer.messages}) == 3


@pytest.mark.requirement("L-21")
async def test_a_modern_message_in_a_batch_is_judged_as_one(mcp: Mcp) -> None:
    meta = {PREFIX + "protocolVersion": VERSION, PREFIX + "clientCapabilities": {}}

    client = await LegacyClient.opened(mcp, BATCHING)
    sent = client.posted([request(1, "tools/list", _meta=meta), request(2)])

    reply = await mcp.parts.endpoint.handle(sent)

    assert isinstance(reply.body, bytes)
    modern, legacy = orjson.loads(reply.body)
    assert modern["error"]["code"] == -32020
    assert legacy["result"] == {}


@pytest.mark.requirement("L-21")
async def test_calls_in_a_batch_get_their_plain_results(mcp: Mcp) -> None:
    calls = [request(n, "tools/call", name="job", arguments={"n": n}) for n in range(3)]
    client = await LegacyClient.opened(mcp, BATCHING)
    calling = asyncio.create_task(client.post(calls))
    while not calling.done():
        mcp.clock.advance(61)
        await asyncio.wait({calling}, timeout=0.001)

    texts = [message["result"]["content"][0]["text"] for message in calling.result().messages]

    assert texts == ['{"n":0}', '{"n":1}', '{"n":2}']


@pytest.mark.requirement("L-21")
@in_virtual_time
async def test_in_a_batch_nothing_can_be_asked() -> None:
    params = {"messages": [], "maxTokens": 1}
    asks = {"model": {"method": "sampling/createMessage", "params": params}}
    mcp = timed(tool(before_start=[asks]), tool("later"), inline_wait_limit=20)
    client = await LegacyClient.opened(mcp, BATCHING, {"sampling": {}})
    calling = asyncio.create_task(
        client.post([request(1, "tools/call", name="job"), request(2, "tools/call", name="later")])
    )
    while not mcp.engine.started:
        await asyncio.wait({calling}, timeout=0.001)
    mcp.ask(mcp.only_task, params=params, method="sampling/createMessage")

    first, second = (await calling).messages

    assert "accepts no event stream" in first["result"]["content"][0]["text"]
    assert second["result"]["isError"] is True
    assert mcp.store.tasks[mcp.only_task].questions[0].offers == {}
