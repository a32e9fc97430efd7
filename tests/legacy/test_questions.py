"""Input requests of a task: sent on the replies to tasks/get and tasks/result, answered by POST."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode
from typing import Any

import orjson
import pytest

from adapter.errors import EngineUnavailable, StoreUnavailable
from adapter.tasks.questions import MAX_ANSWER_BYTES, OFFER_MS
from tests.support.adapter import Answer, Json, Mcp, accepted, form, tool
from tests.support.legacy import FORMS, RELATED, LegacyClient, timed
from tests.support.virtual_time import in_virtual_time

KEY = "k" * 32
YES = accepted(sure=True)
LEASE = OFFER_MS / 1000
PAY = {"mode": "url", "message": "Pay", "url": "https://pay.example.com/1"}
SAMPLE: Json = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Capital of France?"}}],
    "maxTokens": 10,
}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}
EVERYTHING: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool(), signing_keys=(KEY,))


async def begun(mcp: Mcp, capabilities: Json | None = None) -> tuple[LegacyClient, str]:
    client = await LegacyClient.opened(mcp, capabilities=FORMS if capabilities is None else capabilities)
    return client, await client.start()


async def ids(client: LegacyClient, task_id: str) -> list[str]:
    return [request["id"] for request in await client.asked(task_id)]


# --- being asked ----------------------------------------------------------------------------------------


@pytest.mark.requirement("L-48", "L-44", "L-49", "B-40")
@pytest.mark.era_rows("legacy", 14, 30, 31)
async def test_a_question_comes_before_the_task_on_the_reply_to_tasks_get(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id, params=form("Approve?", ["sure"], sure="boolean"))

    answer = await client.call("tasks/get", {"taskId": task_id})

    question, response = answer.messages
    assert question["method"] == "elicitation/create"
    assert question["params"] == {
        **form("Approve?", ["sure"], sure="boolean"),
        "_meta": {RELATED: {"taskId": task_id}},
    }
    assert response["result"]["status"] == "input_required"
    assert answer.headers["content-type"] == "text/event-stream"


@pytest.mark.requirement("L-48", "B-40")
@pytest.mark.era_rows("legacy", 30)
async def test_a_question_comes_on_the_stream_of_tasks_result_which_then_goes_on(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    async with client.stream(client.request("tasks/result", {"taskId": task_id})) as stream:
        question = await stream.next()
        await client.answer(question, YES)
        mcp.end(task_id, '"done"')
        answer = await stream.rest()

    assert question["params"]["_meta"] == {RELATED: {"taskId": task_id}}
    assert mcp.given == {"q": YES}
    assert answer.text == "done"


@pytest.mark.requirement("L-48", "B-34")
async def test_after_all_answers_the_task_works_again(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id, "a")
    mcp.ask(task_id, "b")
    first, second = await client.asked(task_id)

    await client.answer(first, YES)
    assert await client.status(task_id) == "input_required"
    await client.answer(second, YES)
    assert await client.status(task_id) == "working"
    assert mcp.given == {"a": YES, "b": YES}


@pytest.mark.requirement("L-48")
@pytest.mark.era_rows("legacy", 32)
async def test_each_question_is_a_request_of_its_own(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    for key in ("a", "b", "c"):
        mcp.ask(task_id, key, form(f"{key}?", sure="boolean"))

    questions = await client.asked(task_id)

    assert [question["params"]["message"] for question in questions] == ["a?", "b?", "c?"]
    assert len({question["id"] for question in questions}) == 3


@pytest.mark.requirement("L-48")
@pytest.mark.parametrize(
    ("setting", "status"), [({}, "input_required"), ({"legacy_input_status": "working"}, "working")]
)
async def test_the_status_while_a_question_is_open_can_be_set(setting: Any, status: str) -> None:
    mcp = Mcp(tool(), **setting)
    client, task_id = await begun(mcp)
    mcp.ask(task_id)

    answer = await client.call("tasks/get", {"taskId": task_id})

    assert (len(answer.requests), answer.result["status"]) == (1, status)
    assert answer.result["statusMessage"] == "Waiting for input"
    assert await client.status(task_id) == status


@pytest.mark.requirement("L-48")
@pytest.mark.parametrize("accept", ["application/json", None])
async def test_a_client_that_takes_no_events_is_asked_nothing_there(mcp: Mcp, accept: str | None) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)

    answer = await client.call("tasks/get", {"taskId": task_id}, headers={"accept": accept})

    assert answer.headers["content-type"] == "application/json"
    assert answer.result["status"] == "input_required"
    assert len(await client.asked(task_id)) == 1


# --- the lease ------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-48", "L-49")
async def test_a_session_is_asked_once_and_again_only_after_the_lease(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    first = await ids(client, task_id)

    assert await ids(client, task_id) == []
    mcp.clock.advance(LEASE - 0.001)
    assert await ids(client, task_id) == []
    mcp.clock.advance(0.001)
    second = await ids(client, task_id)

    assert (len(first), len(second)) == (1, 1)
    assert first != second, "ids do not repeat within a session"


@pytest.mark.requirement("L-48")
@in_virtual_time
async def test_a_question_sent_on_one_method_is_not_sent_on_the_other() -> None:
    mcp = timed(tool(), legacy_hold=20)
    client, task_id = await begun(mcp)
    mcp.ask(task_id)

    assert len(await ids(client, task_id)) == 1
    assert (await client.call("tasks/result", {"taskId": task_id})).requests == []


@pytest.mark.requirement("L-48")
async def test_a_new_session_is_asked_too(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    await client.asked(task_id)

    await client.initialize(FORMS)

    assert len(await client.asked(task_id)) == 1


@pytest.mark.requirement("L-48")
async def test_readers_at_the_same_time_and_at_several_instances_are_asked_once_per_session(
    mcp: Mcp,
) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    elsewhere = client.at(mcp.sibling(tool(), signing_keys=(KEY,)))
    readers = [each.asked(task_id) for each in (client, elsewhere) for _ in range(5)]

    asked = await asyncio.gather(*readers)

    assert sum(len(questions) for questions in asked) == 1


@pytest.mark.requirement("L-48")
async def test_a_new_wait_on_the_same_question_is_a_new_question(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    (first,) = await client.asked(task_id)
    await client.answer(first, YES)

    mcp.ask(task_id, "again")

    assert len(await client.asked(task_id)) == 1


# --- answers --------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-49", "L-10")
@pytest.mark.parametrize(
    "answer", [YES, accepted(), {"action": "decline"}, {"action": "cancel"}, {**YES, "_meta": {}}], ids=repr
)
async def test_an_answer_reaches_the_workflow_as_it_was_given(mcp: Mcp, answer: Json) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    (question,) = await client.asked(task_id)

    await client.answer(question, answer)

    assert mcp.given == {"q": answer}


@pytest.mark.requirement("L-49")
async def test_an_error_counts_as_a_decline(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    (question,) = await client.asked(task_id)

    await client.answer(question, code=-32600, message="Elicitation not supported")

    assert mcp.given == {"q": {"action": "decline"}}


@pytest.mark.requirement("L-49")
async def test_an_answer_is_taken_by_any_instance_and_in_any_session_of_the_owner(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    (question,) = await client.asked(task_id)
    elsewhere = LegacyClient(mcp.sibling(tool(), signing_keys=(KEY,)))

    await elsewhere.answer(question, YES)

    assert mcp.given == {"q": YES}


@pytest.mark.requirement("L-49")
async def test_of_several_answers_the_first_counts(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    other = await LegacyClient.opened(mcp, capabilities=FORMS)
    (first,), (second,) = await client.asked(task_id), await other.asked(task_id)

    await other.answer(second, YES)
    await client.answer(first, {"action": "decline"})
    await other.answer(second, {"action": "cancel"})

    assert mcp.given == {"q": YES}


@pytest.mark.requirement("L-49")
@pytest.mark.parametrize(
    "invalid", [{}, {"action": "maybe"}, accepted(sure="yes"), {"content": {}}], ids=repr
)
async def test_after_an_answer_that_does_not_fit_the_session_is_asked_again(mcp: Mcp, invalid: Json) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id, params=form("Sure?", ["sure"], sure="boolean"))
    (first,) = await client.asked(task_id)

    await client.answer(first, invalid)
    assert mcp.given == {}
    (second,) = await client.asked(task_id)
    await client.answer(second, YES)

    assert second["id"] != first["id"]
    assert mcp.given == {"q": YES}


@pytest.mark.requirement("L-49")
async def test_an_answer_that_is_too_long_does_not_fit(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id, params=form("Text?", text="string"))
    (question,) = await client.asked(task_id)

    await client.answer(question, accepted(text="x" * MAX_ANSWER_BYTES))

    assert mcp.given == {}
    assert len(await client.asked(task_id)) == 1


@pytest.mark.requirement("L-49", "L-59")
async def test_an_answer_of_somebody_else_is_ignored(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp, capabilities=FORMS, caller="ada")
    task_id = await client.start()
    mcp.ask(task_id)
    (question,) = await client.asked(task_id)

    await (await LegacyClient.opened(mcp, caller="mal")).answer(question, YES)

    assert mcp.given == {}
    await client.answer(question, YES)
    assert mcp.given == {"q": YES}


@pytest.mark.requirement("L-49")
@pytest.mark.parametrize("change", ["{}x", "x{}", "{}.x", "question-before-start:{}"])
async def test_an_id_that_was_changed_is_ignored(mcp: Mcp, change: str) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    (question,) = await client.asked(task_id)

    await client.answer({"id": change.format(question["id"])}, YES)
    await client.answer({"id": change.format(question["id"].partition(":")[2])}, YES)

    assert mcp.given == {}


@pytest.mark.requirement("L-49")
async def test_an_id_signed_for_something_else_is_ignored(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    signed = (client.session or "").removeprefix("mwa1.")

    await client.answer({"id": f"session:{signed}"}, YES)

    assert mcp.given == {}


@pytest.mark.requirement("L-49")
@pytest.mark.parametrize("gone", ["expired", "ended", "cancelled", "timed out"])
async def test_an_answer_that_comes_too_late_is_accepted_and_ignored(mcp: Mcp, gone: str) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id, deadline=mcp.clock() + 60_000)
    (question,) = await client.asked(task_id)
    if gone == "ended":
        mcp.end(task_id)
        await client.get(task_id)
    elif gone == "cancelled":
        await client.call("tasks/cancel", {"taskId": task_id})
    else:
        mcp.clock.advance(25 * 3600 if gone == "expired" else 60)

    await client.answer(question, YES)

    assert mcp.given == {}


@pytest.mark.requirement("L-49")
async def test_an_answer_that_the_job_system_cannot_take_now_is_kept(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id)
    (question,) = await client.asked(task_id)

    async def unavailable(*_: object) -> None:
        raise EngineUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(mcp.engine, "answer", unavailable)
        await client.answer(question, YES)
    assert await client.status(task_id) == "working"
    mcp.clock.advance(11)
    await client.get(task_id)

    assert mcp.given == {"q": YES}


@pytest.mark.requirement("L-10")
async def test_an_answer_that_cannot_be_written_is_asked_for_again_at_once(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    answered = await _answered_without(mcp, client, task_id, "record_answer")
    assert answered.status == 202
    assert len(await client.asked(task_id)) == 1


@pytest.mark.requirement("L-10")
async def test_an_answer_that_can_neither_be_written_nor_asked_for_again_is_refused(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    answered = await _answered_without(mcp, client, task_id, "record_answer", "release_offer")
    assert answered.status == 503


async def _answered_without(mcp: Mcp, client: LegacyClient, task_id: str, *operations: str) -> Answer:
    """What becomes of an answer while these operations of the store fail."""
    mcp.ask(task_id)
    (question,) = await client.asked(task_id)

    async def unreachable(*_: object, **__: object) -> None:
        raise StoreUnavailable

    with pytest.MonkeyPatch.context() as patch:
        for operation in operations:
            patch.setattr(mcp.store, operation, unreachable)
        return await client.post({"jsonrpc": "2.0", "id": question["id"], "result": YES})


@pytest.mark.requirement("L-49", "B-57")
async def test_neither_token_nor_owner_can_be_read_in_an_id(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp, capabilities=FORMS, caller="arn:aws:iam::123456789012:role/x")
    task_id = await client.start()
    mcp.ask(task_id)

    (question,) = await client.asked(task_id)

    body = question["id"].partition(":")[2].partition(".")[0]
    readable = orjson.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert readable.keys() == {"task", "key", "session", "n"}
    assert readable["task"] == task_id


# --- kinds ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-51", "L-06")
async def test_only_what_the_client_declared_is_asked(mcp: Mcp) -> None:
    client, task_id = await begun(mcp, {"sampling": {}})
    mcp.ask(task_id, "form")
    mcp.ask(task_id, "model", SAMPLE, "sampling/createMessage")

    answer = await client.call("tasks/get", {"taskId": task_id})

    assert [request["method"] for request in answer.requests] == ["sampling/createMessage"]


@pytest.mark.requirement("L-51")
async def test_a_task_that_waits_for_what_this_client_cannot_give_works_on_and_says_so(mcp: Mcp) -> None:
    client, task_id = await begun(mcp, {})
    mcp.ask(task_id, params=form("Approve order 7?", sure="boolean"))

    shown = await client.get(task_id)
    able = await LegacyClient.opened(mcp, capabilities=FORMS)

    assert shown["status"] == "working"
    assert "Approve order 7?" in shown["statusMessage"]
    assert len(await able.asked(task_id)) == 1, "another client of the owner can answer"


@pytest.mark.requirement("L-52")
@pytest.mark.era_rows("legacy", 48)
async def test_a_request_for_a_url_has_an_id_of_its_own(mcp: Mcp) -> None:
    client, task_id = await begun(mcp, EVERYTHING)
    mcp.ask(task_id, params=PAY)

    (request,) = await client.asked(task_id)

    identifier = request["params"].pop("elicitationId")
    assert identifier
    assert request["params"] == {**PAY, "_meta": {RELATED: {"taskId": task_id}}}
    await client.answer(request, {"action": "accept"})
    assert mcp.given == {"q": {"action": "accept"}}


@pytest.mark.requirement("L-48", "L-51")
@pytest.mark.parametrize(
    ("method", "params", "answer"),
    [
        ("sampling/createMessage", SAMPLE, SAMPLED),
        ("roots/list", {}, {"roots": [{"uri": "file:///a"}]}),
    ],
)
async def test_models_and_roots_are_asked_for_too(mcp: Mcp, method: str, params: Json, answer: Json) -> None:
    client, task_id = await begun(mcp, EVERYTHING)
    mcp.ask(task_id, params=params, method=method)

    (request,) = await client.asked(task_id)
    await client.answer(request, answer)

    assert request["method"] == method
    assert request["params"] == {**params, "_meta": {RELATED: {"taskId": task_id}}}
    assert mcp.given == {"q": answer}


@pytest.mark.requirement("L-44")
async def test_metadata_that_a_workflow_wrote_stays_in_its_question(mcp: Mcp) -> None:
    client, task_id = await begun(mcp)
    mcp.ask(task_id, params={**form(sure="boolean"), "_meta": {"example.com/x": 1}})

    (request,) = await client.asked(task_id)

    assert request["params"]["_meta"] == {"example.com/x": 1, RELATED: {"taskId": task_id}}
