"""What real clients made of the questions that they were sent, found by driving them."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.adapter import Json, Mcp, accepted, tool
from tests.support.legacy import FORMS, RELATED, LegacyClient

YES = accepted(sure=True)


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool(poll_interval="5s"))


async def come_back(mcp: Mcp) -> tuple[LegacyClient, str]:
    """A client that was asked nothing yet and is replaced by another one, of which it knows only the task's id."""
    gone = await LegacyClient.opened(mcp, capabilities=FORMS)
    task_id = await gone.start()
    mcp.ask(task_id)
    mcp.clock.advance(0.001)
    return await LegacyClient.opened(mcp, capabilities=FORMS), task_id


@pytest.mark.requirement("L-44")
async def test_a_question_on_a_plain_call_names_no_task(mcp: Mcp) -> None:
    """ext-tasks 0.2 answers `cancel` by itself to a request about a task that it did not make."""
    client = await LegacyClient.opened(mcp, capabilities=FORMS)
    async with client.stream(client.request("tools/call", {"name": "job", "arguments": {}})) as stream:
        reading = asyncio.create_task(stream.next())
        while not mcp.engine.started:
            await asyncio.sleep(0)
        mcp.ask(mcp.only_task)
        question = await reading
        await client.answer(question, YES)
        mcp.end(mcp.only_task, '"done"')
        answer = await stream.rest()

    assert RELATED not in question["params"].get("_meta", {})
    assert mcp.given == {"q": YES}
    assert answer.text == "done"


@pytest.mark.requirement("L-48")
async def test_who_comes_back_to_an_open_question_gets_the_status_first_and_then_the_question(
    mcp: Mcp,
) -> None:
    """ext-tasks 0.2 answers `cancel` by itself to what comes with the first status after `resumeTask`."""
    client, task_id = await come_back(mcp)

    first = await client.call("tasks/get", {"taskId": task_id})
    second = await client.call("tasks/get", {"taskId": task_id})

    assert (first.requests, first.result["status"]) == ([], "input_required")
    assert first.result["pollInterval"] == 1000, "it is to come again soon"
    assert (len(second.requests), second.result["pollInterval"]) == (1, 5000)
    assert await client.asked(task_id) == [], "once per session"


@pytest.mark.requirement("L-48")
async def test_who_comes_back_by_tasks_result_is_asked_at_once(mcp: Mcp) -> None:
    client, task_id = await come_back(mcp)
    async with client.stream(client.request("tasks/result", {"taskId": task_id})) as stream:
        question = await stream.next()

    assert question["method"] == "elicitation/create"


@pytest.mark.requirement("L-48")
async def test_a_question_that_comes_up_later_is_sent_with_the_next_status(mcp: Mcp) -> None:
    client, task_id = await come_back(mcp)
    await client.call("tasks/get", {"taskId": task_id})
    (first,) = await client.asked(task_id)
    mcp.ask(task_id, "later")
    (second,) = await client.asked(task_id)

    await client.answer(first, YES)
    await client.answer(second, YES)

    assert mcp.given == {"q": YES, "later": YES}


@pytest.mark.requirement("L-48", "L-51")
@pytest.mark.parametrize("capabilities", [{}, {"sampling": {}}])
async def test_nothing_is_noted_for_a_client_that_cannot_be_asked(mcp: Mcp, capabilities: Json) -> None:
    _, task_id = await come_back(mcp)
    client = await LegacyClient.opened(mcp, capabilities=capabilities)

    assert await client.status(task_id) == "working"
    assert mcp.store.tasks[task_id].questions[0].offers == {}
