"""Tasks from their call to their end, over real state machines."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.site import YES, Client, Site
from tests.support.adapter import FORMS, TASKS, Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

DECLINED = {"action": "decline"}
KB = 1024


def output(task: Json) -> object:
    """What the workflow of a completed task gave."""
    assert task["status"] == "completed", task
    return json.loads(task["result"]["content"][0]["text"])


@pytest.mark.requirement("R-110", "R-107")
async def test_a_task_resolves_at_once_and_ends_with_what_its_workflow_gave(client: Client) -> None:
    task_id = await client.start("echo", {"day": "2026-07-28"})
    assert (await client.get(task_id))["status"] in ("working", "completed")

    assert output(await client.ended(task_id)) == {"day": "2026-07-28"}


@pytest.mark.requirement("R-112")
async def test_a_finished_task_reads_the_same_again_and_again(client: Client) -> None:
    task_id = await client.start("echo", {"day": "2026-07-28"})
    ended = await client.ended(task_id)

    assert [await client.get(task_id) for _ in range(3)] == [ended] * 3


@pytest.mark.requirement("B-48")
async def test_numbers_come_back_as_they_were(client: Client) -> None:
    arguments = {"ratio": 0.5, "tiny": 1e-7, "whole": 3, "big": 2**53, "rows": [1, 2.25]}

    given = output(await client.ended(await client.start("echo", arguments)))

    assert json.dumps(given) == json.dumps(arguments), "also whether they have a fraction"


@pytest.mark.parametrize("text", ["ä" * 17 * KB, "x" * 255 * KB], ids=["over 32 KB", "near 256 KB"])
async def test_large_output_comes_back_whole(client: Client, text: str) -> None:
    arguments = {"text": text}
    task_id = await client.start("echo", arguments)

    assert output(await client.ended(task_id)) == arguments
    assert output(await client.get(task_id)) == arguments
    assert "output" not in await client.table.item(task_id, "#task")


async def test_input_that_the_job_system_does_not_take_starts_nothing(client: Client) -> None:
    answer = await client.call("tools/call", {"name": "echo", "arguments": {"text": "x" * 262_144}})

    assert answer.result["isError"]
    assert "longer than" in answer.text


# --- questions ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("R-113", "R-114")
async def test_a_workflow_asks_gets_its_answer_and_goes_on(client: Client) -> None:
    task_id = await client.start("approval")
    questions = await client.questions(task_id)
    ((key, question),) = questions.items()
    assert question["params"]["message"] == "Approve it?"

    assert (await client.update(task_id, {key: YES})).result["resultType"] == "complete"

    assert "inputRequests" not in await client.get(task_id)
    assert output(await client.ended(task_id)) == {"approved": True}


@pytest.mark.requirement("R-88")
async def test_a_declined_question_is_data_for_the_workflow(client: Client) -> None:
    task_id = await client.start("approval")
    (key,) = await client.questions(task_id)

    await client.update(task_id, {key: DECLINED})

    assert output(await client.ended(task_id)) == {"action": "decline"}


async def test_a_bad_answer_names_key_and_rule_and_the_question_stays(client: Client) -> None:
    task_id = await client.start("approval")
    (key,) = await client.questions(task_id)

    refused = await client.update(task_id, {key: {"action": "accept", "content": {"approve": "perhaps"}}})

    assert refused.error["code"] == -32602
    assert key in refused.error["message"]
    assert "approve" in refused.error["message"]
    assert list(await client.questions(task_id)) == [key]
    await client.update(task_id, {key: YES})
    assert output(await client.ended(task_id)) == {"approved": True}


async def test_a_question_that_timed_out_disappears_and_the_workflow_goes_on(client: Client) -> None:
    asked = await client.caught("brief", lambda task: "inputRequests" in task)
    task_id, (key,) = asked["taskId"], asked["inputRequests"]

    ended = await client.ended(task_id)
    late = await client.update(task_id, {key: {"action": "accept", "content": {"here": True}}})

    assert ended["result"]["content"][0]["text"] == "nobody answered"
    assert late.result["resultType"] == "complete"
    assert await client.get(task_id) == ended


@pytest.mark.requirement("R-113", "R-114", "B-34")
async def test_two_questions_at_once_are_answered_one_at_a_time(client: Client) -> None:
    task_id = await client.start("pair")
    questions = await client.questions(task_id, 2)
    keys = {question["params"]["message"]: key for key, question in questions.items()}
    legal, sales = keys["Does legal agree?"], keys["Does sales agree?"]

    await client.update(task_id, {legal: {"action": "accept", "content": {"legal": True}}})
    after = await client.get(task_id)
    assert (after["status"], list(after["inputRequests"])) == ("input_required", [sales])

    await client.update(task_id, {sales: DECLINED})
    answers = output(await client.ended(task_id))
    assert answers == [DECLINED, {"action": "accept", "content": {"legal": True}}]


async def test_two_questions_at_once_are_answered_together(client: Client) -> None:
    task_id = await client.start("pair")
    keys = await client.questions(task_id, 2)

    await client.update(task_id, dict.fromkeys(keys, DECLINED))

    assert output(await client.ended(task_id)) == [DECLINED, DECLINED]


async def test_a_question_that_no_client_could_show_is_refused_to_its_workflow(client: Client) -> None:
    task_id = await client.start("odd_question")

    ended = await client.ended(task_id)

    assert output(ended) == {
        "Error": "McpInvalidInputRequest",
        "Cause": "params must be the JSON text of an object",
    }


async def test_a_question_is_hidden_from_a_client_that_cannot_take_it(client: Client) -> None:
    task_id = await client.start("approval")
    await client.questions(task_id)

    hidden = await client.get(task_id, caps=TASKS)

    assert (hidden["status"], "inputRequests" in hidden) == ("working", False)
    assert "Approve it?" in hidden["statusMessage"]
    await client.cancel(task_id)


@pytest.mark.requirement("B-32")
async def test_everything_a_workflow_wrote_itself_expires_with_its_task(client: Client) -> None:
    task_id = await client.start("approval")
    await client.questions(task_id)

    items = await client.items(task_id)

    assert len(items) == 2
    assert len({item["expiresAt"]["N"] for item in items}) == 1
    await client.cancel(task_id)


# --- cancel and failure ------------------------------------------------------------------------------------


@pytest.mark.requirement("R-116", "B-27")
@pytest.mark.parametrize("tool", ["long_wait", "approval"])
async def test_a_cancelled_task_ends_as_cancelled_and_its_execution_is_stopped(
    client: Client, tool: str
) -> None:
    task_id = await client.start(tool)
    if tool == "approval":
        await client.questions(task_id)

    assert (await client.cancel(task_id)).result["resultType"] == "complete"

    first = await client.get(task_id)
    assert "inputRequests" not in first
    assert (await client.ended(task_id))["status"] == "cancelled"
    assert await client.status(task_id) == "ABORTED"


@pytest.mark.requirement("R-115", "R-116")
async def test_update_and_cancel_of_a_finished_task_are_acknowledged_and_change_nothing(
    client: Client,
) -> None:
    task_id = await client.start("echo", {"day": "2026-07-28"})
    ended = await client.ended(task_id)

    assert (await client.update(task_id, {"nothing": YES})).result["resultType"] == "complete"
    assert (await client.cancel(task_id)).result["resultType"] == "complete"

    assert await client.get(task_id) == ended


@pytest.mark.requirement("R-111", "B-25")
async def test_a_workflow_that_fails_is_a_completed_task_with_an_error_result(client: Client) -> None:
    task = await client.ended(await client.start("failure"))

    assert (task["status"], task["result"]["isError"]) == ("completed", True)
    text = task["result"]["content"][0]["text"]
    assert text == "Broken: The ledger of account [redacted] at [redacted] is locked"


@pytest.mark.requirement("R-111")
async def test_a_workflow_that_times_out_is_a_completed_task_with_an_error_result(client: Client) -> None:
    task = await client.ended(await client.start("too_slow"))

    assert (task["status"], task["result"]["isError"]) == ("completed", True)
    assert "timed out" in task["result"]["content"][0]["text"]


@pytest.mark.requirement("R-111", "R-13")
async def test_a_workflow_may_fail_the_request_itself(client: Client) -> None:
    task = await client.ended(await client.start("protocol_error"))

    assert task["status"] == "failed"
    assert task["error"] == {"code": 1234, "message": "No such ledger", "data": {"ledger": "june"}}


# --- progress, inline, before the start --------------------------------------------------------------------


async def test_what_a_workflow_reports_is_the_status_message(client: Client) -> None:
    begun = await client.caught("progress", lambda task: "Begun" in task.get("statusMessage", ""))

    assert (begun["status"], begun["statusMessage"]) == ("working", "Begun (1 of 2)")
    assert output(await client.ended(begun["taskId"])) == {"rows": 3}


async def test_without_a_report_the_status_message_says_which_state_runs(client: Client) -> None:
    task_id = await client.start("long_wait")

    running = await client.until(task_id, lambda task: "Wait long" in task.get("statusMessage", ""))

    assert running["status"] == "working"
    await client.cancel(task_id)


@pytest.mark.requirement("R-101", "R-104")
async def test_a_caller_without_tasks_gets_the_plain_result(client: Client) -> None:
    answer = await client.call("tools/call", {"name": "echo", "arguments": {"n": 1}}, caps={})

    assert answer.result["resultType"] == "complete"
    assert json.loads(answer.text) == {"n": 1}


@pytest.mark.requirement("R-41", "R-44")
async def test_an_inline_caller_that_asks_gets_progress_and_log_messages(client: Client) -> None:
    meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"}

    answer = await client.call("tools/call", {"name": "progress", "arguments": {}}, caps={}, meta=meta)

    told = [(m["method"].removeprefix("notifications/"), m["params"]) for m in answer.messages[:-1]]
    progress = [(p["progress"], p["total"], p["message"]) for name, p in told if name == "progress"]
    assert progress == [(1, 2, "Begun"), (2, 2, "Nearly done")]
    assert [name for name, _ in told].count("message") == 1
    assert json.loads(answer.text) == {"rows": 3}


@pytest.mark.requirement("B-32")
async def test_everything_that_a_workflow_reported_expires_with_its_task(client: Client) -> None:
    task_id = await client.start("progress")
    await client.done(task_id)
    await client.get(task_id)

    items = await client.items(task_id)

    assert len(items) == 4
    assert len({item["expiresAt"]["N"] for item in items}) == 1


async def test_an_inline_call_that_takes_too_long_goes_on_and_can_be_stopped(client: Client) -> None:
    before = await _tasks(client)

    answer = await client.call("tools/call", {"name": "long_wait", "arguments": {}}, caps={})

    (task_id,) = await _tasks(client) - before
    assert "isError" not in answer.result
    assert task_id in answer.text
    assert await client.status(task_id) == "RUNNING"

    stop = {"name": "task_cancel", "arguments": {"task_id": task_id}}
    await client.call("tools/call", stop, caps={})

    assert await client.status(task_id) == "ABORTED"


@pytest.mark.requirement("R-87")
async def test_what_was_confirmed_before_the_start_reaches_the_workflow(client: Client) -> None:
    params: Json = {"name": "confirmed", "arguments": {"n": 1}}
    asked = (await client.call("tools/call", params)).result
    assert list(asked["inputRequests"]) == ["confirm"]
    sure = {"action": "accept", "content": {"sure": True}}

    confirmed = {**params, "requestState": asked["requestState"], "inputResponses": {"confirm": sure}}
    first = (await client.call("tools/call", confirmed)).result["taskId"]
    second = (await client.call("tools/call", confirmed)).result["taskId"]

    assert first == second
    assert output(await client.ended(first)) == {"n": 1, "confirmation": sure}


@pytest.mark.requirement("R-121")
async def test_a_subscriber_is_told_of_every_change_up_to_the_end(client: Client) -> None:
    task_id = await client.start("approval")
    wanted = {"notifications": {"taskIds": [task_id]}}
    async with client.stream("subscriptions/listen", wanted, caps=FORMS) as stream:
        told: list[Json] = []
        while not told or "inputRequests" not in told[-1]:
            told.append((await stream.next())["params"])
        (key,) = told[-1]["inputRequests"]
        await client.update(task_id, {key: YES})
        rest = await stream.rest()

    assert rest[-2]["params"]["status"] == "completed"
    assert rest[-1]["result"]["resultType"] == "complete"


@pytest.mark.requirement("B-37")
async def test_another_instance_serves_the_same_task(client: Client, site: Site) -> None:
    task_id = await client.start("approval")
    async with site.client() as other:
        (key,) = await other.questions(task_id)
        await client.update(task_id, {key: YES})
        assert output(await other.ended(task_id)) == {"approved": True}


@pytest.mark.requirement("R-120")
async def test_a_task_is_gone_after_its_time_to_live(client: Client) -> None:
    task_id = await client.start("echo")
    await client.ended(task_id)
    client.shifted.advance(7_200)

    gone = await client.call("tasks/get", {"taskId": task_id})

    assert (gone.error["code"], gone.error["message"]) == (-32602, "Task not found")


async def _tasks(client: Client) -> set[str]:
    reply = await client.aws.dynamodb.scan(TableName=client.table.table, ConsistentRead=True)
    return {item["pk"]["S"] for item in reply["Items"]}
