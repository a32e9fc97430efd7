"""Tasks, questions and subscriptions over lines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapter.errors import StoreUnavailable
from adapter.tasks.model import Ending, Outcome
from tests.mcp.asking import CONFIRM
from tests.support.adapter import EXTENSION, PREFIX, TASKS, Json, Mcp, accepted, tool, until
from tests.support.legacy import FORMS, RELATED, timed
from tests.support.memory import MemoryEngine
from tests.support.stdio import Lines, modern
from tests.support.virtual_time import in_virtual_time

from .jobs import CALL, started, watched

YES = accepted(sure=True)
SUBSCRIPTION = PREFIX + "subscriptionId"


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool(inline_wait="20s"), refresh_min=0.001)


@pytest.mark.requirement("R-145", "R-80")
async def test_in_the_modern_era_no_request_is_written(mcp: Mcp) -> None:
    able = {**TASKS, **FORMS}
    async with Lines.opened(mcp) as lines:
        task_id = (await lines.call("tools/call", modern(CALL, able)))["result"]["taskId"]
        mcp.ask(task_id)
        shown = (await lines.call("tasks/get", modern({"taskId": task_id}, able)))["result"]
        answers = modern({"taskId": task_id, "inputResponses": {"q": YES}}, able)
        assert (await lines.call("tasks/update", answers))["result"]["resultType"] == "complete"

    assert shown["inputRequests"].keys() == {"q"}
    assert mcp.given == {"q": YES}
    assert lines.unread == 0


@pytest.mark.requirement("L-48", "L-46", "L-50")
async def test_a_legacy_question_is_a_request_and_its_answer_a_line(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize(FORMS)
        task_id = (await lines.call("tools/call", {**CALL, "task": {}}))["result"]["task"]["taskId"]
        lines.ask("tasks/result", {"taskId": task_id}, "wait")
        await watched(mcp)
        mcp.ask(task_id)
        changed, question = await lines.next(), await lines.next()
        lines.answer(question, YES)
        back = await lines.next()
        mcp.end(task_id, '"done"')
        result = await lines.next()

    assert changed["params"]["status"] == "input_required"
    assert question["method"] == "elicitation/create"
    assert question["params"]["_meta"] == {RELATED: {"taskId": task_id}}
    assert back["params"]["status"] == "working"
    assert (result["id"], result["result"]["content"][0]["text"]) == ("wait", "done")
    assert mcp.given == {"q": YES}


@pytest.mark.requirement("L-46")
@in_virtual_time
async def test_a_line_can_be_held_for_as_long_as_the_work_takes() -> None:
    mcp = timed(tool())
    async with Lines.opened(mcp) as lines:
        await lines.initialize()
        task_id = (await lines.call("tools/call", {**CALL, "task": {}}))["result"]["task"]["taskId"]
        lines.ask("tasks/result", {"taskId": task_id}, "wait")
        await asyncio.sleep(3600)
        assert lines.unread == 0
        mcp.engine.end(mcp.execution(task_id), Outcome(Ending.SUCCEEDED, output='"done"'))
        result = await lines.next()

    assert result["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("L-46", "L-57")
async def test_a_task_that_expires_while_it_is_waited_for_is_told(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize()
        task_id = (await lines.call("tools/call", {**CALL, "task": {}}))["result"]["task"]["taskId"]
        lines.ask("tasks/result", {"taskId": task_id})
        await watched(mcp)
        mcp.clock.advance(25 * 3600)
        answer = await lines.next()

    assert answer["error"] == {"code": -32602, "message": "Task not found"}


@pytest.mark.requirement("L-46")
@pytest.mark.parametrize("how", ["store", "shutdown"])
async def test_a_wait_that_cannot_go_on_is_told(mcp: Mcp, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreachable(_task_id: str) -> None:
        raise StoreUnavailable

    async with Lines.opened(mcp) as lines:
        await lines.initialize()
        task_id = (await lines.call("tools/call", {**CALL, "task": {}}))["result"]["task"]["taskId"]
        lines.ask("tasks/result", {"taskId": task_id})
        await watched(mcp)
        if how == "store":
            monkeypatch.setattr(mcp.store, "read", unreachable)
        mcp.parts.watcher.close()
        answer = await lines.next()

    assert answer["error"]["code"] == -32603


@pytest.mark.requirement("L-48")
@pytest.mark.parametrize("task", [{}, {"task": {}}], ids=["plain", "task"])
async def test_a_tool_that_asks_first_does_so_on_the_line(task: Json) -> None:
    engine = MemoryEngine(ends_at_once=lambda given: Outcome(Ending.SUCCEEDED, output=given.decode()))
    mcp = Mcp(tool(before_start=[CONFIRM], input_schema={"type": "object"}), engine=engine, refresh_min=0.001)
    async with Lines.opened(mcp) as lines:
        await lines.initialize(FORMS)
        lines.ask("tools/call", {**CALL, **task}, "call")
        question = await lines.next()
        lines.answer(question, YES)
        await until(lambda: bool(mcp.engine.started))
        mcp.clock.advance(1)
        result = await lines.next()

    assert result["id"] == "call"
    assert ("task" in result["result"]) == bool(task)
    assert mcp.input(mcp.only_task) == {"ok": YES}


@pytest.mark.requirement("L-58")
async def test_progress_of_a_plain_call_is_told_on_the_line(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize()
        lines.ask("tools/call", {**CALL, "_meta": {"progressToken": "t"}})
        task_id = await started(mcp)
        mcp.report(task_id, 1, progress=1)
        told = await lines.next()
        mcp.end(task_id)
        await lines.next()

    assert told["params"] == {"progressToken": "t", "progress": 1}


@pytest.mark.requirement("L-56", "L-59")
async def test_an_isolated_process_lists_its_own_tasks() -> None:
    mcp = Mcp(tool(), isolation="session")
    async with Lines.opened(mcp) as mine, Lines.opened(mcp) as other:
        await mine.initialize()
        await other.initialize()
        task_id = (await mine.call("tools/call", {**CALL, "task": {}}))["result"]["task"]["taskId"]
        listed = (await mine.call("tasks/list"))["result"]["tasks"]
        foreign = (await other.call("tasks/list"))["result"]["tasks"]

    assert [task["taskId"] for task in listed] == [task_id]
    assert foreign == []


# --- subscriptions --------------------------------------------------------------------------------------


def listen(lines: Lines, *task_ids: str, identifier: str) -> None:
    able: Json = {"extensions": {EXTENSION: {}}}
    lines.ask(
        "subscriptions/listen", modern({"notifications": {"taskIds": list(task_ids)}}, able), identifier
    )


@pytest.mark.requirement("R-97", "R-91")
async def test_subscriptions_share_the_channel_and_are_told_apart_by_their_ids(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        first, second = [
            (await lines.call("tools/call", modern(CALL, TASKS)))["result"]["taskId"] for _ in range(2)
        ]
        listen(lines, first, identifier="a")
        listen(lines, second, identifier="b")
        opening = [await lines.next() for _ in range(4)]
        mcp.end(second)
        mcp.end(first)
        ending = [await lines.next() for _ in range(6)]

    def of(messages: list[Json], identifier: str) -> list[Any]:
        return [m for m in messages if m.get("params", m.get("result"))["_meta"][SUBSCRIPTION] == identifier]

    for identifier, task_id in (("a", first), ("b", second)):
        acknowledged, told = of(opening, identifier)
        assert acknowledged["params"]["notifications"] == {"taskIds": [task_id]}
        assert told["params"]["taskId"] == task_id
        changed, cancelled, result = of(ending, identifier)
        assert (changed["params"]["taskId"], changed["params"]["status"]) == (task_id, "completed")
        assert cancelled["params"]["requestId"] == identifier
        assert result["id"] == identifier


@pytest.mark.requirement("R-95")
async def test_the_end_of_a_subscription_is_told_as_a_cancellation_and_a_result(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        task_id = (await lines.call("tools/call", modern(CALL, TASKS)))["result"]["taskId"]
        listen(lines, task_id, identifier="a")
        for _ in range(2):
            await lines.next()
        mcp.parts.watcher.close()
        cancelled, result = await lines.next(), await lines.next()

    assert cancelled == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": "a", "_meta": {SUBSCRIPTION: "a"}},
    }
    assert result["result"]["_meta"][SUBSCRIPTION] == "a"


@pytest.mark.requirement("R-97", "R-142")
async def test_a_subscription_that_the_client_cancels_ends_in_silence(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        task_id = (await lines.call("tools/call", modern(CALL, TASKS)))["result"]["taskId"]
        listen(lines, task_id, identifier="a")
        for _ in range(2):
            await lines.next()
        lines.notify("notifications/cancelled", requestId="a")
        await until(lambda: not mcp.parts.watcher._watched)
        mcp.end(task_id)
        shown = await lines.call("tasks/get", modern({"taskId": task_id}, TASKS))

    assert shown["result"]["status"] == "completed"
    assert lines.unread == 0
