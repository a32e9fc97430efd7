"""task_answer: a model answers only where the tool lets it, and only forms."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.adapter import Json, Mcp, accepted, form, tool
from tests.support.legacy import LegacyClient

from .host import ERAS, Host, background, begun, text

YES = accepted(sure=True)
APPROVE = form("Approve order 7?", ["sure"], sure="boolean")


def answering(**members: Any) -> Mcp:
    return background(tool(inline_wait="0s", model_may_answer=True, **members))


@pytest.mark.parametrize("era", ERAS)
async def test_an_open_question_is_shown_with_its_schema(era: str) -> None:
    mcp = answering()
    host, task_id = await begun(mcp, era)
    mcp.ask(task_id, params=APPROVE)

    result = await host.call("task_status", task_id=task_id)

    assert "It asks (q): Approve order 7?" in text(result)
    assert '"sure":{"type":"boolean"}' in text(result)
    assert "Answer it with task_answer." in text(result)
    if era != "2025-03-26":
        assert result["structuredContent"]["questions"] == [
            {
                "question": "q",
                "message": "Approve order 7?",
                "schema": APPROVE["requestedSchema"],
                "you_may_answer": True,
            }
        ]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ({"action": "accept", "content": {"sure": True}}, YES),
        ({"action": "decline"}, {"action": "decline"}),
        ({"action": "decline", "content": {"sure": True}}, {"action": "decline"}),
    ],
)
async def test_where_the_tool_lets_it_a_model_answers(era: str, said: Json, answer: Json) -> None:
    mcp = answering()
    host, task_id = await begun(mcp, era)
    mcp.ask(task_id, params=APPROVE)

    result = await host.call("task_answer", task_id=task_id, question="q", **said)

    assert mcp.given == {"q": answer}
    assert "The answer was given." in text(result)


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays() -> None:
    mcp = answering()
    host, task_id = await begun(mcp)
    mcp.ask(task_id, params=APPROVE)

    for content in ({}, {"sure": "yes"}):
        result = await host.call(
            "task_answer", task_id=task_id, question="q", action="accept", content=content
        )
        assert result["isError"] is True
        assert "does not fit the question" in text(result)
    assert (await host.call("task_answer", task_id=task_id, question="q", action="accept"))["isError"] is True
    assert mcp.given == {}


@pytest.mark.parametrize("era", ERAS)
async def test_a_model_does_not_decide_for_a_person(era: str) -> None:
    mcp = background()
    host, task_id = await begun(mcp, era)
    mcp.ask(task_id, params=APPROVE)

    shown = await host.call("task_status", task_id=task_id)
    refused = await host.call(
        "task_answer", task_id=task_id, question="q", action="accept", content=YES["content"]
    )
    declined = await host.call("task_answer", task_id=task_id, question="q", action="decline")

    assert "A person must answer it" in text(shown)
    for result in (refused, declined):
        assert result["isError"] is True
        assert "Approve order 7?" in text(result)
        assert f"adapter call --task {task_id}" in text(result)
    assert mcp.given == {}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("elicitation/create", {"mode": "url", "message": "Pay", "url": "https://pay.example.com/1"}),
        ("sampling/createMessage", {"messages": [], "maxTokens": 1}),
        ("roots/list", {}),
    ],
)
async def test_only_forms_are_for_a_model_to_answer(method: str, params: Json) -> None:
    mcp = answering()
    host, task_id = await begun(mcp)
    mcp.ask(task_id, params=params, method=method)

    shown = await host.call("task_status", task_id=task_id)
    refused = await host.call("task_answer", task_id=task_id, question="q", action="accept")

    assert shown["structuredContent"]["questions"][0]["you_may_answer"] is False
    assert "A person must decide this" in text(refused)
    assert mcp.given == {}


async def test_a_tool_that_is_gone_lets_no_model_answer() -> None:
    mcp = answering()
    _, task_id = await begun(mcp)
    mcp.ask(task_id, params=APPROVE)
    without = mcp.sibling(tool("other"), companion_tools="on")

    refused = await Host(without).call("task_answer", task_id=task_id, question="q", action="decline")

    assert "A person must decide this" in text(refused)


@pytest.mark.parametrize("question", ["other", "", "q "])
async def test_a_question_that_is_not_open_is_told(question: str) -> None:
    mcp = answering()
    host, task_id = await begun(mcp)
    mcp.ask(task_id, params=APPROVE)

    result = await host.call("task_answer", task_id=task_id, question=question, action="decline")

    assert result["isError"] is True
    assert "not open" in text(result)


async def test_a_person_answers_in_another_client_and_the_model_goes_on() -> None:
    mcp = background()
    host, task_id = await begun(mcp)
    mcp.ask(task_id, params=APPROVE)
    person = await LegacyClient.opened(mcp, capabilities={"elicitation": {}})

    (question,) = await person.asked(task_id)
    await person.answer(question, YES)
    mcp.end(task_id, '"shipped"')

    assert text(await host.call("task_result", task_id=task_id)) == "shipped"
