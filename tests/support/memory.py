"""A record store and a job system in memory, with every rule of the real ones that the service relies on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

from adapter.errors import ExecutionUnknown, QuestionClosed
from adapter.tasks.engine import Refusal, Snapshot
from adapter.tasks.model import Ending, Event, Outcome, Question, Task, TaskRecord
from adapter.tasks.store import Open, OpenItem, place_of


class ManualClock:
    """Epoch milliseconds that move only when a test says so."""

    def __init__(self, now: int = 1_800_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


class MemoryStore:
    """`adapter.tasks.store.TaskStore` over a dictionary."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.expiries: dict[tuple[str, str], int] = {}
        self.asked: dict[str, dict[str, str]] = {}
        self.listed: dict[str, list[str]] = {}
        self.reads = 0

    async def create(self, record: TaskRecord, *, refresh_at: int, listed: bool = False) -> TaskRecord | None:
        if listed:
            self.listed.setdefault(record.owner, []).append(place_of(record))
        standing = self.tasks.get(record.task_id)
        if standing is not None:
            return standing.record
        self.tasks[record.task_id] = Task(record=record, updated_at=record.created_at, refresh_at=refresh_at)
        return None

    async def discard(self, task_id: str) -> None:
        self.tasks.pop(task_id, None)

    async def read(self, task_id: str) -> Task | None:
        self.reads += 1
        return self.tasks.get(task_id)

    async def claim_refresh(self, task_id: str, *, now: int, until: int) -> bool:
        task = self.tasks.get(task_id)
        if task is None or not task.refresh_due(now):
            return False
        self.tasks[task_id] = replace(task, claimed_until=until)
        return True

    async def note_refresh(
        self, task_id: str, *, lease: int, refresh_at: int, message: str | None, updated_at: int
    ) -> None:
        task = self.tasks.get(task_id)
        if task is not None and task.outcome is None and task.claimed_until == lease:
            self.tasks[task_id] = replace(
                task,
                refresh_at=refresh_at,
                claimed_until=0,
                absent_at=None,
                message=message,
                updated_at=updated_at,
            )

    async def latch(self, task_id: str, outcome: Outcome, *, expires_at: int) -> Outcome:
        task = self.tasks.get(task_id)
        if task is None:
            return outcome
        if task.outcome is not None:
            return task.outcome
        updated_at = max(task.updated_at, outcome.ended_at)
        self.tasks[task_id] = replace(task, outcome=outcome, updated_at=updated_at)
        return outcome

    async def latch_seen(self, task_id: str, execution: str, outcome: Outcome) -> bool:
        task = self._running(task_id, execution)
        if task is None:
            return False
        self.tasks[task_id] = replace(task, told_at=outcome.ended_at)
        await self.latch(task_id, outcome, expires_at=task.record.expires_at)
        return True

    async def mark_due(self, task_id: str, execution: str, *, now: int, told: bool) -> bool:
        task = self._running(task_id, execution)
        if task is not None:
            told_at = now if told else task.told_at
            self.tasks[task_id] = replace(task, refresh_at=now, claimed_until=0, told_at=told_at)
        return task is not None

    async def mark_absent(self, task_id: str, *, now: int) -> int | None:
        task = self.tasks.get(task_id)
        if task is None or task.outcome is not None:
            return None
        absent_at = now if task.absent_at is None else task.absent_at
        self.tasks[task_id] = replace(task, absent_at=absent_at)
        return absent_at

    async def open_items(self) -> AsyncIterator[OpenItem]:
        for task in list(self.tasks.values()):
            task_id = task.record.task_id
            if task.outcome is None:
                yield OpenItem(task_id, task.record.created_at, _kind_of(task))
            for question in task.questions:
                if question.answer is not None:
                    yield OpenItem(task_id, question.asked_at, Open.ANSWERED)

    def _running(self, task_id: str, execution: str) -> Task | None:
        task = self.tasks.get(task_id)
        if task is None or task.outcome is not None or task.record.execution != execution:
            return None
        return task

    async def request_cancel(self, task_id: str, *, now: int) -> None:
        task = self.tasks.get(task_id)
        if task is not None and task.outcome is None and task.cancel_requested_at is None:
            updated_at = max(task.updated_at, now)
            self.tasks[task_id] = replace(
                task, cancel_requested_at=now, refresh_at=now, claimed_until=0, updated_at=updated_at
            )

    async def note_stopped(self, task_id: str, *, now: int) -> None:
        task = self.tasks.get(task_id)
        if task is not None and task.outcome is None:
            self.tasks[task_id] = replace(task, stopped_at=now)

    async def adopt(self, task_id: str, items: Sequence[Question | Event], *, expires_at: int) -> None:
        task = self.tasks[task_id]
        keys = {item.key for item in items}
        for key in keys:
            self.expiries[task_id, key] = expires_at
        self.tasks[task_id] = replace(
            task,
            questions=tuple(replace(q, adopted=True) if q.key in keys else q for q in task.questions),
            events=tuple(replace(e, adopted=True) if e.key in keys else e for e in task.events),
        )

    async def record_answer(
        self, task_id: str, question: Question, answer: str, *, now: int, delivery_until: int
    ) -> bool:
        current = self._question(task_id, question.key)
        if current is None or not current.is_open(now):
            return False
        self._put(task_id, replace(current, answer=answer, delivery_until=delivery_until))
        self._touch(task_id, now)
        return True

    async def claim_delivery(self, task_id: str, question: Question, *, now: int, until: int) -> bool:
        current = self._question(task_id, question.key)
        if current is None or not current.needs_delivery(now):
            return False
        self._put(task_id, replace(current, delivery_until=until))
        return True

    async def claim_offer(
        self, task_id: str, question: Question, session: str, *, now: int, until: int
    ) -> bool:
        current = self._question(task_id, question.key)
        if current is None or not current.may_be_offered(session, now):
            return False
        self._put(task_id, replace(current, offers={**current.offers, session: until}))
        return True

    async def release_offer(self, task_id: str, question: Question, session: str) -> None:
        current = self._question(task_id, question.key)
        if current is not None:
            kept = {name: until for name, until in current.offers.items() if name != session}
            self._put(task_id, replace(current, offers=kept))

    async def places(self, owner: str, *, before: str | None, limit: int) -> list[str]:
        places = sorted(self.listed.get(owner, []), reverse=True)
        return [place for place in places if before is None or place < before][:limit]

    async def write_reply(self, ask: str, key: str, reply: str, *, expires_at: int) -> None:
        self.asked.setdefault(ask, {}).setdefault(key, reply)

    async def replies(self, ask: str) -> dict[str, str]:
        return dict(self.asked.get(ask, {}))

    async def close_question(self, task_id: str, question: Question) -> None:
        task = self.tasks.get(task_id)
        if task is not None:
            kept = tuple(q for q in task.questions if q.key != question.key)
            self.tasks[task_id] = replace(task, questions=kept)

    def ask(self, task_id: str, question: Question) -> None:
        """What a workflow does: write its question."""
        task = self.tasks[task_id]
        self.tasks[task_id] = replace(task, questions=(*task.questions, question))
        self._touch(task_id, question.asked_at)

    def report(self, task_id: str, event: Event) -> None:
        """What a workflow does: append progress or a log line."""
        task = self.tasks[task_id]
        self.tasks[task_id] = replace(task, events=(*task.events, event))

    def _question(self, task_id: str, key: str) -> Question | None:
        task = self.tasks.get(task_id)
        return next((q for q in task.questions if q.key == key), None) if task is not None else None

    def _touch(self, task_id: str, now: int) -> None:
        task = self.tasks[task_id]
        self.tasks[task_id] = replace(task, updated_at=max(task.updated_at, now))

    def _put(self, task_id: str, question: Question) -> None:
        task = self.tasks[task_id]
        questions = tuple(question if q.key == question.key else q for q in task.questions)
        self.tasks[task_id] = replace(task, questions=questions)


