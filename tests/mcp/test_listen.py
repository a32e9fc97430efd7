"""subscriptions/listen: one stream on which tasks tell their changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapter.errors import StoreUnavailable
from adapter.mcp import sse
from adapter.tasks.model import Ending
from tests.support.adapter import EXTENSION, FORMS, KEEP_ALIVE, PREFIX, TASKS, Json, Mcp, form, tool, until

SUBSCRIPTION = PREFIX + "subscriptionId"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CHANGED = "notifications/tasks"


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool(), refresh_min=0.001)


def listen(mcp: Mcp, wanted: object, **options: Any) -> Any:
    return mcp.stream("subscriptions/listen", {"notifications": wanted}, **options)


def to(*task_ids: str) -> Json:
    return {"taskIds": list(task_ids)}


async def nobody_follows(mcp: Mcp) -> None:
    await until(lambda: not mcp.parts.watcher._watched)


def kinds(messages: list[Json]) -> list[str]:
    return [message.get("method", "result") for message in messages]


# --- what may be asked ----------------------------------------------------------------------------------


@pytest.mark.requirement("R-90", "R-12")
@pytest.mark.parametrize("params", [{}, *({"notifications": odd} for odd in (None, [], "tasks", 5, True))])
async def test_a_filter_is_needed(mcp: Mcp, params: Json) -> None:
    answer = await mcp.call("subscriptions/listen", params)

    assert answer.refusal == (200, -32602)
    assert "params.notifications" in answer.error["message"]


@pytest.mark.requirement("R-90")
@pytest.mark.parametrize("task_ids", ["mcp-1", {}, 5, True, [5], [None], ["a", ["b"]]])
async def test_task_ids_are_a_list_of_strings(mcp: Mcp, task_ids: object) -> None:
    answer = await mcp.call("subscriptions/listen", {"notifications": {"taskIds": task_ids}})

    assert answer.refusal == (200, -32602)
    assert "taskIds" in answer.error["message"]


async def test_one_subscription_names_a_bounded_number_of_tasks(mcp: Mcp) -> None:
    answer = await mcp.call("subscriptions/listen", {"notifications": to(*(f"mcp-{n}" for n in range(101)))})

    assert answer.refusal == (200, -32602)
    assert "100" in answer.error["message"]


@pytest.mark.requirement("R-93", "R-09", "R-103")
@pytest.mark.parametrize("task_ids", [[], ["mcp-1"], "odd"])
async def test_task_ids_need_the_extension(mcp: Mcp, task_ids: object) -> None:
    answer = await mcp.call("subscriptions/listen", {"notifications": {"taskIds": task_ids}}, caps={})

    assert answer.refusal == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


# --- the acknowledgement --------------------------------------------------------------------------------


@pytest.mark.era_rows("modern", 51)
@pytest.mark.requirement("R-91", "R-92", "R-96", "R-41")
@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True},
        {"resourceSubscriptions": ["file:///a"], "unknown": 1},
        {"taskIds": None},
    ],
)
async def test_what_is_not_served_is_left_out_of_the_acknowledgement_and_the_stream_stays_open(
    mcp: Mcp, wanted: Json
) -> None:
    async with listen(mcp, wanted, caps={}, identifier="s") as stream:
        first = await stream.next()
        following = asyncio.create_task(stream.rest())
        mcp.parts.watcher.close()
        rest = await following

    assert first["method"] == ACKNOWLEDGED
    assert first["params"] == {"notifications": {}, "_meta": {SUBSCRIPTION: "s"}}
    assert kinds(rest) == ["result"]


@pytest.mark.requirement("R-91", "R-95", "R-121")
@pytest.mark.parametrize("identifier", [0, 7, "", "0", "listen"])
async def test_every_message_carries_the_id_of_the_request_with_its_type(
    mcp: Mcp, identifier: object
) -> None:
    task_id = await mcp.start()
    mcp.end(task_id)

    answer = await mcp.call("subscriptions/listen", {"notifications": to(task_id)}, identifier=identifier)

    assert kinds(answer.messages) == [ACKNOWLEDGED, CHANGED, "result"]
    parts = [m["params"] if "params" in m else m["result"] for m in answer.messages]
    found = [part["_meta"][SUBSCRIPTION] for part in parts]
    assert found == [identifier] * 3
    assert {type(each) for each in found} == {type(identifier)}


@pytest.mark.requirement("R-93", "R-122", "R-117")
async def test_only_tasks_that_the_caller_may_see_are_acknowledged(mcp: Mcp) -> None:
    mine, other = await mcp.start(), await mcp.start()
    foreign = await mcp.start(caller="someone else")
    expired = await mcp.start()
    mcp.store.tasks.pop(expired)
    wanted = to("mcp-unknown", mine, foreign, expired, mine, "", other)

    async with listen(mcp, wanted, caps=TASKS) as stream:
        first = await stream.next()
        tasks = [(await stream.next())["params"]["taskId"] for _ in range(2)]

    assert first["params"]["notifications"] == to(mine, other)
    assert sorted(tasks) == sorted([mine, other])


@pytest.mark.requirement("R-93", "R-95")
@pytest.mark.parametrize("wanted", [to(), to("mcp-unknown")])
async def test_with_nothing_to_follow_the_subscription_ends_at_once(mcp: Mcp, wanted: Json) -> None:
    answer = await mcp.call("subscriptions/listen", {"notifications": wanted})

    assert kinds(answer.messages) == [ACKNOWLEDGED, "result"]
    assert answer.messages[0]["params"]["notifications"] == to()


# --- the changes ----------------------------------------------------------------------------------------


@pytest.mark.requirement("R-121", "R-92", "R-94", "R-95", "R-112", "B-41")
async def test_a_task_is_told_as_it_is_and_then_once_per_change_until_its_end(mcp: Mcp) -> None:
    task_id = await mcp.start()
    async with listen(mcp, to(task_id)) as stream:
        await stream.next()
        now = await stream.next()
        mcp.ask(task_id, "one", form("First?", a="string"))
        asked = await stream.next()
        mcp.report(task_id, 1, message="Half", progress=1, total=2)
        reported = await stream.next()
        await mcp.call("tasks/update", {"taskId": task_id, "inputResponses": {"one": {"action": "decline"}}})
        answered = await stream.next()
        mcp.end(task_id, '"done"')
        rest = await stream.rest()

    told = [m["params"] for m in (now, asked, reported, answered, rest[0])]
    assert kinds(rest) == [CHANGED, "result"]
    assert [t["status"] for t in told] == [
        "working",
        "input_required",
        "input_required",
        "working",
        "completed",
    ]
    assert told[3]["statusMessage"] == "Half (1 of 2)"
    assert told[4]["result"]["content"] == [{"type": "text", "text": "done"}]
    assert not any("resultType" in each for each in told)
    assert kinds(stream.seen).count(CHANGED) == 5
    await nobody_follows(mcp)


@pytest.mark.era_rows("modern", 42)
@pytest.mark.requirement("R-121")
async def test_what_is_told_is_what_tasks_get_says(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.ask(task_id)
    async with listen(mcp, to(task_id)) as stream:
        await stream.next()
        told = (await stream.next())["params"]

    got = await mcp.get(task_id)
    for member in ("_meta", "resultType"):
        got.pop(member, None)
        told.pop(member, None)
    assert told == got


@pytest.mark.era_rows("modern", 43)
@pytest.mark.requirement("R-94")
async def test_the_progress_token_of_the_creating_call_ends_with_it(mcp: Mcp) -> None:
    task_id = await mcp.start(meta={"progressToken": "t"})
    mcp.report(task_id, 1, progress=1)
    async with listen(mcp, to(task_id)) as stream:
        await stream.next()
        mcp.end(task_id)
        await stream.rest()

    assert set(kinds(stream.seen)) == {ACKNOWLEDGED, CHANGED, "result"}


@pytest.mark.requirement("R-121", "R-113")
async def test_questions_that_this_listener_cannot_take_stay_hidden(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.ask(task_id)
    async with listen(mcp, to(task_id), caps=TASKS) as blind, listen(mcp, to(task_id), caps=FORMS) as able:
        seen = [[(await stream.next()) for _ in range(2)][1]["params"] for stream in (blind, able)]

    assert [each["status"] for each in seen] == ["working", "input_required"]


@pytest.mark.requirement("R-95")
@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"ending": Ending.FAILED, "error": "Boom"}, "completed"),
        ({"ending": Ending.ABORTED}, "cancelled"),
        ({"ending": Ending.FAILED, "error": "McpError", "cause": '{"code":1,"message":"x"}'}, "failed"),
    ],
)
async def test_the_last_notification_is_terminal_whatever_the_end(mcp: Mcp, how: Json, status: str) -> None:
    task_id = await mcp.start()
    async with listen(mcp, to(task_id)) as stream:
        await stream.next()
        await stream.next()
        mcp.end(task_id, **how)
        rest = await stream.rest()

    assert kinds(rest) == [CHANGED, "result"]
    assert rest[0]["params"]["status"] == status


@pytest.mark.requirement("R-95")
async def test_a_subscription_to_several_tasks_ends_with_the_last_of_them(mcp: Mcp) -> None:
    ids = [await mcp.start() for _ in range(3)]
    async with listen(mcp, to(*ids)) as stream:
        for _ in range(4):
            await stream.next()
        ended = []
        for task_id in ids[:2]:
            mcp.end(task_id)
            ended.append((await stream.next())["params"]["taskId"])
        mcp.end(ids[2])
        rest = await stream.rest()

    assert ended == ids[:2]
    assert kinds(rest) == [CHANGED, "result"]


@pytest.mark.requirement("R-95")
async def test_with_another_filter_beside_the_tasks_the_stream_outlives_them(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.005)
    task_id = await mcp.start()
    mcp.end(task_id)
    async with listen(mcp, {**to(task_id), "toolsListChanged": True}) as stream:
        first = await stream.next()
        await stream.next()
        await nobody_follows(mcp)
        later = [await stream.chunk() for _ in range(2)]
        mcp.parts.watcher.close()
        rest = await stream.rest()

    assert first["params"]["notifications"] == to(task_id)
    assert later == [KEEP_ALIVE] * 2
    assert kinds(rest) == ["result"]


@pytest.mark.parametrize("odd", [False, None, []])
async def test_a_filter_that_asks_for_nothing_does_not_keep_the_stream_open(mcp: Mcp, odd: object) -> None:
    task_id = await mcp.start()
    mcp.end(task_id)

    answer = await mcp.call(
        "subscriptions/listen", {"notifications": {**to(task_id), "toolsListChanged": odd}}
    )

    assert kinds(answer.messages) == [ACKNOWLEDGED, CHANGED, "result"]


async def test_a_task_that_expires_ends_its_part_of_the_subscription(mcp: Mcp) -> None:
    task_id = await mcp.start()
    async with listen(mcp, to(task_id)) as stream:
        await stream.next()
        await stream.next()
        mcp.clock.advance(10**6)
        rest = await stream.rest()

    assert kinds(rest) == ["result"]


async def test_a_result_that_cannot_be_read_is_left_to_tasks_get(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.end(task_id, output=None)

    answer = await mcp.call("subscriptions/listen", {"notifications": to(task_id)})

    assert kinds(answer.messages) == [ACKNOWLEDGED, "result"]


async def test_a_store_that_fails_for_a_moment_costs_no_subscription(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await mcp.start()
    read = mcp.store.read
    failures: list[str] = []

    async def failing(task_id: str) -> Any:
        failures.append(task_id)
        raise StoreUnavailable

    async with listen(mcp, to(task_id)) as stream:
        await stream.next()
        await stream.next()
        monkeypatch.setattr(mcp.store, "read", failing)
        await until(lambda: len(failures) >= 2)
        monkeypatch.setattr(mcp.store, "read", read)
        mcp.end(task_id)
        rest = await stream.rest()

    assert kinds(rest) == [CHANGED, "result"]


async def test_a_store_that_fails_at_the_beginning_is_an_error(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await mcp.start()

    async def failing(_task_id: str) -> Any:
        raise StoreUnavailable

    monkeypatch.setattr(mcp.store, "read", failing)

    answer = await mcp.call("subscriptions/listen", {"notifications": to(task_id)})

    assert answer.error["code"] == -32603


async def test_many_streams_on_one_task_share_its_reads(mcp: Mcp) -> None:
    task_id = await mcp.start()
    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(follow_to_the_end(mcp, task_id)) for _ in range(20)]
        await until(lambda: mcp.followers == 20)
        before = mcp.store.reads
        await until(lambda: mcp.store.reads >= before + 5)
        (watched,) = mcp.parts.watcher._watched.values()
        assert len(watched.followers) == 20
        mcp.end(task_id)

    assert [task.result() for task in ends] == ["completed"] * 20


async def follow_to_the_end(mcp: Mcp, task_id: str) -> str:
    answer = await mcp.call("subscriptions/listen", {"notifications": to(task_id)})
    return str(answer.messages[-2]["params"]["status"])


# --- how a stream ends ----------------------------------------------------------------------------------


@pytest.mark.requirement("R-95")
async def test_on_shutdown_the_subscription_is_closed_with_its_result(mcp: Mcp) -> None:
    task_id = await mcp.start()
    async with listen(mcp, to(task_id)) as stream:
        await stream.next()
        await stream.next()
        following = asyncio.create_task(stream.rest())
        mcp.parts.watcher.close()
        rest = await following

    assert kinds(rest) == ["result"]
    await nobody_follows(mcp)


@pytest.mark.requirement("R-95")
async def test_after_shutdown_a_new_subscription_tells_the_state_and_ends(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.parts.watcher.close()

    answer = await mcp.call("subscriptions/listen", {"notifications": to(task_id)})

    assert kinds(answer.messages) == [ACKNOWLEDGED, CHANGED, "result"]


@pytest.mark.requirement("R-96", "R-91", "R-95", "R-121")
async def test_where_replies_are_buffered_the_present_state_is_told_and_the_stream_ends(mcp: Mcp) -> None:
    running, done = await mcp.start(), await mcp.start()
    mcp.end(done)

    answer = await mcp.call("subscriptions/listen", {"notifications": to(running, done)}, seconds_left=20)
    empty = await mcp.call(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, seconds_left=20
    )

    assert kinds(answer.messages) == [ACKNOWLEDGED, CHANGED, CHANGED, "result"]
    assert {m["params"]["status"] for m in answer.messages[1:3]} == {"working", "completed"}
    assert kinds(empty.messages) == [ACKNOWLEDGED, "result"]
    await nobody_follows(mcp)


@pytest.mark.requirement("R-42")
async def test_a_listener_that_leaves_gets_nothing_more_and_nobody_follows_for_it(mcp: Mcp) -> None:
    task_id = await mcp.start()
    async with listen(mcp, to(task_id)) as stream:
        await stream.next()
        await stream.next()
        following = asyncio.create_task(stream.rest())
        await until(lambda: bool(mcp.parts.watcher._watched))
        stream.leave()
        rest = await following

    assert rest == []
    await nobody_follows(mcp)
    assert mcp.engine.stopped == []


async def test_a_stream_that_the_transport_drops_leaves_nothing_behind(mcp: Mcp) -> None:
    task_id = await mcp.start()
    before = asyncio.all_tasks()
    async with listen(mcp, to(task_id)) as stream:
        await stream.next()
        await stream.next()
        mcp.ask(task_id)
        await stream.next()

    await nobody_follows(mcp)
    await until(lambda: asyncio.all_tasks() <= before)


async def test_a_stream_that_is_dropped_before_its_first_message_leaves_nothing_behind(mcp: Mcp) -> None:
    task_id = await mcp.start()

    async with listen(mcp, to(task_id)):
        pass

    await nobody_follows(mcp)


@pytest.mark.requirement("R-41", "R-94")
async def test_a_quiet_stream_is_kept_open(mcp: Mcp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.005)
    async with listen(mcp, {}) as stream:
        await stream.next()
        chunks = [await stream.chunk() for _ in range(3)]

    assert chunks == [b":\r\n\r\n"] * 3
