"""`before_start`: questions that are asked before a task exists."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mcp.asking import (
    CANCEL,
    CONFIRM,
    DECLINE,
    EVERYTHING,
    NAME,
    OPEN,
    ROOT_LIST,
    ROOTS,
    SAMPLE,
    SAMPLE_PARAMS,
    SAMPLED,
    URL,
    YES,
    asked,
    asking,
    call,
)
from tests.support.adapter import TASKS, accepted, form


@pytest.mark.era_rows("modern", 49)
@pytest.mark.requirement("R-81", "R-88", "R-80", "R-50")
async def test_the_first_round_asks_and_starts_nothing() -> None:
    mcp = asking(CONFIRM)

    result = (await call(mcp)).result

    assert result.keys() == {"resultType", "inputRequests", "requestState", "_meta"}
    params = {"mode": "form", **form("Delete it?", ["sure"], sure="boolean")}
    assert result["inputRequests"] == {"ok": {"method": "elicitation/create", "params": params}}
    assert (mcp.engine.started, mcp.store.tasks) == ([], {})


@pytest.mark.era_rows("modern", 48)
@pytest.mark.requirement("R-81", "R-82", "R-88")
@pytest.mark.parametrize(
    ("round_", "answer", "method"),
    [
        (CONFIRM, YES, "elicitation/create"),
        (URL, {"action": "accept"}, "elicitation/create"),
        (SAMPLE, SAMPLED, "sampling/createMessage"),
        (ROOTS, ROOT_LIST, "roots/list"),
    ],
    ids=["form", "url", "sampling", "roots"],
)
@pytest.mark.requirement("R-83", "R-87")
async def test_each_kind_of_question_is_asked_and_its_answer_reaches_the_workflow(
    round_: dict[str, Any], answer: dict[str, Any], method: str
) -> None:
    mcp = asking(round_)
    (key,) = round_
    first = await call(mcp, identifier=1)

    second = await call(mcp, {key: answer}, first.result["requestState"], identifier="another")

    assert first.result["inputRequests"][key]["method"] == method
    assert second.result["resultType"] == "task"
    assert mcp.input(second.result["taskId"]) == {key: answer}


@pytest.mark.requirement("R-87", "R-106", "R-109", "R-81")
async def test_the_handle_after_the_rounds_carries_neither_state_nor_questions() -> None:
    mcp = asking(CONFIRM)
    first = await call(mcp)

    second = await call(mcp, {"ok": YES}, first.result["requestState"])

    assert "taskId" not in first.result
    assert not second.result.keys() & {"requestState", "inputRequests"}
    assert not (await mcp.get(second.result["taskId"])).keys() & {"requestState", "inputRequests"}


@pytest.mark.requirement("R-83", "R-84", "R-85", "R-87")
async def test_rounds_follow_each_other_and_the_state_changes_between_them() -> None:
    mcp = asking(NAME, CONFIRM, URL)
    first = await call(mcp)
    second = await call(mcp, {"who": accepted(name="Ada")}, first.result["requestState"])
    third = await call(mcp, {"ok": YES}, second.result["requestState"])
    fourth = await call(mcp, {"pay": DECLINE | {"action": "accept"}}, third.result["requestState"])

    assert [asked(each) for each in (first, second, third)] == [{"who"}, {"ok"}, {"pay"}]
    states = [each.result["requestState"] for each in (first, second, third)]
    assert len(set(states)) == 3
    assert mcp.input(fourth.result["taskId"]) == {
        "who": accepted(name="Ada"),
        "ok": YES,
        "pay": {"action": "accept"},
    }


@pytest.mark.requirement("R-86")
async def test_answers_that_come_at_once_are_accepted_without_any_state() -> None:
    mcp = asking(NAME, CONFIRM)

    answer = await call(mcp, {"who": accepted(name="Ada"), "ok": YES})

    assert mcp.input(answer.result["taskId"]) == {"who": accepted(name="Ada"), "ok": YES}


@pytest.mark.requirement("R-85", "R-86")
async def test_unknown_keys_are_ignored_and_missing_ones_asked_for_again() -> None:
    mcp = asking({**NAME, **CONFIRM})
    first = await call(mcp)

    wrong = await call(mcp, {"wrong": YES})
    partly = await call(mcp, {"ok": YES, "extra": {"x": 1}}, first.result["requestState"])
    whole = await call(mcp, {"who": accepted(name="Ada"), "extra": {}}, partly.result["requestState"])

    assert asked(first) == asked(wrong) == {"who", "ok"}
    assert asked(partly) == {"who"}
    assert mcp.input(whole.result["taskId"]) == {"ok": YES, "who": accepted(name="Ada")}


@pytest.mark.requirement("R-85")
@pytest.mark.parametrize("answers", [5, "x", [], True, {"ok": 12345}, {"ok": None}, {"ok": []}, {"x": 1}])
async def test_malformed_answers_are_32602_and_never_taken(answers: object) -> None:
    mcp = asking(CONFIRM)

    refused = await call(mcp, answers)

    assert refused.refusal == (200, -32602)
    assert "inputResponses" in refused.error["message"]
    assert mcp.engine.started == []


@pytest.mark.requirement("R-85")
async def test_null_answers_are_32602() -> None:
    mcp = asking(CONFIRM)

    refused = await call(mcp, params={"inputResponses": None})

    assert refused.refusal == (200, -32602)


@pytest.mark.requirement("R-85", "R-88")
@pytest.mark.parametrize(
    ("round_", "answer", "rule"),
    [
        (CONFIRM, {}, "action"),
        (CONFIRM, {"action": "yes"}, "action"),
        (CONFIRM, {"action": "accept"}, "content"),
        (CONFIRM, {"action": "accept", "content": None}, "content"),
        (CONFIRM, accepted(), "sure"),
        (CONFIRM, accepted(sure="yes"), "/sure"),
        (CONFIRM, accepted(sure=1), "/sure"),
        (CONFIRM, accepted(sure={"a": 1}), "sure"),
        (SAMPLE, {"role": "assistant", "model": "m"}, "content"),
        (SAMPLE, {**SAMPLED, "role": "system"}, "role"),
        (SAMPLE, {**SAMPLED, "content": {"type": "video"}}, "content"),
        (ROOTS, {"roots": [{"name": "no uri"}]}, "uri"),
        (ROOTS, {"roots": {}}, "roots"),
        (ROOTS, {}, "roots"),
    ],
)
async def test_an_answer_that_does_not_fit_its_question_is_32602_naming_key_and_rule(
    round_: dict[str, Any], answer: dict[str, Any], rule: str
) -> None:
    mcp = asking(round_)
    (key,) = round_

    refused = await call(mcp, {key: answer})

    assert refused.refusal == (200, -32602)
    assert f"[{key!r}]" in refused.error["message"]
    assert rule in refused.error["message"]
    assert mcp.engine.started == []


@pytest.mark.requirement("R-85", "R-84")
async def test_a_bad_answer_can_be_mended_with_the_same_state() -> None:
    mcp = asking(CONFIRM)
    state = (await call(mcp)).result["requestState"]

    refused = await call(mcp, {"ok": accepted(sure="perhaps")}, state)
    mended = await call(mcp, {"ok": YES}, state)

    assert refused.error["code"] == -32602
    assert mended.result["resultType"] == "task"


# --- declining ------------------------------------------------------------------------------------------


@pytest.mark.requirement("R-88")
@pytest.mark.parametrize(
    ("answer", "said"), [(DECLINE, "declined"), (CANCEL, "cancelled"), (accepted(sure=False), "other than")]
)
@pytest.mark.parametrize("caps", [EVERYTHING, {"elicitation": {}}], ids=["task", "plain"])
async def test_whoever_says_no_starts_nothing(
    answer: dict[str, Any], said: str, caps: dict[str, Any]
) -> None:
    mcp = asking(CONFIRM)
    state = (await call(mcp, caps=caps)).result["requestState"]

    refused = await call(mcp, {"ok": answer}, state, caps=caps)

    assert refused.result["isError"] is True
    assert "Nothing was started" in refused.text
    assert said in refused.text
    assert mcp.engine.started == []


@pytest.mark.requirement("R-88", "R-87")
@pytest.mark.parametrize("answer", [DECLINE, CANCEL])
async def test_where_the_tool_goes_on_a_no_is_data_for_the_workflow(answer: dict[str, Any]) -> None:
    mcp = asking({"who": {**NAME["who"], "on_decline": "continue"}})

    task = await call(mcp, {"who": answer})

    assert mcp.input(task.result["taskId"]) == {"who": answer}


async def test_the_content_of_a_declined_form_is_never_used_as_arguments() -> None:
    asked_for = {"params": form("Who?", name="string"), "into": "arguments", "on_decline": "continue"}
    mcp = asking({"who": asked_for}, input_schema={**OPEN, "properties": {"name": {"type": "string"}}})

    task = await call(mcp, {"who": {**DECLINE, "content": {"name": "Mallory", "more": 1}}})

    assert mcp.input(task.result["taskId"]) == {}


async def test_an_accepted_url_needs_no_content_and_declining_it_stops() -> None:
    mcp = asking(URL)

    assert (await call(mcp, {"pay": {"action": "accept"}})).result["resultType"] == "task"
    assert "declined" in (await call(mcp, {"pay": DECLINE})).text


# --- arguments ------------------------------------------------------------------------------------------

FILL = {"more": {"params": form("Which day?", ["day"], day="string", note="string"), "into": "arguments"}}
DAY_SCHEMA = {
    "type": "object",
    "properties": {
        "day": {"type": "string", "format": "date"},
        "note": {"type": "string"},
        "n": {"type": "integer"},
    },
    "required": ["day", "n"],
    "additionalProperties": False,
}


@pytest.mark.requirement("R-87", "R-58")
async def test_a_missing_argument_is_asked_for_instead_of_failing() -> None:
    mcp = asking(FILL, input_schema=DAY_SCHEMA)
    params = {"arguments": {"n": 5}}
    first = await call(mcp, params=params)

    second = await call(
        mcp, {"more": accepted(day="2026-07-28", note="x")}, first.result["requestState"], params=params
    )

    assert asked(first) == {"more"}
    assert mcp.input(second.result["taskId"]) == {"n": 5, "day": "2026-07-28", "note": "x"}


@pytest.mark.requirement("R-58")
async def test_arguments_are_checked_before_anything_is_asked() -> None:
    mcp = asking(FILL, input_schema=DAY_SCHEMA)

    for arguments, rule in (({"n": "5"}, "/n"), ({}, "n"), ({"n": 5, "odd": 1}, "odd")):
        refused = await call(mcp, params={"arguments": arguments})
        assert refused.result["isError"] is True
        assert rule in refused.text


@pytest.mark.requirement("R-58", "R-85")
async def test_arguments_are_checked_again_with_the_answers() -> None:
    mcp = asking(FILL, input_schema=DAY_SCHEMA)

    refused = await call(mcp, {"more": accepted(day="soon")}, params={"arguments": {"n": 5}})

    assert refused.result["isError"] is True
    assert "/day" in refused.text
    assert mcp.engine.started == []


async def test_what_a_form_would_fill_is_not_asked_for_when_it_is_there_already() -> None:
    mcp = asking(FILL, CONFIRM, input_schema=DAY_SCHEMA)

    answer = await call(mcp, params={"arguments": {"n": 5, "day": "2026-07-28"}})

    assert asked(answer) == {"ok"}


async def test_a_form_fills_only_what_it_asks_for() -> None:
    fill = {"more": {"params": form("Which?", ["day"], day="string"), "into": "arguments"}}
    schema = {**OPEN, "properties": {"day": {"type": "string"}}}
    mcp = asking(fill, input_schema=schema)

    task = await call(mcp, {"more": accepted(day="Monday", admin=True)})

    assert mcp.input(task.result["taskId"]) == {"day": "Monday"}


@pytest.mark.requirement("R-59")
async def test_what_only_an_answer_may_fill_cannot_be_sent_as_an_argument() -> None:
    mcp = asking({"ok": {**CONFIRM["ok"], "into": "approval"}})

    forged = await call(mcp, params={"arguments": {"approval": YES}})
    honest = await call(mcp, {"ok": YES})

    assert forged.result["isError"] is True
    assert "/approval" in forged.text
    assert mcp.input(honest.result["taskId"]) == {"approval": YES}


# --- capabilities ---------------------------------------------------------------------------------------


@pytest.mark.requirement("R-82", "R-09", "R-12")
@pytest.mark.parametrize(
    ("round_", "caps", "needed"),
    [
        (CONFIRM, {}, {"elicitation": {}}),
        (CONFIRM, {"elicitation": {"url": {}}}, {"elicitation": {}}),
        (CONFIRM, {"elicitation": True}, {"elicitation": {}}),
        (URL, {}, {"elicitation": {"url": {}}}),
        (URL, {"elicitation": {}}, {"elicitation": {"url": {}}}),
        (URL, {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}),
        (SAMPLE, {"elicitation": {}}, {"sampling": {}}),
        (ROOTS, {"sampling": {}}, {"roots": {}}),
        (
            {"model": {**SAMPLE["model"], "params": {**SAMPLE_PARAMS, "tools": []}}},
            {"sampling": {}},
            {"sampling": {"tools": {}}},
        ),
    ],
)
async def test_what_the_client_did_not_declare_is_not_asked_but_demanded(
    round_: dict[str, Any], caps: dict[str, Any], needed: dict[str, Any]
) -> None:
    mcp = asking(round_)

    refused = await call(mcp, caps=caps)

    assert refused.refusal == (400, -32021)
    assert refused.error["data"] == {"requiredCapabilities": needed}
    assert mcp.engine.started == []


@pytest.mark.requirement("R-82")
async def test_a_later_round_that_cannot_be_asked_is_told_at_once() -> None:
    refused = await call(asking(CONFIRM, ROOTS), caps={"elicitation": {}})

    assert refused.refusal == (400, -32021)
    assert refused.error["data"] == {"requiredCapabilities": {"roots": {}}}


@pytest.mark.requirement("R-82")
@pytest.mark.parametrize(
    "caps", [{"elicitation": {}}, {"elicitation": {"form": {}}}, {"elicitation": {"form": {}, "url": {}}}]
)
async def test_an_empty_declaration_means_forms(caps: dict[str, Any]) -> None:
    assert asked(await call(asking(CONFIRM), caps=caps)) == {"ok"}


@pytest.mark.requirement("R-82")
async def test_an_optional_question_is_put_only_to_those_who_can_take_it() -> None:
    optional = {"ok": {**CONFIRM["ok"], "when_supported": True}}
    mcp = asking({**optional, "model": {**SAMPLE["model"], "when_supported": True}})

    assert asked(await call(mcp)) == {"ok", "model"}
    assert asked(await call(mcp, caps={"sampling": {}})) == {"model"}
    task = await call(mcp, caps=TASKS)
    assert mcp.input(task.result["taskId"]) == {}


async def test_an_argument_that_could_not_be_asked_for_is_still_required() -> None:
    mcp = asking({"more": {**FILL["more"], "when_supported": True}}, input_schema=DAY_SCHEMA)

    refused = await call(mcp, params={"arguments": {"n": 5}}, caps=TASKS)

    assert refused.result["isError"] is True
    assert "day" in refused.text
