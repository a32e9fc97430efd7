"""What workflows ask: checked when it is first seen, answered once, and the answer brought to the job system (D9)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import orjson

from adapter.errors import (
    AnswerRefused,
    EngineUnavailable,
    InvalidAnswer,
    QuestionClosed,
    StoreUnavailable,
)

from .clock import Clock
from .engine import Engine, Refusal
from .model import Question, Task
from .pacing import LEASE_MS
from .store import TaskStore

logger = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 262_144
OFFER_MS = 300_000
"""How long a question that was sent to a session as a request is not sent there again."""
DECLINE = '{"action":"decline"}'
INVALID_REQUEST = "McpInvalidInputRequest"
ANSWER_REFUSED = "McpAnswerRefused"


class InputPolicy(Protocol):
    """What questions and answers must look like; the protocol layer knows."""

    def request_problem(self, method: str, params: str) -> str | None:
        """None, or why a question that a workflow wrote (params: JSON text) cannot be shown to a client."""
        ...

    def answer_problem(self, method: str, params: str, answer: object) -> str | None:
        """None, or which rule a client's answer to a valid question breaks."""
        ...


class Questions:
    """The questions of tasks that `TaskService` has loaded for their owner."""

    def __init__(
        self, store: TaskStore, engines: Mapping[str, Engine], policy: InputPolicy, clock: Clock
    ) -> None:
        self._store = store
        self._engines = engines
        self._policy = policy
        self._clock = clock

    async def adopted(self, task: Task) -> Task:
        """Stamp what the workflow has written since the last read; check its questions while they can be answered."""
        fresh_questions = [q for q in task.questions if not q.adopted]
        fresh_events = [e for e in task.events if not e.adopted]
        if not fresh_questions and not fresh_events:
            return task
        refused = await self._refuse_unusable(task, fresh_questions) if task.outcome is None else set()
        kept = [q for q in fresh_questions if q.key not in refused]
        try:
            expires_at = task.record.expires_at
            await self._store.adopt(task.record.task_id, [*kept, *fresh_events], expires_at=expires_at)
        except StoreUnavailable:
            logger.warning("task %s: its new items keep no expiry until the next read", task.record.task_id)
        questions = tuple(replace(q, adopted=True) for q in task.questions if q.key not in refused)
        return replace(task, questions=questions)

    async def answer(self, task: Task, answers: Mapping[str, object]) -> None:
        """Give answers by key; all are checked before the first is given. Raises InvalidAnswer."""
        now = self._clock()
        open_questions = {q.key: q for q in task.open_questions(now)}
        given = [(open_questions[key], value) for key, value in answers.items() if key in open_questions]
        texts = [self._checked(question, value) for question, value in given]
        for (question, _), text in zip(given, texts, strict=True):
            await self._give(task, question, text, now)

    async def decline(self, task: Task, key: str) -> None:
        """Give a decline to this question, if it is open."""
        now = self._clock()
        for question in task.open_questions(now):
            if question.key == key:
                await self._give(task, question, DECLINE, now)

    async def offer(self, task: Task, keys: Collection[str], session: str, lease_ms: int) -> list[Question]:
        """Those among `keys` to send to this session now: each once per lease (D10)."""
        now = self._clock()
        offered = []
        for question in task.open_questions(now):
            if question.key not in keys or not question.may_be_offered(session, now):
                continue
            task_id, until = task.record.task_id, now + lease_ms
            if await self._store.claim_offer(task_id, question, session, now=now, until=until):
                offered.append(question)
        return offered

    async def redeliver(self, task: Task) -> None:
        """Deliver what an earlier update wrote but could not bring to the job system."""
        if task.cancel_requested_at is not None:
            return
        now = self._clock()
        for question in task.questions:
            if question.answer is None or not question.needs_delivery(now):
                continue
            task_id = task.record.task_id
            if await self._store.claim_delivery(task_id, question, now=now, until=now + LEASE_MS):
                await self._deliver(task, question, question.answer)

    async def _refuse_unusable(self, task: Task, questions: Sequence[Question]) -> set[str]:
        refused = set()
        for question in questions:
            problem = self._policy.request_problem(question.method, question.params)
            if problem is not None:
                logger.warning("task %s: question %s refused: %s", task.record.task_id, question.key, problem)
                refused.add(question.key)
                await self._deliver(task, question, Refusal(INVALID_REQUEST, problem))
        return refused

    def _checked(self, question: Question, answer: object) -> str:
        problem = self._policy.answer_problem(question.method, question.params, answer)
        if problem is not None:
            raise InvalidAnswer(question.key, problem)
        text = orjson.dumps(answer)
        if len(text) > MAX_ANSWER_BYTES:
            raise InvalidAnswer(question.key, f"it is longer than {MAX_ANSWER_BYTES} bytes")
        return text.decode()

    async def _give(self, task: Task, question: Question, text: str, now: int) -> None:
        task_id = task.record.task_id
        if await self._store.record_answer(task_id, question, text, now=now, delivery_until=now + LEASE_MS):
            await self._deliver(task, question, text)

    async def _deliver(self, task: Task, question: Question, answer: str | Refusal) -> None:
        task_id = task.record.task_id
        try:
            await self._engines[task.record.engine].answer(question.token, answer)
        except QuestionClosed:
            logger.info("task %s: question %s was closed already", task_id, question.key)
        except AnswerRefused:
            logger.warning("task %s: answer %s can never be delivered", task_id, question.key)
            await self._deliver(task, question, Refusal(ANSWER_REFUSED, "The answer cannot be delivered"))
            return
        except EngineUnavailable:
            logger.warning("task %s: answer %s is kept and delivered later", task_id, question.key)
            return
        try:
            await self._store.close_question(task_id, question)
        except StoreUnavailable:
            logger.warning("task %s: question %s is closed by a later read", task_id, question.key)
