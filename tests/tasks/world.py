"""A small world for the service: its parts in memory, faults and delays on request, and a journal of calls."""

from __future__ import annotations

import inspect
import json
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from adapter.errors import StoreUnavailable, TaskNotFound
from adapter.tasks.engine import Engine
from adapter.tasks.model import Ending, Event, Outcome, Question, Task
from adapter.tasks.pacing import DescribeBudget, EventFlow, RefreshPace
from adapter.tasks.service import NewTask, TaskService
from adapter.tasks.store import TaskStore
from tests.support.memory import ManualClock, MemoryEngine, MemoryStore

OWNER = "alice"
HOUR_MS = 3_600_000
ANSWER = {"value": "yes"}
DONE = Outcome(Ending.SUCCEEDED, output='{"ok":true}', ended_at=1_800_000_001_000)


class Policy:
    """`ask` is the only method; an answer is an object with a `value`."""

    def request_problem(self, method: str, params: str) -> str | None:
        return None if method == "ask" else f"method {method!r} is not ask"

    def answer_problem(self, method: str, params: str, answer: object) -> str | None:
        return None if isinstance(answer, dict) and "value" in answer else "value is required"


class Records(MemoryStore):
    """Remembers which answer was recorded for which token; there is never a second one."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, str] = {}

    async def record_answer(self, task_id: str, question: Question, answer: str, **named: Any) -> bool:
        recorded = await super().record_answer(task_id, question, answer, **named)
        if recorded:
            assert question.token not in self.answers, "answered twice"
            self.answers[question.token] = answer
        return recorded


class Observed:
    """A part whose calls are written down, and fail or take time as a test says."""

    def __init__(self, part: object, name: str, journal: list[str], clock: ManualClock) -> None:
        self._part = part
        self._name = name
        self._journal = journal
        self._clock = clock
        self._failures: defaultdict[str, deque[tuple[Exception, bool]]] = defaultdict(deque)
        self._seconds: dict[str, float] = {}
        self.arguments: dict[str, dict[str, Any]] = {}
        """Of the last call of each method: its named arguments."""

    def fail(self, method: str, error: Exception, *, times: int = 1, done: bool = False) -> None:
        """The next calls raise; `done`: after the work, as when a reply is lost."""
        self._failures[method].extend([(error, done)] * times)

    def take(self, method: str, seconds: float) -> None:
        """From now on the call needs so long."""
        self._seconds[method] = seconds

    def __getattr__(self, method: str) -> Any:
        work = getattr(self._part, method)
        if not inspect.iscoroutinefunction(work):
            return work

        async def call(*arguments: Any, **named: Any) -> Any:
            self._journal.append(f"{self._name}.{method}")
            self.arguments[method] = named
            failures = self._failures[method]
            error, done = failures.popleft() if failures else (None, False)
            if error is not None and not done:
                raise error
            result = await work(*arguments, **named)
            self._clock.advance(self._seconds.get(method, 0))
            if error is not None:
                raise error
            return result

        return call


class World:
    """The service over a store and a job system in memory. `journal` lists every call of these."""

    def __init__(
        self,
        clock: ManualClock | None = None,
        memory: Records | None = None,
        jobs: MemoryEngine | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.memory = memory or Records()
        self.jobs = jobs or MemoryEngine()
        self.journal: list[str] = []
        self.store = Observed(self.memory, "store", self.journal, self.clock)
        self.engine = Observed(self.jobs, "engine", self.journal, self.clock)
        self.pace = RefreshPace(2_000, 60_000)
        self.service = self.new_process()

    def new_budget(self, rate: float = 5.0, burst: int = 50) -> DescribeBudget:
        return DescribeBudget(rate, burst, clock=lambda: self.clock() / 1000)

    def new_process(
        self, budget: DescribeBudget | None = None, events: EventFlow | None = None
    ) -> TaskService:
        """Another instance of the server on the same table."""
        return TaskService(
            cast(TaskStore, self.store),
            {"memory": cast(Engine, self.engine)},
            Policy(),
            pace=self.pace,
            budget=budget or self.new_budget(),
            events=events,
            clock=self.clock,
        )

    async def create(self, **changes: Any) -> Task:
        return await self.service.create(new_task(**changes))

    async def get(self, task: Task | str, owner: str = OWNER) -> Task:
        return await self.service.get(_id(task), owner)

    async def answer(self, task: Task, answers: dict[str, object], owner: str = OWNER) -> None:
        await self.service.answer(_id(task), owner, answers)

    async def cancel(self, task: Task, owner: str = OWNER) -> None:
        await self.service.cancel(_id(task), owner)

    async def asked(self, *keys: str, **changes: Any) -> Task:
        """A task whose workflow has just asked these questions, read once by a client."""
        task = await self.create()
        for key in keys:
            self.ask(task, key, **changes)
        return await self.get(task)

    def ask(self, task: Task, key: str = "approve", **changes: Any) -> Question:
        question = self.question(key, **changes)
        self.memory.ask(_id(task), question)
        return question

    def question(self, key: str = "approve", **changes: Any) -> Question:
        settings: dict[str, Any] = {
            "key": key,
            "item": f"input#{key}",
            "token": f"token-{key}",
            "method": "ask",
            "params": "{}",
            "asked_at": self.clock(),
        }
        return Question(**(settings | changes))

    def report(self, task: Task, key: str, message: str) -> None:
        self.memory.report(_id(task), Event(key=key, kind="progress", message=message))

    def end(self, task: Task, outcome: Outcome = DONE) -> None:
        self.jobs.end(task.record.execution, replace(outcome, ended_at=self.clock()))

    async def tell(self, task: Task, outcome: Outcome | None = None) -> None:
        """An event tells of an end: how, or only that there is one."""
        task_id, execution = task.record.task_id, task.record.execution
        if outcome is not None:
            await self.memory.latch_seen(task_id, execution, outcome)
        else:
            await self.memory.mark_due(task_id, execution, now=self.clock(), told=True)

    def keys(self, task: Task) -> list[str]:
        return [question.key for question in task.open_questions(self.clock())]

    def stored(self, task: Task | str) -> Task:
        return self.memory.tasks[_id(task)]

    def delivered(self) -> list[tuple[str, object]]:
        """Tokens and answers that reached workflows."""
        return [(token, _parsed(answer)) for token, answer in self.jobs.answers]

    async def calls(self, work: Callable[[], Any]) -> list[str]:
        """What `work()` asks of store and job system."""
        self.journal.clear()
        await work()
        return list(self.journal)

    async def absent(self, task: Task | str, owner: str = OWNER) -> str:
        """Expects that this caller has no such task; what it is told."""
        with pytest.raises(TaskNotFound) as caught:
            await self.get(task, owner)
        return str(caught.value)


def new_task(**changes: Any) -> NewTask:
    settings: dict[str, Any] = {
        "owner": OWNER,
        "tool": "report",
        "engine": "memory",
        "target": "machine",
        "input_json": b'{"day":"2026-07-28"}',
        "ttl_ms": 24 * HOUR_MS,
        "poll_ms": 1_000,
    }
    return NewTask(**(settings | changes))


def store_down() -> StoreUnavailable:
    return StoreUnavailable()


def _id(task: Task | str) -> str:
    return task if isinstance(task, str) else task.record.task_id


def _parsed(answer: object) -> object:
    return json.loads(answer) if isinstance(answer, str) else answer