def _kind_of(task: Task) -> Open:
    if task.cancel_requested_at is not None:
        return Open.CANCELLING
    return Open.EXPIRING if task.record.on_expire == "stop" else Open.RUNNING


@dataclass
class MemoryEngine:
    """`adapter.tasks.engine.Engine` that runs nothing: a test says how each execution goes on.

    `ends_at_once`, if set, makes the outcome of every execution from its input.
    """

    ends_at_once: Callable[[bytes], Outcome] | None = None
    executions: dict[str, Snapshot] = field(default_factory=dict)
    inputs: dict[str, bytes] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    answers: list[tuple[str, str | Refusal]] = field(default_factory=list)
    closed_tokens: set[str] = field(default_factory=set)
    describes: int = 0

    def execution_of(self, target: str, name: str) -> str:
        return f"{target}:{name}"

    async def start(self, target: str, name: str, input_json: bytes, *, within: float) -> None:
        execution = self.execution_of(target, name)
        self.started.append(execution)
        self.inputs[execution] = input_json
        outcome = self.ends_at_once(input_json) if self.ends_at_once else None
        self.executions.setdefault(execution, Snapshot(outcome=outcome))

    async def describe(self, execution: str, *, with_step: bool = True) -> Snapshot:
        self.describes += 1
        if execution not in self.executions:
            raise ExecutionUnknown
        return self.executions[execution]

    async def running(self, target: str) -> set[str]:
        prefix = f"{target}:"
        return {
            name.removeprefix(prefix)
            for name, snapshot in self.executions.items()
            if name.startswith(prefix) and snapshot.outcome is None
        }

    async def stop(self, execution: str, *, error: str, cause: str) -> None:
        if execution not in self.executions:
            raise ExecutionUnknown
        self.stopped.append(execution)
        if self.executions[execution].outcome is None:
            self.executions[execution] = Snapshot(outcome=Outcome(Ending.ABORTED, error=error, cause=cause))

    async def answer(self, token: str, answer: str | Refusal) -> None:
        if token in self.closed_tokens:
            raise QuestionClosed
        self.closed_tokens.add(token)
        self.answers.append((token, answer))

    def end(self, execution: str, outcome: Outcome) -> None:
        self.executions[execution] = Snapshot(outcome=outcome)
