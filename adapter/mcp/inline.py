"""A tool call without a task: run, wait within bounds, answer with the plain result (D11)."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from adapter.errors import AdapterError, EngineUnavailable, StoreUnavailable, TaskNotFound
from adapter.tasks.clock import Clock
from adapter.tasks.model import Ending, Task
from adapter.tasks.service import TaskService
from adapter.tasks.watcher import Watcher
from adapter.tools.tool import Tool

from .exchange import KEEP_ALIVE, Frame
from .following import ClientGone, follow
from .jsonrpc import INTERNAL_ERROR, RpcError
from .notices import Notices
from .results import cut, error_result, render

logger = logging.getLogger(__name__)


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Run:
    """One inline call: what runs, for whom, and how its era speaks."""

    tool: Tool
    task: Task
    seconds_left: float | None
    gone: Callable[[], Awaitable[None]]
    """Returns when nobody waits any more."""
    notices: Notices
    respond: Callable[[dict[str, Any]], bytes]
    """Makes the response from a CallToolResult without `resultType`."""
    requests: Callable[[Task], Awaitable[list[bytes]]] | None = None
    """What to ask the client now; None where it cannot be asked."""
    cancelled: Callable[[], bool] = _always
    """Once `gone`: whether the call is given up. The tool's `on_disconnect` says whether its work then stops."""
    come_back: Callable[[str | None], Frame] | None = None
    """The event by which the client can come back for what follows a report (its key); None where it cannot."""
    hold: float = 0.0
    """With `come_back`: how long, in seconds, before the client has to."""


