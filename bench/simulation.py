"""Many tasks polled through several instances of the service, on simulated time (see `bench.scale`)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from adapter.engines.events import read_status_event
from adapter.engines.step_functions import StepFunctions
from adapter.errors import AdapterError
from adapter.mcp.inputs import QuestionPolicy
from adapter.mcp.starting import ENGINE
from adapter.settings import Settings
from adapter.tasks.engine import NAME_PREFIX
from adapter.tasks.model import TaskRecord
from adapter.tasks.pacing import DescribeBudget, EventFlow
from adapter.tasks.reconcile import Reconciler, Report
from adapter.tasks.service import NewTask, TaskService
from adapter.tasks.store import TaskStore
from bench.simulated import (
    MACHINE,
    QUOTAS,
    EventBus,
    Execution,
    StepFunctionsClient,
    epoch_ms,
    status_event,
)
from lambdas.execution_status.app import written
from tests.support.memory import MemoryStore
from tests.support.virtual_time import VirtualTimeLoop

OWNER = "token#https://login.example.com#somebody"
DAY_MS = 86_400_000
TICKS_PER_SECOND = 10
STORE_SECONDS = 0.005
"""How long a write to the table takes; so long may somebody else come between."""
HEADROOM = 0.8
"""The share of the account's quota that all processes together use."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is simulated. `scale`: the part of an account's quotas that there is."""

    tasks: int = 10_000
    scale: float = 0.1
    seconds: int = 600
    instances: int = 10
    budgeted: bool = True
    """Whether each process has been given its share of the quota, or has the default settings."""
    poll_seconds: float = 5.0
    reconcile_seconds: float = 60.0
    events: bool = True
    lost: float = 0.01
    shortest: float = 60.0
    longest: float = 7200.0
    """A task takes as long as a number between these whose logarithm is evenly distributed: 25 minutes on average."""
    seed: int = 20_270_115


@dataclass(slots=True)
class Result:
    """What happened."""

    plan: Plan
    calls: Counter[str]
    throttled: Counter[str]
    store: Counter[str]
    ended: list[Execution]
    polls: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """What clients were told instead of an answer."""
    after_event: float = 0.0
    """The longest time after an event's arrival at which a client was still told that the work goes on."""
    reports: list[Report] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def now(self) -> float:
        return float(self.plan.seconds)

    def staleness(self, which: Callable[[Execution], bool] = lambda _: True) -> list[float]:
        """Seconds from an end to the poll that showed it; of those not shown yet, so far."""
        return [(e.seen or self.now) - e.ends for e in self.ended if which(e)]

    def until_written(self, which: Callable[[Execution], bool]) -> list[float]:
        """Seconds from an end until its record held it; of those that do not yet, so far."""
        return [(e.written or self.now) - e.ends for e in self.ended if which(e)]

    def lost_long_ago(self, execution: Execution) -> bool:
        """No event came, nor is one to come; what ended just before the simulation did says nothing yet."""
        margin = self.plan.reconcile_seconds + 15
        return execution.told is None and execution.ends < self.now - margin


class Table(MemoryStore):
    """Counts the calls, whose writes take time, and notes when an end is written."""

    def __init__(self, executions: dict[str, Execution]) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self._executions = executions

    async def read(self, task_id: str) -> Any:
        self.calls["read"] += 1
        return self.tasks.get(task_id)

    async def latch(self, task_id: str, outcome: Any, *, expires_at: int) -> Any:
        standing = await super().latch(task_id, outcome, expires_at=expires_at)
        execution = self._executions[task_id]
        if execution.written is None:
            execution.written = asyncio.get_running_loop().time()
        return standing


def _slowly(name: str) -> Callable[..., Any]:
    work = getattr(Table, name)

    async def call(self: Table, *arguments: Any, **named: Any) -> Any:
        self.calls[name] += 1
        await asyncio.sleep(STORE_SECONDS)
        return await work(self, *arguments, **named)

    return call


for _name in ("create", "claim_refresh", "note_refresh", "latch_seen", "mark_due", "mark_absent"):
    setattr(Table, _name, _slowly(_name))


@dataclass(slots=True, eq=False)
class _Client:
    """Somebody who waits for one task, and starts another when it has ended."""

    execution: Execution


