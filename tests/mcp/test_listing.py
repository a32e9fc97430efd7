"""tools/list: pages, order, cache, and what is said of a tool."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.tools.tool import Tool
from tests.support.adapter import TASKS, Mcp, tool

KEY = "k" * 32
OTHER_KEY = "o" * 32
MANY = [tool(f"tool-{number}") for number in range(131)]

RICH_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://example.com/rich",
    "type": "object",
    "$defs": {"address": {"$anchor": "home", "type": "object", "properties": {"city": {"type": "string"}}}},
    "properties": {
        "home": {"$ref": "#home"},
        "score": {"type": "number", "default": 1.5},
        "on": {"const": None},
    },
    "allOf": [{"anyOf": [{"required": ["home"]}, {"required": ["score"]}]}],
    "if": {"properties": {"score": {"minimum": 5}}},
    "then": {"required": ["home"]},
    "else": True,
    "additionalProperties": False,
    "unevaluatedProperties": False,
    "x-vendor": {"kept": [1, 2.0, None]},
}


async def pages(mcp: Mcp, **options: Any) -> list[dict[str, Any]]:
    found = [(await mcp.call("tools/list", {}, **options)).result]
    while "nextCursor" in found[-1]:
        found.append((await mcp.call("tools/list", {"cursor": found[-1]["nextCursor"]}, **options)).result)
    return found


def names(listed: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for page in listed for each in page["tools"]]


@pytest.mark.requirement("B-01")
async def test_a_host_that_reads_one_page_only_sees_every_tool() -> None:
    (page,) = await pages(Mcp(*MANY))

    assert names([page]) == [each.name for each in MANY]


@pytest.mark.requirement("B-01", "B-02", "R-50")
async def test_a_page_of_large_tools_stays_below_what_a_function_may_reply() -> None:
    large = [tool(f"large-{number}", description="x" * 300_000) for number in range(20)]
    huge = tool("huge", description="x" * 2_500_000)

    listed = await pages(Mcp(*large, huge, *MANY))

    assert [len(page["tools"]) for page in listed] == [6, 6, 6, 2, 1, 131]
    assert names(listed) == [each.name for each in (*large, huge, *MANY)]


@pytest.mark.era_rows("modern", 45)
@pytest.mark.requirement("R-50", "R-51", "R-52", "B-01", "B-02")
@pytest.mark.parametrize(
    ("size", "expected"),
    [(100, [100, 31]), (50, [50, 50, 31]), (131, [131]), (130, [130, 1]), (1, [1] * 131)],
)
async def test_all_tools_are_listed_over_pages_in_the_order_of_the_file(
    size: int, expected: list[int]
) -> None:
    listed = await pages(Mcp(*MANY, page_size=size))

    assert [len(page["tools"]) for page in listed] == expected
    assert names(listed) == [each.name for each in MANY]
    assert {page["cacheScope"] for page in listed} == {"public"}
    assert {page["ttlMs"] for page in listed} == {300_000}


@pytest.mark.requirement("R-52", "R-51")
async def test_the_list_is_the_same_for_every_caller_connection_and_time() -> None:
    mcp = Mcp(*MANY[:7], page_size=3)
    first = names(await pages(mcp))

    mcp.clock.advance(86_400)
    for options in ({"caller": "someone"}, {"caps": {}}, {"caps": TASKS}, {"identifier": "x"}):
        assert names(await pages(mcp, **options)) == first


@pytest.mark.requirement("R-50")
async def test_the_cache_time_can_be_set() -> None:
    assert (await Mcp(tool(), list_ttl_ms=0).call("tools/list")).result["ttlMs"] == 0


@pytest.mark.requirement("R-53")
@pytest.mark.parametrize(
    "cursor", ["", "garbage", "a.b", ".", "é", 5, 0, True, [], {}, "eyJzdGFydCI6MX0.AAAA", "x" * 10_000]
)
async def test_a_cursor_that_is_not_ours_is_32602(cursor: object) -> None:
    answer = await Mcp(*MANY).call("tools/list", {"cursor": cursor})

    assert answer.refusal == (200, -32602)
    assert "cursor" in answer.error["message"]


@pytest.mark.requirement("R-53")
async def test_only_an_absent_cursor_means_the_first_page() -> None:
    mcp = Mcp(*MANY)

    assert (await mcp.call("tools/list", {"cursor": None})).result == (await mcp.call("tools/list")).result


@pytest.mark.requirement("R-53")
async def test_a_cursor_changed_in_any_place_is_refused() -> None:
    mcp = Mcp(*MANY, page_size=100)
    cursor = (await mcp.call("tools/list")).result["nextCursor"]

    for place in range(0, len(cursor), 7):
        changed = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        assert (await mcp.call("tools/list", {"cursor": changed})).error["code"] == -32602


@pytest.mark.requirement("R-53")
async def test_a_cursor_of_another_list_of_tools_is_refused() -> None:
    mcp = Mcp(*MANY, signing_keys=KEY, page_size=100)
    changed = mcp.sibling(*MANY[:-1], tool("tool-130", description="Changed."), signing_keys=KEY)
    cursor = (await mcp.call("tools/list")).result["nextCursor"]

    assert (await changed.call("tools/list", {"cursor": cursor})).error["code"] == -32602


@pytest.mark.requirement("R-52", "R-08")
async def test_a_cursor_is_good_at_another_instance_and_with_a_rotated_key() -> None:
    cursor = (await Mcp(*MANY, signing_keys=KEY, page_size=100).call("tools/list")).result["nextCursor"]

    for keys in (KEY, f"{OTHER_KEY},{KEY}"):
        answer = await Mcp(*MANY, signing_keys=keys).call("tools/list", {"cursor": cursor})
        assert len(answer.result["tools"]) == 31
    unknown_key = await Mcp(*MANY, signing_keys=OTHER_KEY).call("tools/list", {"cursor": cursor})
    assert unknown_key.error["code"] == -32602


@pytest.mark.requirement("R-84", "R-53")
async def test_a_request_state_is_no_cursor() -> None:
    asking = tool("ask", before_start=[{"ok": {"params": {"message": "?", "requestedSchema": FORM}}}])
    mcp = Mcp(asking, tool(), page_size=1)
    state = (await mcp.call("tools/call", {"name": "ask"})).result["requestState"]

    assert (await mcp.call("tools/list", {"cursor": state})).error["code"] == -32602


FORM = {"type": "object", "properties": {"yes": {"type": "boolean"}}}


async def described(*tools: Tool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await Mcp(*tools).call("tools/list")).result["tools"]
    return found


@pytest.mark.era_rows("modern", 21)
@pytest.mark.requirement("R-54")
async def test_a_tool_says_name_description_and_schema_and_nothing_of_its_execution() -> None:
    (plain,) = await described(tool(task_support="required"))

    assert plain == {
        "name": "job",
        "description": "Does a job.",
        "inputSchema": {"type": "object", "additionalProperties": False},
    }


@pytest.mark.requirement("R-54", "R-15")
async def test_every_schema_keyword_passes_through_untouched() -> None:
    (rich,) = await described(tool(input_schema=RICH_SCHEMA))

    assert rich["inputSchema"] == RICH_SCHEMA
    assert list(rich["inputSchema"]) == list(RICH_SCHEMA)


@pytest.mark.era_rows("modern", 47)
@pytest.mark.requirement("R-54")
@pytest.mark.parametrize("schema", [{"type": "array"}, {}, {"anyOf": [{"type": "null"}, {"const": 1}]}])
async def test_an_output_schema_may_be_of_any_kind(schema: object) -> None:
    (described_tool,) = await described(tool(output_schema=schema))

    assert described_tool["outputSchema"] == schema


async def test_title_and_annotations_are_shown() -> None:
    annotations = {"title": "Job!", "readOnlyHint": True, "destructiveHint": False, "openWorldHint": True}

    (shown,) = await described(tool(title="A job", annotations={**annotations, "idempotentHint": True}))

    assert shown["title"] == "A job"
    assert shown["annotations"] == {**annotations, "idempotentHint": True}


@pytest.mark.requirement("R-80")
async def test_a_list_is_never_answered_with_questions() -> None:
    mcp = Mcp(tool("ask", before_start=[{"ok": {"params": {"message": "?", "requestedSchema": FORM}}}]))

    for method in ("tools/list", "server/discover"):
        answer = await mcp.call(method, {"inputResponses": {"ok": {}}, "requestState": "x"})
        assert answer.result["resultType"] == "complete"