class Inline:
    """Waits for a task on behalf of a caller that cannot take one.

    `limit`: seconds, for any tool. `companions`: work that takes longer goes on, and the companion tools continue
    it; without them it is stopped. `max_chars`: longer text is cut.
    """

    def __init__(
        self,
        service: TaskService,
        watcher: Watcher,
        clock: Clock,
        *,
        limit: float,
        companions: bool,
        max_chars: int,
    ) -> None:
        self._clock = clock
        self._service = service
        self._watcher = watcher
        self._limit = limit
        self._companions = companions
        self._max_chars = max_chars

    def seconds(self, wanted: float, seconds_left: float | None) -> float:
        """How long to wait: what is wanted, within the server's limit and what the transport has left."""
        left = self._limit if seconds_left is None else max(seconds_left - 1.0, 0.0)
        return min(wanted, self._limit, left)

    async def frames(self, run: Run) -> AsyncGenerator[Frame, None]:
        """Notifications and requests as they come, then the response. Raises RpcError."""
        try:
            async with aclosing(self._meanwhile(run)) as frames:
                async for frame in frames:
                    yield frame
            # The read that saw the end may have been too early for what was reported just before it.
            task = await self._service.get(run.task.record.task_id, run.task.record.owner)
            for message in run.notices.new(task):
                yield Frame(message)
            if task.outcome is None and run.come_back is not None and self._goes_on(run):
                yield run.come_back(run.notices.last)
                return
            yield Frame(run.respond(await self._finished(run, task)), final=True)
        except ClientGone:
            await self._abandon(run)
        except (TaskNotFound, StoreUnavailable) as problem:
            if isinstance(problem, StoreUnavailable) and run.come_back is not None and self._goes_on(run):
                yield run.come_back(run.notices.last)
                return
            raise RpcError(
                INTERNAL_ERROR, f"The job was started, but it cannot be followed: {problem}"
            ) from None

    async def _meanwhile(self, run: Run) -> AsyncGenerator[Frame, None]:
        """What there is to tell until the work ends or this reply has to; first how to come back, if one can."""
        record = run.task.record
        updates = follow(self._watcher, record.task_id, record.owner, seconds=self._held(run), gone=run.gone)
        primed = run.come_back is None
        async with aclosing(updates):
            async for task in updates:
                before = run.notices.last
                requests = await self._requests(run, task)
                messages = [] if task is None else [*run.notices.new(task), *requests]
                if run.come_back is not None and not primed and (messages or task is None):
                    primed = True
                    yield run.come_back(before)
                elif task is None:
                    yield KEEP_ALIVE
                for message in messages:
                    yield Frame(message)
                if requests and run.seconds_left is not None:
                    return  # a buffered reply reaches the client only once it is closed

    async def _requests(self, run: Run, task: Task | None) -> list[bytes]:
        """What to ask now. Where this reply is buffered and the last, an answer would come too late."""
        if task is None or run.requests is None:
            return []
        in_time = run.seconds_left is None or run.come_back is not None or self._companions
        return await run.requests(task) if in_time else []

    def _held(self, run: Run) -> float:
        """Seconds that this reply may take."""
        waited = (self._clock() - run.task.record.created_at) / 1000
        seconds = max(self.seconds(run.tool.inline_wait - waited, run.seconds_left), 0.0)
        return seconds if run.come_back is None else min(seconds, run.hold)

    async def within(self, seconds: float, run: Run) -> dict[str, Any] | None:
        """The plain result if the work ends within `seconds`, else None: it goes on as a task (`task_after`)."""
        task_id, owner = run.task.record.task_id, run.task.record.owner
        seconds = self.seconds(seconds, run.seconds_left)
        updates = follow(self._watcher, task_id, owner, seconds=seconds, gone=run.gone)
        try:
            async with aclosing(updates):
                async for task in updates:
                    if task is not None and task.outcome is not None:
                        return cut(plain_result(task), task_id, self._max_chars, more=self._companions)
        except ClientGone:
            await self._abandon(run)
        except (TaskNotFound, StoreUnavailable):
            return None  # the handle is the answer then, and the next read tells more
        return None

    async def _abandon(self, run: Run) -> None:
        if run.cancelled() and run.tool.on_disconnect == "stop":
            try:
                await self._service.cancel(run.task.record.task_id, run.task.record.owner)
            except AdapterError as problem:
                logger.warning(
                    "task %s: its caller left, not stopped yet: %s", run.task.record.task_id, problem
                )

    def _goes_on(self, run: Run) -> bool:
        """Whether the call may wait on, in another reply."""
        wait_ms = min(run.tool.inline_wait, self._limit) * 1000
        return self._clock() < run.task.record.created_at + wait_ms

    async def _finished(self, run: Run, task: Task) -> dict[str, Any]:
        waited = (self._clock() - task.record.created_at) / 1000
        seconds = max(waited, self.seconds(run.tool.inline_wait, run.seconds_left))
        if task.outcome is None and not self._companions:
            if self._watcher.closed.is_set():  # a deploy must not stop the jobs that happen to run
                raise RpcError(INTERNAL_ERROR, "The server is stopping; the job goes on without it")
            task = await self._stopped(task)
            if task.outcome is None:
                text = f"The job did not finish within {seconds:.3g} s and was told to stop."
                return error_result(f"{text} Call it from a client that supports tasks.")
        if task.outcome is None:
            return _continues(run.tool, task, seconds)
        return cut(plain_result(task), task.record.task_id, self._max_chars, more=self._companions)

    async def _stopped(self, task: Task) -> Task:
        """Stop what took too long; it may have finished meanwhile, and then that counts."""
        try:
            await self._service.cancel(task.record.task_id, task.record.owner)
        except EngineUnavailable:
            return task
        after = await self._service.get(task.record.task_id, task.record.owner)
        cancelled = after.outcome is not None and after.outcome.ending is Ending.ABORTED
        return task if cancelled else after


def plain_result(task: Task) -> dict[str, Any]:
    """What an ended task gives a plain call. Raises RpcError where the request itself failed."""
    assert task.outcome is not None
    rendered = render(task.outcome, task.record.result_settings)
    if rendered.failure is not None:
        failure = rendered.failure
        raise RpcError(failure.code, failure.message, data=failure.data)
    return rendered.result or error_result(rendered.message or "The job was stopped")


def _continues(tool: Tool, task: Task, seconds: float) -> dict[str, Any]:
    task_id = task.record.task_id
    text = (
        f"{tool.title or tool.name} is still running after {seconds:.3g} s and goes on in the background. "
        f"It has not finished: do not call it again. Its task id is {task_id}. "
        f'Call task_result with {{"task_id": "{task_id}"}} to wait for the result, '
        "task_status to see how far it is, task_cancel to stop it."
    )
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if tool.output_schema is not None:
        # There is nothing yet that would fit the schema; clients let only error results go without.
        result["isError"] = True
    return result
