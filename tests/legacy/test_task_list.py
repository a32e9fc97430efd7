"""tasks/list: an owner's tasks, newest first, over signed pages."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.tasks.model import Ending
from adapter.tasks.store import place_of
from tests.support.adapter import Mcp, tool
from tests.support.legacy import LegacyClient

KEY, OTHER = "k" * 32, "o" * 32


def keyed(*keys: str, **settings: Any) -> Mcp:
    return Mcp(tool(), signing_keys=keys or (KEY,), **settings)


async def pages(client: LegacyClient) -> list[list[str]]:
    """The task ids of every page."""
    found, params = [], {}
    while True:
        result = (await client.call("tasks/list", params)).result
        found.append([task["taskId"] for task in result["tasks"]])
        if "nextCursor" not in result:
            return found
        params = {"cursor": result["nextCursor"]}


@pytest.mark.requirement("L-56")
@pytest.mark.era_rows("legacy", 29)
async def test_a_task_created_a_moment_ago_is_listed_as_tasks_get_shows_it() -> None:
    client = await LegacyClient.opened(keyed(), caller="ada")
    task_id = await client.start()

    result = (await client.call("tasks/list")).result

    assert result == {"tasks": [await client.get(task_id)]}


@pytest.mark.requirement("L-56", "B-02")
async def test_all_tasks_are_listed_newest_first_over_pages() -> None:
    mcp = keyed()
    client = await LegacyClient.opened(mcp, caller="ada")
    made = []
    for _ in range(45):
        made.append(await client.start())
        mcp.clock.advance(1)

    listed = await pages(client)

    assert [len(page) for page in listed] == [20, 20, 5]
    assert [task_id for page in listed for task_id in page] == made[::-1]


@pytest.mark.requirement("L-56")
async def test_a_task_created_while_pages_are_read_moves_none_of_them() -> None:
    mcp = keyed()
    client = await LegacyClient.opened(mcp, caller="ada")
    made = []
    for _ in range(25):
        made.append(await client.start())
        mcp.clock.advance(1)
    first = (await client.call("tasks/list")).result

    await client.start()
    second = (await client.call("tasks/list", {"cursor": first["nextCursor"]})).result

    assert [task["taskId"] for task in first["tasks"] + second["tasks"]] == made[::-1]


@pytest.mark.requirement("L-56", "L-59")
async def test_nobody_sees_another_owners_tasks() -> None:
    mcp = keyed()
    ada, mal = await LegacyClient.opened(mcp, caller="ada"), await LegacyClient.opened(mcp, caller="mal")
    mine, theirs = await ada.start(), await mal.start()

    assert await pages(ada) == [[mine]]
    assert await pages(mal) == [[theirs]]


@pytest.mark.requirement("L-56")
async def test_a_cursor_is_good_for_its_owner_only() -> None:
    mcp = keyed()
    ada, mal = await LegacyClient.opened(mcp, caller="ada"), await LegacyClient.opened(mcp, caller="mal")
    for _ in range(21):
        await ada.start()
    cursor = (await ada.call("tasks/list")).result["nextCursor"]

    assert (await mal.call("tasks/list", {"cursor": cursor})).refusal == (200, -32602)
    assert len((await ada.call("tasks/list", {"cursor": cursor})).result["tasks"]) == 1


@pytest.mark.requirement("L-56")
@pytest.mark.parametrize("cursor", ["", "garbage", "a.b", "é", 5, [], {}, True])
async def test_a_cursor_that_is_not_ours_is_refused(cursor: object) -> None:
    client = await LegacyClient.opened(keyed(), caller="ada")

    assert (await client.call("tasks/list", {"cursor": cursor})).refusal == (200, -32602)


@pytest.mark.requirement("L-56")
async def test_cursors_of_the_tool_list_and_of_other_keys_are_refused() -> None:
    mcp = Mcp(tool("a"), tool("b"), signing_keys=(KEY,), page_size=1)
    client = await LegacyClient.opened(mcp, caller="ada")
    of_tools = (await client.call("tools/list")).result["nextCursor"]
    elsewhere = await LegacyClient.opened(keyed(OTHER), caller="ada")

    assert (await client.call("tasks/list", {"cursor": of_tools})).refusal == (200, -32602)
    for _ in range(21):
        await elsewhere.start("job")
    foreign = (await elsewhere.call("tasks/list")).result["nextCursor"]
    assert (await client.call("tasks/list", {"cursor": foreign})).refusal == (200, -32602)


@pytest.mark.requirement("L-56")
async def test_pages_go_on_at_another_instance_and_over_a_change_of_keys() -> None:
    mcp = keyed()
    client = await LegacyClient.opened(mcp, caller="ada")
    for _ in range(21):
        await client.start()
    between = client.at(mcp.sibling(tool(), signing_keys=(OTHER, KEY)))
    cursor = (await between.call("tasks/list")).result["nextCursor"]

    after = await LegacyClient.opened(mcp.sibling(tool(), signing_keys=(OTHER,)), caller="ada")

    assert len((await after.call("tasks/list", {"cursor": cursor})).result["tasks"]) == 1


@pytest.mark.requirement("L-56", "L-62")
async def test_expired_tasks_and_places_without_a_task_are_left_out() -> None:
    mcp = keyed()
    client = await LegacyClient.opened(mcp, caller="ada")
    await client.start()
    mcp.clock.advance(25 * 3600)
    kept = await client.start()
    lost = mcp.store.tasks[await client.start()].record
    await mcp.store.discard(lost.task_id)

    assert place_of(lost) in mcp.store.listed["ada"]
    assert await pages(client) == [[kept]]


@pytest.mark.requirement("L-56")
async def test_one_task_whose_result_cannot_be_read_does_not_hide_the_others() -> None:
    mcp = keyed()
    client = await LegacyClient.opened(mcp, caller="ada")
    unreadable, failed = await client.start(), await client.start()
    mcp.end(unreadable, output=None)
    mcp.end(failed, ending=Ending.FAILED, error="Boom")

    assert await pages(client) == [[failed]]


@pytest.mark.requirement("L-56")
async def test_tasks_of_the_modern_era_are_listed_too() -> None:
    mcp = keyed()
    client = await LegacyClient.opened(mcp, caller="ada")

    task_id = await mcp.start(caller="ada")

    assert await pages(client) == [[task_id]]


@pytest.mark.requirement("L-56")
async def test_without_authentication_there_is_no_list() -> None:
    client = await LegacyClient.opened(keyed())
    await client.start()

    assert (await client.call("tasks/list")).refusal == (200, -32601)
