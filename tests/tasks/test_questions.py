"""Questions of workflows: seen, checked, shown, and gone when they wait no longer (D9)."""

from __future__ import annotations

import logging

import pytest

from adapter.errors import EngineUnavailable, QuestionClosed
from adapter.tasks.engine import Refusal
from tests.tasks.stepping import Operation, stepped_process
from tests.tasks.world import ANSWER, DONE, OWNER, World, store_down


@pytest.mark.requirement("R-113")
async def test_every_open_question_is_shown_in_every_read_until_it_is_answered(world: World) -> None:
    task = await world.asked("one", "two")

    assert world.keys(task) == ["one", "two"]
    assert world.keys(await world.get(task)) == ["one", "two"]

    await world.answer(task, {"one": ANSWER})
    assert world.keys(await world.get(task)) == ["two"]


async def test_the_first_sight_of_questions_costs_one_more_call_and_stamps_their_expiry(world: World) -> None:
    task = await world.create()
    world.ask(task, "one")
    world.ask(task, "two")

    assert await world.calls(lambda: world.get(task)) == ["store.read", "store.adopt"]
    assert await world.calls(lambda: world.get(task)) == ["store.read"]
    assert world.memory.expiries == {
        (task.record.task_id, "one"): task.record.expires_at,
        (task.record.task_id, "two"): task.record.expires_at,
    }


async def test_a_question_is_shown_though_its_expiry_cannot_be_stamped_yet(world: World) -> None:
    task = await world.create()
    world.ask(task)
    world.store.fail("adopt", store_down())

    assert world.keys(await world.get(task)) == ["approve"]
    assert world.memory.expiries == {}

    await world.get(task)
    assert world.memory.expiries


@pytest.mark.parametrize("answer", [ANSWER, None], ids=["answered", "declined"])
async def test_such_a_question_can_be_answered_and_declined(world: World, answer: object) -> None:
    task = await world.create()
    world.ask(task)
    world.store.fail("adopt", store_down())
    assert world.keys(await world.get(task)) == ["approve"]

    if answer is None:
        await world.service.decline(task.record.task_id, task.record.owner, "approve")
    else:
        await world.answer(task, {"approve": answer})

    assert world.keys(await world.get(task)) == []
    assert len(world.delivered()) == 1


async def test_an_unusable_question_is_refused_to_its_workflow_and_logged_and_never_shown(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    task = await world.create()
    world.ask(task, "odd", method="dance")
    world.ask(task, "fine")

    with caplog.at_level(logging.WARNING):
        read = await world.get(task)

    assert world.keys(read) == ["fine"]
    refusal = Refusal("McpInvalidInputRequest", "method 'dance' is not ask")
    assert world.delivered() == [("token-odd", refusal)]
    assert [q.key for q in world.stored(task).questions] == ["fine"]
    assert "odd refused: method 'dance' is not ask" in caplog.text
    assert "token-odd" not in caplog.text


async def test_a_refusal_that_does_not_get_through_is_repeated_by_the_next_read(world: World) -> None:
    task = await world.create()
    world.ask(task, "odd", method="dance")
    world.engine.fail("answer", EngineUnavailable())

    assert world.keys(await world.get(task)) == []
    assert world.jobs.answers == []

    assert world.keys(await world.get(task)) == []
    assert [token for token, _ in world.jobs.answers] == ["token-odd"]


async def test_an_unusable_question_that_waits_no_longer_is_forgotten(world: World) -> None:
    task = await world.create()
    world.ask(task, "odd", method="dance")
    world.jobs.closed_tokens.add("token-odd")

    await world.get(task)

    assert world.stored(task).questions == ()


async def test_a_question_disappears_at_its_deadline(world: World) -> None:
    deadline = world.clock() + 60_000
    task = await world.asked("approve", deadline=deadline)
    world.clock.advance(59.999)
    assert world.keys(await world.get(task)) == ["approve"]

    world.clock.advance(0.001)

    assert world.keys(await world.get(task)) == []


async def test_an_answer_after_the_deadline_is_ignored(world: World) -> None:
    task = await world.asked("approve", deadline=world.clock() + 60_000)
    world.clock.advance(60)

    await world.answer(task, {"approve": ANSWER})

    assert world.jobs.answers == []
    assert world.stored(task).questions[0].answer is None


async def test_an_answer_overtaken_by_the_deadline_is_not_recorded(world: World) -> None:
    task = await world.asked("approve", deadline=world.clock() + 60_000)
    world.clock.advance(59.9)
    answering = Operation(stepped_process(world).answer(task.record.task_id, OWNER, {"approve": ANSWER}))
    answering.reach("record_answer")
    world.jobs.closed_tokens.add("token-approve")
    world.clock.advance(1)
    answering.finish()

    assert answering.error is None
    assert world.jobs.answers == []
    assert world.keys(await world.get(task)) == []


async def test_questions_end_with_their_task(world: World) -> None:
    task = await world.asked("approve")
    world.end(task, DONE)
    world.clock.advance(5)

    assert world.keys(await world.get(task)) == []
    await world.answer(task, {"approve": ANSWER})
    assert world.jobs.answers == []


async def test_a_question_that_is_first_seen_after_the_end_is_only_stamped(world: World) -> None:
    task = await world.create()
    world.end(task)
    world.clock.advance(5)
    await world.get(task)
    world.ask(task, "late")
    world.ask(task, "odd", method="dance")

    assert await world.calls(lambda: world.get(task)) == ["store.read", "store.adopt"]
    assert await world.calls(lambda: world.get(task)) == ["store.read"]
    assert world.keys(await world.get(task)) == []
    assert set(world.memory.expiries.values()) == {task.record.expires_at}
    assert world.jobs.answers == []


async def test_a_new_question_moves_the_time_of_the_last_update_and_later_reads_keep_it(world: World) -> None:
    task = await world.create()
    world.clock.advance(1)
    world.ask(task)

    first = await world.get(task)
    second = await world.get(task)

    assert first.updated_at == second.updated_at == task.record.created_at + 1_000


async def test_questions_hide_their_token_from_logs(world: World) -> None:
    assert "token-" not in repr(world.question())


async def test_two_readers_that_refuse_the_same_question_do_no_harm(world: World) -> None:
    task = await world.create()
    world.ask(task, "odd", method="dance")
    readers = [Operation(stepped_process(world).get(task.record.task_id, OWNER)) for _ in range(2)]
    while waiting := [reader for reader in readers if not reader.over]:
        for reader in waiting:
            reader.advance()

    assert [reader.error for reader in readers] == [None, None]
    assert len(world.jobs.answers) == 1
    with pytest.raises(QuestionClosed):
        await world.jobs.answer("token-odd", "{}")
