"""tasks/get, tasks/result, tasks/cancel, tasks/list of 2025-11-25 (L-40 to L-62)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from adapter.errors import EngineUnavailable, StoreUnavailable
from adapter.tasks.model import Task
from adapter.tasks.service import TaskService
from adapter.tasks.watcher import Watcher

from . import jsonrpc, sse
from .access import accepts_events
from .exchange import ANONYMOUS, KEEP_ALIVE, Frame, Reply, Request
from .following import ClientGone, follow
from .jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError, invalid_params
from .legacy_call import LegacyCall
from .legacy_shapes import LegacyShapes, related, tool_result, was_cancelled
from .listing import bad_cursor, read_cursor
from .notices import Notices
from .offers import Offers
from .results import render
from .resumption import LONGEST_RETRY_MS, SHORTEST_RETRY_MS, Resumptions, Unfinished
from .signing import Signer

_LIST = "task-list"
_PAGE = 20
_SOON_MS = 1_000
"""For a client that has come back to a question: it is asked with its next look."""


class LegacyTasks:
    """`hold`: seconds that `tasks/result` holds a stream before the client has to come back for more."""

    def __init__(
        self,
        service: TaskService,
        watcher: Watcher,
        shapes: LegacyShapes,
        offers: Offers,
        signer: Signer,
        resumptions: Resumptions,
        *,
        hold: float,
    ) -> None:
        self._service = service
        self._watcher = watcher
        self._shapes = shapes
        self._offers = offers
        self._signer = signer
        self._resumptions = resumptions
        self._hold = hold

    async def get(self, call: LegacyCall) -> dict[str, Any] | Reply:
        """The task; questions that this session has not seen go before it on the same reply."""
        task = await self._service.get(call.text("taskId"), call.owner)
        shown = self._shapes.task(task, call.session.capabilities)
        requests = []
        if task.outcome is None and task.questions and accepts_events(call.request.headers):
            if await self._offers.introduce(task, call.session):
                return {**shown, "pollInterval": min(shown["pollInterval"], _SOON_MS)}
            requests = await self._offers.of_task(task, call.session)
        if not requests:
            return shown
        return sse.stream(_in_a_row([*requests, jsonrpc.result(call.id, shown)]))

    async def cancel(self, call: LegacyCall) -> dict[str, Any]:
        task_id = call.text("taskId")
        self._refuse_ended(await self._service.get(task_id, call.owner), call)
        try:
            await self._service.cancel(task_id, call.owner)
        except EngineUnavailable:
            text = "The job could not be told to stop just now; it is tried again with the next tasks/get"
            raise RpcError(INTERNAL_ERROR, text) from None
        task = await self._service.get(task_id, call.owner)
        if not was_cancelled(task):
            self._refuse_ended(task, call)
        return self._shapes.task(task, call.session.capabilities)

    def _refuse_ended(self, task: Task, call: LegacyCall) -> None:
        if _is_over(task):
            status = self._shapes.task(task, call.session.capabilities)["status"]
            raise invalid_params(f"The task is already in the terminal status {status!r}")

    async def list(self, call: LegacyCall) -> dict[str, Any]:
        if call.owner == ANONYMOUS:
            raise RpcError(METHOD_NOT_FOUND, "Tasks are not listed where callers cannot be told apart")
        before = None
        if call.params.get("cursor") is not None:
            cursor = read_cursor(self._signer, _LIST, call.params["cursor"])
            if not self._signer.is_mark("owner", call.owner, cursor.get("owner")):
                raise bad_cursor()
            before = str(cursor["before"])
        tasks, following = await self._service.tasks_of(call.owner, before=before, limit=_PAGE)
        listed = [self._listed(task, call) for task in tasks]
        shown: dict[str, Any] = {"tasks": [task for task in listed if task is not None]}
        if following is not None:
            cursor = {"owner": self._signer.mark("owner", call.owner), "before": following}
            shown["nextCursor"] = self._signer.sign(_LIST, cursor)
        return shown

    def _listed(self, task: Task, call: LegacyCall) -> dict[str, Any] | None:
        """None for a task that `tasks/get` cannot show either, as its result is not available."""
        try:
            return self._shapes.task(task, call.session.capabilities)
        except RpcError:
            return None

    async def result(self, call: LegacyCall) -> dict[str, Any] | Reply:
        """What `tools/call` would have returned; a stream where that is still to come (L-46)."""
        task = await self._service.get(call.text("taskId"), call.owner)
        if _is_over(task):
            return self._outcome(task, call.version)
        if not accepts_events(call.request.headers):
            return await self._waited(task, call)
        return await self.resume(Unfinished("result", call.id, task.record.task_id, call.owner), call)

    async def resume(self, waiting: Unfinished, call: LegacyCall) -> Reply:
        """Go on with a reply that was left off."""
        return sse.stream(sse.guarded(self._held(waiting, call), partial(jsonrpc.error, call.id)))

    async def _waited(self, task: Task, call: LegacyCall) -> dict[str, Any] | Reply:
        """For a client that takes no stream, all that can be done is to wait and say so (L-47)."""
        try:
            async with aclosing(self._followed(task.record.task_id, call)) as updates:
                async for update in updates:
                    if update is not None and _is_over(update):
                        return self._outcome(update, call.version)
        except ClientGone:
            return Reply(202, {}, b"")  # nobody reads this
        raise RpcError(INTERNAL_ERROR, "The task has not ended: poll tasks/get, or accept text/event-stream")

    async def _held(self, waiting: Unfinished, call: LegacyCall) -> AsyncGenerator[Frame, None]:
        resumable = call.request.headers is not None
        if resumable:
            yield self._resumptions.frame(waiting, SHORTEST_RETRY_MS)
        try:
            async with aclosing(self._until_over(waiting, call)) as frames:
                async for frame in frames:
                    yield frame
        except ClientGone:
            return
        except StoreUnavailable:
            if not resumable:
                raise
            yield self._resumptions.frame(waiting, LONGEST_RETRY_MS)

    async def _until_over(self, waiting: Unfinished, call: LegacyCall) -> AsyncGenerator[Frame, None]:
        task = await self._service.get(waiting.task_id, waiting.owner)
        notices = _notices(task, waiting)
        async with aclosing(self._meanwhile(task, notices, call)) as frames:
            async for frame in frames:
                yield frame
        # The read that saw the end may have been too early for what was reported just before it.
        task = await self._service.get(waiting.task_id, waiting.owner)
        for message in notices.new(task):
            yield Frame(message)
        if _is_over(task):
            yield Frame(jsonrpc.result(call.id, self._outcome(task, call.version)), final=True)
        elif call.request.headers is not None:
            rest = replace(waiting, after=notices.last)
            yield self._resumptions.frame(rest, self._resumptions.retry_ms(task.record.created_at))
        else:
            raise RpcError(INTERNAL_ERROR, "The server follows this task no longer; ask again")

    async def _meanwhile(self, task: Task, notices: Notices, call: LegacyCall) -> AsyncGenerator[Frame, None]:
        """What there is to tell until the task is over or this reply has to be. Raises ClientGone."""
        capabilities = call.session.capabilities
        status = self._shapes.task(task, capabilities)["status"]
        async with aclosing(self._followed(task.record.task_id, call)) as updates:
            async for update in updates:
                if update is None:
                    yield KEEP_ALIVE
                    continue
                for message in notices.new(update):
                    yield Frame(message)
                if _is_over(update):
                    return
                shown = self._shapes.task(update, capabilities)
                if shown["status"] != status:
                    status = shown["status"]
                    yield Frame(jsonrpc.notification("notifications/tasks/status", shown))
                requests = await self._offers.of_task(update, call.session)
                for message in requests:
                    yield Frame(message)
                if requests and call.request.seconds_left is not None:
                    return  # a buffered reply reaches the client only once it is closed

    def _followed(self, task_id: str, call: LegacyCall) -> AsyncGenerator[Task | None, None]:
        seconds = self._seconds(call.request)
        return follow(self._watcher, task_id, call.owner, seconds=seconds, gone=call.gone)

    def _seconds(self, request: Request) -> float | None:
        """A stdio client is one connection, which can be held for as long as the work takes."""
        if request.headers is None:
            return None
        left = request.left()
        return self._hold if left is None else max(0.0, min(self._hold, left - 1.0))

    def _outcome(self, task: Task, version: str) -> dict[str, Any]:
        task_id = task.record.task_id
        if task.outcome is None or was_cancelled(task):
            raise RpcError(INTERNAL_ERROR, "Task was cancelled", data={"taskId": task_id})
        rendered = render(task.outcome, task.record.result_settings)
        if rendered.failure is not None:
            failure = rendered.failure
            raise RpcError(failure.code, failure.message, data=failure.data)
        assert rendered.result is not None
        result = tool_result(rendered.result, version)
        return {**result, "_meta": {**result.get("_meta", {}), **related(task_id)}}


def _is_over(task: Task) -> bool:
    return task.outcome is not None or was_cancelled(task)


def _notices(task: Task, waiting: Unfinished) -> Notices:
    """Progress keeps the token of the call that made the task (L-58)."""
    token = task.record.progress_token
    meta = related(task.record.task_id)
    return Notices(None if token is None else orjson.loads(token), "info", after=waiting.after, meta=meta)


async def _in_a_row(messages: list[bytes]) -> AsyncGenerator[Frame, None]:
    for message in messages[:-1]:
        yield Frame(message)
    yield Frame(messages[-1], final=True)
