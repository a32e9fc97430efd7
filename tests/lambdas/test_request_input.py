"""The function by which a workflow asks a question, on the local engine's table (D9)."""

from __future__ import annotations

import importlib
import json
import secrets
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from adapter.stores.dynamodb import DynamoTaskStore
from adapter.tasks.clock import system_clock
from adapter.tasks.model import Question, Task, TaskRecord
from adapter.timeouts import ATTEMPTS, CONNECT_TIMEOUT, READ_TIMEOUT
from lambdas.loop import Container
from lambdas.request_input import app
from tests.support.adapter import form
from tests.support.aws import retry_without_pauses
from tests.support.partition import HOUR, new_record

TOKEN = "AAAAKgAAAAIAAAAAAAAAAexample" + "x" * 600
ENTERED = "2027-01-15T08:00:00.250Z"
Store = Container[DynamoTaskStore]


@pytest.fixture(autouse=True)
def function(environment: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A new container: it has no client yet. The local engine may be slower than AWS."""
    monkeypatch.setattr(app, "READ_TIMEOUT", 60.0)
    app._dynamodb.cache_clear()
    yield
    app._dynamodb().close()
    app._dynamodb.cache_clear()


@pytest.fixture
def record(container: Store) -> TaskRecord:
    record = new_record(task_id=f"mcp-{secrets.token_urlsafe(16)}", created_at=system_clock())
    container.run(lambda store: store.create(record, refresh_at=0))
    return record


def _payload(record: TaskRecord, **changes: Any) -> dict[str, Any]:
    given = {"taskId": record.task_id, "token": TOKEN, "params": form("Go on?", sure="boolean"), **changes}
    return {name: value for name, value in given.items() if value is not None}


def _task(container: Store, record: TaskRecord) -> Task:
    task = container.run(lambda store: store.read(record.task_id))
    assert task is not None
    return task


def _question(container: Store, record: TaskRecord) -> Question:
    (question,) = _task(container, record).questions
    return question


def test_a_question_is_written_under_its_task(container: Store, record: TaskRecord) -> None:
    payload = _payload(record, enteredAt=ENTERED, timeoutSeconds=3600)
    assert app.handler(payload, None) == {"status": "registered"}
    question = _question(container, record)
    assert question.token == TOKEN
    assert question.method == "elicitation/create"
    assert json.loads(question.params)["message"] == "Go on?"
    assert question.asked_at == 1_800_000_000_250
    assert question.deadline == question.asked_at + 3_600_000
    assert TOKEN[:20] not in question.key


@pytest.mark.requirement("B-48")
def test_numbers_in_a_question_stay_as_they_were(container: Store, record: TaskRecord) -> None:
    share = {"type": "number", "minimum": 0.5, "maximum": 1, "default": 0.75}
    app.handler(_payload(record, params=form("How much?", properties={"share": share})), None)
    params = json.loads(_question(container, record).params)
    assert json.dumps(params["requestedSchema"]["properties"]["share"]) == json.dumps(share)


@pytest.mark.requirement("B-32")
def test_the_written_question_goes_with_its_task(container: Store, record: TaskRecord) -> None:
    app.handler(_payload(record), None)
    item = _question(container, record).item
    reply = app._dynamodb().get_item(
        TableName=container.run(_table), Key={"pk": {"S": record.task_id}, "sk": {"S": item}}
    )
    assert reply["Item"]["expiresAt"] == {"N": str(-(-record.expires_at // 1000))}


async def _table(store: DynamoTaskStore) -> str:
    return store._table


_ODD = {
    "a number over 64 bits": {"params": form("x", properties={"n": {"type": "integer", "maximum": 10**20}})},
    "deep nesting": {
        "params": {**form("x", sure="boolean"), "_meta": {"a": json.loads("[" * 400 + "]" * 400)}}
    },
    "half a character": {"params": {**form("x", sure="boolean"), "_meta": {"a": "\ud800"}}},
    "half a character as the time": {"enteredAt": "\ud800"},
    "a time that is none": {"enteredAt": "yesterday"},
    "a truth as a number": {"timeoutSeconds": True},
    "a time beyond any": {"timeoutSeconds": 10**40},
    "a token that is none": {"token": "x" * 2049},
}


@pytest.mark.parametrize("changes", _ODD.values(), ids=_ODD)
def test_what_cannot_be_asked_fails_with_the_documented_error(
    container: Store, record: TaskRecord, changes: dict[str, Any]
) -> None:
    with pytest.raises(app.InvalidInputRequest):
        app.handler(_payload(record, **changes), None)
    assert _task(container, record).questions == ()


def test_what_cannot_be_the_id_of_a_task_is_unknown(record: TaskRecord) -> None:
    with pytest.raises(app.UnknownTask):
        app.handler(_payload(record, taskId="mcp-" + "x" * 3000), None)


def test_the_time_is_optional(container: Store, record: TaskRecord) -> None:
    app.handler(_payload(record), None)
    question = _question(container, record)
    assert (question.asked_at, question.deadline) == (record.created_at, None)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (
            "sampling/createMessage",
            {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 9},
        ),
        ("roots/list", None),
    ],
)
def test_other_kinds_of_questions_are_written(
    container: Store, record: TaskRecord, method: str, params: object
) -> None:
    app.handler(_payload(record, method=method, params=params), None)
    assert _question(container, record).method == method


def test_two_waits_of_a_task_are_two_questions(container: Store, record: TaskRecord) -> None:
    for token in ("one", "two"):
        app.handler(_payload(record, token=token), None)
    assert {question.token for question in _task(container, record).questions} == {"one", "two"}


def test_an_invocation_that_is_retried_writes_one_question(container: Store, record: TaskRecord) -> None:
    for _ in range(3):
        assert app.handler(_payload(record), None) == {"status": "registered"}
    _question(container, record)


def test_a_retry_does_not_bring_an_answered_question_back(container: Store, record: TaskRecord) -> None:
    app.handler(_payload(record), None)
    question = _question(container, record)

    async def close(store: DynamoTaskStore) -> None:
        await store.adopt(record.task_id, [question], expires_at=record.expires_at)
        (adopted,) = (await _read(store)).questions
        await store.close_question(record.task_id, adopted)

    async def _read(store: DynamoTaskStore) -> Task:
        task = await store.read(record.task_id)
        assert task is not None
        return task

    container.run(close)
    app.handler(_payload(record), None)
    assert _task(container, record).questions == ()


def test_an_unknown_task_fails_the_state(record: TaskRecord) -> None:
    with pytest.raises(app.UnknownTask, match="mcp-unknown"):
        app.handler(_payload(record, taskId="mcp-unknown"), None)


def test_a_task_whose_time_to_live_is_over_fails_the_state(container: Store) -> None:
    old = new_record(task_id=f"mcp-{secrets.token_urlsafe(16)}", created_at=system_clock() - 48 * HOUR)
    container.run(lambda store: store.create(old, refresh_at=0))
    with pytest.raises(app.UnknownTask):
        app.handler(_payload(old), None)
    assert _task(container, old).questions == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"taskId": ""}, "taskId: "),
        ({"token": None}, "token: Field required"),
        ({"timeoutSeconds": 0}, "timeoutSeconds: "),
        ({"timeoutSeconds": "soon"}, "timeoutSeconds: "),
        ({"params": "text"}, "params: "),
        ({"surprise": 1}, "surprise: "),
        ({"method": "guess"}, "method 'guess' is not one of"),
        ({"params": {}}, "message: "),
        ({"params": form(password="string")}, "secrets must not be asked for"),
    ],
)
def test_what_no_client_could_show_fails_the_state_and_says_why(
    container: Store, record: TaskRecord, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(app.InvalidInputRequest) as refused:
        app.handler(_payload(record, **changes), None)
    assert problem in str(refused.value)
    assert TOKEN not in str(refused.value)
    assert _task(container, record).questions == ()


@pytest.mark.parametrize("payload", [None, "text", [], 7])
def test_a_payload_that_is_no_object_fails_the_state(payload: object) -> None:
    with pytest.raises(app.InvalidInputRequest):
        app.handler(payload, None)


def test_trouble_with_the_table_fails_the_invocation_so_that_it_is_retried(
    record: TaskRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADAPTER_TABLE", "no-such-table")
    with pytest.raises(Exception, match="ResourceNotFoundException"):
        app.handler(_payload(record), None)


def test_the_client_is_as_patient_as_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "READ_TIMEOUT", READ_TIMEOUT)
    config = app._dynamodb().meta.config
    assert (config.connect_timeout, config.read_timeout) == (CONNECT_TIMEOUT, READ_TIMEOUT)
    assert config.retries == {"mode": "standard", "total_max_attempts": ATTEMPTS}


def test_a_connection_that_hangs_is_given_up_and_tried_again(
    record: TaskRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "READ_TIMEOUT", 0.2)
    retry_without_pauses(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # it accepts, and says nothing
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{hanging.getsockname()[1]}")
        with pytest.raises(ReadTimeoutError):
            app.handler(_payload(record), None)
        hanging.settimeout(1)
        connections = [hanging.accept()[0] for _ in range(ATTEMPTS)]
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(("start", "clients"), [("on-demand", 1), ("snap-start", 0)])
def test_the_client_is_made_while_the_function_starts_but_not_before_a_snapshot(
    start: str, clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", start)
    assert importlib.reload(app)._dynamodb.cache_info().currsize == clients
