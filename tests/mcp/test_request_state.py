"""`requestState`: what binds the rounds of a call, and that a confirmation used twice gives one task."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode

import orjson
import pytest

from tests.mcp.asking import CONFIRM, KEY, NAME, OPEN, YES, asked, asking, call
from tests.support.adapter import Mcp, accepted, form, tool


@pytest.mark.requirement("R-84", "R-12")
@pytest.mark.parametrize("state", ["", "x", "a.b", ".", "é.é", "x" * 10_000, 5, True, [], {}])
async def test_a_state_that_is_not_ours_is_32602_and_not_asked_again(state: object) -> None:
    refused = await call(asking(CONFIRM), {"ok": YES}, state)

    assert refused.refusal == (200, -32602)
    assert "requestState" in refused.error["message"]


@pytest.mark.requirement("R-84")
async def test_a_null_state_is_none() -> None:
    assert asked(await call(asking(CONFIRM), params={"requestState": None})) == {"ok"}


@pytest.mark.requirement("R-84")
async def test_a_state_changed_in_any_place_is_refused() -> None:
    mcp = asking(CONFIRM)
    state = (await call(mcp)).result["requestState"]

    changed = [state + "-TAMPERED", state[:-1], state[1:], state.replace(".", ""), state + "."]
    changed += [
        state[:i] + ("A" if state[i] != "A" else "B") + state[i + 1 :] for i in range(0, len(state), 5)
    ]
    for each in changed:
        assert (await call(mcp, {"ok": YES}, each)).error["code"] == -32602
    assert mcp.engine.started == []


@pytest.mark.requirement("R-84")
async def test_answers_cannot_be_written_into_a_state() -> None:
    mcp = asking(CONFIRM)
    body, _, signature = (await call(mcp)).result["requestState"].partition(".")
    content = orjson.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    content["answers"] = {"ok": YES}
    forged = urlsafe_b64encode(orjson.dumps(content)).decode().rstrip("=")

    assert (await call(mcp, None, f"{forged}.{signature}")).error["code"] == -32602


@pytest.mark.requirement("R-84", "B-32")
async def test_a_state_expires() -> None:
    mcp = asking(CONFIRM)
    state = (await call(mcp)).result["requestState"]

    mcp.clock.advance(3600)
    assert (await call(mcp, {}, state)).result["resultType"] == "input_required"
    mcp.clock.advance(1)
    refused = await call(mcp, {"ok": YES}, state)

    assert refused.refusal == (200, -32602)
    assert "expired" in refused.error["message"]


@pytest.mark.requirement("R-84", "R-122")
async def test_a_state_of_another_tool_arguments_or_caller_is_refused() -> None:
    rounds = [CONFIRM]
    mcp = Mcp(
        tool(before_start=rounds, input_schema=OPEN), tool("twin", before_start=rounds, input_schema=OPEN)
    )
    state = (await call(mcp, params={"arguments": {"a": 1}})).result["requestState"]

    for params, caller in (
        ({"arguments": {"a": 2}}, "anonymous"),
        ({"arguments": {}}, "anonymous"),
        ({"arguments": {"a": 1}, "name": "twin"}, "anonymous"),
        ({"arguments": {"a": 1}}, "mallory"),
    ):
        refused = await call(mcp, {"ok": YES}, state, params=params, caller=caller)
        assert refused.refusal == (200, -32602)
        assert "another call" in refused.error["message"]
    assert mcp.engine.started == []


@pytest.mark.requirement("R-84", "R-83")
async def test_a_state_is_bound_to_the_arguments_in_any_order() -> None:
    mcp = asking(CONFIRM)
    state = (await call(mcp, params={"arguments": {"a": 1, "b": [{"c": 1, "d": 2}]}})).result["requestState"]

    task = await call(mcp, {"ok": YES}, state, params={"arguments": {"b": [{"d": 2, "c": 1}], "a": 1}})

    assert task.result["resultType"] == "task"


@pytest.mark.requirement("R-84")
async def test_a_state_does_not_tell_who_the_caller_is() -> None:
    mcp = asking(CONFIRM)
    state = (await call(mcp, caller="account-123456789012")).result["requestState"]

    body = state.partition(".")[0]
    assert b"123456789012" not in urlsafe_b64decode(body + "=" * (-len(body) % 4))


@pytest.mark.requirement("R-84", "R-83")
async def test_another_instance_with_the_same_key_serves_the_next_round() -> None:
    asks = tool(before_start=[CONFIRM], input_schema=OPEN)
    mcp = Mcp(asks, signing_keys=KEY)
    state = (await call(mcp)).result["requestState"]

    same = await call(mcp.sibling(asks, signing_keys=f"{'n' * 32},{KEY}"), {"ok": YES}, state)
    stranger = await call(mcp.sibling(asks, signing_keys="s" * 32), {"ok": YES}, state)

    assert same.result["resultType"] == "task"
    assert stranger.error["code"] == -32602


@pytest.mark.requirement("R-84")
async def test_a_cursor_is_no_state() -> None:
    mcp = Mcp(tool(before_start=[CONFIRM]), tool("other"), page_size=1)
    cursor = (await mcp.call("tools/list")).result["nextCursor"]

    assert (await call(mcp, {"ok": YES}, cursor)).error["code"] == -32602


@pytest.mark.requirement("R-84")
async def test_answers_under_an_old_state_do_not_satisfy_changed_questions() -> None:
    mcp = Mcp(tool(before_start=[NAME, CONFIRM]), signing_keys=KEY)
    first = await call(mcp)
    second = await call(mcp, {"who": accepted(name="Ada")}, first.result["requestState"])
    stricter = {"who": {"params": form("Who, really?", ["name", "badge"], name="string", badge="string")}}
    changed = mcp.sibling(tool(before_start=[stricter, CONFIRM]), signing_keys=KEY)

    refused = await call(changed, {"ok": YES}, second.result["requestState"])

    assert refused.error["code"] == -32602
    assert mcp.engine.started == []


# --- using a confirmation twice -------------------------------------------------------------------------


@pytest.mark.requirement("R-84", "R-87")
async def test_a_confirmation_used_twice_gives_one_task() -> None:
    mcp = asking(CONFIRM)
    state = (await call(mcp)).result["requestState"]

    ids = [(await call(mcp, {"ok": YES}, state)).result["taskId"] for _ in range(3)]

    assert len(set(ids)) == 1
    assert len(set(mcp.engine.started)) == 1


@pytest.mark.requirement("R-84", "R-87")
async def test_a_confirmation_used_at_the_same_time_on_two_instances_gives_one_task() -> None:
    asks = tool(before_start=[CONFIRM], input_schema=OPEN)
    mcp = Mcp(asks, signing_keys=KEY)
    other = mcp.sibling(asks, signing_keys=KEY)
    state = (await call(mcp)).result["requestState"]

    answers = await asyncio.gather(*(call(each, {"ok": YES}, state) for each in (mcp, other) * 5))

    assert len({a.result["taskId"] for a in answers}) == 1
    assert len(set(mcp.engine.started)) == 1


@pytest.mark.requirement("R-84")
async def test_a_confirmation_used_again_later_gives_the_task_as_it_is_then() -> None:
    mcp = asking(CONFIRM)
    state = (await call(mcp)).result["requestState"]
    task_id = (await call(mcp, {"ok": YES}, state)).result["taskId"]
    mcp.end(task_id, '"deleted"')

    again = await call(mcp, {"ok": YES}, state)

    assert again.result["taskId"] == task_id
    assert len(mcp.engine.started) == 1
    assert (await mcp.get(task_id))["status"] == "completed"


async def test_a_confirmation_used_again_without_tasks_gives_the_result_of_its_one_run() -> None:
    mcp = asking(CONFIRM, inline_wait="10s")
    state = (await call(mcp)).result["requestState"]
    task_id = (await call(mcp, {"ok": YES}, state)).result["taskId"]
    mcp.end(task_id, '"deleted"')

    again = await call(mcp, {"ok": YES}, state, caps={"elicitation": {}})

    assert again.text == "deleted"
    assert len(mcp.engine.started) == 1


async def test_two_separate_confirmations_are_two_tasks() -> None:
    mcp = asking(CONFIRM)
    states = [(await call(mcp)).result["requestState"] for _ in range(2)]

    ids = {(await call(mcp, {"ok": YES}, state)).result["taskId"] for state in states}

    assert len(ids) == 2


@pytest.mark.requirement("R-122")
async def test_a_confirmation_of_one_caller_shows_no_task_of_another() -> None:
    mcp = asking(CONFIRM)
    state = (await call(mcp, caller="ada")).result["requestState"]
    await call(mcp, {"ok": YES}, state, caller="ada")

    assert (await call(mcp, {"ok": YES}, state, caller="mallory")).error["code"] == -32602
