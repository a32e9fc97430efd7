"""One reader per process for all tasks that somebody waits on or is subscribed to.

However many streams and inline calls follow a task, it is read once per pause; the pause grows with its age.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from itertools import count

from adapter.errors import StoreUnavailable, TaskNotFound

from .clock import Clock, system_clock
from .model import Task
from .service import TaskService

logger = logging.getLogger(__name__)

_Key = tuple[str, str]
_View = tuple[object, ...]


@dataclass(eq=False, slots=True)
class _Follower:
    """Somebody's place: the newest change not yet taken. Older ones are dropped, so a slow reader costs nothing."""

    view: _View
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    latest: Task | None = None
    over: bool = False

    def tell(self, task: Task, view: _View) -> None:
        if view != self.view:
            self.view = view
            self.latest = task
            self.changed.set()

    def end(self) -> None:
        self.over = True
        self.changed.set()


@dataclass(slots=True)
class _Watched:
    created_at: int
    followers: set[_Follower] = field(default_factory=set)
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

    async def changes(self, task_id: str, owner: str) -> AsyncGenerator[Task, None]:
        """The task now, then once per change, ending with its terminal state, its expiry or `close`.

        Raises TaskNotFound at once where the caller has no such task.
        """
        async with self._slots:
            first = await self._service.get(task_id, owner)
        if first.outcome is not None or self.closed.is_set():
            yield first
            return
        key = (task_id, owner)
        follower = _Follower(_view(first, self._clock()))
        self._join(key, follower, first)  # before anything is yielded, so that no change is missed meanwhile
        try:
            yield first
            while not follower.over or follower.latest is not None:
                await follower.changed.wait()
                follower.changed.clear()
                if follower.latest is not None:
                    task, follower.latest = follower.latest, None
                    yield task
        finally:
            self._leave(key, follower)

    def close(self) -> None:
        """End every follower, now and in future."""
        self.closed.set()
        for watched in self._watched.values():
            _end(watched.followers)
        self._watched.clear()
        self._wake.set()

    def _join(self, key: _Key, follower: _Follower, seen: Task) -> None:
        watched = self._watched.get(key)
        if watched is None:
            watched = self._watched[key] = _Watched(seen.record.created_at)
            self._schedule(key, watched)
        watched.followers.add(follower)
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._run(), name="task-watcher")

    def _leave(self, key: _Key, follower: _Follower) -> None:
        watched = self._watched.get(key)
        if watched is not None and follower in watched.followers:
            watched.followers.discard(follower)
            if not watched.followers:
                self._forget(key)

    def _forget(self, key: _Key) -> None:
        del self._watched[key]
        if not self._watched:
            self._wake.set()

    def _schedule(self, key: _Key, watched: _Watched) -> None:
        age = (self._clock() - watched.created_at) / 1000
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
        # Who joins during this read has seen the task later than it perhaps does.
        present = tuple(watched.followers)
        try:
            task = await self._service.get(*key)
        except TaskNotFound:
            self._finish(key, watched, None)
        except StoreUnavailable:
            self._continue(key, watched)
        except Exception:  # a defect in one read must not leave its followers waiting for ever
            logger.exception("task %s: cannot be read", key[0])
            self._finish(key, watched, None)
        else:
            if task.outcome is not None:
                self._finish(key, watched, task)
            else:
                self._tell(present, task)
                self._continue(key, watched)
        finally:
            self._slots.release()

    def _continue(self, key: _Key, watched: _Watched) -> None:
        if self._watched.get(key) is watched:
            self._schedule(key, watched)

    def _finish(self, key: _Key, watched: _Watched, task: Task | None) -> None:
        """Everybody's last news, or none; who follows the task from now on starts anew."""
        if task is not None:
            self._tell(watched.followers, task)
        _end(watched.followers)
        if self._watched.get(key) is watched:
            self._forget(key)

    def _tell(self, followers: Iterable[_Follower], task: Task) -> None:
        view = _view(task, self._clock())
        for follower in followers:
            follower.tell(task, view)


def _end(followers: Iterable[_Follower]) -> None:
    for follower in followers:
        follower.end()


def _view(task: Task, now: int) -> _View:
    """What a follower can see of a task; a difference here is a change."""
    questions = tuple(q.key for q in task.open_questions(now))
    events = task.events[-1].key if task.events else None
    return task.outcome, task.message, task.cancel_requested_at, questions, len(task.events), events
