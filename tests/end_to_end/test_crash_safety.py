"""A process is killed, or a reply is lost, at each point where it could hurt; another process then reads on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from tests.end_to_end.killed import kill
from tests.end_to_end.site import YES, Client, Site
from tests.support.adapter import Json
from tests.support.aws import counted_calls
from tests.support.faults import LOST_REPLY, LOST_REQUEST, FaultyAws

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEASE = 10.1
LARGE = {"text": "x" * 40_000}
SURE = {"action": "accept", "content": {"sure": True}}
NO = {"action": "decline"}
AWS_TRIES = 3


@dataclass(frozen=True)
class Faulty:
    """A client whose adapter's calls of AWS go wrong as a test says."""

    client: Client
    faults: FaultyAws

    def sent(self, operation: str) -> int:
        """How often, retries of the SDK included."""
        return self.faults.operations.count(operation)


@pytest.fixture
def faulty(client: Client, faults: FaultyAws) -> Faulty:
    return Faulty(client, faults)


# --- a process is killed -----------------------------------------------------------------------------------


@pytest.mark.requirement("R-110")
async def test_killed_between_record_and_start_nothing_ran_and_the_record_ends_as_failed(
    client: Client, site: Site
) -> None:
    before = await _records(client)
    await kill(site, "tools/call", _call("echo"), "before-send.sfn.StartExecution")
    (task_id,) = await _records(client) - before

    assert (await client.get(task_id))["status"] == "working"
    client.shifted.advance(121)

    ended = await client.get(task_id)
    assert (ended["status"], ended["error"]["code"]) == ("failed", -32603)
    assert task_id not in await _executions(client, task_id)


@pytest.mark.parametrize(
    "event",
    ["before-send.sfn.StartExecution", "response-received.sfn.StartExecution"],
    ids=["between record and start", "between start and reply"],
)
async def test_killed_around_the_start_a_repeated_confirmation_gives_one_execution(
    client: Client, site: Site, event: str
) -> None:
    asked = (await client.call("tools/call", _call("confirmed"))).result
    confirmed = {
        **_call("confirmed"),
        "requestState": asked["requestState"],
        "inputResponses": {"confirm": SURE},
    }
    before = await _records(client)
    await kill(site, "tools/call", confirmed, event)
    (task_id,) = await _records(client) - before

    again = (await client.call("tools/call", confirmed)).result

    assert again["taskId"] == task_id
    assert (await client.ended(task_id))["status"] == "completed"
    assert (await _executions(client, task_id))[task_id] == 1


async def test_killed_between_claim_and_describe_the_next_look_waits_for_the_lease(
    client: Client, site: Site
) -> None:
    task_id = await client.start("echo")
    await client.done(task_id)
    await kill(site, "tasks/get", {"taskId": task_id}, "before-send.sfn.DescribeExecution")

    with counted_calls(client.aws) as calls:
        assert (await client.get(task_id))["status"] == "working"
        assert calls == ["Query"]
    client.shifted.advance(LEASE)

    assert (await client.get(task_id))["status"] == "completed"


@pytest.mark.requirement("R-112")
async def test_killed_between_large_output_and_the_end_the_next_reader_shows_all_of_it(
    client: Client, site: Site
) -> None:
    task_id = await client.start("echo", LARGE)
    await client.done(task_id)
    await kill(site, "tasks/get", {"taskId": task_id}, "response-received.dynamodb.PutItem")
    assert await client.items(task_id, "~result")
    client.shifted.advance(LEASE)

    ended = await client.get(task_id)

    assert LARGE["text"] in ended["result"]["content"][0]["text"]
    assert await client.get(task_id) == ended


async def test_killed_between_durable_answer_and_delivery_a_later_read_delivers_it_once(
    client: Client, site: Site
) -> None:
    task_id, key = await _asked(client)
    await kill(site, "tasks/update", _answer(task_id, key, YES), "before-send.sfn.SendTaskSuccess")

    with counted_calls(client.aws) as calls:
        assert await _hidden(client, task_id)
        await client.update(task_id, {key: NO})  # too late: another answer is durable
        assert "SendTaskSuccess" not in calls
        client.shifted.advance(LEASE)
        assert await _hidden(client, task_id)
        ended = await client.ended(task_id)
        assert calls.count("SendTaskSuccess") == 1

    assert ended["result"]["content"][0]["text"] == '{"approved":true}'


