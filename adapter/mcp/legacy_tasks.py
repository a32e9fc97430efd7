"""tasks/get, tasks/result, tasks/cancel, tasks/list of 2025-11-25 (L-40 to L-62)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson

from adapter.errors import EngineUnavailable, StoreUnavailable, TaskNotFound
from adapter.tasks.clock import Clock
from adapter.tasks.model import Task
from adapter.tasks.service import TaskService
from adapter.tasks.watcher import Watcher

from . import jsonrpc, sse
from .access import accepts_events
from .exchange import ANONYMOUS, KEEP_ALIVE, Frame, Reply, Request
from .following import ClientGone, follow
from .jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, RequestId, RpcError, invalid_params
from .legacy_call import LegacyCall
from .legacy_shapes import V_2025_11_25, LegacyShapes, related, tool_result, was_cancelled
from .listing import bad_cursor, read_cursor
from .notices import Notices
from .offers import Offers
from .results import render
from .session import Session
from .signing import BadSignature, Signer

_RESUME = "resume"
_LIST = "task-list"
_PAGE = 20
_RETRY_SHORTEST_MS = 1_000
_RETRY_LONGEST_MS = 60_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A `tasks/result` that is being answered, perhaps for the tenth time."""

    id: RequestId
    task_id: str
    owner: str
    session: Session
    after: str | None = None
    """The last report (event key) that this client was sent."""


