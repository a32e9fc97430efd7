"""A function's reply goes out in one piece, when it is closed: so nothing may wait for long in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.lambdas.hosting import Function, Legacy, Returned, event_of
from tests.support.adapter import Json, Mcp, tool

FORM_CAPABILITIES: Json = {"elicitation": {"form": {}}}


@pytest.fixture
def function() -> Iterator[Function]:
    with Function(tool(inline_wait="20s"), companion_tools="on", watch_max=1.0) as function:
        yield function


def _started(function: Function) -> str:
    task_id: str = function.call("tools/call", {"name": "job", "arguments": {}}).message["result"]["taskId"]
    return task_id


def _listen(function: Function, *task_ids: str) -> list[Json]:
    params = {"notifications": {"taskIds": list(task_ids)}}
    returned = function.call("subscriptions/listen", params)
    assert returned.headers["content-type"] == "text/event-stream"
    return returned.messages


# --- subscriptions -----------------------------------------------------------------------------------------


def test_a_subscription_is_acknowledged_shows_how_things_are_and_closes(function: Function) -> None:
    running, ended = _started(function), _started(function)
    function.mcp.end(ended)
    before = function.time
    acknowledged, *shown, closed = _listen(function, running, ended, "mcp-unknown")
    assert function.time == before
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["notifications"] == {"taskIds": [running, ended]}
    statuses = {each["params"]["taskId"]: each["params"]["status"] for each in shown}
    assert statuses == {running: "working", ended: "completed"}
    assert closed["result"]["resultType"] == "complete"


def test_a_subscription_to_nothing_closes_too(function: Function) -> None:
    assert [list(message) for message in _listen(function)] == [
        ["jsonrpc", "method", "params"],
        ["jsonrpc", "id", "result"],
    ]


def test_nothing_is_watched_after_a_subscription_closed(function: Function) -> None:
    task_id = _started(function)
    _listen(function, task_id)

    async def watched(mcp: Mcp) -> int:
        return len(mcp.parts.watcher._watched)

    assert function.run(watched) == 0


# --- plain calls -------------------------------------------------------------------------------------------


def _plain_call(function: Function, *, seconds: float = 29.0) -> Returned:
    request = function.mcp.request("tools/call", {"name": "job", "arguments": {}}, caps={})
    return function.invoke(event_of(request), seconds=seconds)


def test_a_plain_call_waits_as_long_as_its_tool_says(function: Function) -> None:
    before = function.time
    returned = _plain_call(function)
    (message,) = returned.messages
    assert "goes on in the background" in message["result"]["content"][0]["text"]
    assert returned.body.startswith("event: message")
    assert 19 < function.time - before <= 20.5


@pytest.mark.parametrize("seconds", [3.0, 10.0, 21.0])
def test_a_plain_call_ends_before_the_function_does(function: Function, seconds: float) -> None:
    before = function.time
    returned = _plain_call(function, seconds=seconds)
    assert returned.status == 200
    assert seconds - 3 <= function.time - before <= seconds - 1


def test_reports_of_a_plain_call_come_before_its_result_in_one_piece() -> None:
    with Function(tool(), watch_max=1.0) as function:
        mcp = function.mcp
        params = {"name": "job", "arguments": {}}
        request = mcp.request("tools/call", params, caps={}, meta={"progressToken": "p"})

        async def work(mcp: Mcp) -> None:
            async def run() -> None:
                while not mcp.store.tasks:
                    await asyncio.sleep(0.1)
                mcp.report(mcp.only_task, 1, progress=1.0, total=2.0)
                await asyncio.sleep(2)
                mcp.end(mcp.only_task, '"done"')

            asyncio.get_running_loop().create_task(run())

        function.run(work)
        returned = function.invoke(event_of(request))
        assert returned.headers["content-type"] == "text/event-stream"
        progress, result = returned.messages
        assert progress["method"] == "notifications/progress"
        assert result["result"]["content"][0]["text"] == "done"


# --- 2025-11-25 --------------------------------------------------------------------------------------------


def _started_by(client: Legacy) -> str:
    params = {"name": "job", "arguments": {}, "task": {"ttl": 60_000}}
    task_id: str = client.call("tools/call", params).message["result"]["task"]["taskId"]
    return task_id


def _way_back(returned: Returned) -> str:
    """The event id that the client comes back with."""
    assert returned.headers["content-type"] == "text/event-stream"
    *_, last = returned.events
    assert int(last["retry"]) >= 1_000
    return last["id"]


def test_the_result_of_a_task_is_held_and_then_continued_until_it_is_there(function: Function) -> None:
    client = Legacy(function)
    task_id = _started_by(client)
    before = function.time
    first = client.call("tasks/result", {"taskId": task_id})
    assert 19 < function.time - before <= 20.5
    assert first.messages == []
    second = client.resume(_way_back(first), "tasks/result")
    assert second.messages == []
    function.mcp.end(task_id, '"done"')
    third = client.resume(_way_back(second), "tasks/result")
    (result,) = third.messages
    assert result["id"] == 1
    assert result["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("seconds", [3.0, 10.0, 20.0])
def test_a_result_is_not_held_longer_than_the_function_runs(function: Function, seconds: float) -> None:
    client = Legacy(function)
    task_id = _started_by(client)
    for number in range(3):
        before = function.time
        if number == 0:
            held = client.call("tasks/result", {"taskId": task_id}, seconds=seconds)
        else:
            held = client.resume(_way_back(held), "tasks/result", seconds=seconds)
        assert held.status == 200
        assert seconds - 3 <= function.time - before <= seconds - 1


def test_a_result_is_continued_by_another_container() -> None:
    keys = ("0123456789abcdef0123456789abcdef",)
    with Function(tool(), signing_keys=keys) as one:
        client = Legacy(one)
        task_id = _started_by(client)
        way_back = _way_back(client.call("tasks/result", {"taskId": task_id}))
        one.mcp.end(task_id, '"done"')
        sibling = one.mcp.sibling(tool(), allowed_hosts=("*",), signing_keys=keys)
        with Function(mcp=sibling) as other:
            client._function = other
            (result,) = client.resume(way_back, "tasks/result").messages
    assert result["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("B-40")
def test_a_question_rides_on_a_reply_that_is_closed_at_once(function: Function) -> None:
    client = Legacy(function, FORM_CAPABILITIES)
    task_id = _started_by(client)
    function.mcp.ask(task_id)
    question, shown = client.call("tasks/get", {"taskId": task_id}).messages
    assert question["method"] == "elicitation/create"
    assert shown["result"]["status"] == "input_required"
    assert client.answer(question["id"], {"action": "accept", "content": {"sure": True}}).status == 202
    assert function.mcp.given == {"q": {"action": "accept", "content": {"sure": True}}}


def test_a_held_result_is_closed_when_a_question_comes_up(function: Function) -> None:
    client = Legacy(function, FORM_CAPABILITIES)
    task_id = _started_by(client)
    function.mcp.ask(task_id)
    before = function.time
    held = client.call("tasks/result", {"taskId": task_id})
    assert function.time == before
    assert "elicitation/create" in [message.get("method") for message in held.messages]
    assert _way_back(held)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_other_requests_never_wait(function: Function, method: str) -> None:
    task_id = _started(function)
    params: Json = {"taskId": task_id}
    if method == "tasks/update":
        function.mcp.ask(task_id)
        params["inputResponses"] = {}
    before = function.time
    assert function.call(method, params).status == 200
    assert function.time == before