async def test_killed_between_delivery_and_tombstone_the_workflow_got_its_answer_once(
    client: Client, site: Site
) -> None:
    task_id, key = await _asked(client, "pair", 2)
    await kill(site, "tasks/update", _answer(task_id, key, NO), "response-received.sfn.SendTaskSuccess")

    first = await client.get(task_id)
    (other,) = first["inputRequests"]
    client.shifted.advance(LEASE)
    assert list((await client.get(task_id))["inputRequests"]) == [other]
    assert len(await client.items(task_id, "input#")) == 2
    assert [("token" in item) for item in await client.items(task_id, "input#")].count(True) == 1

    await client.update(task_id, {other: NO})
    ended = await client.ended(task_id)
    assert ended["status"] == "completed"
    assert (await _history(client, task_id))["TaskSucceeded"] == 2


async def test_killed_between_recorded_cancel_and_stop_the_next_read_stops(
    client: Client, site: Site
) -> None:
    task_id, _ = await _asked(client)
    await kill(site, "tasks/cancel", {"taskId": task_id}, "before-send.sfn.StopExecution")
    assert await client.status(task_id) == "RUNNING"

    assert await _hidden(client, task_id)

    assert (await client.ended(task_id))["status"] == "cancelled"
    assert await client.status(task_id) == "ABORTED"


async def test_killed_between_stop_and_its_note_the_next_read_shows_the_end(
    client: Client, site: Site
) -> None:
    task_id = await client.start("long_wait")
    await kill(site, "tasks/cancel", {"taskId": task_id}, "response-received.sfn.StopExecution")

    assert (await client.ended(task_id))["status"] == "cancelled"


async def test_killed_at_the_first_sight_of_a_question_the_next_read_shows_it(
    client: Client, site: Site
) -> None:
    task_id = await client.start("approval")
    await client.waiting(task_id)
    await kill(site, "tasks/get", {"taskId": task_id}, "before-send.dynamodb.UpdateItem")

    (key,) = await client.questions(task_id)

    await client.update(task_id, {key: YES})
    assert (await client.ended(task_id))["status"] == "completed"


# --- a reply is lost ---------------------------------------------------------------------------------------


@pytest.mark.requirement("R-110")
@pytest.mark.parametrize("lost", [1, AWS_TRIES], ids=["once", "every time"])
async def test_a_start_whose_reply_is_lost_happened_once_and_its_handle_resolves(
    faulty: Faulty, lost: int
) -> None:
    faulty.faults.script("StartExecution", *[LOST_REPLY] * lost)

    task_id = await faulty.client.start("echo", {"n": 1})

    assert (await faulty.client.ended(task_id))["result"]["content"][0]["text"] == '{"n":1}'
    assert (await _executions(faulty.client, task_id))[task_id] == 1


async def test_a_start_that_never_arrived_ends_as_failed(faulty: Faulty) -> None:
    faulty.faults.script("StartExecution", *[LOST_REQUEST] * AWS_TRIES)

    task_id = await faulty.client.start("echo")
    assert (await faulty.client.get(task_id))["status"] == "working"
    faulty.client.shifted.advance(121)

    assert (await faulty.client.ended(task_id))["status"] == "failed"


async def test_a_record_whose_write_cannot_be_confirmed_starts_nothing(faulty: Faulty) -> None:
    before = await _records(faulty.client)
    faulty.faults.script("PutItem", *[LOST_REPLY] * AWS_TRIES)

    refused = await faulty.client.call("tools/call", _call("echo"))

    assert refused.error["code"] == -32603
    assert faulty.sent("StartExecution") == 0
    (task_id,) = await _records(faulty.client) - before
    assert task_id not in await _executions(faulty.client, task_id)


async def test_a_record_whose_reply_is_lost_once_is_ours(faulty: Faulty) -> None:
    faulty.faults.script("PutItem", LOST_REPLY)

    task_id = await faulty.client.start("echo")

    assert faulty.sent("PutItem") == 2
    assert (await faulty.client.ended(task_id))["status"] == "completed"


async def test_a_claim_whose_reply_is_lost_is_held_and_used(faulty: Faulty) -> None:
    task_id = await faulty.client.start("echo")
    await faulty.client.done(task_id)
    faulty.faults.script("UpdateItem", LOST_REPLY)

    assert (await faulty.client.get(task_id))["status"] == "completed"


