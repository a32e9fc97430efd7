"""tools/list as each version knows tools, and plain results as each knows results."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from adapter.tasks.model import Ending
from tests.mcp.test_listing import RICH_SCHEMA
from tests.support.adapter import Mcp, tool
from tests.support.legacy import LATEST, VERSIONS, LegacyClient

OBJECT: dict[str, Any] = {"type": "object", "properties": {"rows": {"type": "integer"}}, "required": ["rows"]}
ANNOTATIONS = {"readOnlyHint": True, "title": "Hint"}


def rich(**members: Any) -> Mcp:
    """One tool with everything that a tool can have."""
    full = {"title": "Job", "output_schema": OBJECT, "annotations": ANNOTATIONS, "input_schema": RICH_SCHEMA}
    return Mcp(tool(**{**full, **members}))


async def listed(mcp: Mcp, version: str) -> dict[str, Any]:
    (found,) = (await (await LegacyClient.opened(mcp, version)).call("tools/list")).result["tools"]
    return dict(found)


@pytest.mark.requirement("L-30")
@pytest.mark.era_rows("legacy", 45)
@pytest.mark.parametrize(
    ("version", "members"),
    [
        ("2025-03-26", set()),
        ("2025-06-18", {"title", "outputSchema"}),
        (LATEST, {"title", "outputSchema", "execution"}),
    ],
)
async def test_a_tool_has_the_members_that_the_version_knows(version: str, members: set[str]) -> None:
    common = {"name", "description", "inputSchema", "annotations"}

    assert (await listed(rich(), version)).keys() == common | members


@pytest.mark.requirement("L-30")
@pytest.mark.era_rows("legacy", 21)
@pytest.mark.parametrize("support", ["required", "optional", "forbidden"])
async def test_task_support_is_told_per_tool(support: str) -> None:
    found = await listed(rich(task_support=support), LATEST)

    assert found["execution"] == {"taskSupport": support}


@pytest.mark.requirement("L-30")
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_list_has_no_caching_hints(version: str) -> None:
    client = await LegacyClient.opened(rich(), version)

    assert (await client.call("tools/list")).result.keys() == {"tools"}


@pytest.mark.requirement("L-31")
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_keyword_of_an_input_schema_is_kept(version: str) -> None:
    found = await listed(rich(), version)

    assert orjson.dumps(found["inputSchema"]) == orjson.dumps(RICH_SCHEMA)


@pytest.mark.requirement("L-30")
@pytest.mark.era_rows("legacy", 47)
@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": "string"}, {"anyOf": [OBJECT]}, {}])
async def test_an_output_schema_that_is_no_object_at_its_root_is_not_shown(schema: dict[str, Any]) -> None:
    assert "outputSchema" not in await listed(rich(output_schema=schema), LATEST)


@pytest.mark.requirement("B-01")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_host_that_reads_one_page_only_sees_every_tool(version: str) -> None:
    client = await LegacyClient.opened(Mcp(*(tool(f"tool-{number}") for number in range(131))), version)

    result = (await client.call("tools/list")).result

    assert [each["name"] for each in result["tools"]] == [f"tool-{n}" for n in range(131)]
    assert "nextCursor" not in result


@pytest.mark.requirement("L-30", "B-01", "B-02")
@pytest.mark.parametrize("version", VERSIONS)
async def test_all_of_many_tools_are_listed_over_pages(version: str) -> None:
    mcp = Mcp(*(tool(f"tool-{number}") for number in range(131)), page_size=100)
    client = await LegacyClient.opened(mcp, version)

    first = (await client.call("tools/list")).result
    second = (await client.call("tools/list", {"cursor": first["nextCursor"]})).result

    assert (len(first["tools"]), len(second["tools"])) == (100, 31)
    assert "nextCursor" not in second
    assert [each["name"] for each in first["tools"] + second["tools"]] == [f"tool-{n}" for n in range(131)]


@pytest.mark.requirement("L-30")
@pytest.mark.parametrize("cursor", ["", "garbage", 5, [], {}])
async def test_a_cursor_that_is_not_ours_is_refused(cursor: object) -> None:
    client = await LegacyClient.opened(rich())

    assert (await client.call("tools/list", {"cursor": cursor})).refusal == (200, -32602)


# --- results --------------------------------------------------------------------------------------------


async def result_of(mcp: Mcp, version: str, output: object, **how: Any) -> dict[str, Any]:
    """The result of a plain call whose job gave this output."""
    client = await LegacyClient.opened(mcp, version)
    calling = asyncio.create_task(client.call("tools/call", {"name": "job", "arguments": {"score": 1}}))
    while not mcp.engine.started:
        await asyncio.wait({calling}, timeout=0.001)
    mcp.end(mcp.only_task, orjson.dumps(output).decode(), **how)
    return (await calling).result


@pytest.mark.requirement("L-33", "B-45")
@pytest.mark.parametrize(
    ("version", "structured"), [("2025-03-26", None), ("2025-06-18", {"rows": 3}), (LATEST, {"rows": 3})]
)
async def test_structured_content_is_for_versions_that_know_it(version: str, structured: object) -> None:
    result = await result_of(rich(), version, {"rows": 3})

    assert result["content"] == [{"type": "text", "text": '{"rows":3}'}]
    assert result.get("structuredContent") == structured
    assert result.keys() <= {"content", "structuredContent"}


@pytest.mark.requirement("L-33")
@pytest.mark.era_rows("legacy", 46)
@pytest.mark.parametrize(("schema", "output"), [({"type": "array"}, [1, 2]), ({"type": "string"}, "text")])
async def test_structured_content_that_is_no_object_is_left_out(schema: Any, output: object) -> None:
    result = await result_of(rich(output_schema=schema), LATEST, output)

    assert result.keys() == {"content"}


@pytest.mark.requirement("L-33")
@pytest.mark.parametrize("version", VERSIONS)
async def test_links_to_resources_are_text_for_the_version_that_has_none(version: str) -> None:
    link = {"type": "resource_link", "uri": "s3://bucket/report.csv", "name": "report"}
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}

    content = (await result_of(rich(output_schema=None), version, {"content": [link, picture]}))["content"]

    early = {"type": "text", "text": "report: s3://bucket/report.csv"}
    assert content == [early if version == "2025-03-26" else link, picture]


@pytest.mark.requirement("L-33")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_result_of_the_workflows_own_keeps_its_error_mark_and_metadata(version: str) -> None:
    own = {"content": [{"type": "text", "text": "no"}], "isError": True, "_meta": {"example.com/x": 1}}

    assert await result_of(rich(output_schema=None), version, own) == own


@pytest.mark.requirement("L-33", "B-36", "B-48")
async def test_numbers_keep_their_kind_and_output_that_looks_like_a_task_is_only_data() -> None:
    output = {"task": {"taskId": "other", "status": "working"}, "ratio": 0.5, "count": 3, "big": 2**53}

    result = await result_of(rich(output_schema=None), LATEST, output)

    assert orjson.loads(result["content"][0]["text"]) == output
    assert result.keys() == {"content"}


@pytest.mark.requirement("L-33", "L-32", "B-45")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"ending": Ending.FAILED, "error": "Boom", "cause": "it broke"}, "Boom: it broke"),
        ({"ending": Ending.TIMED_OUT}, "The execution timed out"),
        ({"ending": Ending.ABORTED, "cause": "by an operator"}, "by an operator"),
    ],
)
async def test_a_failure_is_an_error_result_without_structured_content(
    version: str, how: dict[str, Any], text: str
) -> None:
    result = await result_of(rich(), version, None, **how)

    assert result == {"content": [{"type": "text", "text": text}], "isError": True}


@pytest.mark.requirement("L-33")
@pytest.mark.parametrize("output", [{"rows": "three"}, [], "text"])
async def test_output_that_breaks_the_output_schema_is_an_error_result(output: object) -> None:
    result = await result_of(rich(), LATEST, output)

    assert result["isError"] is True
    assert "structuredContent" not in result
