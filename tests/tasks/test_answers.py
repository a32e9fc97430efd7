"""Answers: checked as a whole, durable, delivered once, never lost (D9)."""

from __future__ import annotations

import pytest

from adapter.errors import AnswerRefused, EngineUnavailable, InvalidAnswer, QuestionClosed, StoreUnavailable
from adapter.tasks.engine import Refusal
from tests.tasks.stepping import Operation, interleavings, stepped_process
from tests.tasks.world import ANSWER, OWNER, World, new_task, store_down

OTHER = {"value": "no"}
DELIVERED = [("token-approve", ANSWER)]


@pytest.mark.requirement("R-114")
async def test_an_answer_is_durable_before_it_is_delivered_and_then_the_question_is_closed(
    world: World,
) -> None:
    task = await world.asked("approve")

    calls = await world.calls(lambda: world.answer(task, {"approve": ANSWER}))

    assert calls == ["store.read", "store.record_answer", "engine.answer", "store.close_question"]
    assert world.delivered() == DELIVERED
    assert world.stored(task).questions == ()


async def test_an_answer_to_a_question_nobody_has_read_yet_is_taken(world: World) -> None:
    task = await world.create()
    world.ask(task)

    await world.answer(task, {"approve": ANSWER})

    assert world.delivered() == DELIVERED


async def test_answers_are_all_checked_before_any_is_given(world: World) -> None:
    task = await world.asked("one", "two")

    with pytest.raises(InvalidAnswer) as caught:
        await world.answer(task, {"one": ANSWER, "two": {"nothing": 1}})

    assert (caught.value.key, caught.value.rule) == ("two", "value is required")
    assert world.jobs.answers == []
    assert world.keys(await world.get(task)) == ["one", "two"]


async def test_a_question_can_be_answered_after_a_bad_answer(world: World) -> None:
    task = await world.asked("approve")
    with pytest.raises(InvalidAnswer):
        await world.answer(task, {"approve": {}})

    await world.answer(task, {"approve": ANSWER})

    assert world.delivered() == DELIVERED


async def test_an_answer_longer_than_a_job_system_takes_is_refused_before_it_is_recorded(
    world: World,
) -> None:
    task = await world.asked("approve")
    longest = {"value": "x" * (262_144 - len('{"value":""}'))}

    with pytest.raises(InvalidAnswer, match="longer than 262144 bytes"):
        await world.answer(task, {"approve": {"value": longest["value"] + "x"}})
    await world.answer(task, {"approve": longest})

    assert world.delivered() == [("token-approve", longest)]


@pytest.mark.requirement("R-114")
async def test_unknown_and_closed_keys_are_ignored_beside_good_ones(world: World) -> None:
    task = await world.asked("one", "two")
    await world.answer(task, {"one": ANSWER})

    await world.answer(task, {"one": OTHER, "nonsense": 5, "two": ANSWER})

    assert world.delivered() == [("token-one", ANSWER), ("token-two", ANSWER)]


@pytest.mark.requirement("R-115")
async def test_an_answer_to_a_finished_task_is_ignored(world: World) -> None:
    task = await world.asked("approve")
    world.end(task)
    world.clock.advance(5)
    await world.get(task)

    assert await world.calls(lambda: world.answer(task, {"approve": ANSWER})) == ["store.read"]


def test_two_answers_at_once_are_both_taken_well_and_one_is_delivered() -> None:
    runs = 0
    for world, operations in interleavings(_two_answers):
        runs += 1
        assert [operation.error for operation in operations] == [None, None]
        assert world.jobs.answers == list(world.memory.answers.items())
        assert len(world.jobs.answers) == 1
        (task,) = world.memory.tasks.values()
        assert task.questions == ()
    assert runs > 100


async def test_a_question_that_waits_no_longer_is_closed_by_its_answer(world: World) -> None:
    task = await world.asked("approve")
    world.jobs.closed_tokens.add("token-approve")

    await world.answer(task, {"approve": ANSWER})

    assert world.jobs.answers == []
    assert world.stored(task).questions == ()


async def test_an_answer_that_cannot_be_delivered_now_is_kept_and_delivered_by_a_later_read(
    world: World,
) -> None:
    task = await world.asked("approve")
    world.engine.fail("answer", EngineUnavailable())

    await world.answer(task, {"approve": ANSWER})

    assert world.keys(await world.get(task)) == []
    assert world.jobs.answers == []
    world.clock.advance(10)
    await world.get(task)
    assert world.delivered() == DELIVERED
    assert world.stored(task).questions == ()


async def test_a_kept_answer_is_delivered_under_a_lease(world: World) -> None:
    task = await world.asked("approve")
    world.engine.fail("answer", EngineUnavailable(), times=2)
    await world.answer(task, {"approve": ANSWER})
    world.clock.advance(9.999)
    await world.get(task)
    assert world.journal.count("engine.answer") == 1

    world.clock.advance(0.001)
    for _ in range(5):
        await world.get(task)
    assert world.journal.count("engine.answer") == 2

    world.clock.advance(10)
    await world.get(task)
    assert world.delivered() == DELIVERED


