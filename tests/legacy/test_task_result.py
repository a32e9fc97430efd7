"""tasks/result: waits for the end, holds a stream for a while, and is resumed at any instance."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapter.errors import StoreUnavailable
from adapter.mcp import sse
from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import Mcp, tool, until
from tests.support.legacy import FORMS, RELATED, LegacyAnswer, LegacyClient, timed
from tests.support.virtual_time import in_virtual_time

KEY = "k" * 32
OBJECT = {"type": "object"}


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool(), signing_keys=(KEY,))


async def begun(mcp: Mcp, **options: Any) -> tuple[LegacyClient, str]:
    client = await LegacyClient.opened(mcp, **options)
    return client, await client.start()


async def result(client: LegacyClient, task_id: str, **options: Any) -> LegacyAnswer:
    return await client.call("tasks/result", {"taskId": task_id}, **options)


def asks(client: LegacyClient, task_id: str, **options: Any) -> Any:
    """The stream of a tasks/result."""
    return client.stream(client.request("tasks/result", {"taskId": task_id}, **options))


# --- a task that is over --------------------------------------------------------------------------------


@pytest.mark.requirement("L-46", "L-44", "L-33")
@pytest.mark.era_rows("legacy", 28, 41)
async def test_the_result_is_what_the_call_would_have_given_and_names_its_task(mcp: Mcp) -> None:
    mcp = Mcp(tool(output_schema=OBJECT))
    client, task_id = await begun(mcp)
    mcp.end(task_id, '{"rows":3}')

    answer = await result(client, task_id)

    assert answer.headers["content-type"] == "application/json"
    assert answer.result == {
        "content": [{"type": "text", "text": '{"rows":3}'}],
        "structuredContent": {"rows": 3},
        "_meta": {RELATED: {"taskId": task_id}},
    }


@pytest.mark.requirement("L-46", "L-44")
async def test_metadata_of_the_workflow_stays_beside_the_tasks(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.end(task_id, '{"content":[{"type":"text","text":"x"}],"_meta":{"example.com/cost":3}}')

    meta = (await result(client, task_id)).result["_meta"]

    assert meta == {"example.com/cost": 3, RELATED: {"taskId": task_id}}


@pytest.mark.requirement("L-53", "L-46", "B-26")
@pytest.mark.era_rows("legacy", 33)
@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"ending": Ending.FAILED, "error": "Boom", "cause": "it broke"}, "Boom: it broke"),
        ({"ending": Ending.TIMED_OUT}, "The execution timed out"),
        ({"output": '{"content":[{"type":"text","text":"nope"}],"isError":true}'}, "nope"),
    ],
)
async def test_a_failed_task_gives_its_error_result(mcp: Mcp, how: dict[str, Any], text: str) -> None:
    client, task_id = await begun(mcp)
    mcp.end(task_id, **how)

    answer = await result(client, task_id)

    assert await client.status(task_id) == "failed"
    assert (answer.result["isError"], answer.text) == (True, text)
    assert answer.result["_meta"] == {RELATED: {"taskId": task_id}}


@pytest.mark.requirement("L-46")
@pytest.mark.era_rows("legacy", 34)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "while waiting"])
async def test_an_error_of_the_workflow_is_the_same_json_rpc_error(mcp: Mcp, late: bool) -> None:
    client, task_id = await begun(mcp)
    cause = '{"code":4711,"message":"No order","data":[1]}'
    if not late:
        mcp.end(task_id, ending=Ending.FAILED, error="McpError", cause=cause)
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(result(client, task_id))
        if late:
            await until(lambda: mcp.followers > 0)
            mcp.end(task_id, ending=Ending.FAILED, error="McpError", cause=cause)

    assert asking.result().error == {"code": 4711, "message": "No order", "data": [1]}
    assert bool(asking.result().events) is late


@pytest.mark.requirement("L-55")
@pytest.mark.era_rows("legacy", 38)
async def test_the_result_of_a_cancelled_task_is_an_error(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    await client.call("tasks/cancel", {"taskId": task_id})

    answer = await result(client, task_id)

    assert answer.error == {"code": -32603, "message": "Task was cancelled", "data": {"taskId": task_id}}


# --- waiting --------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-46", "L-20", "L-19")
@pytest.mark.era_rows("legacy", 28)
async def test_a_running_task_is_waited_for_on_a_stream_that_its_first_event_lets_resume(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    async with asks(client, task_id, identifier="seven") as stream:
        first = await stream.event()
        mcp.end(task_id, '"done"')
        answer = await stream.rest()

    assert first.message is None
    assert first.id
    assert first.retry == 1000
    assert answer.message["id"] == "seven"
    assert answer.text == "done"


@pytest.mark.requirement("L-46", "L-55")
async def test_a_cancel_ends_the_wait(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    async with asks(client, task_id) as stream:
        await stream.event()
        await client.call("tasks/cancel", {"taskId": task_id})
        answer = await stream.rest()

    assert answer.error["code"] == -32603


@pytest.mark.requirement("L-46", "L-57")
async def test_a_task_that_expires_meanwhile_ends_the_wait(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    async with asks(client, task_id) as stream:
        await stream.event()
        mcp.clock.advance(25 * 3600)
        answer = await stream.rest()

    assert answer.error == {"code": -32602, "message": "Task not found"}


@pytest.mark.requirement("L-20", "L-47", "L-19")
@pytest.mark.era_rows("legacy", 11)
@in_virtual_time
async def test_the_stream_is_held_for_a_while_and_then_says_how_to_come_back() -> None:
    mcp = timed(tool(), legacy_hold=20)
    client, task_id = await begun(mcp)

    before = asyncio.get_running_loop().time()
    answer = await result(client, task_id)

    assert asyncio.get_running_loop().time() - before == pytest.approx(20, abs=0.1)
    assert answer.responses == []
    assert len(answer.ids) == 2
    assert answer.retries == [1000, 2000]


@pytest.mark.requirement("L-20", "L-18", "L-47", "L-50")
@pytest.mark.era_rows("legacy", 11)
@in_virtual_time
async def test_any_instance_goes_on_with_the_stream_until_the_work_ends() -> None:
    mcp = timed(tool(), signing_keys=(KEY,))
    client, task_id = await begun(mcp)
    elsewhere = client.at(mcp.sibling(tool(), signing_keys=(KEY,), watch_max=2.0))
    answer = await result(client, task_id, identifier="first")

    for _ in range(5):
        answer = await elsewhere.resume(answer.ids[-1])
        assert answer.responses == []
    mcp.engine.end(mcp.execution(task_id), Outcome(Ending.SUCCEEDED, output='"done"'))
    answer = await client.resume(answer.ids[-1])

    assert answer.message["id"] == "first"
    assert answer.text == "done"
    assert answer.result["_meta"] == {RELATED: {"taskId": task_id}}


@pytest.mark.requirement("L-20")
@in_virtual_time
async def test_the_pause_before_coming_back_grows_with_the_tasks_age_up_to_a_minute() -> None:
    mcp = timed(tool())
    client, task_id = await begun(mcp)
    answer = await result(client, task_id)
    pauses, rounds = [], 0

    while mcp.clock() < mcp.store.tasks[task_id].record.created_at + 3_600_000:
        await asyncio.sleep(answer.retries[-1] / 1000)
        answer = await client.resume(answer.ids[-1])
        pauses.append(answer.retries[-1])
        rounds += 1

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (4200, 60_000)
    assert rounds < 60, "some clients come back about a thousand times only"


@pytest.mark.requirement("L-18")
async def test_a_stream_that_broke_is_resumed_from_its_first_event(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    async with asks(client, task_id, identifier=7) as stream:
        first = await stream.event()
        stream.leave()
        assert (await stream.rest(bare=True)).responses == []
    mcp.end(task_id, '"done"')

    answer = await client.resume(first.id)

    assert answer.message["id"] == 7
    assert answer.text == "done"


@pytest.mark.requirement("L-18", "L-15")
async def test_a_client_without_a_session_resumes_too(mcp: Mcp) -> None:
    client = LegacyClient(mcp)
    task_id = await client.start()
    async with asks(client, task_id) as stream:
        first = await stream.event()
    mcp.end(task_id, '"done"')
    client.says_version = False

    assert (await client.resume(first.id)).text == "done"


@pytest.mark.requirement("L-18", "L-59")
async def test_an_event_id_is_good_for_its_owner_only(mcp: Mcp) -> None:
    client, task_id = await begun(mcp, caller="ada")
    async with asks(client, task_id) as stream:
        first = await stream.event()
    foreign = await LegacyClient.opened(mcp, caller="mal")

    assert (await foreign.resume(first.id)).status == 405
    assert (await foreign.resume(first.id + "x")).status == 405


@pytest.mark.requirement("L-18", "L-57")
async def test_resuming_after_the_task_is_gone_is_an_error_of_the_request(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    async with asks(client, task_id, identifier="x") as stream:
        first = await stream.event()
    mcp.clock.advance(25 * 3600)

    answer = await client.resume(first.id)

    assert answer.message["id"] == "x"
    assert answer.error["code"] == -32602


@pytest.mark.requirement("L-18")
async def test_event_ids_survive_a_change_of_keys(mcp: Mcp) -> None:
    client, task_id = await begun(mcp, caller="ada")
    between = client.at(mcp.sibling(tool(), signing_keys=("o" * 32, KEY)))
    async with asks(between, task_id) as stream:
        first = await stream.event()
    mcp.end(task_id, '"done"')
    after = await LegacyClient.opened(mcp.sibling(tool(), signing_keys=("o" * 32,)), caller="ada")

    assert (await after.resume(first.id)).text == "done"


@pytest.mark.requirement("L-19")
@pytest.mark.era_rows("legacy", 12)
async def test_a_client_that_leaves_touches_no_task(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    async with asks(client, task_id) as stream:
        await stream.event()
        stream.leave()
        await stream.rest(bare=True)

    assert mcp.engine.stopped == []
    assert await client.status(task_id) == "working"
    await until(lambda: not mcp.parts.watcher._watched)


@pytest.mark.requirement("L-60")
async def test_a_cancelled_request_ends_its_stream_and_touches_no_task(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    async with asks(client, task_id, identifier=7) as stream:
        await stream.event()
        for identifier in ("7", 8, None, 7.5, [7], 7):
            await client.notify("notifications/cancelled", {"requestId": identifier})
        answer = await stream.rest(bare=True)

    assert answer.responses == []
    assert mcp.engine.stopped == []
    assert await client.status(task_id) == "working"


@pytest.mark.requirement("L-46")
async def test_a_quiet_stream_is_kept_open(mcp: Mcp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.005)
    client, task_id = await begun(mcp)
    async with asks(client, task_id) as stream:
        events = [await stream.event() for _ in range(4)]
        mcp.end(task_id)
        await stream.rest()

    assert [bool(event.id) for event in events] == [True, False, False, False]
    assert {event.message for event in events} == {None}


@pytest.mark.requirement("L-46")
async def test_many_waiting_clients_share_the_reads_of_a_task(mcp: Mcp) -> None:
    mcp = Mcp(tool(), watch_max=0.2)
    client, task_id = await begun(mcp)
    waiting = [asyncio.create_task(result(client, task_id)) for _ in range(50)]
    await until(lambda: mcp.followers == 50)
    mcp.store.reads = 0
    await until(lambda: mcp.store.reads >= 2)
    shared = mcp.store.reads
    mcp.end(task_id, '"done"')

    assert {answer.text for answer in await asyncio.gather(*waiting)} == {"done"}
    assert shared <= 3


# --- transports that cannot hold ------------------------------------------------------------------------


@pytest.mark.requirement("L-47", "L-20")
@pytest.mark.parametrize(("left", "held"), [(29.0, 20.0), (10.0, 9.0), (1.0, 0.0), (0.2, 0.0)])
@in_virtual_time
async def test_a_transport_with_little_time_holds_no_longer_than_it_can(left: float, held: float) -> None:
    mcp = timed(tool(), legacy_hold=20)
    client, task_id = await begun(mcp)
    client.seconds_left = left
    before = asyncio.get_running_loop().time()

    answer = await result(client, task_id)

    assert asyncio.get_running_loop().time() - before == pytest.approx(held, abs=0.5)
    assert answer.responses == []
    assert len(answer.ids) == 2


@pytest.mark.requirement("L-48", "L-47")
@in_virtual_time
async def test_a_buffered_reply_closes_right_after_a_request_so_that_the_client_sees_it() -> None:
    mcp = timed(tool(), legacy_hold=20)
    client, task_id = await begun(mcp, capabilities=FORMS)
    client.seconds_left = 29.0
    mcp.ask(task_id)
    before = asyncio.get_running_loop().time()

    answer = await result(client, task_id)

    assert asyncio.get_running_loop().time() == before
    assert len(answer.requests) == 1
    assert answer.events[-1].id, "the last event lets the client come back"
    await client.answer(answer.requests[0], {"action": "accept", "content": {"sure": True}})
    mcp.engine.end(mcp.execution(task_id), Outcome(Ending.SUCCEEDED, output='"done"'))
    assert (await client.resume(answer.ids[-1])).text == "done"


@pytest.mark.requirement("L-47")
@in_virtual_time
async def test_a_client_that_takes_no_stream_gets_the_result_or_is_told_to_poll() -> None:
    mcp = timed(tool(), legacy_hold=20)
    client, task_id = await begun(mcp, capabilities=FORMS)
    mcp.ask(task_id)
    json_only = {"accept": "application/json"}

    early = await result(client, task_id, headers=json_only)
    mcp.engine.end(mcp.execution(task_id), Outcome(Ending.SUCCEEDED, output='"done"'))
    late = await result(client, task_id, headers=json_only)

    assert early.refusal == (200, -32603)
    assert "tasks/get" in early.error["message"]
    assert mcp.store.tasks[task_id].questions[0].offers == {}, "what cannot be delivered is not offered"
    assert late.text == "done"


@pytest.mark.requirement("L-47")
async def test_a_client_that_takes_no_stream_is_told_the_end_as_soon_as_it_comes(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(result(client, task_id, headers={"accept": "application/json"}))
        await until(lambda: bool(mcp.parts.watcher._watched))
        mcp.end(task_id, '"done"')

    assert asking.result().text == "done"


@pytest.mark.requirement("L-60", "L-47")
async def test_a_client_that_takes_no_stream_and_gives_up_is_no_failure(
    mcp: Mcp, caplog: pytest.LogCaptureFixture
) -> None:
    client, task_id = await begun(mcp)
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(
            result(client, task_id, identifier="x", headers={"accept": "application/json"})
        )
        await until(lambda: bool(mcp.parts.watcher._watched))
        await client.notify("notifications/cancelled", {"requestId": "x"})

    assert (asking.result().status, asking.result().body) == (202, b"")
    assert caplog.records == []
    assert await client.status(task_id) == "working"


# --- failures of our own --------------------------------------------------------------------------------


async def unreachable(*_: object) -> None:
    raise StoreUnavailable


@pytest.mark.requirement("L-46", "L-20")
async def test_a_store_that_fails_while_a_stream_is_held_lets_the_client_come_back(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, task_id = await begun(mcp)
    async with asks(client, task_id) as stream:
        first = await stream.event()
        with monkeypatch.context() as patch:
            patch.setattr(mcp.store, "read", unreachable)
            answer = await stream.rest()
    mcp.end(task_id, '"done"')

    assert first.id
    assert answer.responses == []
    assert answer.retries[-1] == 60_000
    assert (await client.resume(answer.ids[-1])).text == "done"


@pytest.mark.requirement("L-46")
async def test_a_defect_while_a_stream_is_held_is_told_on_it(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client, task_id = await begun(mcp)

    async def broken(*_: object) -> None:
        raise KeyError("defect")

    async with asks(client, task_id) as stream:
        await stream.event()
        monkeypatch.setattr(mcp.store, "read", broken)
        answer = await stream.rest()

    assert answer.error["code"] == -32603
    assert "KeyError" in caplog.text


@pytest.mark.requirement("L-46")
async def test_a_shutdown_lets_waiting_clients_come_back_elsewhere(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    async with asks(client, task_id) as stream:
        await stream.event()
        mcp.parts.watcher.close()
        answer = await stream.rest()

    assert answer.responses == []
    assert len(answer.ids) == 2
