"""Work that outlasts a plain call: it goes on in the background, or is stopped where nothing can continue it."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from adapter.errors import StoreUnavailable
from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import TASKS, Json, Mcp, tool, until
from tests.support.legacy import LATEST, LegacyClient, timed
from tests.support.virtual_time import in_virtual_time

from .host import ERAS, Host, background, text

OBJECT: Json = {"type": "object", "properties": {"rows": {"type": "integer"}}}


# --- it goes on -----------------------------------------------------------------------------------------


@pytest.mark.requirement("L-33", "R-102")
@pytest.mark.parametrize("era", ERAS)
async def test_the_result_says_that_it_goes_on_and_how_to_follow_it(era: str) -> None:
    mcp = background(tool(inline_wait="0s", title="Nightly report"))
    host = Host(mcp, era)

    result = await host.call("job")

    assert result.keys() == {"content"}, "it is no error"
    words = text(result)
    for expected in (
        "Nightly report is still running",
        "do not call it again",
        f'task_result with {{"task_id": "{mcp.only_task}"}}',
        "task_status",
        "task_cancel",
    ):
        assert expected in words
    assert mcp.engine.stopped == []
    mcp.end(mcp.only_task, '"done"')
    assert text(await host.call("task_result", task_id=mcp.only_task)) == "done"


@pytest.mark.requirement("B-45")
@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_with_an_output_schema_goes_on_with_a_result_that_clients_accept(era: str) -> None:
    mcp = background(tool(inline_wait="0s", output_schema=OBJECT))

    result = await Host(mcp, era).call("job")

    assert result["isError"] is True, "only error results may go without structured content"
    assert "still running" in text(result)
    assert mcp.engine.stopped == []


@pytest.mark.parametrize(
    ("wait", "limit", "left", "waits"),
    [("7s", 25.0, None, 7), ("60s", 25.0, None, 25), ("60s", 25.0, 11.0, 10), ("60s", 25.0, 0.5, 0)],
)
@in_virtual_time
async def test_the_shortest_of_tool_server_and_transport_bounds_the_wait(
    wait: str, limit: float, left: float | None, waits: int
) -> None:
    mcp = timed(tool(inline_wait=wait), inline_wait_limit=limit, companion_tools="on")
    client = LegacyClient(mcp, "2025-06-18", seconds_left=left)

    answer = await client.call("tools/call", {"name": "job"})

    assert asyncio.get_running_loop().time() == pytest.approx(waits, abs=0.5)
    assert "is still running after" in answer.text


async def test_a_tool_that_takes_no_task_goes_on_too() -> None:
    mcp = background(tool(inline_wait="0s", task_support="forbidden"))

    result = await mcp.call("tools/call", {"name": "job"}, caps=TASKS)

    assert "still running" in result.text


async def test_many_waiting_hosts_share_the_reads_of_a_job() -> None:
    mcp = background(tool(inline_wait="0s"), watch_max=0.2)
    host = Host(mcp)
    await host.call("job")
    waiting = [asyncio.create_task(host.call("task_result", task_id=mcp.only_task)) for _ in range(40)]
    await until(lambda: mcp.followers == 40)
    mcp.store.reads = 0
    await until(lambda: mcp.store.reads >= 2)
    shared = mcp.store.reads
    mcp.end(mcp.only_task, '"done"')

    assert {text(result) for result in await asyncio.gather(*waiting)} == {"done"}
    assert shared <= 3


# --- it is stopped --------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_without_companions_it_is_stopped_and_told_as_an_error(era: str) -> None:
    mcp = Mcp(tool(inline_wait="0s"))

    result = await Host(mcp, era).call("job")

    assert result["isError"] is True
    assert "was told to stop" in text(result)
    assert "client that supports tasks" in text(result)
    assert mcp.engine.stopped == [mcp.execution(mcp.only_task)]


@pytest.mark.parametrize("era", ERAS)
async def test_a_job_that_wins_against_its_stop_counts(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = Mcp(tool(inline_wait="0s"))

    async def stop(execution: str, **_: str) -> None:
        mcp.engine.end(execution, Outcome(Ending.SUCCEEDED, output='"just in time"'))

    monkeypatch.setattr(mcp.engine, "stop", stop)

    assert text(await Host(mcp, era).call("job")) == "just in time"


@pytest.mark.requirement("L-41", "B-30")
@pytest.mark.parametrize("era", ERAS[2:])
async def test_a_tool_that_requires_a_task_starts_nothing_for_hosts_without(era: str) -> None:
    mcp = background(tool(inline_wait="0s", task_support="required"))

    result = await Host(mcp, era).call("job")

    assert result["isError"] is True
    assert mcp.engine.started == []


# --- task_after -----------------------------------------------------------------------------------------


def prompt(**members: Any) -> Mcp:
    return Mcp(tool(**{"task_after": "10s", **members}), inline_wait_limit=20)


async def called(mcp: Mcp, **options: Any) -> Json:
    """The result of a call of a client that takes tasks, whose job ends while it waits."""
    call = asyncio.create_task(mcp.call("tools/call", {"name": "job"}, **{"caps": TASKS, **options}))
    await until(lambda: bool(mcp.engine.started) or call.done())
    if not call.done():
        mcp.end(mcp.only_task, '"done"')
    return (await call).result


@pytest.mark.requirement("R-104", "R-102", "B-42")
async def test_a_job_that_ends_within_task_after_gives_its_plain_result() -> None:
    result = await called(prompt())

    assert result["resultType"] == "complete"
    assert result["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.requirement("R-104")
@pytest.mark.parametrize(
    "members", [{"task_after": "0s"}, {"task_support": "required"}, {"task_after": "10ms"}], ids=str
)
async def test_otherwise_the_handle_is_given(members: Json) -> None:
    mcp = prompt(**members)

    result = (await mcp.call("tools/call", {"name": "job"}, caps=TASKS)).result

    assert result["resultType"] == "task"
    assert (await mcp.get(result["taskId"]))["status"] == "working"
    assert mcp.engine.stopped == []


@pytest.mark.requirement("R-111")
async def test_a_failure_within_task_after_is_an_error_result() -> None:
    mcp = prompt()
    call = asyncio.create_task(mcp.call("tools/call", {"name": "job"}, caps=TASKS))
    await until(lambda: bool(mcp.engine.started))
    mcp.end(mcp.only_task, ending=Ending.FAILED, error="Boom")

    assert (await call).result["isError"] is True


@pytest.mark.requirement("R-13")
async def test_a_json_rpc_error_within_task_after_is_one() -> None:
    mcp = prompt()
    call = asyncio.create_task(mcp.call("tools/call", {"name": "job"}, caps=TASKS))
    await until(lambda: bool(mcp.engine.started))
    mcp.end(mcp.only_task, ending=Ending.FAILED, error="McpError", cause='{"code":7,"message":"No"}')

    assert (await call).error == {"code": 7, "message": "No"}


@in_virtual_time
async def test_task_after_is_bounded_by_server_and_transport() -> None:
    mcp = timed(tool(task_after="60s"), inline_wait_limit=20)
    for left, waits in ((None, 20), (11.0, 10)):
        before = asyncio.get_running_loop().time()
        request = mcp.request("tools/call", {"name": "job"}, caps=TASKS, seconds_left=left)
        reply = await mcp.parts.endpoint.handle(request)
        assert isinstance(reply.body, bytes)
        assert orjson.loads(reply.body)["result"]["resultType"] == "task"
        assert asyncio.get_running_loop().time() - before == pytest.approx(waits, abs=0.5)


async def test_a_store_that_fails_during_task_after_gives_the_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = prompt()

    async def unreachable(_task_id: str) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(mcp.store, "read", unreachable)

    assert (await mcp.call("tools/call", {"name": "job"}, caps=TASKS)).result["resultType"] == "task"


@pytest.mark.requirement("R-42")
@pytest.mark.parametrize(("on_disconnect", "stops"), [("stop", 1), ("continue", 0)])
async def test_a_client_that_leaves_within_task_after_has_no_task_yet(on_disconnect: str, stops: int) -> None:
    mcp = prompt(on_disconnect=on_disconnect)

    async def gone() -> None:
        await until(lambda: bool(mcp.parts.watcher._watched))

    await mcp.call("tools/call", {"name": "job"}, caps=TASKS, disconnected=gone)

    assert len(mcp.engine.stopped) == stops


@pytest.mark.requirement("L-40", "L-42")
async def test_legacy_callers_of_a_task_get_the_handle_whatever_task_after_says() -> None:
    mcp = prompt()
    client = await LegacyClient.opened(mcp, LATEST)

    assert await client.status(await client.start()) == "working"


async def test_a_client_without_tasks_is_not_concerned_by_task_after() -> None:
    mcp = Mcp(tool(task_after="10s", inline_wait="0s"), companion_tools="on")

    answer = await mcp.call("tools/call", {"name": "job"}, caps={})

    assert "still running" in answer.text
