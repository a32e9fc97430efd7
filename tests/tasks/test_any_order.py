"""Requests of several processes, workflows, time, faults and crashes, interleaved at every call in any order."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from adapter.errors import EngineUnavailable, StartRejected, StoreUnavailable
from adapter.tasks.engine import Engine, Refusal, Snapshot
from adapter.tasks.model import Ending, Outcome, Task
from adapter.tasks.service import START_WINDOW_MS, TaskService
from adapter.tasks.store import TaskStore
from tests.support.memory import ManualClock, MemoryEngine
from tests.tasks.stepping import CRASHES, Operation, Step, Stepped, at_once, pause
from tests.tasks.world import OWNER, Policy, Records, World, new_task

CONFIRMATIONS = ("a" * 22, "b" * 22)
FATES = st.tuples(st.sampled_from([*range(12), 99, 99]), st.sampled_from(["waits", "failed", *CRASHES]))
"""How many steps a request goes on now, and what then happens to it if it is not over."""
ALL = 99, "waits"
ENDINGS = (Ending.SUCCEEDED, Ending.FAILED, Ending.TIMED_OUT)


Fate = tuple[int, str]


@dataclass
class Workflows(MemoryEngine):
    """Waits end with their execution; what was started when is known."""

    started_at: dict[str, int] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)
    """Execution by token."""
    deadlines: dict[str, int] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=ManualClock)

    async def start(self, target: str, name: str, input_json: bytes, *, within: float) -> None:
        execution = self.execution_of(target, name)
        assert self.inputs.setdefault(execution, input_json) == input_json
        self.started_at.setdefault(execution, self.clock())
        await super().start(target, name, input_json, within=within)

    async def stop(self, execution: str, *, error: str, cause: str) -> None:
        await super().stop(execution, error=error, cause=cause)
        self._close_waits(execution)

    async def answer(self, token: str, answer: str | Refusal) -> None:
        self.close_overdue()
        await super().answer(token, answer)

    def end(self, execution: str, outcome: Outcome) -> None:
        super().end(execution, outcome)
        self._close_waits(execution)

    def runs(self, execution: str) -> bool:
        return execution in self.executions and self.executions[execution].outcome is None

    def close_overdue(self) -> None:
        self.closed_tokens |= {token for token, at in self.deadlines.items() if at <= self.clock()}

    def _close_waits(self, execution: str) -> None:
        self.closed_tokens |= {token for token, of in self.waits.items() if of == execution}


class SteppedWorkflows(Stepped):
    """A start is not attempted after its time, however long it was held up."""

    def __init__(self, workflows: Workflows) -> None:
        super().__init__(workflows, "engine")
        self.workflows = workflows
        self.rejects = 0

    async def start(self, target: str, name: str, input_json: bytes, *, within: float) -> None:
        until = self.workflows.clock() + within * 1000
        await pause(Step("engine", "start", done=False))
        if self.rejects or self.workflows.clock() >= until:
            self.rejects = max(self.rejects - 1, 0)
            raise StartRejected("busy", retryable=True)
        await self.workflows.start(target, name, input_json, within=within)
        await pause(Step("engine", "start", done=True))


@dataclass(eq=False)
class Served:
    """A request that a process is serving."""

    kind: str
    operation: Operation
    check: Callable[[Operation], None]


class AnyOrder(RuleBasedStateMachine):
    """The clients know the handles that they were given; two confirmations are used again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = Records()
        self.workflows = Workflows(clock=self.clock)
        self.world = World(self.clock, self.store, self.workflows)
        self.engine = SteppedWorkflows(self.workflows)
        self.requests: list[Served] = []
        self.handles: dict[str, None] = {}
        self.ends: dict[str, Outcome] = {}
        self.asked = 0

    # --- requests ------------------------------------------------------------------------------------------

    @initialize()
    def ask_in_a_running_task(self) -> None:
        self._serve("create", lambda s: s.create(new_task()), self._created, ALL)
        (task,) = self._running()
        self._ask(task, None, "ask")

    @rule(nonce=st.sampled_from([None, *CONFIRMATIONS]), fate=FATES)
    def create(self, nonce: str | None, fate: Fate) -> None:
        self._serve("create", lambda s: s.create(new_task(nonce=nonce)), self._created, fate)

    @rule(data=st.data(), fate=FATES)
    def get(self, data: st.DataObject, fate: Fate) -> None:
        task_id = self._handle(data)
        self._serve("get", lambda s: s.get(task_id, OWNER), self._read, fate)

    @precondition(lambda self: self._open_keys())
    @rule(data=st.data(), value=st.integers(0, 9), fate=FATES)
    def answer(self, data: st.DataObject, value: int, fate: Fate) -> None:
        task_id, key = data.draw(st.sampled_from(self._open_keys()))
        others = {k for i, k in self._open_keys() if i == task_id and data.draw(st.booleans())}
        waiting = {q.key: q.token for q in self.store.tasks[task_id].questions}
        answers: dict[str, object] = {k: {"value": value} for k in sorted({key, *others})}
        tokens = {waiting[key] for key in answers}
        check = partial(self._answered, task_id, tokens)
        self._serve("answer", lambda s: s.answer(task_id, OWNER, answers), check, fate)

    @rule(data=st.data(), fate=FATES)
    def cancel(self, data: st.DataObject, fate: Fate) -> None:
        task_id = self._handle(data)
        check = partial(self._cancelled, task_id)
        self._serve("cancel", lambda s: s.cancel(task_id, OWNER), check, fate)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), fate=FATES)
    def go_on(self, data: st.DataObject, fate: Fate) -> None:
        self._resume(data.draw(st.sampled_from(self.requests)), fate)

    # --- the world -----------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 2, 9, 11, 31, 130]))
    def tick(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.workflows.close_overdue()

    @rule()
    def reject_the_next_start(self) -> None:
        self.engine.rejects += 1

    @precondition(lambda self: self._running())
    @rule(
        data=st.data(),
        seconds=st.sampled_from([None, 10, 60]),
        method=st.sampled_from(["ask"] * 4 + ["dance"]),
    )
    def ask(self, data: st.DataObject, seconds: int | None, method: str) -> None:
        self._ask(data.draw(st.sampled_from(self._running())), seconds, method)

    def _ask(self, task: Task, seconds: int | None, method: str) -> None:
        self.asked += 1
        key = f"q{self.asked}"
        deadline = None if seconds is None else self.clock() + seconds * 1000
        question = self.world.ask(task, key, deadline=deadline, method=method)
        self.workflows.waits[question.token] = task.record.execution
        if deadline is not None:
            self.workflows.deadlines[question.token] = deadline

    @precondition(lambda self: self._running())
    @rule(data=st.data(), ending=st.sampled_from(ENDINGS))
    def end(self, data: st.DataObject, ending: Ending) -> None:
        task = data.draw(st.sampled_from(self._running()))
        output = f'"{self.clock()}"' if ending is Ending.SUCCEEDED else None
        self.workflows.end(task.record.execution, Outcome(ending, output=output, ended_at=self.clock()))

    @precondition(lambda self: any(s.outcome for s in self.workflows.executions.values()))
    @rule(data=st.data())
    def redrive(self, data: st.DataObject) -> None:
        ended = [e for e, s in self.workflows.executions.items() if s.outcome]
        self.workflows.executions[data.draw(st.sampled_from(ended))] = Snapshot()

    # --- what always holds ---------------------------------------------------------------------------------

    @invariant()
    def an_end_never_changes(self) -> None:
        for task_id, task in self.store.tasks.items():
            if task.outcome is not None:
                assert self.ends.setdefault(task_id, task.outcome) == task.outcome

    @invariant()
    def a_handle_that_was_returned_resolves(self) -> None:
        assert self.handles.keys() <= self.store.tasks.keys()

    @invariant()
    def every_execution_has_its_record_and_was_started_in_time(self) -> None:
        for execution, at in self.workflows.started_at.items():
            record = self.store.tasks[execution.removeprefix("machine:")].record
            assert record.created_at <= at < record.created_at + START_WINDOW_MS

    @invariant()
    def workflows_get_the_answers_that_were_recorded_and_each_once(self) -> None:
        delivered = [(token, answer) for token, answer in self.workflows.answers if isinstance(answer, str)]
        assert len({token for token, _ in delivered}) == len(delivered)
        assert all(self.store.answers[token] == answer for token, answer in delivered)

    def teardown(self) -> None:
        """Everything that is under way dies; clients go on reading; then nothing may be left undone."""
        for _ in range(25):
            self.clock.advance(11)
            self.workflows.close_overdue()
            for task_id in list(self.store.tasks):
                shown = at_once(self.world.get(task_id))
                assert shown.outcome == self.store.tasks[task_id].outcome
        for task in self.store.tasks.values():
            self._check_settled(task)

    def _check_settled(self, task: Task) -> None:
        execution = task.record.execution
        if task.outcome is None:
            assert self.workflows.runs(execution)
            assert task.cancel_requested_at is None
            assert all(q.answer is None for q in task.questions)
            assert all(q.method == "ask" for q in task.questions)
        elif task.outcome.ending is Ending.LOST:
            assert execution not in self.workflows.executions
        tokens = [token for token, of in self.workflows.waits.items() if of == execution]
        recorded = [token for token in tokens if token in self.store.answers]
        assert all(token in self.workflows.closed_tokens for token in recorded) or task.outcome

    # --- helpers -------------------------------------------------------------------------------------------

    def _serve(
        self,
        kind: str,
        work: Callable[[TaskService], Coroutine[Any, Any, Any]],
        check: Callable[[Operation], None],
        fate: Fate,
    ) -> None:
        service = TaskService(
            cast(TaskStore, Stepped(self.store, "store")),
            {"memory": cast(Engine, self.engine)},
            Policy(),
            pace=self.world.pace,
            budget=self.world.new_budget(),
            clock=self.clock,
        )
        request = Served(kind, Operation(work(service)), check)
        self.requests.append(request)
        self._resume(request, fate)

    def _resume(self, request: Served, fate: Fate) -> None:
        operation, (steps, then) = request.operation, fate
        for _ in range(steps):
            if not operation.over:
                operation.advance()
        crashed = not operation.over and then in CRASHES
        if crashed:
            operation.crash(then)
        elif not operation.over and then == "failed":
            operation.fail()
            operation.finish()
        if operation.over:
            self.requests.remove(request)
        if operation.over and not crashed:
            self._check(request)

    def _check(self, request: Served) -> None:
        error = request.operation.error
        if error is None:
            request.check(request.operation)
        else:
            allowed = {"create": StartRejected, "cancel": EngineUnavailable}.get(
                request.kind, StoreUnavailable
            )
            assert isinstance(error, allowed | StoreUnavailable)

    def _created(self, operation: Operation) -> None:
        self.handles[operation.result.record.task_id] = None

    def _read(self, operation: Operation) -> None:
        shown: Task = operation.result
        if shown.outcome is not None:
            assert self.store.tasks[shown.record.task_id].outcome == shown.outcome

    def _answered(self, task_id: str, tokens: set[str], _: Operation) -> None:
        """An acknowledged answer is not lost: none of its questions is still open for another."""
        task, now = self.store.tasks[task_id], self.clock()
        assert not tokens & {q.token for q in task.open_questions(now)}

    def _cancelled(self, task_id: str, _: Operation) -> None:
        task = self.store.tasks[task_id]
        assert task.cancel_requested_at is not None or task.outcome is not None

    def _open_keys(self) -> list[tuple[str, str]]:
        return [(i, q.key) for i in self.handles for q in self.store.tasks[i].questions if q.answer is None]

    def _handle(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(list(self.handles)))

    def _running(self) -> list[Task]:
        return [task for task in self.store.tasks.values() if self.workflows.runs(task.record.execution)]


@pytest.mark.requirement("R-110", "R-112", "R-114", "R-116")
def test_nothing_is_lost_doubled_or_taken_back_in_any_order() -> None:
    effort = settings(
        max_examples=400, stateful_step_count=30, deadline=None, derandomize=True, database=None
    )
    run_state_machine_as_test(AnyOrder, settings=effort)
