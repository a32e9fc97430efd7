"""A tool call without a task: run, wait within bounds, answer with the plain result (D11)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import orjson

from adapter.errors import AdapterError, EngineUnavailable
from adapter.tasks.model import Event, Task
from adapter.tasks.service import TaskService
from adapter.tasks.watcher import Watcher
from adapter.tools.tool import Tool

from . import jsonrpc, sse
from .access import accepts_events, accepts_json
from .call import Call
from .exchange import Reply
from .jsonrpc import INTERNAL_ERROR, RpcError
from .meta import LOG_LEVELS, Meta, complete
from .results import error_result, render

logger = logging.getLogger(__name__)


class _ClientGone(Exception):
    """The client closed its connection before the reply."""


class Inline:
    """Waits for a task on behalf of a caller that cannot take one."""

    def __init__(self, service: TaskService, watcher: Watcher, limit: float) -> None:
        self._service = service
        self._watcher = watcher
        self._limit = limit

    async def reply(self, tool: Tool, task: Task, call: Call) -> dict[str, Any] | Reply:
        """The plain result; as an event stream where progress or log messages were asked for."""
        wants_events = call.meta.progress_token is not None or call.meta.log_level is not None
        headers = call.request.headers
        if accepts_events(headers) and (wants_events or not accepts_json(headers)):
            return sse.stream(self._stream(tool, task, call))
        try:
            async with aclosing(self._updates(tool, task, call)) as updates:
                async for update in updates:
                    task = update or task
        except _ClientGone:
            return Reply(499, {}, b"")
        return await self._finished(tool, task, call)

    async def _stream(self, tool: Tool, task: Task, call: Call) -> AsyncIterator[bytes]:
        notices = _Notices(call.meta)
        try:
            async with aclosing(self._updates(tool, task, call)) as updates:
                async for update in updates:
                    if update is None:
                        yield sse.KEEP_ALIVE
                        continue
                    task = update
                    for message in notices.new(task):
                        yield sse.event(message)
            # The read that saw the end may have been too early for what was reported just before it.
            task = await self._service.get(task.record.task_id, call.owner)
            for message in notices.new(task):
                yield sse.event(message)
            result = await self._finished(tool, task, call)
        except _ClientGone:
            return
        except RpcError as problem:
            yield sse.event(jsonrpc.error(call.id, problem))
            return
        except AdapterError as problem:
            yield sse.event(jsonrpc.error(call.id, RpcError(INTERNAL_ERROR, str(problem))))
            return
        yield sse.event(jsonrpc.result(call.id, complete(result)))

    async def _updates(self, tool: Tool, task: Task, call: Call) -> AsyncGenerator[Task | None, None]:
        """The task at each change until it ends or the wait is over; None now and then, to keep a line open.

        Raises _ClientGone, after the execution has been stopped where the tool says so.
        """
        gone: asyncio.Future[None] = asyncio.ensure_future(call.request.disconnected())
        changes = self._watcher.changes(task.record.task_id, call.owner)
        try:
            async with (
                aclosing(changes),
                aclosing(_bounded(changes, gone, self._seconds(tool, call))) as updates,
            ):
                async for update in updates:
                    yield update
        except _ClientGone:
            await self._abandon(tool, task)
            raise
        finally:
            gone.cancel()

    def _seconds(self, tool: Tool, call: Call) -> float:
        left = call.request.seconds_left
        bounds = [tool.inline_wait, self._limit]
        if left is not None:
            bounds.append(max(left - 1.0, 0.0))
        return min(bounds)

    async def _abandon(self, tool: Tool, task: Task) -> None:
        if tool.on_disconnect == "stop":
            try:
                await self._service.cancel(task.record.task_id, task.record.owner)
            except AdapterError as problem:
                logger.warning("task %s: its caller left, not stopped yet: %s", task.record.task_id, problem)

    async def _finished(self, tool: Tool, task: Task, call: Call) -> dict[str, Any]:
        if task.outcome is None:
            task = await self._overrun(task)
        if task.outcome is None:
            text = f"The job did not finish within {self._seconds(tool, call):g} s and was told to stop. "
            return error_result(text + "Call it from a client that supports tasks.")
        rendered = render(task.outcome, task.record.result_settings)
        if rendered.failure is not None:
            failure = rendered.failure
            raise RpcError(failure.code, failure.message, data=failure.data)
        return rendered.result or error_result(rendered.message or "The job was stopped")

    async def _overrun(self, task: Task) -> Task:
        """Stop what took too long; it may have finished meanwhile, and then that counts."""
        try:
            await self._service.cancel(task.record.task_id, task.record.owner)
        except EngineUnavailable:
            return task
        after = await self._service.get(task.record.task_id, task.record.owner)
        cancelled = after.outcome is not None and after.outcome.ending == "aborted"
        return task if cancelled else after


async def _bounded(
    changes: AsyncGenerator[Task, None], gone: asyncio.Future[None], seconds: float
) -> AsyncGenerator[Task | None, None]:
    loop = asyncio.get_running_loop()
    over = loop.time() + seconds
    pending: asyncio.Future[Task | None] | None = None
    try:
        while (left := over - loop.time()) > 0:
            pending = pending or asyncio.ensure_future(anext(changes, None))
            waited: set[asyncio.Future[Any]] = {pending, gone}
            patience = min(left, sse.KEEP_ALIVE_SECONDS)
            await asyncio.wait(waited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise _ClientGone
            if not pending.done():
                yield None
                continue
            update, pending = pending.result(), None
            if update is None:
                return
            yield update
    finally:
        if pending is not None:  # its generator can be closed only once it has let go
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)


class _Notices:
    """What a workflow reported, as notifications, each once (R-44)."""

    def __init__(self, meta: Meta) -> None:
        self._meta = meta
        self._seen: set[str] = set()
        self._progress: float | None = None

    def new(self, task: Task) -> list[bytes]:
        fresh = [event for event in task.events if event.key not in self._seen]
        self._seen.update(event.key for event in fresh)
        return [message for message in map(self._message, fresh) if message is not None]

    def _message(self, event: Event) -> bytes | None:
        return self._progressed(event) if event.kind == "progress" else self._logged(event)

    def _progressed(self, event: Event) -> bytes | None:
        token = self._meta.progress_token
        if token is None or event.progress is None:
            return None
        if self._progress is not None and event.progress <= self._progress:
            return None
        self._progress = event.progress
        params: dict[str, Any] = {"progressToken": token, "progress": event.progress}
        if event.total is not None:
            params["total"] = event.total
        if event.message is not None:
            params["message"] = event.message
        return jsonrpc.notification("notifications/progress", params)

    def _logged(self, event: Event) -> bytes | None:
        wanted = self._meta.log_level
        if wanted is None or event.level not in LOG_LEVELS:
            return None
        if LOG_LEVELS.index(event.level) < LOG_LEVELS.index(wanted):
            return None
        data = event.message if event.data is None else _json_or_text(event.data)
        return jsonrpc.notification("notifications/message", {"level": event.level, "data": data})


def _json_or_text(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
