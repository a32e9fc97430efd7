"""What servers other than ours may do to a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from adapter.cli.answers import Answers, NoAnswer
from adapter.cli.client import RequestRefused
from adapter.cli.display import Display, elapsed_text
from adapter.cli.exits import CommandError, ExitCode
from adapter.cli.following import Follower

_TOOL = {"name": "work", "inputSchema": {"type": "object"}}
_FORM = {"method": "elicitation/create", "params": {"message": "Well?", "requestedSchema": {}}}


class _Scripted:
    """A client whose server gives these replies in turn; an exception is raised."""

    def __init__(self, *replies: dict[str, Any] | Exception) -> None:
        self._replies = list(replies)
        self.sent: list[tuple[str, Mapping[str, Any]]] = []

    async def call_tool(
        self, _tool: object, params: Mapping[str, Any], *, on_notification: Any, on_sent: Any
    ) -> Any:
        on_sent()
        on_notification({"method": "notifications/progress", "params": {"message": "on its way"}})
        on_notification({"method": "notifications/message", "params": {}})
        return self._next("tools/call", params)

    async def on_task(self, method: str, _task_id: str, **params: Any) -> Any:
        return self._next(method, params)

    def _next(self, method: str, params: Mapping[str, Any]) -> Any:
        self.sent.append((method, params))
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


class _Seen(Display):
    def __init__(self) -> None:
        self.states: list[tuple[str, str | None]] = []

    def show(self, state: str, message: str | None) -> None:
        self.states.append((state, message))


def _follower(
    client: Any, *given: dict[str, Any], decline: bool = False, display: Display | None = None
) -> Follower:
    return Follower(
        client, Answers(given, decline=decline, terminal=None), display or Display(), patience=0.0
    )


def _task(status: str, **more: Any) -> dict[str, Any]:
    return {"resultType": "task", "taskId": "t-1", "status": status, "pollIntervalMs": 1, **more}


async def test_a_state_without_questions_is_just_sent_back() -> None:
    client = _Scripted({"resultType": "input_required", "requestState": "s1"}, {"resultType": "complete"})
    final = await _follower(client).start(_TOOL, {"x": 1})
    assert final == {"status": "completed", "result": {"resultType": "complete"}}
    assert client.sent[1] == (
        "tools/call",
        {"arguments": {"x": 1}, "requestState": "s1", "inputResponses": {}},
    )


async def test_questions_without_a_state_are_answered_without_one() -> None:
    client = _Scripted(
        {"resultType": "input_required", "inputRequests": {"q": _FORM}}, {"resultType": "complete"}
    )
    await _follower(client, {"a": 1}).start(_TOOL, {})
    answer = {"q": {"action": "accept", "content": {"a": 1}}}
    assert client.sent[1] == ("tools/call", {"arguments": {}, "inputResponses": answer})


async def test_a_tool_that_never_stops_asking_is_given_up() -> None:
    client = _Scripted(*[{"resultType": "input_required", "requestState": "s"}] * 30)
    with pytest.raises(CommandError, match="asked 20 times and did not start") as ended:
        await _follower(client).start(_TOOL, {})
    assert ended.value.code is ExitCode.UNREACHABLE


async def test_a_refused_state_is_not_asked_again() -> None:
    client = _Scripted(
        {"resultType": "input_required", "requestState": "s"}, RequestRefused(-32602, "expired")
    )
    with pytest.raises(RequestRefused, match="expired"):
        await _follower(client).start(_TOOL, {})


async def test_what_was_not_asked_for_cannot_be_answered() -> None:
    roots = {"method": "roots/list"}
    client = _Scripted({"resultType": "input_required", "inputRequests": {"q": roots}})
    with pytest.raises(NoAnswer, match="roots/list is nothing that this command can do"):
        await _follower(client, decline=True).start(_TOOL, {})


async def test_an_answered_question_that_is_still_shown_is_not_answered_twice() -> None:
    asking = _task("input_required", inputRequests={"q": _FORM})
    client = _Scripted({}, asking, asking, _task("completed", result={}))
    final = await _follower(client, decline=True).follow(asking)
    assert final["status"] == "completed"
    assert [method for method, _ in client.sent].count("tasks/update") == 1


async def test_an_answer_that_came_too_late_does_not_end_the_call() -> None:
    asking = _task("input_required", inputRequests={"q": _FORM})
    gone = RequestRefused(-32602, "no such question")
    client = _Scripted(gone, _task("working"), _task("completed", result={}))
    final = await _follower(client, decline=True).follow(asking)
    assert final["status"] == "completed"


async def test_progress_and_status_are_shown() -> None:
    display = _Seen()
    client = _Scripted(_task("working", statusMessage="half"), _task("completed", result={}))
    await _follower(client, display=display).start(_TOOL, {})
    assert display.states == [("starting", None), ("working", "on its way"), ("working", "half")]


async def test_a_server_without_a_poll_interval_is_asked_all_the_same() -> None:
    client = _Scripted(_task("completed", result={}))
    assert (await _follower(client).follow(_task("working", pollIntervalMs=None)))["status"] == "completed"


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.9, "4 s"), (125, "2 min 05 s"), (11_220, "3 h 07 min"), (0, "0 s")]
)
def test_elapsed_time_is_short(seconds: float, text: str) -> None:
    assert elapsed_text(seconds) == text