async def test_readers_at_once_deliver_a_kept_answer_once(world: World) -> None:
    task = await world.asked("approve")
    world.engine.fail("answer", EngineUnavailable())
    await world.answer(task, {"approve": ANSWER})
    world.clock.advance(10)

    sent: list[str] = []
    deliver = world.jobs.answer

    async def noted(token: str, answer: str | Refusal) -> None:
        sent.append(token)
        await deliver(token, answer)

    world.jobs.answer = noted  # type: ignore[method-assign]
    readers = [Operation(stepped_process(world).get(task.record.task_id, OWNER)) for _ in range(20)]
    while waiting := [reader for reader in readers if not reader.over]:
        for reader in waiting:
            reader.advance()

    assert sent == ["token-approve"]


async def test_a_delivery_whose_reply_is_lost_is_repeated_without_harm(world: World) -> None:
    task = await world.asked("approve")
    world.engine.fail("answer", EngineUnavailable(), done=True)
    await world.answer(task, {"approve": ANSWER})
    world.clock.advance(10)

    await world.get(task)

    assert world.delivered() == DELIVERED
    assert world.stored(task).questions == ()


async def test_a_question_that_cannot_be_closed_after_delivery_is_closed_by_a_later_read(
    world: World,
) -> None:
    task = await world.asked("approve")
    world.store.fail("close_question", store_down())
    await world.answer(task, {"approve": ANSWER})

    assert world.keys(await world.get(task)) == []
    world.clock.advance(10)
    await world.get(task)

    assert world.delivered() == DELIVERED
    assert world.stored(task).questions == ()


async def test_an_answer_that_is_not_durable_is_not_delivered_and_not_acknowledged(world: World) -> None:
    task = await world.asked("approve")
    world.store.fail("record_answer", store_down())

    with pytest.raises(StoreUnavailable):
        await world.answer(task, {"approve": ANSWER})

    assert world.jobs.answers == []
    assert world.keys(await world.get(task)) == ["approve"]


async def test_answers_that_were_recorded_before_the_store_failed_stay_given(world: World) -> None:
    task = await world.asked("one", "two")
    record = world.memory.record_answer

    async def down(*_: object, **__: object) -> bool:
        raise store_down()

    async def first_only(*arguments: object, **named: object) -> bool:
        world.memory.record_answer = down  # type: ignore[method-assign]
        return await record(*arguments, **named)  # type: ignore[arg-type]

    world.memory.record_answer = first_only  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await world.answer(task, {"one": ANSWER, "two": ANSWER})
    assert world.keys(await world.get(task)) == ["two"]

    world.memory.record_answer = record  # type: ignore[method-assign]
    await world.answer(task, {"one": ANSWER, "two": ANSWER})

    assert world.delivered() == [("token-one", ANSWER), ("token-two", ANSWER)]


async def test_an_answer_that_a_job_system_never_takes_fails_the_wait_instead_of_hanging_it(
    world: World,
) -> None:
    task = await world.asked("approve")
    world.engine.fail("answer", AnswerRefused())

    await world.answer(task, {"approve": ANSWER})

    ((token, refusal),) = world.jobs.answers
    assert token == "token-approve"
    assert isinstance(refusal, Refusal)
    assert refusal.error == "McpAnswerRefused"
    assert world.stored(task).questions == ()


async def test_nobody_else_can_answer(world: World) -> None:
    task = await world.asked("approve")

    with pytest.raises(Exception, match="Task not found"):
        await world.answer(task, {"approve": ANSWER}, owner="mallory")

    assert world.jobs.answers == []


async def test_an_answer_moves_the_time_of_the_last_update(world: World) -> None:
    task = await world.asked("approve")
    world.clock.advance(1)

    await world.answer(task, {"approve": ANSWER})

    assert (await world.get(task)).updated_at == task.record.created_at + 1_000


async def test_answers_reach_the_wait_they_were_given_to(world: World) -> None:
    task = await world.asked("one", "two")

    await world.answer(task, {"two": OTHER, "one": ANSWER})

    assert dict(world.delivered()) == {"token-one": ANSWER, "token-two": OTHER}
    with pytest.raises(QuestionClosed):
        await world.jobs.answer("token-one", "{}")


def _two_answers() -> tuple[World, list[Operation]]:
    world = World()
    Operation(stepped_process(world).create(new_task())).finish()
    (task,) = world.memory.tasks.values()
    world.ask(task, adopted=True)
    task_id = task.record.task_id
    return world, [
        Operation(stepped_process(world).answer(task_id, OWNER, {"approve": value}))
        for value in (ANSWER, OTHER)
    ]
