"""One reader per process for all tasks that somebody waits on or is subscribed to.

However many streams and inline calls follow a task, it is read once per pause; the pause grows with its age.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import count

from adapter.errors import StoreUnavailable, TaskNotFound

from .clock import Clock, system_clock
from .model import Task
from .service import TaskService

logger = logging.getLogger(__name__)

_Key = tuple[str, str]


@dataclass(eq=False, slots=True)
class _Follower:
    """Somebody's place: the newest change not yet taken. Older ones are dropped, so a slow reader costs nothing."""

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    latest: Task | None = None
    over: bool = False


@dataclass(slots=True)
class _Watched:
    followers: set[_Follower] = field(default_factory=set)
    seen: Task | None = None
    turn: int = -1
    """Its place in the queue of reads; an older place of the same task does not count."""


class Watcher:
    """`changes` follows one task; `close` ends every follower. Pauses are seconds."""

    def __init__(
        self,
        service: TaskService,
        *,
        shortest: float = 0.1,
        longest: float = 5.0,
        concurrency: int = 16,
        clock: Clock = system_clock,
    ) -> None:
        self._service = service
        self._shortest = shortest
        self._longest = longest
        self._clock = clock
        self._watched: dict[_Key, _Watched] = {}
        self._due: list[tuple[float, int, _Key]] = []
        self._order = count()
        self._slots = asyncio.Semaphore(concurrency)
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._reads: set[asyncio.Task[None]] = set()
        self.closed = asyncio.Event()
        self.read_count = 0

    async def changes(self, task_id: str, owner: str) -> AsyncGenerator[Task, None]:
        """The task now, then once per change, ending with its terminal state, its expiry or `close`.

        Raises TaskNotFound at once where the caller has no such task.
        """
        async with self._slots:
            first = await self._service.get(task_id, owner)
        self.read_count += 1
        yield first
        if first.outcome is not None or self.closed.is_set():
            return
        key = (task_id, owner)
        follower = _Follower()
        self._join(key, follower, first)
        try:
            while True:
                await follower.changed.wait()
                follower.changed.clear()
                if follower.latest is not None:
                    task, follower.latest = follower.latest, None
                    yield task
                    if task.outcome is not None:
                        return
                if follower.over:
                    return
        finally:
            self._leave(key, follower)

    async def wait(self, task_id: str, owner: str, seconds: float) -> Task:
        """The task once it has ended, or as last seen after `seconds`. Raises TaskNotFound."""
        last: Task | None = None
        try:
            async with asyncio.timeout(seconds), aclosing(self.changes(task_id, owner)) as changes:
                async for task in changes:
                    last = task
        except TimeoutError:
            pass
        return last or await self._service.get(task_id, owner)

    def close(self) -> None:
        """End every follower, now and in future."""
        self.closed.set()
        for watched in self._watched.values():
            for follower in watched.followers:
                follower.over = True
                follower.changed.set()

    def _join(self, key: _Key, follower: _Follower, seen: Task) -> None:
        watched = self._watched.get(key)
        if watched is None:
            watched = self._watched[key] = _Watched(seen=seen)
            self._schedule(key, watched, seen)
        watched.followers.add(follower)
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._run(), name="task-watcher")

    def _leave(self, key: _Key, follower: _Follower) -> None:
        watched = self._watched.get(key)
        if watched is not None:
            watched.followers.discard(follower)
            if not watched.followers:
                del self._watched[key]
                if not self._watched:
                    self._wake.set()

    def _schedule(self, key: _Key, watched: _Watched, task: Task) -> None:
        age = (self._clock() - task.record.created_at) / 1000
        pause = max(self._shortest, min(self._longest, age / 10))
        watched.turn = next(self._order)
        heapq.heappush(self._due, (asyncio.get_running_loop().time() + pause, watched.turn, key))
        self._wake.set()

    async def _run(self) -> None:
        while self._watched:
            self._wake.clear()
            await self._start_due_reads()
            pause = self._due[0][0] - asyncio.get_running_loop().time() if self._due else None
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue
        self._due.clear()

    async def _start_due_reads(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._due and self._due[0][0] <= now:
            _, turn, key = heapq.heappop(self._due)
            watched = self._watched.get(key)
            if watched is not None and watched.turn == turn:
                await self._slots.acquire()
                read = asyncio.create_task(self._read(key, watched))
                self._reads.add(read)
                read.add_done_callback(self._reads.discard)

    async def _read(self, key: _Key, watched: _Watched) -> None:
        try:
            task: Task | None = await self._service.get(*key)
        except TaskNotFound:
            task = None
        except StoreUnavailable:
            task = watched.seen
        except Exception:
            logger.exception("task %s: cannot be read", key[0])
            task = None
        finally:
            self._slots.release()
        self.read_count += 1
        self._tell(watched, task)
        if task is not None and task.outcome is None and self._watched.get(key) is watched:
            self._schedule(key, watched, task)

    def _tell(self, watched: _Watched, task: Task | None) -> None:
        now = self._clock()
        if task is not None and watched.seen is not None and _view(task, now) == _view(watched.seen, now):
            return
        watched.seen = task
        for follower in watched.followers:
            follower.latest = task
            follower.over = task is None or task.outcome is not None
            follower.changed.set()


def _view(task: Task, now: int) -> tuple[object, ...]:
    """What a follower can see of a task; a difference here is a change."""
    questions = tuple(q.key for q in task.open_questions(now))
    events = task.events[-1].key if task.events else None
    return task.outcome, task.message, task.cancel_requested_at, questions, len(task.events), events