class LegacyTasks:
    """`hold`: seconds that `tasks/result` holds a stream before the client has to come back for more."""

    def __init__(
        self,
        service: TaskService,
        watcher: Watcher,
        shapes: LegacyShapes,
        offers: Offers,
        signer: Signer,
        clock: Clock,
        *,
        hold: float,
    ) -> None:
        self._service = service
        self._watcher = watcher
        self._shapes = shapes
        self._offers = offers
        self._signer = signer
        self._clock = clock
        self._hold = hold

    async def get(self, call: LegacyCall) -> dict[str, Any] | Reply:
        """The task; questions that this session has not seen go before it on the same reply."""
        task = await self._service.get(call.text("taskId"), call.owner)
        shown = self._shapes.task(task, call.session.capabilities)
        requests = []
        if task.outcome is None and accepts_events(call.request.headers):
            requests = await self._offers.of_task(task, call.session)
        if not requests:
            return shown
        return sse.stream(_in_a_row([*requests, jsonrpc.result(call.id, shown)]))

    async def cancel(self, call: LegacyCall) -> dict[str, Any]:
        task_id = call.text("taskId")
        task = await self._service.get(task_id, call.owner)
        self._refuse_ended(task, call)
        if task.cancel_requested_at is None:
            try:
                await self._service.cancel(task_id, call.owner)
            except EngineUnavailable:
                text = "The job could not be told to stop just now; try again"
                raise RpcError(INTERNAL_ERROR, text) from None
            task = await self._service.get(task_id, call.owner)
            if not was_cancelled(task):
                self._refuse_ended(task, call)
        return self._shapes.task(task, call.session.capabilities)

    def _refuse_ended(self, task: Task, call: LegacyCall) -> None:
        if task.outcome is not None:
            status = self._shapes.task(task, call.session.capabilities)["status"]
            raise invalid_params(f"The task is already in the terminal status {status!r}")

    async def list(self, call: LegacyCall) -> dict[str, Any]:
        if call.owner == ANONYMOUS:
            raise RpcError(METHOD_NOT_FOUND, "Tasks are not listed where callers cannot be told apart")
        before = None
        if "cursor" in call.params:
            cursor = read_cursor(self._signer, _LIST, call.params["cursor"])
            if cursor.get("owner") != self._signer.mark("owner", call.owner):
                raise bad_cursor()
            before = str(cursor["before"])
        tasks, following = await self._service.tasks_of(call.owner, before=before, limit=_PAGE)
        shown: dict[str, Any] = {
            "tasks": [self._shapes.task(task, call.session.capabilities) for task in tasks]
        }
        if following is not None:
            cursor = {"owner": self._signer.mark("owner", call.owner), "before": following}
            shown["nextCursor"] = self._signer.sign(_LIST, cursor)
        return shown

    async def result(self, call: LegacyCall) -> dict[str, Any] | Reply:
        """What `tools/call` would have returned; a stream where that is still to come (L-46)."""
        task = await self._service.get(call.text("taskId"), call.owner)
        if task.outcome is not None or was_cancelled(task):
            return self._outcome(task, call.version)
        waiting = _Waiting(call.id, task.record.task_id, call.owner, call.session)
        return sse.stream(self._held(waiting, call.request, call))

    async def resume(self, request: Request, event_id: str, session: Session | None) -> Reply | None:
        """GET with the id of an event of `result`. None where that id is not ours (L-18, L-20)."""
        try:
            state = self._signer.verify(_RESUME, event_id)
        except BadSignature:
            return None
        if state["owner"] != self._signer.mark("owner", request.caller):
            return None
        session = session or Session(V_2025_11_25)
        waiting = _Waiting(state["id"], state["task"], request.caller, session, state["after"])
        return sse.stream(self._held(waiting, request, None))

    async def _held(
        self, waiting: _Waiting, request: Request, call: LegacyCall | None
    ) -> AsyncGenerator[Frame, None]:
        over_http = request.headers is not None
        if over_http:
            yield self._come_back(waiting, _RETRY_SHORTEST_MS)
        try:
            async for frame in self._until_over(waiting, request, call):
                yield frame
        except ClientGone:
            return
        except RpcError as problem:
            yield Frame(jsonrpc.error(waiting.id, problem), final=True)
        except TaskNotFound as problem:
            yield Frame(jsonrpc.error(waiting.id, invalid_params(str(problem))), final=True)
        except StoreUnavailable:
            yield self._come_back(waiting, _RETRY_LONGEST_MS)

    async def _until_over(
        self, waiting: _Waiting, request: Request, call: LegacyCall | None
    ) -> AsyncGenerator[Frame, None]:
        task: Task | None = None
        notices: Notices | None = None
        status: str | None = None
        gone = call.cancelled if call is not None and request.headers is None else request.disconnected
        seconds = self._seconds(request)
        updates = follow(self._watcher, waiting.task_id, waiting.owner, seconds=seconds, gone=gone)
        async with aclosing(updates):
            async for update in updates:
                if update is None:
                    yield KEEP_ALIVE
                    continue
                task = update
                notices = notices or _notices(task, waiting)
                for message in notices.new(task):
                    yield Frame(message)
                if task.outcome is not None or was_cancelled(task):
                    break
                shown = self._shapes.task(task, waiting.session.capabilities)
                if status not in (None, shown["status"]):
                    yield Frame(jsonrpc.notification("notifications/tasks/status", shown))
                status = shown["status"]
                for message in await self._offers.of_task(task, waiting.session):
                    yield Frame(message)
        if task is not None and (task.outcome is not None or was_cancelled(task)):
            outcome = self._outcome(task, waiting.session.version)
            yield Frame(jsonrpc.result(waiting.id, outcome), final=True)
        elif request.headers is not None:
            after = notices.last if notices is not None else waiting.after
            yield self._come_back(waiting, self._retry_ms(task), after)

    def _seconds(self, request: Request) -> float | None:
        """A stdio client is one connection, which can be held for as long as the work takes."""
        if request.headers is None:
            return None
        left = request.seconds_left
        return self._hold if left is None else max(0.0, min(self._hold, left - 1.0))

    def _retry_ms(self, task: Task | None) -> int:
        """Longer for older tasks: some clients come back only about a thousand times."""
        age = 0 if task is None else self._clock() - task.record.created_at
        return max(_RETRY_SHORTEST_MS, min(_RETRY_LONGEST_MS, age // 10))

    def _come_back(self, waiting: _Waiting, retry_ms: int, after: str | None = None) -> Frame:
        state = {
            "id": waiting.id,
            "task": waiting.task_id,
            "owner": self._signer.mark("owner", waiting.owner),
            "after": after or waiting.after,
            "at": self._clock(),
        }
        return Frame(event_id=self._signer.sign(_RESUME, state), retry_ms=retry_ms)

    def _outcome(self, task: Task, version: str) -> dict[str, Any]:
        task_id = task.record.task_id
        if was_cancelled(task) or task.outcome is None:
            raise RpcError(INTERNAL_ERROR, "Task was cancelled", data={"taskId": task_id})
        rendered = render(task.outcome, task.record.result_settings)
        if rendered.failure is not None:
            failure = rendered.failure
            raise RpcError(failure.code, failure.message, data=failure.data)
        assert rendered.result is not None
        result = tool_result(rendered.result, version)
        return {**result, "_meta": {**result.get("_meta", {}), **related(task_id)}}


def _notices(task: Task, waiting: _Waiting) -> Notices:
    """Progress keeps the token of the call that made the task (L-58)."""
    token = task.record.progress_token
    meta = related(task.record.task_id)
    return Notices(None if token is None else orjson.loads(token), "info", after=waiting.after, meta=meta)


async def _in_a_row(messages: list[bytes]) -> AsyncGenerator[Frame, None]:
    for message in messages[:-1]:
        yield Frame(message)
    yield Frame(messages[-1], final=True)
