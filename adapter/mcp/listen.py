"""subscriptions/listen: a stream of `notifications/tasks` (R-90 to R-97, R-121)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from adapter.errors import StoreUnavailable, TaskNotFound
from adapter.tasks.model import Task
from adapter.tasks.watcher import Watcher

from . import jsonrpc, sse
from .call import Call
from .exchange import KEEP_ALIVE, Frame, Reply
from .following import ClientGone
from .jsonrpc import INTERNAL_ERROR, RpcError, invalid_params
from .meta import SUBSCRIPTION_KEY, complete
from .task_methods import require_tasks
from .task_shapes import TaskShapes

MAX_TASKS = 100


class Listen:
    """Follows the named tasks through the process's one watcher."""

    def __init__(self, watcher: Watcher, shapes: TaskShapes) -> None:
        self._watcher = watcher
        self._shapes = shapes

    async def listen(self, call: Call) -> Reply:
        wanted = call.params.get("notifications")
        if not isinstance(wanted, dict):
            raise invalid_params("params.notifications is required and must be an object")
        task_ids = wanted.get("taskIds")
        if task_ids is not None:
            require_tasks(call)
            _check_task_ids(task_ids)
        only_tasks = all(value in (None, False, []) for key, value in wanted.items() if key != "taskIds")
        unique = list(dict.fromkeys(task_ids)) if task_ids is not None else None
        frames = self._stream(call, unique, ends_with_tasks=unique is not None and only_tasks)
        return sse.stream(sse.guarded(frames, lambda problem: jsonrpc.error(call.id, problem)))

    async def _stream(
        self, call: Call, task_ids: list[str] | None, *, ends_with_tasks: bool
    ) -> AsyncGenerator[Frame, None]:
        subscription = _Subscription(self._watcher, call.owner)
        try:
            first = await subscription.open(task_ids or [])
            honoured = {} if task_ids is None else {"taskIds": [i for i in task_ids if i in first]}
            acknowledged = "notifications/subscriptions/acknowledged"
            yield self._notification(call, acknowledged, {"notifications": honoured})
            for task in first.values():
                yield self._changed(call, task)
            buffered = call.request.seconds_left is not None
            if not buffered:
                async with aclosing(subscription.updates(call, until_all_ended=ends_with_tasks)) as updates:
                    async for update in updates:
                        yield KEEP_ALIVE if update is None else self._changed(call, update)
            for message in self._closing(call):
                yield message
        except ClientGone:
            return
        except StoreUnavailable:
            raise RpcError(INTERNAL_ERROR, "The server is busy; try again") from None
        finally:
            await subscription.close()

    def _closing(self, call: Call) -> list[Frame]:
        """The end that the server decides: over stdio also told as a cancellation (R-95)."""
        meta = {SUBSCRIPTION_KEY: call.id}
        result = Frame(jsonrpc.result(call.id, complete({"_meta": meta})), final=True)
        if call.request.headers is not None:
            return [result]
        params = {"requestId": call.id, "_meta": meta}
        return [Frame(jsonrpc.notification("notifications/cancelled", params)), result]

    def _changed(self, call: Call, task: Task) -> Frame:
        try:
            shown = self._shapes.detailed(task, call.meta.capabilities)
        except RpcError:  # its result cannot be read now; tasks/get will say so
            return KEEP_ALIVE
        return self._notification(call, "notifications/tasks", shown)

    def _notification(self, call: Call, method: str, params: dict[str, Any]) -> Frame:
        return Frame(jsonrpc.notification(method, {**params, "_meta": {SUBSCRIPTION_KEY: call.id}}))


class _Subscription:
    """The followers of one stream's tasks. Of each task only the newest state is kept for a reader that is slow."""

    def __init__(self, watcher: Watcher, owner: str) -> None:
        self._watcher = watcher
        self._owner = owner
        self._followers: set[asyncio.Task[None]] = set()
        self._latest: dict[str, Task] = {}
        self._live: set[str] = set()
        self._unseen: set[str] = set()
        self._news = asyncio.Event()
        self._failure: StoreUnavailable | None = None

    async def open(self, task_ids: list[str]) -> dict[str, Task]:
        """The tasks that this caller may see, as they are now; their changes are followed from here on.

        Raises StoreUnavailable.
        """
        self._live.update(task_ids)
        self._unseen.update(task_ids)
        for task_id in task_ids:
            self._followers.add(asyncio.create_task(self._follow(task_id)))
        while self._unseen:
            await self._news.wait()
            self._news.clear()
        if self._failure is not None:
            raise self._failure
        return self._taken()

    async def updates(self, call: Call, *, until_all_ended: bool) -> AsyncGenerator[Task | None, None]:
        """Each change; None now and then, to keep the line open. Raises ClientGone."""
        gone: asyncio.Future[None] = asyncio.ensure_future(call.request.disconnected())
        closed = asyncio.ensure_future(self._watcher.closed.wait())
        try:
            while True:
                self._news.clear()
                for task in self._taken().values():
                    yield task
                if closed.done() or (until_all_ended and not self._live and not self._latest):
                    return
                if not await self._waited(gone, closed):
                    yield None
        finally:
            gone.cancel()
            closed.cancel()

    async def _waited(self, gone: asyncio.Future[None], closed: asyncio.Future[Any]) -> bool:
        """Whether something has happened; False after a quiet time. Raises ClientGone."""
        news = asyncio.ensure_future(self._news.wait())
        try:
            waited: set[asyncio.Future[Any]] = {news, gone, closed}
            quiet = sse.KEEP_ALIVE_SECONDS
            done, _ = await asyncio.wait(waited, timeout=quiet, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
        if gone.done():
            raise ClientGone
        return bool(done)

    async def close(self) -> None:
        for follower in self._followers:
            follower.cancel()
        if self._followers:
            await asyncio.wait(self._followers)

    def _taken(self) -> dict[str, Task]:
        latest, self._latest = self._latest, {}
        return latest

    async def _follow(self, task_id: str) -> None:
        try:
            async with aclosing(self._watcher.changes(task_id, self._owner)) as changes:
                async for task in changes:
                    self._latest[task_id] = task
                    self._unseen.discard(task_id)
                    self._news.set()
        except TaskNotFound:
            pass
        except StoreUnavailable as problem:
            self._failure = problem
        finally:
            self._live.discard(task_id)
            self._unseen.discard(task_id)
            self._news.set()


def _check_task_ids(task_ids: object) -> None:
    if not isinstance(task_ids, list) or not all(isinstance(i, str) for i in task_ids):
        raise invalid_params("params.notifications.taskIds must be a list of strings")
    if len(task_ids) > MAX_TASKS:
        raise invalid_params(f"params.notifications.taskIds: at most {MAX_TASKS} in one subscription")
