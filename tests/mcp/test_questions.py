"""Questions of a running workflow: how they are shown, answered, and hidden from those who cannot take them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapter.errors import EngineUnavailable
from tests.support.adapter import FORMS, TASKS, Mcp, accepted, form, tool


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool())


async def asking(mcp: Mcp) -> str:
    """A task whose workflow has just asked."""
    task_id = await mcp.start()
    mcp.ask(task_id)
    return task_id


@pytest.mark.era_rows("modern", 14, 30, 31)
@pytest.mark.requirement("R-113", "R-112", "R-88")
async def test_every_poll_lists_all_open_questions(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.ask(task_id, "one", form("First?", name="string"))
    mcp.ask(task_id, "two", {"mode": "url", "message": "Pay", "url": "https://e.org"})
    both = {"elicitation": {"form": {}, "url": {}}, **TASKS}

    polls = [await mcp.get(task_id, caps=both) for _ in range(3)]

    assert [list(poll["inputRequests"]) for poll in polls] == [["one", "two"]] * 3
    assert polls[0]["inputRequests"]["one"] == {
        "method": "elicitation/create",
        "params": form("First?", name="string"),
    }


@pytest.mark.era_rows("modern", 30, 31, 32)
@pytest.mark.requirement("R-114", "R-112", "B-34")
async def test_answers_may_come_one_at_a_time_and_answered_keys_are_gone_at_once(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.ask(task_id, "one", form(name="string"))
    mcp.ask(task_id, "two", form(sure="boolean"))

    await answer(mcp, task_id, one=accepted(name="Ada"))
    between = await mcp.get(task_id)
    await answer(mcp, task_id, two=accepted(sure=True))
    after = await mcp.get(task_id)

    assert list(between["inputRequests"]) == ["two"]
    assert after["status"] == "working"
    assert mcp.given == {"one": accepted(name="Ada"), "two": accepted(sure=True)}


async def answer(mcp: Mcp, task_id: str, caps: dict[str, Any] = FORMS, **answers: Any) -> dict[str, Any]:
    """The message that answers tasks/update."""
    update = {"taskId": task_id, "inputResponses": answers}
    return (await mcp.call("tasks/update", update, caps=caps)).message


@pytest.mark.requirement("R-114")
async def test_unknown_and_answered_keys_are_ignored_and_acknowledged(mcp: Mcp) -> None:
    task_id = await asking(mcp)

    assert "result" in await answer(mcp, task_id, unknown={"ignored": True})
    await answer(mcp, task_id, q=accepted(sure=True), unknown={"ignored": True})
    assert "result" in await answer(mcp, task_id, q=accepted(sure=False))

    assert mcp.given == {"q": accepted(sure=True)}


@pytest.mark.requirement("R-114")
@pytest.mark.parametrize("responses", [None, 5, "x", [], True, {"q": None}, {"q": 5}, {"unknown": "text"}])
async def test_answers_that_are_no_objects_are_32602(mcp: Mcp, responses: object) -> None:
    task_id = await asking(mcp)

    refused = await mcp.call("tasks/update", {"taskId": task_id, "inputResponses": responses})

    assert refused.refusal == (200, -32602)
    assert "params.inputResponses" in refused.error["message"]
    assert mcp.engine.answers == []


@pytest.mark.requirement("R-114")
async def test_absent_answers_are_32602(mcp: Mcp) -> None:
    task_id = await mcp.start()

    assert (await mcp.call("tasks/update", {"taskId": task_id})).refusal == (200, -32602)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({}, "action"),
        ({"action": "approve"}, "action"),
        ({"action": "accept"}, "content"),
        (accepted(), "sure"),
        (accepted(sure="yes"), "/sure"),
        (accepted(sure=None), "/sure"),
        ({"action": "accept", "content": []}, "content"),
    ],
)
@pytest.mark.requirement("R-88", "R-114")
async def test_a_bad_answer_is_32602_naming_key_and_rule_and_the_question_stays_open(
    mcp: Mcp, wrong: dict[str, Any], rule: str
) -> None:
    task_id = await mcp.start()
    mcp.ask(task_id, "ok", form(required=["sure"], sure="boolean"))

    refused = await answer(mcp, task_id, ok=wrong)

    assert refused["error"]["code"] == -32602
    assert "['ok']" in refused["error"]["message"]
    assert rule in refused["error"]["message"]
    assert list((await mcp.get(task_id))["inputRequests"]) == ["ok"]
    assert "result" in await answer(mcp, task_id, ok=accepted(sure=True))
    assert mcp.given == {"ok": accepted(sure=True)}


@pytest.mark.requirement("R-114")
async def test_of_several_answers_with_a_bad_one_none_is_given(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.ask(task_id, "one", form(name="string"))
    mcp.ask(task_id, "two", form(sure="boolean"))

    refused = await answer(mcp, task_id, one=accepted(name="Ada"), two=accepted(sure="?"))

    assert refused["error"]["code"] == -32602
    assert mcp.given == {}
    assert list((await mcp.get(task_id))["inputRequests"]) == ["one", "two"]


@pytest.mark.requirement("R-88")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_decline_and_cancel_are_given_to_the_workflow_as_they_are(mcp: Mcp, action: str) -> None:
    task_id = await asking(mcp)

    await answer(mcp, task_id, q={"action": action})

    assert mcp.given == {"q": {"action": action}}
    assert (await mcp.get(task_id))["status"] == "working"


@pytest.mark.requirement("R-114", "R-59")
async def test_an_answer_nested_without_bounds_is_32602(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.ask(task_id, "roots", {}, method="roots/list")
    request = mcp.request(
        "tasks/update",
        {"taskId": task_id, "inputResponses": {"roots": {"roots": [], "deep": "PLACE"}}},
        caps={**TASKS, "roots": {}},
    )
    request.body = request.body.replace(b'"PLACE"', b"[" * 500 + b"]" * 500)

    refused = await mcp.send(request)

    assert refused.refusal == (200, -32602)
    assert "['roots']" in refused.error["message"]
    assert mcp.engine.answers == []


# --- what a caller cannot take --------------------------------------------------------------------------

QUESTIONS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "form": ("elicitation/create", form("Sure?", sure="boolean"), {"elicitation": {}}),
    "url": (
        "elicitation/create",
        {"mode": "url", "message": "Pay", "url": "https://e.org"},
        {"elicitation": {"url": {}}},
    ),
    "sampling": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 5},
        {"sampling": {}},
    ),
    "roots": ("roots/list", {}, {"roots": {}}),
}


@pytest.mark.requirement("R-113", "R-82")
@pytest.mark.parametrize("kind", QUESTIONS)
async def test_a_question_is_shown_only_to_callers_who_declare_its_kind(mcp: Mcp, kind: str) -> None:
    method, question, needed = QUESTIONS[kind]
    task_id = await mcp.start()
    mcp.ask(task_id, kind, question, method=method)

    for other, (_, _, declared) in QUESTIONS.items():
        task = await mcp.get(task_id, caps={**TASKS, **declared})
        assert (task["status"] == "input_required") == (other == kind), other
        if other != kind:
            assert task["statusMessage"].startswith(
                f"Waiting for input that this client cannot give: {method}"
            )
    assert (await mcp.get(task_id, caps={**TASKS, **needed}))["inputRequests"].keys() == {kind}


@pytest.mark.requirement("R-113")
async def test_only_the_questions_that_a_caller_can_take_are_listed(mcp: Mcp) -> None:
    task_id = await mcp.start()
    for kind, (method, question, _) in QUESTIONS.items():
        mcp.ask(task_id, kind, question, method=method)

    task = await mcp.get(task_id, caps={**TASKS, "elicitation": {}, "roots": {}})

    assert list(task["inputRequests"]) == ["form", "roots"]


async def test_what_is_awaited_is_said_by_its_message(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.ask(task_id, "a", form("Approve order 7?", sure="boolean"))
    mcp.ask(task_id, "b", {}, method="roots/list")

    task = await mcp.get(task_id, caps=TASKS)

    assert task["status"] == "working"
    assert task["statusMessage"].endswith("elicitation/create (Approve order 7?), roots/list")


async def test_a_question_with_a_deadline_disappears_when_it_has_passed(mcp: Mcp) -> None:
    task_id = await mcp.start()
    mcp.ask(task_id, deadline=mcp.clock() + 10_000)

    before = await mcp.get(task_id)
    mcp.clock.advance(10)
    after = await mcp.get(task_id)
    late = await answer(mcp, task_id, q=accepted(sure=True))

    assert [before["status"], after["status"]] == ["input_required", "working"]
    assert "result" in late
    assert mcp.given == {}


@pytest.mark.requirement("R-113", "R-88")
@pytest.mark.parametrize(
    ("method", "question"),
    [
        ("tools/call", {}),
        ("elicitation/create", {"message": "no schema"}),
        ("elicitation/create", {"mode": "url", "message": "x", "url": "http://e.org"}),
        ("elicitation/create", form("Your password?", password="string")),
    ],
)
async def test_a_question_that_no_client_may_be_asked_is_refused_to_the_workflow(
    mcp: Mcp, method: str, question: dict[str, Any]
) -> None:
    task_id = await mcp.start()
    mcp.ask(task_id, params=question, method=method)

    task = await mcp.get(task_id)

    assert task["status"] == "working"
    assert mcp.given["q"].error == "McpInvalidInputRequest"


async def test_a_question_whose_params_are_no_json_is_refused_to_the_workflow(mcp: Mcp) -> None:
    task_id = await asking(mcp)
    task = mcp.store.tasks[task_id]
    mcp.store.tasks[task_id] = replace(task, questions=(replace(task.questions[0], params="{"),))

    assert (await mcp.get(task_id))["status"] == "working"
    assert "JSON" in mcp.given["q"].cause


async def test_a_cancel_hides_the_questions_at_once(mcp: Mcp, monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = await asking(mcp)
    await mcp.get(task_id)
    monkeypatch.setattr(mcp.engine, "stop", unavailable)

    refused = await mcp.call("tasks/cancel", {"taskId": task_id})
    task = await mcp.get(task_id)

    assert refused.refusal == (200, -32603)
    assert "next tasks/get" in refused.error["message"]
    assert (task["status"], task["statusMessage"]) == ("working", "Cancelling")
    assert "result" in await answer(mcp, task_id, q=accepted(sure=True))
    assert mcp.given == {}


async def unavailable(*_: object, **__: object) -> None:
    raise EngineUnavailable(throttled=True)
