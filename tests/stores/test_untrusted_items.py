"""Workflows write questions and events themselves: whatever they write, the task stays readable."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from adapter.errors import StoreUnavailable
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.tasks.model import Event, Question, Task
from tests.package.stack import Stack
from tests.support.partition import NOW, Partition, new_record

pytestmark = pytest.mark.asyncio(loop_scope="session")

ODD_VALUES: list[dict[str, Any]] = [
    {"NULL": True},
    {"BOOL": False},
    {"M": {"S": {"S": "nested"}}},
    {"L": [{"S": "listed"}]},
    {"SS": ["one"]},
    {"B": b"bytes"},
    {"N": "7"},
    {"S": "text"},
    {"S": ""},
    {"S": "nan"},
    {"S": "-1e999"},
    {"N": "-5"},
]


async def _task(store: DynamoTaskStore, partition: Partition, sort: str, item: dict[str, Any]) -> Task:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.update(record.task_id, sort, item)
    task = await store.read(record.task_id)
    assert task is not None
    assert task.record == record
    return task


async def _question(store: DynamoTaskStore, partition: Partition, **attributes: Any) -> Question:
    task = await _task(store, partition, "input#q", {"token": {"S": "a-token"}, **attributes})
    (question,) = task.questions
    return question


@pytest.mark.parametrize("value", ODD_VALUES, ids=str)
async def test_what_a_workflow_may_write_changes_nothing_of_a_record(
    store: DynamoTaskStore, partition: Partition, value: dict[str, Any]
) -> None:
    policy = Stack("template.yaml", SamplePipelines="true").resource("PipelineWritePolicy")["PolicyDocument"][
        "Statement"
    ][0]
    writable = policy["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
    forged = dict.fromkeys(set(writable) - {"pk", "sk"}, value)
    task = await _task(store, partition, "#task", forged)
    assert (task.message, task.outcome, task.questions, task.events) == (None, None, (), ())


@pytest.mark.parametrize("value", ODD_VALUES, ids=str)
async def test_a_question_of_odd_attributes_is_read_so_that_it_can_be_refused(
    store: DynamoTaskStore, partition: Partition, value: dict[str, Any]
) -> None:
    names = ["method", "params", "enteredAt", "timeoutSeconds", "expiresAt", "adopted", "answer"]
    names += ["answeredToken", "answeredAt", "deliveryUntil", "closedToken", "op"]
    question = await _question(store, partition, **dict.fromkeys(names, value))
    assert question.token == "a-token"
    assert (question.method, question.params) == (value.get("S", ""), value.get("S", ""))
    assert (question.answer, question.adopted, question.deadline) == (None, False, None)
    assert question.asked_at == NOW


async def test_a_question_without_anything_but_a_token_is_read(
    store: DynamoTaskStore, partition: Partition
) -> None:
    question = await _question(store, partition)
    assert (question.method, question.params, question.asked_at, question.deadline) == ("", "", NOW, None)


@pytest.mark.parametrize("value", [value for value in ODD_VALUES if not value.get("S")], ids=str)
async def test_a_question_without_a_usable_token_is_ignored_and_reported_once(
    store: DynamoTaskStore, partition: Partition, value: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "adapter.stores")
    task = await _task(store, partition, "input#q", {"token": value, "method": {"S": "ping"}})
    again = await store.read(task.record.task_id)
    assert again is not None
    assert (task.questions, again.questions) == ((), ())
    assert [record.getMessage() for record in caplog.records] == [
        f"task {task.record.task_id}: item input#q is ignored: it has no token"
    ]


@pytest.mark.parametrize(
    ("entered", "seconds", "deadline"),
    [
        ("2027-01-15T08:00:00Z", {"N": "60"}, NOW + 60_000),
        ("2027-01-15T08:00:00.123456Z", {"S": "60"}, NOW + 60_123),
        ("2027-01-15T10:00:00+02:00", {"N": "1.5"}, NOW + 1_500),
        ("2027-01-15T08:00:00", {"N": "60"}, NOW + 60_000),
        ("yesterday", {"N": "60"}, None),
        ("2027-01-15T08:00:00Z", {"S": "an hour"}, None),
        ("2027-01-15T08:00:00Z", {"S": "inf"}, None),
    ],
)
async def test_the_deadline_follows_from_entry_and_timeout(
    store: DynamoTaskStore, partition: Partition, entered: str, seconds: dict[str, Any], deadline: int | None
) -> None:
    question = await _question(store, partition, enteredAt={"S": entered}, timeoutSeconds=seconds)
    assert question.deadline == deadline


async def test_odd_names_of_items_give_usable_keys(store: DynamoTaskStore, partition: Partition) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    for suffix in ("", "x" * 500, "ü/{}#~"):
        await partition.ask(record.task_id, suffix)
    task = await store.read(record.task_id)
    assert task is not None
    keys = {question.item: question.key for question in task.questions}
    assert keys["input#"].startswith("question-")
    assert keys["input#" + "x" * 500].startswith("x" * 40 + "-")
    assert keys["input#ü/{}#~"].startswith("ü/{}#~-")


@pytest.mark.parametrize("value", ODD_VALUES, ids=str)
async def test_an_event_of_odd_attributes_is_read(
    store: DynamoTaskStore, partition: Partition, value: dict[str, Any]
) -> None:
    names = ["message", "progress", "total", "level", "data"]
    item = {"kind": {"S": "progress"}} | dict.fromkeys(names, value)
    (event,) = (await _task(store, partition, "event#1", item)).events
    number = float(value["N"]) if "N" in value else None
    text = value.get("S")
    assert event == Event(
        key="1", kind="progress", message=text, progress=number, total=number, level=text or "info", data=text
    )


@pytest.mark.parametrize("kind", [{}, *({"kind": value} for value in ODD_VALUES)], ids=str)
async def test_an_event_of_no_known_kind_is_ignored(
    store: DynamoTaskStore, partition: Partition, kind: dict[str, Any]
) -> None:
    item = {"message": {"S": "Hello"}} | kind
    assert (await _task(store, partition, "event#1", item)).events == ()


async def test_other_items_in_the_partition_are_ignored(store: DynamoTaskStore, partition: Partition) -> None:
    task = await _task(store, partition, "notes#1", {"token": {"S": "a-token"}})
    assert (task.questions, task.events) == ((), ())


@pytest.mark.parametrize("broken", [{"ttlMs": {"S": "a day"}}, {"ending": {"S": "exploded"}}])
async def test_a_record_that_cannot_be_understood_is_reported_as_such(
    store: DynamoTaskStore, partition: Partition, broken: dict[str, Any]
) -> None:
    record = new_record()
    await store.create(record, refresh_at=NOW)
    await partition.update(record.task_id, "#task", broken)
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        await store.read(record.task_id)
