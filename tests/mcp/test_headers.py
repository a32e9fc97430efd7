"""Routing headers, white space, characters and the base64 form."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.mcp.headers import decoded_header
from adapter.mcp.jsonrpc import RpcError
from tests.support.adapter import TASKS, VERSION, Mcp, tool


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool("job"), tool("Job"))


def sentinel(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


@pytest.mark.era_rows("modern", 7)
@pytest.mark.requirement("R-34", "R-35", "R-36", "R-40")
@pytest.mark.parametrize("name", ["mcp-protocol-version", "mcp-method", "mcp-name"])
@pytest.mark.parametrize(
    "value", [None, "", "other", "2026-07-28, 2026-07-28", "tools/call, tools/call", "JOB"]
)
async def test_a_missing_or_different_routing_header_is_32020_at_400(
    mcp: Mcp, name: str, value: str | None
) -> None:
    answer = await mcp.call("tools/call", {"name": "job"}, headers={name: value})

    assert answer.refusal == (400, -32020)
    assert name in answer.error["message"]


@pytest.mark.requirement("R-35", "R-36")
@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("tools/list", {"mcp-method": "TOOLS/LIST"}),
        ("tools/list", {"mcp-method": "Tools/List"}),
        ("tools/call", {"mcp-name": "Job"}),
        ("tools/call", {"mcp-name": "jo"}),
    ],
)
async def test_the_case_of_a_value_counts(mcp: Mcp, method: str, headers: dict[str, str | None]) -> None:
    assert (await mcp.call(method, {"name": "job"}, headers=headers)).refusal == (400, -32020)


@pytest.mark.requirement("R-37")
@pytest.mark.parametrize("around", [" {} ", "\t{}", "{}\t ", "   {}"])
async def test_white_space_around_a_value_does_not_count(mcp: Mcp, around: str) -> None:
    headers: dict[str, str | None] = {
        "mcp-protocol-version": around.format(VERSION),
        "mcp-method": around.format("tools/call"),
        "mcp-name": around.format("job"),
    }

    answer = await mcp.call("tools/call", {"name": "job"}, headers=headers)

    assert answer.result["resultType"] == "task"


@pytest.mark.requirement("R-37")
@pytest.mark.parametrize("space", ["\xa0", "\x0b", "\x0c", "\r", "\n", "\x1c"])
async def test_only_space_and_tab_are_white_space(mcp: Mcp, space: str) -> None:
    answer = await mcp.call("tools/list", headers={"mcp-method": "tools/list" + space})

    assert answer.refusal == (400, -32020)


@pytest.mark.requirement("R-39", "R-40")
@pytest.mark.parametrize("name", ["mcp-protocol-version", "mcp-method", "mcp-name"])
@pytest.mark.parametrize("odd", ["\x00", "\x01", "\x1b", "\x7f", "é", "\xff", "a\tb", "日"])
async def test_control_and_non_ascii_characters_are_refused(mcp: Mcp, name: str, odd: str) -> None:
    answer = await mcp.call("tools/call", {"name": f"job{odd}"}, headers={name: f"job{odd}"})

    assert answer.refusal == (400, -32020)


@pytest.mark.requirement("R-36")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_on_tasks_the_name_header_may_be_missing_but_not_wrong(mcp: Mcp, method: str) -> None:
    task_id = await mcp.start()
    params = {"taskId": task_id, "inputResponses": {}}

    for fine in (None, task_id, f" {task_id} ", sentinel(task_id)):
        assert (await mcp.call(method, params, headers={"mcp-name": fine})).status == 200
    for wrong in ("", "mcp-other", "job", sentinel("mcp-other"), task_id.upper()):
        answer = await mcp.call(method, params, headers={"mcp-name": wrong})
        assert answer.refusal == (400, -32020)


@pytest.mark.requirement("R-36")
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "subscriptions/listen", "tasks/result"])
@pytest.mark.parametrize("value", [None, "anything"])
async def test_no_other_method_needs_or_reads_a_name(mcp: Mcp, method: str, value: str | None) -> None:
    params = {"taskId": "mcp-1", "name": "job", "notifications": {"taskIds": []}}

    answer = await mcp.call(method, params, headers={"mcp-name": value})

    assert answer.status == (404 if method == "tasks/result" else 200)


@pytest.mark.requirement("R-57")
@pytest.mark.parametrize("name", [None, 5, ["job"], {}, True])
async def test_a_name_that_no_header_can_repeat_is_told_as_a_bad_param(mcp: Mcp, name: object) -> None:
    answer = await mcp.call("tools/call", {"name": name}, headers={"mcp-name": None})

    assert answer.refusal == (200, -32602)
    assert "params.name" in answer.error["message"]


@pytest.mark.requirement("R-38")
async def test_the_base64_form_of_a_name_is_decoded(mcp: Mcp) -> None:
    answer = await mcp.call("tools/call", {"name": "job"}, headers={"mcp-name": sentinel("job")})

    assert answer.result["resultType"] == "task"


@pytest.mark.requirement("R-38", "R-40")
@pytest.mark.parametrize(
    "middle",
    [
        "SGVsbG8",
        "SGVsbG8==",
        "SGVs!!!bG8=",
        "SGVs bG8=",
        "SGVs_G8=",
        "=",
        "====",
        "a",
        "/w==",
        "wyg=",
        "7aCA",
        "?=?base64?",
    ],
)
async def test_a_base64_form_that_does_not_decode_strictly_is_refused(mcp: Mcp, middle: str) -> None:
    answer = await mcp.call("tools/call", {"name": "Hello"}, headers={"mcp-name": f"=?base64?{middle}?="})

    assert answer.refusal == (400, -32020)
    assert "base64" in answer.error["message"]


@pytest.mark.requirement("R-38")
@pytest.mark.parametrize(
    "literal",
    [
        "=?base64?Sm9i",
        "Sm9i?=",
        "=?BASE64?Sm9i?=",
        "=?base64?",
        "=?base64?=",
        "=?base64Sm9i?=",
        "?base64?Sm9i?=",
        "a=?base64?Sm9i?=",
        "=?base64?Sm9i?=a",
    ],
)
def test_what_lacks_prefix_or_suffix_is_literal(literal: str) -> None:
    assert decoded_header({"mcp-name": literal}, "mcp-name") == literal


@pytest.mark.requirement("R-38")
@given(st.text())
def test_any_text_survives_the_base64_form(text: str) -> None:
    assert decoded_header({"mcp-name": f" {sentinel(text)}\t"}, "mcp-name") == text


@pytest.mark.requirement("R-38", "R-39")
@given(st.text(st.characters(codec="latin-1")).filter(lambda value: "=?base64?" not in value))
def test_any_other_header_value_is_literal_or_refused(value: str) -> None:
    stripped = value.strip(" \t")

    if stripped.isascii() and stripped.isprintable():
        assert decoded_header({"mcp-name": value}, "mcp-name") == stripped
    else:
        with pytest.raises(RpcError) as caught:
            decoded_header({"mcp-name": value}, "mcp-name")
        assert (caught.value.code, caught.value.status) == (-32020, 400)


@pytest.mark.requirement("R-38")
@pytest.mark.parametrize("name", ["mcp-method", "mcp-protocol-version"])
async def test_method_and_version_are_never_decoded(mcp: Mcp, name: str) -> None:
    value = sentinel("tools/list" if name == "mcp-method" else VERSION)

    assert (await mcp.call("tools/list", headers={name: value})).refusal == (400, -32020)


@pytest.mark.requirement("R-36")
async def test_a_task_can_be_followed_without_any_name_header(mcp: Mcp) -> None:
    task_id = await mcp.start()
    silent = {"headers": {"mcp-name": None}, "caps": TASKS}

    assert (await mcp.get(task_id, **silent))["status"] == "working"
    assert (await mcp.call("tasks/cancel", {"taskId": task_id}, **silent)).status == 200
