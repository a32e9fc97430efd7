"""Long results are cut for hosts without tasks, and the rest is had page by page."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.mcp.companions import _from
from adapter.mcp.results import cut, text_of
from tests.support.adapter import TASKS, Json, Mcp, tool, until
from tests.support.legacy import LATEST, LegacyClient

from .host import ERAS, Host, background, text

NOTE = re.compile(r"\n\n\[Cut after (\d+) characters\.(.*)\]\Z", re.DOTALL)
LONG = "".join(f"line {number:06}\n" for number in range(1000))
PICTURE: Json = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def output_of(*content: Json) -> str:
    return orjson.dumps({"content": list(content)}).decode()


def words(value: str) -> Json:
    return {"type": "text", "text": value}


async def finished(mcp: Mcp, host: Host, output: str) -> str:
    """The id of a job that ended with this output in the background."""
    await host.call("job")
    mcp.end(mcp.only_task, output)
    return mcp.only_task


async def pages(host: Host, task_id: str) -> list[Json]:
    """Every page of a result, as a model would ask for them."""
    found: list[Json] = []
    offset = 0
    while len(found) < 200:
        found.append(await host.call("task_result", task_id=task_id, offset=offset))
        notes = [NOTE.search(block.get("text", "")) for block in found[-1]["content"]]
        note = next(filter(None, notes), None)
        if note is None:
            return found
        assert f'{{"task_id": "{task_id}", "offset": {note[1]}}}' in note[2]
        assert int(note[1]) > offset
        offset = int(note[1])
    raise AssertionError("the pages do not end")


def joined(found: list[Json]) -> str:
    return "".join(
        NOTE.sub("", block["text"]) for page in found for block in page["content"] if block["type"] == "text"
    )


@pytest.mark.parametrize("era", ERAS)
async def test_the_pages_of_a_long_result_make_up_the_whole(era: str) -> None:
    mcp = background(max_result_chars=1000)
    host = Host(mcp, era)
    task_id = await finished(mcp, host, orjson.dumps(LONG).decode())

    found = await pages(host, task_id)

    assert len(found) == 12
    assert all(len(NOTE.sub("", text(page))) <= 1000 for page in found)
    assert joined(found) == LONG


@pytest.mark.parametrize("era", ERAS)
async def test_a_plain_call_is_cut_and_says_how_to_get_the_rest(era: str) -> None:
    mcp = background(tool(inline_wait="20s"), max_result_chars=100)
    host = Host(mcp, era)
    calling = asyncio.create_task(host.call("job"))
    await until(lambda: bool(mcp.engine.started))
    mcp.end(mcp.only_task, orjson.dumps(LONG).decode())

    first = await calling
    rest = await pages(Host(mcp, era), mcp.only_task)

    note = NOTE.search(text(first))
    assert note is not None
    assert note[1] == "100"
    assert mcp.only_task in note[2]
    assert joined(rest) == LONG


async def test_without_companions_the_note_names_none() -> None:
    mcp = Mcp(tool(inline_wait="20s"), max_result_chars=100)
    calling = asyncio.create_task(Host(mcp).call("job"))
    await until(lambda: bool(mcp.engine.started))
    mcp.end(mcp.only_task, orjson.dumps(LONG).decode())

    assert text(await calling) == LONG[:100] + "\n\n[Cut after 100 characters.]"


async def test_a_caller_that_takes_a_task_gets_all_of_it() -> None:
    mcp = background(max_result_chars=100)
    client = await LegacyClient.opened(mcp, LATEST)
    modern, legacy = await mcp.start(), await client.start()
    for task_id in (modern, legacy):
        mcp.end(task_id, orjson.dumps(LONG).decode())

    assert (await mcp.get(modern))["result"]["content"] == [words(LONG)]
    assert (await client.call("tasks/result", {"taskId": legacy})).text == LONG


async def test_a_result_within_task_after_is_cut_too() -> None:
    mcp = background(tool(task_after="10s"), max_result_chars=100)
    calling = asyncio.create_task(mcp.call("tools/call", {"name": "job"}, caps=TASKS))
    await until(lambda: bool(mcp.engine.started))
    mcp.end(mcp.only_task, orjson.dumps(LONG).decode())

    assert NOTE.search((await calling).text)


async def test_the_limit_holds_for_all_blocks_together_and_what_is_no_text_stays() -> None:
    mcp = background(max_result_chars=10)
    host = Host(mcp)
    blocks = [words("123456"), PICTURE, words("7890abcdef"), words("ghi"), PICTURE]
    task_id = await finished(mcp, host, output_of(*blocks))

    first, second = await pages(host, task_id)

    assert [block["type"] for block in first["content"]] == ["text", "image", "text", "image"]
    assert [block["type"] for block in second["content"]] == ["text", "text"]
    assert joined([first, second]) == "1234567890abcdefghi"


@pytest.mark.parametrize("length", [99, 100])
async def test_what_is_not_too_long_is_not_cut(length: int) -> None:
    mcp = background(max_result_chars=100)
    host = Host(mcp)
    task_id = await finished(mcp, host, orjson.dumps("x" * length).decode())

    assert text(await host.call("task_result", task_id=task_id)) == "x" * length


@pytest.mark.parametrize("offset", [3, 4, 3.0, 10**7])
async def test_beyond_the_end_there_is_no_more(offset: float) -> None:
    mcp = background()
    host = Host(mcp)
    task_id = await finished(mcp, host, '"abc"')

    assert text(await host.call("task_result", task_id=task_id, offset=offset)) == "(no more)"


@pytest.mark.parametrize("offset", [-1, "3", 1.5, None, 1e30])
async def test_an_offset_that_makes_no_sense_is_refused(offset: object) -> None:
    mcp = background()
    host = Host(mcp)
    task_id = await finished(mcp, host, '"abc"')

    assert (await host.call("task_result", task_id=task_id, offset=offset))["isError"] is True


async def test_an_error_result_is_cut_and_stays_one() -> None:
    mcp = background(max_result_chars=10)
    host = Host(mcp)
    output = orjson.dumps({"content": [words("x" * 25)], "isError": True}).decode()
    task_id = await finished(mcp, host, output)

    found = await pages(host, task_id)

    assert [page["isError"] for page in found] == [True] * 3
    assert joined(found) == "x" * 25


def resource(value: str) -> Json:
    return {"type": "resource", "resource": {"uri": "file:///a", "text": value}}


BLOCKS = st.text(max_size=30).map(words) | st.text(max_size=30).map(resource) | st.just(PICTURE)


@given(st.lists(BLOCKS, min_size=1, max_size=6), st.integers(1, 20))
@settings(deadline=None)
def test_whatever_the_blocks_their_pages_make_up_the_whole(content: list[Json], limit: int) -> None:
    result: dict[str, Any] = {"content": content}
    before = orjson.dumps(result)
    whole = "".join(map(text_of, content))
    shown, offset = "", 0
    while True:
        assert offset <= len(whole)
        page = cut(_from(result, offset), "mcp-1", limit, more=True, start=offset)
        texts = [text_of(block) for block in page["content"]]
        notes = [note for note in map(NOTE.search, texts) if note and "task_result" in note[2]]
        shown += "".join(NOTE.sub("", each) for each in texts if each != "(no more)")
        if not notes:
            break
        assert int(notes[0][1]) == offset + limit
        offset += limit

    assert shown == whole
    assert orjson.dumps(result) == before, "nothing is changed"


# --- structured content ---------------------------------------------------------------------------------

ROWS: Json = {"type": "object", "properties": {"rows": {"type": "array"}}}


@pytest.mark.parametrize(("rows", "kept"), [(3, True), (300, False)])
async def test_structured_content_over_the_limit_is_left_out_of_a_plain_result(rows: int, kept: bool) -> None:
    mcp = background(tool(inline_wait="20s", output_schema=ROWS), max_result_chars=100)
    calling = asyncio.create_task(Host(mcp).call("job"))
    await until(lambda: bool(mcp.engine.started))
    output = {"rows": list(range(rows))}
    mcp.end(mcp.only_task, orjson.dumps(output).decode())

    result = await calling

    assert result.get("structuredContent") == (output if kept else None)
    assert result.get("isError", False) is not kept, "only error results may go without it"
    if not kept:
        assert NOTE.search(text(result))
        rest = await pages(Host(mcp), mcp.only_task)
        assert orjson.loads(joined(rest)) == output
        assert not any(page.get("isError") for page in rest)
