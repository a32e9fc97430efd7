"""Tools that ask before they start: requests on the live stream of the call, with and without a task."""

from __future__ import annotations

import orjson
import pytest

from adapter.mcp import asking
from adapter.tasks.questions import MAX_ANSWER_BYTES
from tests.mcp.asking import CONFIRM, NAME, ROOTS, SAMPLE, SAMPLED, URL, YES
from tests.support.adapter import Json, accepted, form, tool
from tests.support.legacy import LATEST, RELATED, LegacyClient

from .asking_first import (
    EVERYTHING,
    KEY,
    PLAIN,
    TASK,
    able,
    answered,
    asking_first,
    calling,
    refusal,
    time_passing,
)

DECLINE: Json = {"action": "decline"}


@pytest.fixture(autouse=True)
def answers_are_looked_for_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_SHORTEST_PAUSE", 0.001)


# --- asked and answered ---------------------------------------------------------------------------------


@pytest.mark.requirement("L-48")
@pytest.mark.era_rows("legacy", 49, 14)
async def test_a_plain_call_asks_on_its_stream_and_answers_there() -> None:
    mcp = asking_first(CONFIRM)
    client = await able(mcp)
    async with time_passing(mcp), calling(client, PLAIN) as stream:
        request = await stream.next()
        assert mcp.engine.started == []
        await client.answer(request, YES)
        answer = await stream.rest()

    assert request["method"] == "elicitation/create"
    assert request["params"] == {**CONFIRM["ok"]["params"], "mode": "form"}
    assert answer.message["id"] == "call"
    assert orjson.loads(answer.text) == {"ok": YES}
    assert len(mcp.engine.started) == 1


@pytest.mark.requirement("L-48", "L-42", "L-44")
@pytest.mark.era_rows("legacy", 49)
async def test_a_call_with_task_asks_first_and_then_gives_the_handle() -> None:
    mcp = asking_first(CONFIRM)

    answer = await answered(mcp, {"task": {"ttl": 10**9}}, YES)

    request = answer.requests[0]
    assert "_meta" not in request["params"], "there is no task yet to name"
    task_id = answer.result["task"]["taskId"]
    assert answer.result["task"]["status"] == "working"
    assert answer.result["task"]["ttl"] == 10**9
    assert answer.result["_meta"] == {RELATED: {"taskId": task_id}}
    assert mcp.input(task_id) == {"ok": YES}


@pytest.mark.requirement("L-48")
@pytest.mark.parametrize("params", [PLAIN, TASK], ids=["plain", "task"])
async def test_requests_of_a_round_are_asked_together_and_rounds_in_turn(params: Json) -> None:
    mcp = asking_first({**NAME, **CONFIRM}, SAMPLE, ROOTS, URL)
    roots = {"roots": [{"uri": "file:///a"}]}

    answer = await answered(mcp, params, accepted(name="Ada"), YES, SAMPLED, roots, {"action": "accept"})

    assert [request["method"] for request in answer.requests] == [
        *("elicitation/create", "elicitation/create"),
        *("sampling/createMessage", "roots/list", "elicitation/create"),
    ]
    assert mcp.input(mcp.only_task) == {
        "who": accepted(name="Ada"),
        "ok": YES,
        "model": SAMPLED,
        "roots": roots,
        "pay": {"action": "accept"},
    }


@pytest.mark.requirement("L-48", "L-49")
async def test_answers_are_taken_by_any_instance_and_in_any_order() -> None:
    mcp = asking_first({**NAME, **CONFIRM})
    client = await able(mcp)
    elsewhere = client.at(mcp.sibling(tool(), signing_keys=(KEY,)))
    async with calling(client, TASK) as stream:
        name, confirmation = await stream.next(), await stream.next()
        await elsewhere.answer(confirmation, YES)
        await elsewhere.answer(name, accepted(name="Ada"))
        answer = await stream.rest()

    assert "task" in answer.result
    assert mcp.input(mcp.only_task) == {"who": accepted(name="Ada"), "ok": YES}


