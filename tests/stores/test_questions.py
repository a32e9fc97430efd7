from __future__ import annotations

import asyncio

import pytest

from adapter.aws import Aws
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.tasks.model import Event, Question, Task
from tests.support.aws import counted_calls
from tests.support.partition import EXPIRES, NOW, Partition, new_record

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _task(store: DynamoTaskStore, task_id: str) -> Task:
    task = await store.read(task_id)
    assert task is not None
    return task


async def _asked(store: DynamoTaskStore, partition: Partition, **attributes: object) -> tuple[str, Question]:
    """A task with one adopted question."""
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.ask(record.task_id, **attributes)
    await store.adopt(record.task_id, (await _task(store, record.task_id)).questions, expires_at=EXPIRES)
    return record.task_id, (await _task(store, record.task_id)).questions[0]


async def _answer(store: DynamoTaskStore, task_id: str, question: Question, answer: str = "{}") -> bool:
    return await store.record_answer(task_id, question, answer, now=NOW, delivery_until=NOW + 10)


async def test_a_question_that_a_workflow_wrote_is_read(store: DynamoTaskStore, partition: Partition) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.ask(record.task_id, token={"S": "the-token"}, timeoutSeconds={"N": "90"})
    (question,) = (await _task(store, record.task_id)).questions
    assert question == Question(
        key=question.key,
        item="input#approval",
        token="the-token",
        method="elicitation/create",
        params='{"message":"Go on?"}',
        asked_at=NOW + 250,
        deadline=NOW + 90_250,
    )


@pytest.mark.requirement("B-57")
async def test_a_key_tells_the_item_and_nothing_of_the_token(
    store: DynamoTaskStore, partition: Partition
) -> None:
    token = "secret-token-" * 10
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.ask(record.task_id, "approval", token={"S": token})
    await partition.ask(record.task_id, token, token={"S": token})
    keys = [question.key for question in (await _task(store, record.task_id)).questions]
    assert keys[0].startswith("approval-")
    assert not any("secret" in key for key in keys)
    assert token not in repr(await _task(store, record.task_id))


async def test_questions_come_in_the_order_in_which_they_were_asked(
    store: DynamoTaskStore, partition: Partition
) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.ask(record.task_id, "a", enteredAt={"S": "2027-01-15T08:00:02Z"})
    await partition.ask(record.task_id, "b", enteredAt={"S": "2027-01-15T09:00:01+01:00"})
    task = await _task(store, record.task_id)
    assert [question.item for question in task.questions] == ["input#b", "input#a"]
    assert task.updated_at == NOW + 2_000


