"""TaskService: the only code that brings a record store and a job system together.

The job system is the truth. A read answers from the record, asks the job system only when that is due and under
a lease (D7), and whatever was seen first as the end stays the end (D4).
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

from adapter.errors import (
    EngineUnavailable,
    ExecutionUnknown,
    StartRejected,
    StartUncertain,
    StoreUnavailable,
    TaskNotFound,
)

from . import signs
from .clock import Clock, system_clock
from .engine import NAME_PREFIX, Engine, Snapshot
from .model import Ending, Outcome, Question, Task, TaskRecord
from .pacing import LEASE_MS, DescribeBudget, EventFlow, RefreshPace
from .questions import OFFER_MS, InputPolicy, Questions
from .store import TaskStore, task_at

logger = logging.getLogger(__name__)

START_WINDOW_MS = 30_000
"""No start is attempted later than this after the record was written."""
UNKNOWN_GRACE_MS = 120_000
"""How long an execution may be unknown to the job system before it counts as never started."""
_TASK_ID = re.compile(r"mcp-[A-Za-z0-9_-]{1,60}")


@dataclass(slots=True, kw_only=True)
class NewTask:
    """What a caller wants started. `nonce`: a value of ours from a signed confirmation, so that using the
    confirmation twice gives one task (D13)."""

    owner: str
    tool: str
    engine: str
    target: str
    input_json: bytes
    ttl_ms: int
    poll_ms: int
    on_expire: Literal["leave", "stop"] = "leave"
    result_settings: str = "{}"
    nonce: str | None = None
    progress_token: str | None = None
    listed: bool = False


class TaskService:
    """Create, read, answer and cancel tasks. `owner` is the caller; someone else's task is not found."""

    def __init__(
        self,
        store: TaskStore,
        engines: Mapping[str, Engine],
        policy: InputPolicy,
        *,
        pace: RefreshPace | None = None,
        budget: DescribeBudget | None = None,
        events: EventFlow | None = None,
        clock: Clock = system_clock,
    ) -> None:
        self._store = store
        self._engines = engines
        self._pace = pace or RefreshPace()
        self._budget = budget or DescribeBudget(5.0, 50)
        self._events = events or EventFlow(on=False)
        self._clock = clock
        self._questions = Questions(store, engines, policy, clock)

    async def create(self, new: NewTask) -> Task:
        """Record, then start, then answer (D3). Raises StartRejected (nothing was started), StoreUnavailable."""
        now = self._clock()
        record = self._record(new, now)
        refresh_at = now + self._pace.pause_ms(0, with_events=self._events.flowing)
        standing = await self._store.create(record, refresh_at=refresh_at, listed=new.listed)
        if standing is not None:
            return await self._replayed(standing, new)
        try:
            await self._start(record, new)
        except StartRejected:
            if new.nonce is None:  # otherwise the same confirmation may be starting it elsewhere right now
                await self._discard(record.task_id)
            raise
        poll_ms = self._poll_ms(record, self._pace.shortest_ms)
        return Task(record=record, updated_at=now, refresh_at=refresh_at, poll_ms=poll_ms)

    async def get(self, task_id: str, owner: str) -> Task:
        """The task now, or as last known where it cannot be asked for. Raises TaskNotFound, StoreUnavailable."""
        task = await self._load(task_id, owner)
        if (
            task.outcome is not None
            and task.told_at is not None
            and signs.is_recent(task.outcome, self._clock())
        ):
            self._events.told(task_id)
        return await self._current(task)

    async def answer(self, task_id: str, owner: str, answers: Mapping[str, object]) -> None:
        """Answer open questions by key; unknown and closed keys are ignored.

        All answers are checked before the first is given: InvalidAnswer means that none was. Returning means that
        each is durable; what the job system could not take now is delivered by a later read (D9).
        """
        task = await self._questions.adopted(await self._load(task_id, owner))
        await self._questions.answer(task, answers)

    async def decline(self, task_id: str, owner: str, key: str) -> None:
        """Answer for a client that cannot or will not: a decline is data for the workflow (D9)."""
        task = await self._questions.adopted(await self._load(task_id, owner))
        await self._questions.decline(task, key)

    async def offer(
        self, task: Task, keys: Collection[str], session: str, *, lease_ms: int = OFFER_MS
    ) -> list[Question]:
        """The questions among `keys` to send to this session as requests now: each once per lease (D10)."""
        return await self._questions.offer(task, keys, session, lease_ms)

    async def withdraw_offer(self, task_id: str, owner: str, key: str, session: str) -> None:
        """The answer that came was not valid: ask this session again at its next request."""
        task = await self._load(task_id, owner)
        for question in task.questions:
            if question.key == key:
                await self._store.release_offer(task_id, question, session)

    async def write_reply(self, ask: str, key: str, reply: str, *, expires_at: int) -> None:
        """See TaskStore: an answer to what is asked before a task exists."""
        await self._store.write_reply(ask, key, reply, expires_at=expires_at)

    async def replies(self, ask: str) -> dict[str, str]:
        """See TaskStore."""
        return await self._store.replies(ask)

    async def tasks_of(self, owner: str, *, before: str | None, limit: int) -> tuple[list[Task], str | None]:
        """An owner's tasks, newest first, and where the next page starts (None after the last)."""
        places = await self._store.places(owner, before=before, limit=limit)
        tasks = await asyncio.gather(*(self._listed(task_at(place), owner) for place in places))
        following = places[-1] if len(places) == limit else None
        return [task for task in tasks if task is not None], following

    async def cancel(self, task_id: str, owner: str) -> None:
        """Ask for the execution to be stopped; nothing to do where it has ended.

        Raises TaskNotFound, StoreUnavailable, and EngineUnavailable where the stop did not get through: it is
        recorded all the same, and every later read that still sees the execution running stops it again.
        """
        task = await self._load(task_id, owner)
        if task.outcome is not None:
            return
        now = self._clock()
        await self._store.request_cancel(task_id, now=now)
        task = replace(task, cancel_requested_at=now)
        try:
            await self._stop(task, *signs.CANCEL)
        except ExecutionUnknown:
            if now < task.record.created_at + START_WINDOW_MS:  # its start may still be on the way
                raise EngineUnavailable("The job has not started yet") from None
        if not await self._end_noted(task):
            await self._store.note_stopped(task_id, now=now)

    # --- looking after tasks, whoever owns them ------------------------------------------------------------

    async def look(self, task_id: str) -> bool:
        """Ask the job system about a task now, and stop what is to be stopped; leave that to the next read where
        this process has no call left: False.

        Raises EngineUnavailable, StoreUnavailable.
        """
        task = await self._store.read(task_id)
        if task is None or task.outcome is not None:
            return True
        now = self._clock()
        if not await self._store.mark_due(task_id, task.record.execution, now=now, told=False):
            return True
        return await self._asked(task, now, urgent=True) is not None

    async def redeliver(self, task_id: str) -> None:
        """Bring answers that are not known to be delivered to the job system. Raises StoreUnavailable."""
        task = await self._store.read(task_id)
        if task is None:
            return
        if task.outcome is None:
            await self._questions.redeliver(await self._questions.adopted(task))
            return
        for question in task.questions:
            await self._store.close_question(task_id, question)

    # --- creating ------------------------------------------------------------------------------------------

    def _record(self, new: NewTask, now: int) -> TaskRecord:
        task_id = NAME_PREFIX + (new.nonce or secrets.token_urlsafe(16))
        return TaskRecord(
            task_id=task_id,
            owner=new.owner,
            tool=new.tool,
            engine=new.engine,
            target=new.target,
            execution=self._engines[new.engine].execution_of(new.target, task_id),
            created_at=now,
            ttl_ms=new.ttl_ms,
            poll_ms=new.poll_ms,
            on_expire=new.on_expire,
            result_settings=new.result_settings,
            input_digest=None if new.nonce is None else sha256(new.input_json).hexdigest(),
            progress_token=new.progress_token,
        )

    async def _start(self, record: TaskRecord, new: NewTask) -> None:
        left_ms = record.created_at + START_WINDOW_MS - self._clock()
        engine = self._engines[record.engine]
        try:
            await engine.start(record.target, record.task_id, new.input_json, within=max(left_ms, 0) / 1000)
        except StartUncertain:
            logger.warning("task %s: the reply to its start was lost; its record stays", record.task_id)

    async def _discard(self, task_id: str) -> None:
        try:
            await self._store.discard(task_id)
        except StoreUnavailable:
            logger.warning("task %s: nothing started, but its record stays until it is seen as lost", task_id)

    async def _replayed(self, standing: TaskRecord, new: NewTask) -> Task:
        """A confirmation used again: the task that it made, started again only if that may have been missed."""
        task = await self._load(standing.task_id, new.owner)
        if standing.input_digest != sha256(new.input_json).hexdigest():
            raise StartRejected(
                "This confirmation has been used already, with other answers", caller_fault=True
            )
        wanted = task.outcome is None and task.cancel_requested_at is None
        if wanted and self._clock() < standing.created_at + START_WINDOW_MS:
            try:
                await self._start(standing, new)
            except StartRejected as rejection:  # which says nothing about the first attempt
                logger.warning("task %s: not started again: %s", standing.task_id, rejection)
        return await self._current(task)

    async def _listed(self, task_id: str, owner: str) -> Task | None:
        try:
            return await self.get(task_id, owner)
        except TaskNotFound:
            return None

    # --- reading -------------------------------------------------------------------------------------------

    async def _load(self, task_id: str, owner: str) -> Task:
        task = await self._store.read(task_id) if _TASK_ID.fullmatch(task_id) else None
        if task is None or task.record.owner != owner:
            raise TaskNotFound
        if self._clock() >= task.record.expires_at:
            await self._expire(task)
            raise TaskNotFound
        return task

    async def _current(self, task: Task) -> Task:
        task = await self._questions.adopted(task)
        if task.outcome is None:
            try:
                await self._questions.redeliver(task)
                if task.refresh_due(self._clock()):
                    task = await self._refreshed(task)
            except StoreUnavailable:
                logger.warning("task %s: shown as last known, nothing can be written", task.record.task_id)
        if task.outcome is not None:
            return replace(task, poll_ms=task.record.poll_ms)
        if signs.ends_soon(task, self._clock()):  # whatever the tool says
            return replace(task, poll_ms=self._under_load(self._pace.shortest_ms))
        return replace(task, poll_ms=self._poll_ms(task.record, self._pause_ms(task)))

    def _poll_ms(self, record: TaskRecord, pause_ms: int) -> int:
        """The tool's interval; as long as the pause between two looks once that is longer; longer under load."""
        return self._under_load(max(record.poll_ms, min(pause_ms, LEASE_MS)))

    def _under_load(self, hint_ms: int) -> int:
        return hint_ms * 2 if self._budget.slowed else hint_ms

    def _pause_ms(self, task: Task) -> int:
        """Until the next look at the job system: short while it is expected to see an end."""
        now = self._clock()
        if signs.ends_soon(task, now):
            return self._pace.shortest_ms
        age_ms = now - task.record.created_at
        return self._pace.pause_ms(age_ms, with_events=self._events.flowing)

    async def _refreshed(self, task: Task) -> Task:
        now = self._clock()
        try:
            return await self._asked(task, now, urgent=signs.is_urgent(task, now)) or task
        except EngineUnavailable:
            # The lease runs out by itself: nobody asks again before that, and the last known state stands.
            return replace(task, message=task.message or "The job system could not be asked just now")

    async def _asked(self, task: Task, now: int, *, urgent: bool) -> Task | None:
        """The task as the job system shows it now; None where it may not be asked, or another is asking."""
        if not self._budget.take(urgent=urgent):
            return None
        lease = now + LEASE_MS
        if not await self._store.claim_refresh(task.record.task_id, now=now, until=lease):
            self._budget.give_back()
            return None
        snapshot = await self._look(task, now)
        if snapshot.outcome is None:
            return await self._still_running(task, snapshot, now, lease)
        self._note_how_seen(task, snapshot.outcome, now)
        return await self._ended(task, snapshot.outcome)

    async def _look(self, task: Task, now: int) -> Snapshot:
        why = signs.why_to_stop(task, now)
        try:
            snapshot = await self._describe(task, with_step=why is None)
            if why is not None and snapshot.outcome is None:
                await self._stop(task, *why)
        except ExecutionUnknown:
            if now < task.record.created_at + UNKNOWN_GRACE_MS:
                return Snapshot(message=task.message)
            return Snapshot(outcome=Outcome(Ending.LOST if why is None else Ending.ABORTED, ended_at=now))
        return snapshot

    def _note_how_seen(self, task: Task, outcome: Outcome, now: int) -> None:
        """An end that was found by asking: did its event come?"""
        if task.told_at is not None:
            self._events.told(task.record.task_id)
        elif not signs.is_recent(outcome, now) and task.cancel_requested_at is None:
            self._events.missed()

    async def _describe(self, task: Task, *, with_step: bool) -> Snapshot:
        try:
            return await self._engine(task).describe(task.record.execution, with_step=with_step)
        except EngineUnavailable as error:
            if error.throttled:
                self._budget.throttled()
            raise

    async def _ended(self, task: Task, outcome: Outcome) -> Task:
        record = task.record
        standing = await self._store.latch(record.task_id, outcome, expires_at=record.expires_at)
        updated_at = max(task.updated_at, standing.ended_at)
        return replace(task, outcome=standing, questions=(), updated_at=updated_at)

    async def _still_running(self, task: Task, snapshot: Snapshot, now: int, lease: int) -> Task:
        refresh_at = now + self._pause_ms(task)
        updated_at = task.updated_at if snapshot.message == task.message else now
        await self._store.note_refresh(
            task.record.task_id,
            lease=lease,
            refresh_at=refresh_at,
            message=snapshot.message,
            updated_at=updated_at,
        )
        return replace(task, message=snapshot.message, refresh_at=refresh_at, updated_at=updated_at)

    async def _stop(self, task: Task, error: str, cause: str) -> None:
        await self._engine(task).stop(task.record.execution, error=error, cause=cause)

    async def _end_noted(self, task: Task) -> bool:
        """Latch what a stop has led to, if that can be seen at once; otherwise a later read does."""
        if not self._budget.take(urgent=True):
            return False
        try:
            snapshot = await self._describe(task, with_step=False)
            if snapshot.outcome is not None:
                await self._ended(task, snapshot.outcome)
                return True
        except (EngineUnavailable, ExecutionUnknown, StoreUnavailable):
            logger.info("task %s: stopped; how it ended is seen by a later read", task.record.task_id)
        return False

    async def _expire(self, task: Task) -> None:
        """What `on_expire: stop` asks for, once per lease, by whoever reads the task after its time to live."""
        now = self._clock()
        if task.record.on_expire == "leave" or not task.refresh_due(now):
            return
        record = task.record
        try:
            if await self._store.claim_refresh(record.task_id, now=now, until=now + LEASE_MS):
                await self._stop(task, *signs.EXPIRY)
        except (ExecutionUnknown, EngineUnavailable, StoreUnavailable):
            logger.warning("task %s: expired, and could not be stopped", record.task_id)

    def _engine(self, task: Task) -> Engine:
        return self._engines[task.record.engine]