async def test_a_cancel_whose_recording_loses_its_reply_is_carried_out(faulty: Faulty) -> None:
    task_id = await faulty.client.start("long_wait")
    faulty.faults.script("UpdateItem", *[LOST_REPLY] * (AWS_TRIES - 1))

    assert (await faulty.client.cancel(task_id)).result["resultType"] == "complete"

    assert (await faulty.client.ended(task_id))["status"] == "cancelled"


async def test_an_answer_whose_recording_loses_its_reply_is_delivered_once(faulty: Faulty) -> None:
    task_id, key = await _asked(faulty.client)
    faulty.faults.script("UpdateItem", *[LOST_REPLY] * (AWS_TRIES - 1))

    await faulty.client.update(task_id, {key: YES})

    assert faulty.sent("SendTaskSuccess") == 1
    assert (await faulty.client.ended(task_id))["result"]["content"][0]["text"] == '{"approved":true}'


async def test_an_answer_that_cannot_be_confirmed_is_not_acknowledged_but_not_lost_either(
    faulty: Faulty,
) -> None:
    task_id, key = await _asked(faulty.client)
    faulty.faults.script("UpdateItem", *[LOST_REPLY] * AWS_TRIES)

    refused = await faulty.client.update(task_id, {key: YES})
    assert refused.error["code"] == -32603
    assert faulty.sent("SendTaskSuccess") == 0
    faulty.client.shifted.advance(LEASE)

    ended = await faulty.client.ended(task_id)
    assert ended["result"]["content"][0]["text"] == '{"approved":true}'
    assert faulty.sent("SendTaskSuccess") == 1


@pytest.mark.parametrize("lost", [1, AWS_TRIES], ids=["once", "every time"])
async def test_a_delivery_whose_reply_is_lost_reached_the_workflow_once(faulty: Faulty, lost: int) -> None:
    task_id, key = await _asked(faulty.client, "pair", 2)
    faulty.faults.script("SendTaskSuccess", *[LOST_REPLY] * lost)

    answer = await faulty.client.update(task_id, {key: NO})
    assert answer.result["resultType"] == "complete"
    faulty.client.shifted.advance(LEASE)
    (other,) = (await faulty.client.get(task_id))["inputRequests"]
    await faulty.client.update(task_id, {other: NO})

    assert (await faulty.client.ended(task_id))["status"] == "completed"
    assert (await _history(faulty.client, task_id))["TaskSucceeded"] == 2


async def test_a_stop_that_does_not_get_through_is_told_and_made_up_for(faulty: Faulty) -> None:
    task_id = await faulty.client.start("long_wait")
    faulty.faults.script("StopExecution", *[LOST_REQUEST] * AWS_TRIES)

    refused = await faulty.client.cancel(task_id)

    assert refused.error["code"] == -32603
    assert (await faulty.client.ended(task_id))["status"] == "cancelled"


# --- helpers -----------------------------------------------------------------------------------------------


def _call(tool: str) -> Json:
    return {"name": tool, "arguments": {}}


def _answer(task_id: str, key: str, answer: Json) -> Json:
    return {"taskId": task_id, "inputResponses": {key: answer}}


async def _asked(client: Client, tool: str = "approval", count: int = 1) -> tuple[str, str]:
    """A task whose workflow waits for an answer, and the key of its (first) question."""
    task_id = await client.start(tool)
    return task_id, next(iter(await client.questions(task_id, count)))


async def _hidden(client: Client, task_id: str) -> bool:
    return "inputRequests" not in await client.get(task_id)


async def _records(client: Client) -> set[str]:
    reply = await client.aws.dynamodb.scan(TableName=client.table.table, ConsistentRead=True)
    return {item["pk"]["S"] for item in reply["Items"] if item["sk"]["S"] == "#task"}


async def _executions(client: Client, task_id: str) -> Counter[str]:
    """How many executions of this task's state machine have which name."""
    target = (await client.table.item(task_id, "#task"))["target"]["S"]
    reply = await client.aws.stepfunctions.list_executions(stateMachineArn=target, maxResults=1000)
    return Counter(execution["name"] for execution in reply["executions"])


async def _history(client: Client, task_id: str) -> Counter[str]:
    """How many events of which type."""
    arn = await client.execution_arn(task_id)
    reply = await client.aws.stepfunctions.get_execution_history(executionArn=arn, maxResults=1000)
    return Counter(event["type"] for event in reply["events"])
