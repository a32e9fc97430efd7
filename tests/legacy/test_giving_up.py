"""Plain calls whose client is gone: a lost connection continues, a cancellation stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapter.errors import EngineUnavailable
from tests.support.adapter import Json, Mcp, tool, until
from tests.support.legacy import FORMS, VERSIONS, LegacyClient
from tests.support.virtual_time import in_virtual_time

from .plain import CALL, quick, slow, started


def gone_while_waiting(mcp: Mcp, client: LegacyClient) -> Any:
    """A call on its way, and the event that says that its client has left."""
    request = client.request("tools/call", CALL, identifier="call")
    left = asyncio.Event()

    async def disconnected() -> None:
        await left.wait()

    request.disconnected = disconnected
    return asyncio.create_task(client.send(request)), left


@pytest.mark.requirement("L-19")
@pytest.mark.era_rows("legacy", 12)
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_disconnect_is_no_cancellation(version: str) -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp, version, FORMS)
    call, left = gone_while_waiting(mcp, client)
    task_id = await started(mcp)
    await until(lambda: mcp.followers > 0)

    left.set()
    await call
    mcp.ask(task_id)

    assert mcp.engine.stopped == []
    await until(lambda: not mcp.parts.watcher._watched)
    assert mcp.store.tasks[task_id].questions[0].offers == {}, "nobody is asked on a broken stream"


@pytest.mark.requirement("L-60")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("on_disconnect", "stops"), [("stop", 1), ("continue", 0)])
async def test_a_cancelled_plain_call_stops_its_work_as_the_tool_says(
    version: str, on_disconnect: str, stops: int
) -> None:
    mcp = Mcp(tool(inline_wait="20s", on_disconnect=on_disconnect))
    client = await LegacyClient.opened(mcp, version)
    call = asyncio.create_task(client.call("tools/call", CALL, identifier="call"))
    await started(mcp)
    await until(lambda: mcp.followers > 0)

    assert (await client.notify("notifications/cancelled", {"requestId": "call"})).status == 202
    answer = await call

    assert (answer.status, answer.body) == (202, b"")
    assert len(mcp.engine.stopped) == stops


@pytest.mark.requirement("L-60")
@in_virtual_time
async def test_a_call_that_was_resumed_can_be_cancelled_too() -> None:
    mcp = slow()
    client = await LegacyClient.opened(mcp)
    first = await client.call("tools/call", CALL, identifier="call")
    async with client.stream(client.coming_back(first.ids[-1]), "tools/call") as stream:
        reading = asyncio.create_task(stream.rest(bare=True))
        await asyncio.sleep(1)
        await client.notify("notifications/cancelled", {"requestId": "call"})
        await reading

    assert len(mcp.engine.stopped) == 1


@pytest.mark.requirement("L-60", "L-59")
@pytest.mark.parametrize(
    "params",
    [
        {"requestId": "other"},
        {"requestId": 1},
        {"requestId": None},
        {"requestId": ["call"]},
        {},
        None,
    ],
)
async def test_only_the_named_request_of_the_same_session_is_cancelled(params: Json | None) -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp)
    other = await LegacyClient.opened(mcp)
    call = asyncio.create_task(client.call("tools/call", CALL, identifier="call"))
    await started(mcp)
    await until(lambda: mcp.followers > 0)

    await client.notify("notifications/cancelled", params)
    for foreign in (other, LegacyClient(mcp)):
        await foreign.notify("notifications/cancelled", {"requestId": "call"})
    mcp.end(mcp.only_task, '"done"')

    assert (await call).text == "done"
    assert mcp.engine.stopped == []


@pytest.mark.requirement("L-60", "B-21")
async def test_ids_that_look_alike_are_told_apart() -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp)
    call = asyncio.create_task(client.call("tools/call", CALL, identifier=7))
    await started(mcp)

    for identifier in ("7", "007", " 7 ", "+7", 7.0, True):
        await client.notify("notifications/cancelled", {"requestId": identifier})
    mcp.end(mcp.only_task, '"done"')

    assert (await call).text == "done"


@pytest.mark.requirement("L-60")
async def test_of_two_calls_with_one_id_the_later_is_cancelled() -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp)
    first = asyncio.create_task(client.call("tools/call", CALL, identifier="call"))
    await until(lambda: mcp.followers == 1)
    second = asyncio.create_task(client.call("tools/call", CALL, identifier="call"))
    await until(lambda: mcp.followers == 2)
    one, two = mcp.store.tasks
    mcp.end(one, '"done"')
    assert (await first).text == "done"

    await client.notify("notifications/cancelled", {"requestId": "call"})
    await second

    assert mcp.engine.stopped == [mcp.execution(two)]


@pytest.mark.requirement("L-60")
async def test_a_cancellation_after_the_reply_never_touches_the_task_that_was_made() -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp)
    task_id = (await client.call("tools/call", {**CALL, "task": {}}, identifier="made")).result["task"][
        "taskId"
    ]

    await client.notify("notifications/cancelled", {"requestId": "made"})

    assert await client.status(task_id) == "working"
    assert mcp.engine.stopped == []


@pytest.mark.requirement("L-60")
async def test_a_stop_that_does_not_get_through_is_kept_as_a_wish(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mcp = quick()
    client = await LegacyClient.opened(mcp)

    async def unavailable(*_: object, **__: object) -> None:
        raise EngineUnavailable

    monkeypatch.setattr(mcp.engine, "stop", unavailable)
    call = asyncio.create_task(client.call("tools/call", CALL, identifier="call"))
    await started(mcp)
    await until(lambda: mcp.followers > 0)
    await client.notify("notifications/cancelled", {"requestId": "call"})
    await call

    assert mcp.store.tasks[mcp.only_task].cancel_requested_at is not None
    assert "not stopped yet" in caplog.text