@pytest.mark.requirement("B-32")
async def test_adopting_stamps_the_expiry_that_a_workflow_left_out(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    assert question.adopted
    assert (await partition.item(task_id, question.item))["expiresAt"] == {"N": str(EXPIRES // 1000)}


@pytest.mark.requirement("B-50")
async def test_an_expiry_that_a_workflow_wrote_does_not_count_as_a_check(
    store: DynamoTaskStore, partition: Partition
) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.ask(record.task_id, expiresAt={"S": "never"})
    (question,) = (await _task(store, record.task_id)).questions
    assert not question.adopted
    await store.adopt(record.task_id, [question], expires_at=EXPIRES)
    assert (await partition.item(record.task_id, question.item))["expiresAt"] == {"N": str(EXPIRES // 1000)}


async def test_adopting_an_item_that_is_gone_does_not_bring_it_back(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    await partition.remove(task_id, question.item)
    await store.adopt(task_id, [question, Event(key="1", kind="log")], expires_at=EXPIRES)
    assert await partition.item(task_id, question.item) == {}
    assert await partition.item(task_id, "event#1") == {}


async def test_events_are_read_in_order_and_adopted(store: DynamoTaskStore, partition: Partition) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    progress = {"kind": {"S": "progress"}, "progress": {"N": "2.5"}, "total": {"S": "10"}}
    await partition.update(record.task_id, "event#2", progress | {"message": {"S": "Loading"}})
    log = {"kind": {"S": "log"}, "level": {"S": "warning"}, "data": {"S": '{"rows":0}'}}
    await partition.update(record.task_id, "event#1", log)
    first, second = (await _task(store, record.task_id)).events
    assert (first.kind, first.level, first.data, first.adopted) == ("log", "warning", '{"rows":0}', False)
    assert (second.kind, second.message, second.progress, second.total) == ("progress", "Loading", 2.5, 10.0)
    await store.adopt(record.task_id, [first, second], expires_at=EXPIRES)
    assert all(event.adopted for event in (await _task(store, record.task_id)).events)


async def test_an_answer_is_durable_and_leased_for_delivery(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    assert await _answer(store, task_id, question, '{"action":"accept"}')
    (answered,) = (await _task(store, task_id)).questions
    assert answered.answer == '{"action":"accept"}'
    assert not answered.is_open(NOW)
    assert not answered.needs_delivery(NOW + 9)
    assert answered.needs_delivery(NOW + 10)


async def test_only_the_first_of_many_answers_is_kept(store: DynamoTaskStore, partition: Partition) -> None:
    task_id, question = await _asked(store, partition)
    answers = [_answer(store, task_id, question, f"{number}") for number in range(5)]
    kept = await asyncio.gather(*answers)
    assert sorted(kept) == [False] * 4 + [True]
    assert (await _task(store, task_id)).questions[0].answer == str(kept.index(True))


async def test_an_answer_after_the_deadline_is_refused(store: DynamoTaskStore, partition: Partition) -> None:
    task_id, question = await _asked(store, partition, timeoutSeconds={"N": "60"})
    late = {"now": NOW + 60_250, "delivery_until": NOW + 70_000}
    assert not await store.record_answer(task_id, question, "{}", **late)
    assert await store.record_answer(task_id, question, "{}", **(late | {"now": NOW + 60_249}))


async def test_an_answer_to_a_wait_that_was_replaced_is_refused(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    await partition.ask(task_id)
    assert not await _answer(store, task_id, question)


async def test_an_answer_to_an_item_that_is_gone_is_refused(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    await partition.remove(task_id, question.item)
    assert not await _answer(store, task_id, question)
    assert await partition.item(task_id, question.item) == {}


@pytest.mark.parametrize("closed", [False, True], ids=["answered", "closed"])
async def test_a_new_wait_on_the_same_item_has_a_new_key_and_is_checked_and_answered_anew(
    store: DynamoTaskStore, partition: Partition, closed: bool
) -> None:
    task_id, first = await _asked(store, partition)
    await _answer(store, task_id, first, "1")
    if closed:
        await store.close_question(task_id, first)
    await partition.ask(task_id)
    (second,) = (await _task(store, task_id)).questions
    assert second.key != first.key
    assert (second.answer, second.delivery_until, second.adopted) == (None, 0, False)
    await store.adopt(task_id, [second], expires_at=EXPIRES)
    assert await _answer(store, task_id, second, "2")
    (answered,) = (await _task(store, task_id)).questions
    assert (answered.answer, answered.adopted) == ("2", True)


async def test_only_one_reader_redelivers_an_answer_and_not_before_the_lease_ends(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    assert not await store.claim_delivery(task_id, question, now=NOW, until=NOW + 10)
    await _answer(store, task_id, question)
    assert not await store.claim_delivery(task_id, question, now=NOW + 9, until=NOW + 20)
    claims = [store.claim_delivery(task_id, question, now=NOW + 10, until=NOW + 20) for _ in range(4)]
    assert sorted(await asyncio.gather(*claims)) == [False] * 3 + [True]


async def test_a_closed_question_is_hidden_and_keeps_no_token_and_no_answer(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    await _answer(store, task_id, question)
    await store.close_question(task_id, question)
    assert (await _task(store, task_id)).questions == ()
    item = await partition.item(task_id, question.item)
    assert set(item) == {"pk", "sk", "closedToken", "enteredAt", "answeredAt", "expiresAt", "op"}
    assert question.token not in str(item)


async def test_a_closed_question_can_be_neither_answered_nor_delivered_nor_closed_again(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    await _answer(store, task_id, question)
    await store.close_question(task_id, question)
    before = await partition.item(task_id, question.item)
    assert not await _answer(store, task_id, question)
    assert not await store.claim_delivery(task_id, question, now=NOW + 99, until=NOW + 100)
    await store.close_question(task_id, question)
    assert await partition.item(task_id, question.item) == before


async def test_a_token_that_was_closed_stays_hidden_even_when_it_is_written_again(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    await store.close_question(task_id, question)
    await partition.ask(task_id, token={"S": question.token})
    assert (await _task(store, task_id)).questions == ()


async def test_closing_a_wait_that_was_replaced_leaves_the_new_one(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    await partition.ask(task_id)
    await store.close_question(task_id, question)
    assert len((await _task(store, task_id)).questions) == 1


async def test_closing_a_question_that_was_never_adopted_removes_its_item(
    store: DynamoTaskStore, partition: Partition
) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.ask(record.task_id)
    (question,) = (await _task(store, record.task_id)).questions
    await store.close_question(record.task_id, question)
    await store.close_question(record.task_id, question)
    assert await partition.item(record.task_id, question.item) == {}


async def test_the_last_update_never_goes_back_as_questions_come_and_go(
    store: DynamoTaskStore, partition: Partition
) -> None:
    task_id, question = await _asked(store, partition)
    times = [(await _task(store, task_id)).updated_at]
    await store.record_answer(task_id, question, "{}", now=NOW + 800, delivery_until=NOW + 900)
    times.append((await _task(store, task_id)).updated_at)
    await store.close_question(task_id, question)
    times.append((await _task(store, task_id)).updated_at)
    assert times == [NOW + 250, NOW + 800, NOW + 800]


async def test_each_step_of_a_question_is_one_call(
    store: DynamoTaskStore, partition: Partition, aws: Aws
) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.ask(record.task_id)
    with counted_calls(aws) as calls:
        (question,) = (await _task(store, record.task_id)).questions
        await store.adopt(record.task_id, [question], expires_at=EXPIRES)
        await _answer(store, record.task_id, question)
        await store.claim_delivery(record.task_id, question, now=NOW + 10, until=NOW + 20)
        await store.close_question(record.task_id, question)
        assert calls == ["Query", *["UpdateItem"] * 3, "DeleteItem"]