@pytest.mark.requirement("L-48")
async def test_arguments_that_a_form_would_fill_are_not_asked_for_again() -> None:
    fills = {"who": {**NAME["who"], "into": "arguments"}}
    mcp = asking_first(fills)

    filled = await answered(mcp, PLAIN, accepted(name="Ada"))
    async with time_passing(mcp):
        given = await (await able(mcp)).call("tools/call", {"name": "job", "arguments": {"name": "Bob"}})

    assert orjson.loads(filled.text) == {"name": "Ada"}
    assert orjson.loads(given.text) == {"name": "Bob"}
    assert given.requests == []


@pytest.mark.requirement("L-48", "L-51")
async def test_a_client_that_can_be_asked_nothing_is_served_where_nothing_is_asked() -> None:
    fills = {"who": {**NAME["who"], "into": "arguments"}}
    optional = {"model": {**SAMPLE["model"], "when_supported": True}}
    mcp = asking_first(fills, optional)
    client = await able(mcp, capabilities={})
    client.seconds_left = 29.0
    sent = {"name": "job", "arguments": {"name": "Bob"}, "task": {}}

    answer = await client.call("tools/call", sent, headers={"accept": "application/json"})

    assert answer.result["task"]["status"] == "working"


@pytest.mark.requirement("L-49")
async def test_of_several_answers_to_one_request_the_first_counts() -> None:
    mcp = asking_first({**NAME, **CONFIRM})
    client = await able(mcp)
    async with calling(client, TASK) as stream:
        name, confirmation = await stream.next(), await stream.next()
        await client.answer(name, accepted(name="Ada"))
        await client.answer(name, accepted(name="Bob"))
        await client.answer(confirmation, YES)
        await stream.rest()

    assert mcp.input(mcp.only_task)["who"] == accepted(name="Ada")


@pytest.mark.requirement("L-49", "L-59")
async def test_an_answer_of_somebody_else_is_ignored() -> None:
    mcp = asking_first(CONFIRM)
    client = await LegacyClient.opened(mcp, capabilities=EVERYTHING, caller="ada")
    async with calling(client, TASK) as stream:
        request = await stream.next()
        await (await LegacyClient.opened(mcp, caller="mal")).answer(request, DECLINE)
        await client.answer(request, YES)
        answer = await stream.rest()

    assert "task" in answer.result


@pytest.mark.requirement("L-49")
async def test_an_id_that_was_changed_is_ignored() -> None:
    mcp = asking_first(CONFIRM)
    client = await able(mcp)
    async with calling(client, TASK) as stream:
        request = await stream.next()
        await client.answer({"id": request["id"] + "x"}, DECLINE)
        await client.answer({"id": request["id"].replace("question-before-start", "task-question")}, DECLINE)
        await client.answer(request, YES)
        answer = await stream.rest()

    assert "task" in answer.result


# --- nothing is started ---------------------------------------------------------------------------------


@pytest.mark.requirement("L-48", "L-49")
@pytest.mark.parametrize("params", [PLAIN, TASK], ids=["plain", "task"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (DECLINE, "'ok' was declined"),
        ({"action": "cancel"}, "'ok' was cancelled"),
        (None, "'ok' was declined"),
        (accepted(sure=False), "sure other than true"),
        (accepted(), "the answer to 'ok'"),
        (accepted(sure="yes"), "the answer to 'ok'"),
        ({"action": "perhaps"}, "the answer to 'ok'"),
    ],
)
async def test_anything_but_a_yes_starts_nothing(params: Json, given: Json | None, words: str) -> None:
    mcp = asking_first(CONFIRM)

    answer = await answered(mcp, params, given)

    text = refusal(answer, params)
    assert text.startswith("Nothing was started")
    assert words in text
    assert "params." not in text
    assert mcp.engine.started == []


@pytest.mark.requirement("L-49")
@pytest.mark.parametrize(
    ("first", "given", "words"), [(SAMPLE, None, "'model' was refused"), (SAMPLE, {}, "model")]
)
async def test_a_model_that_refuses_starts_nothing(first: Json, given: Json | None, words: str) -> None:
    mcp = asking_first(first)

    text = refusal(await answered(mcp, PLAIN, given), PLAIN)

    assert words in text
    assert mcp.engine.started == []


@pytest.mark.requirement("L-49")
async def test_a_refusal_can_be_what_the_workflow_wants_to_know() -> None:
    mcp = asking_first({"ok": {**CONFIRM["ok"], "on_decline": "continue"}})

    answer = await answered(mcp, PLAIN, None)

    assert orjson.loads(answer.text) == {"ok": DECLINE}