class Simulation:
    """One run of a plan, on a loop whose time jumps from one timer to the next."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._random = Random(plan.seed)
        self._ended: list[Execution] = []
        self._aws = StepFunctionsClient(plan.scale, self._random, self._lifetime, self._note_end)
        self._table = Table(self._aws.executions)
        self._engine = StepFunctions(cast(Any, self._aws))
        self._bus = EventBus(self._random, plan.lost, self._deliver)
        self._services = [self._service() for _ in range(plan.instances)]
        caretaker, store = self._service(), cast(TaskStore, self._table)
        self._reconciler = Reconciler(caretaker, store, self._engine, epoch_ms)
        self._result = Result(
            plan, self._aws.calls.made, self._aws.calls.throttled, self._table.calls, self._ended
        )
        self._work: set[asyncio.Task[Any]] = set()

    async def run(self) -> Result:
        started = time.process_time()
        await self._populate()
        self._spawn(self._reconcile())
        await self._poll_all()
        for left in self._work:
            left.cancel()
        self._result.seconds = time.process_time() - started
        return self._result

    def _service(self) -> TaskService:
        """One process, which uses its share of what the account has."""
        plan = self._plan
        settings = Settings()
        rate, burst = settings.describe_rate, settings.describe_burst
        if plan.budgeted:
            size, refill = QUOTAS["DescribeExecution"]
            rate = refill * plan.scale * HEADROOM / (plan.instances + 1)
            burst = max(4, int(size * plan.scale / 2))
        clock = asyncio.get_running_loop().time
        budget = DescribeBudget(rate, burst, clock)
        flow = EventFlow(on=plan.events, clock=clock)
        engines = {ENGINE: self._engine}
        store = cast(TaskStore, self._table)
        return TaskService(store, engines, QuestionPolicy(), budget=budget, events=flow, clock=epoch_ms)

    def _lifetime(self) -> float:
        plan = self._plan
        return float(plan.shortest * (plan.longest / plan.shortest) ** self._random.random())

    # --- what happens in AWS ---------------------------------------------------------------------------------

    def _note_end(self, execution: Execution) -> None:
        self._ended.append(execution)
        if self._plan.events:
            self._bus.send(status_event(execution, ended=True))

    async def _deliver(self, event: dict[str, Any]) -> None:
        """The rule passes every event on to the function."""
        if event["detail"]["status"] != "RUNNING":
            execution = self._aws.executions[event["detail"]["name"]]
            if execution.told is None:
                execution.told = asyncio.get_running_loop().time()
        await written(cast(TaskStore, self._table), read_status_event(event), epoch_ms())

    async def _reconcile(self) -> None:
        loop, every = asyncio.get_running_loop(), self._plan.reconcile_seconds
        while True:
            await asyncio.sleep(every - loop.time() % every)
            until = epoch_ms() + int((every - 5) * 1000)
            self._result.reports.append(await self._reconciler.run(until=until))

    # --- clients -----------------------------------------------------------------------------------------------

    async def _populate(self) -> None:
        """Tasks of every age: of what runs at a moment, long ones are more, and each is somewhere on its way."""
        plan = self._plan
        self._turns: list[list[_Client]] = [[] for _ in range(int(plan.poll_seconds * TICKS_PER_SECOND))]
        for number in range(plan.tasks):
            lasts = self._random.uniform(plan.shortest, plan.longest)
            age = lasts * self._random.random()
            name = f"{NAME_PREFIX}{number:022d}"
            execution = self._aws.begin(name, age=age, lasts=lasts - age)
            created_at = epoch_ms() - int(age * 1000)
            record = TaskRecord(
                task_id=name,
                owner=OWNER,
                tool="work",
                engine=ENGINE,
                target=MACHINE,
                execution=execution.arn,
                created_at=created_at,
                ttl_ms=DAY_MS,
                poll_ms=5000,
            )
            refresh_at = epoch_ms() + int(self._random.uniform(0, 300_000))
            await MemoryStore.create(self._table, record, refresh_at=refresh_at)
            self._random.choice(self._turns).append(_Client(execution))

    async def _poll_all(self) -> None:
        tick = 1 / TICKS_PER_SECOND
        for number in range(self._plan.seconds * TICKS_PER_SECOND):
            for client in self._turns[number % len(self._turns)]:
                self._spawn(self._poll(client))
            await asyncio.sleep(tick)

    async def _poll(self, client: _Client) -> None:
        execution, service = client.execution, self._random.choice(self._services)
        self._result.polls += 1
        try:
            task = await service.get(execution.name, OWNER)
            now = asyncio.get_running_loop().time()
            if task.outcome is not None:
                execution.seen = execution.seen or now
                await self._next(client, service)
            elif execution.told is not None:
                self._result.after_event = max(self._result.after_event, now - execution.told)
        except AdapterError as problem:
            self._result.failures[type(problem).__name__] += 1

    async def _next(self, client: _Client, service: TaskService) -> None:
        new = NewTask(
            owner=OWNER,
            tool="work",
            engine=ENGINE,
            target=MACHINE,
            input_json=b"{}",
            ttl_ms=DAY_MS,
            poll_ms=5000,
        )
        task = await service.create(new)
        client.execution = self._aws.executions[task.record.task_id]
        if self._plan.events:
            self._bus.send(status_event(client.execution, ended=False))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def simulate(plan: Plan) -> Result:
    """Run a plan to its end."""

    async def run() -> Result:
        return await Simulation(plan).run()

    logger = logging.getLogger("adapter")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it would tell of every throttled call
    try:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(run())
    finally:
        logger.setLevel(level)
