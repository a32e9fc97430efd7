"""tools/list and tools/call of the legacy protocols."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from adapter.errors import StoreUnavailable, TaskNotFound
from adapter.tasks.model import Task
from adapter.tasks.service import TaskService
from adapter.tools.tool import Tool

from . import jsonrpc, sse
from .access import accepts_events, accepts_json
from .asking import Asking
from .companions import Companions
from .exchange import Frame, Reply
from .following import ClientGone
from .inline import Inline, Run
from .jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError, invalid_params
from .legacy_call import LegacyCall
from .legacy_shapes import V_2025_11_25, LegacyShapes, listed_tool, tool_result
from .listing import Listing
from .notices import Notices
from .offers import Offers
from .results import error_result
from .resumption import LONGEST_RETRY_MS, Resumptions, Unfinished
from .starting import Exposed, NotStarted, Starter, Wishes, arguments_of, described

LOG_LEVEL = "info"
"""What is sent of a workflow's log lines: a stateless server cannot remember `logging/setLevel`."""


class LegacyTools:
    """`tools/call` with `task` gives a task or an error, never a plain result; without it, a bounded run."""

    def __init__(
        self,
        exposed: Exposed,
        service: TaskService,
        shapes: LegacyShapes,
        starter: Starter,
        asking: Asking,
        inline: Inline,
        companions: Companions,
        listing: Listing,
        offers: Offers,
        resumptions: Resumptions,
        *,
        hold: float,
    ) -> None:
        self._exposed = exposed
        self._service = service
        self._shapes = shapes
        self._starter = starter
        self._asking = asking
        self._inline = inline
        self._companions = companions
        self._listing = listing
        self._offers = offers
        self._resumptions = resumptions
        self._hold = hold
        support = [(described(tool), tool.task_support) for tool in exposed.catalog]
        self._described = [*support, *((tool, "forbidden") for tool in companions.described())]

    async def list(self, call: LegacyCall) -> dict[str, Any]:
        page, cursor = self._listing.page(self._described, call.params)
        tools = [listed_tool(tool, support, call.version) for tool, support in page]
        return {"tools": tools} if cursor is None else {"tools": tools, "nextCursor": cursor}

    async def call(self, call: LegacyCall) -> dict[str, Any] | Reply:
        name = call.text("name")
        arguments = arguments_of(call.params)
        if arguments is None:
            raise invalid_params("params.arguments must be an object")
        wish = call.task_wish() if call.version == V_2025_11_25 else None
        if self._companions.serves(name):
            if wish is not None:
                raise _no_task(name)
            return tool_result(await self._companions.call(name, arguments, call.request), call.version)
        tool = self._exposed.catalog.get(name)
        if tool is None:
            raise invalid_params(f"Unknown tool: {jsonrpc.shown(name)}")
        if wish is not None:
            return await self._as_task(tool, arguments, wish, call)
        return await self._plain(tool, arguments, call)

    async def _as_task(
        self, tool: Tool, arguments: dict[str, Any], wish: dict[str, Any], call: LegacyCall
    ) -> dict[str, Any] | Reply:
        if tool.task_support == "forbidden":
            raise _no_task(tool.name)
        wishes = Wishes(wish.get("ttl"), call.progress_token)
        return await self._shortest(self._created(tool, arguments, wishes, call), call)

    async def _created(
        self, tool: Tool, arguments: dict[str, Any], wishes: Wishes, call: LegacyCall
    ) -> AsyncGenerator[Frame, None]:
        try:
            async for step in self._asking.steps(tool, arguments, call):
                if isinstance(step, Frame):
                    yield step
                    continue
                task = await self._starter.create(tool, step, call.owner, wishes)
                yield Frame(jsonrpc.result(call.id, self._shapes.created(task)), final=True)
        except NotStarted as reason:
            raise _not_started(reason) from None
        except ClientGone:
            return

    async def _plain(self, tool: Tool, arguments: dict[str, Any], call: LegacyCall) -> dict[str, Any] | Reply:
        if tool.task_support == "required":
            text = f"Tool {tool.name!r} runs as a task only"
            if call.version == V_2025_11_25:
                raise RpcError(METHOD_NOT_FOUND, f"{text}: send `task` with the call")
            return error_result(f"{text}, which protocol version {call.version} does not have.")
        return await self._shortest(self._asked_then_run(tool, arguments, call), call)

    async def _asked_then_run(
        self, tool: Tool, arguments: dict[str, Any], call: LegacyCall
    ) -> AsyncGenerator[Frame, None]:
        try:
            async for step in self._asking.steps(tool, arguments, call):
                if isinstance(step, Frame):
                    yield step
                    continue
                wishes = Wishes(progress_token=call.progress_token)
                task = await self._starter.create(tool, step, call.owner, wishes)
                unfinished = Unfinished("call", call.id, task.record.task_id, call.owner)
                async for frame in self._inline.frames(self._run(tool, task, unfinished, call)):
                    yield frame
        except NotStarted as reason:
            yield Frame(jsonrpc.result(call.id, error_result(str(reason))), final=True)
        except ClientGone:
            return

    async def resume(self, unfinished: Unfinished, call: LegacyCall) -> Reply:
        """Go on with the reply to a plain call that was left off."""
        return sse.stream(sse.guarded(self._resumed(unfinished, call), partial(jsonrpc.error, call.id)))

    async def _resumed(self, unfinished: Unfinished, call: LegacyCall) -> AsyncGenerator[Frame, None]:
        try:
            task = await self._service.get(unfinished.task_id, unfinished.owner)
        except StoreUnavailable:
            yield self._resumptions.frame(unfinished, LONGEST_RETRY_MS)
            return
        except TaskNotFound:
            raise RpcError(INTERNAL_ERROR, "The result of this call is no longer kept") from None
        tool = self._exposed.catalog.get(task.record.tool)
        if tool is None:
            raise RpcError(INTERNAL_ERROR, f"Tool {task.record.tool!r} is no longer served")
        async for frame in self._inline.frames(self._run(tool, task, unfinished, call)):
            yield frame

    def _run(self, tool: Tool, task: Task, unfinished: Unfinished, call: LegacyCall) -> Run:
        session, headers = call.session, call.request.headers
        streams = accepts_events(headers)
        resumable = streams and headers is not None and session.version == V_2025_11_25
        token = task.record.progress_token
        return Run(
            tool=tool,
            task=task,
            seconds_left=call.request.left(),
            gone=call.gone,
            cancelled=call.cancelled,
            notices=Notices(
                None if token is None else orjson.loads(token), LOG_LEVEL, after=unfinished.after
            ),
            respond=lambda result: jsonrpc.result(unfinished.id, tool_result(result, session.version)),
            requests=partial(self._offers.of_task, session=session, related_task=False) if streams else None,
            come_back=self._come_back(task, unfinished) if resumable else None,
            hold=self._hold,
        )

    def _come_back(self, task: Task, unfinished: Unfinished) -> Callable[[str | None], Frame]:
        def frame(after: str | None) -> Frame:
            retry_ms = self._resumptions.retry_ms(task.record.created_at)
            return self._resumptions.frame(replace(unfinished, after=after), retry_ms)

        return frame

    async def _shortest(self, frames: AsyncGenerator[Frame, None], call: LegacyCall) -> Reply:
        headers = call.request.headers
        return await sse.shortest(
            frames,
            events=accepts_events(headers),
            plain=accepts_json(headers),
            told=partial(jsonrpc.error, call.id),
        )


def _no_task(name: str) -> RpcError:
    return RpcError(METHOD_NOT_FOUND, f"Tool {name!r} does not run as a task: call it without `task`")


def _not_started(reason: NotStarted) -> RpcError:
    """A call that wanted a task gets an error, never a plain result (D10)."""
    return invalid_params(str(reason)) if reason.invalid else RpcError(INTERNAL_ERROR, str(reason))