@pytest.mark.requirement("L-49")
async def test_an_answer_that_is_too_long_counts_as_refused(caplog: pytest.LogCaptureFixture) -> None:
    mcp = asking_first({"who": {**NAME["who"]}})

    text = refusal(await answered(mcp, PLAIN, accepted(name="x" * MAX_ANSWER_BYTES)), PLAIN)

    assert "'who' was declined" in text
    assert "longer than" in caplog.text


@pytest.mark.requirement("L-51", "L-06")
@pytest.mark.parametrize("params", [PLAIN, TASK], ids=["plain", "task"])
@pytest.mark.parametrize("first", [CONFIRM, SAMPLE, ROOTS, URL])
async def test_a_client_that_cannot_be_asked_is_told_before_anything_is_sent(
    params: Json, first: Json
) -> None:
    mcp = asking_first(first)
    client = await able(mcp, capabilities={})

    answer = await client.call("tools/call", {"name": "job", **params})

    assert answer.headers["content-type"] == "application/json"
    assert "has not said that it can take" in refusal(answer, params)
    assert mcp.engine.started == []


@pytest.mark.requirement("L-51", "L-52")
@pytest.mark.parametrize(
    ("version", "first", "asked"),
    [
        ("2025-03-26", CONFIRM, False),
        ("2025-03-26", SAMPLE, True),
        ("2025-06-18", CONFIRM, True),
        ("2025-06-18", URL, False),
        (LATEST, URL, True),
    ],
)
async def test_each_version_is_asked_what_it_knows(version: str, first: Json, asked: bool) -> None:
    mcp = asking_first(first)
    client = await able(mcp, version)
    async with client.stream(
        client.request("tools/call", {"name": "job"}, headers={"accept": "text/event-stream"})
    ) as stream:
        message = await stream.next()

    assert ("id" in message and "method" in message) is asked


@pytest.mark.requirement("L-52")
async def test_2025_06_18_gets_forms_without_mode_and_with_early_names_of_choices() -> None:
    day = {"type": "string", "title": "Day", "oneOf": [{"const": "mo", "title": "Monday"}]}
    mcp = asking_first({"when": {"params": form("When?", properties={"day": day}, sure="boolean")}})
    client = await able(mcp, "2025-06-18")
    async with calling(client, PLAIN) as stream:
        request = await stream.next()

    schema = request["params"]["requestedSchema"]
    assert request["params"].keys() == {"message", "requestedSchema"}
    assert schema["properties"]["day"] == {
        "type": "string",
        "title": "Day",
        "enum": ["mo"],
        "enumNames": ["Monday"],
    }
    assert schema["properties"]["sure"] == {"type": "boolean"}


@pytest.mark.requirement("L-51")
@pytest.mark.parametrize("params", [PLAIN, TASK], ids=["plain", "task"])
async def test_a_client_that_takes_no_event_stream_is_told(params: Json) -> None:
    mcp = asking_first(CONFIRM)
    client = await able(mcp)

    answer = await client.call(
        "tools/call", {"name": "job", **params}, headers={"accept": "application/json"}
    )

    assert "no event stream" in refusal(answer, params)
    assert mcp.engine.started == []


@pytest.mark.requirement("L-47")
@pytest.mark.parametrize("params", [PLAIN, TASK], ids=["plain", "task"])
async def test_where_replies_are_buffered_nothing_can_be_asked_and_this_is_told_at_once(params: Json) -> None:
    mcp = asking_first(CONFIRM)
    client = await able(mcp)
    client.seconds_left = 29.0

    answer = await client.call("tools/call", {"name": "job", **params})

    assert answer.requests == []
    assert "in one piece" in refusal(answer, params)
    assert mcp.engine.started == []


@pytest.mark.requirement("L-32")
@pytest.mark.parametrize("params", [PLAIN, TASK], ids=["plain", "task"])
async def test_arguments_are_checked_before_anybody_is_asked(params: Json) -> None:
    mcp = asking_first(CONFIRM, input_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    client = await able(mcp)

    answer = await client.call("tools/call", {"name": "job", "arguments": {"n": "x"}, **params})

    assert "/n" in refusal(answer, params)
    assert answer.requests == []
