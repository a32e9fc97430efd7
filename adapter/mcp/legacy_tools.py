"""tools/list and tools/call of the legacy protocols."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import orjson

from adapter.errors import TaskNotFound
from adapter.tasks.model import Task
from adapter.tasks.service import TaskService
from adapter.tools.tool import Tool

from . import jsonrpc, sse
from .access import accepts_events, accepts_json
from .companions import Companions
from .exchange import KEEP_ALIVE, Frame, Reply, Request
from .following import ClientGone
from .inline import Inline, Run
from .jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError, invalid_params
from .legacy_call import LegacyCall
from .legacy_shapes import V_2025_11_25, LegacyShapes, listed_tool, tool_result
from .listing import Listing
from .meta import can_take
from .notices import Notices
from .offers import Offers
from .results import error_result
from .resumption import Resumptions, Unfinished
from .rounds import Ask, Go, Said
from .session import Session
from .starting import Exposed, NotStarted, Starter, Wishes, arguments_of, described

LOG_LEVEL = "info"
"""What is sent of a workflow's log lines: a stateless server cannot remember `logging/setLevel`."""
_REPLY_PAUSE = 0.25


class LegacyTools:
    """`tools/call` with `task` gives a task or an error, never a plain result; without it, a bounded run."""

    def __init__(
        self,
        exposed: Exposed,
        service: TaskService,
        shapes: LegacyShapes,
        starter: Starter,
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
        if not tool.before_start:
            return await self._created(tool, arguments, wishes, call)
        return await self._shortest(self._asked_then_created(tool, arguments, wishes, call), call)

    async def _created(
        self, tool: Tool, arguments: dict[str, Any], wishes: Wishes, call: LegacyCall
    ) -> dict[str, Any]:
        try:
            decision = self._starter.decide(self._said(tool, arguments, call))
            assert isinstance(decision, Go)
            task = await self._starter.create(tool, decision, call.owner, wishes)
        except NotStarted as reason:
            raise _not_started(reason) from None
        return self._shapes.created(task)

    async def _asked_then_created(
        self, tool: Tool, arguments: dict[str, Any], wishes: Wishes, call: LegacyCall
    ) -> AsyncGenerator[Frame, None]:
        try:
            async for step in self._asked(tool, arguments, call):
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
            async for step in self._asked(tool, arguments, call):
                if isinstance(step, Frame):
                    yield step
                    continue
                wishes = Wishes(progress_token=call.progress_token)
                task = await self._starter.create(tool, step, call.owner, wishes)
                unfinished = Unfinished("call", call.id, task.record.task_id, call.owner)
                run = self._run(tool, task, unfinished, call.session, call.request, call.cancelled)
                async for frame in self._inline.frames(run):
                    yield frame
        except NotStarted as reason:
            yield Frame(jsonrpc.result(call.id, error_result(str(reason))), final=True)
        except ClientGone:
            return

    async def resume(self, unfinished: Unfinished, session: Session, request: Request) -> Reply | None:
        """Go on with the reply to a plain call that was left off. None where its task is gone."""
        try:
            task = await self._service.get(unfinished.task_id, unfinished.owner)
        except TaskNotFound:
            return None
        tool = self._exposed.catalog.get(task.record.tool)
        if tool is None:
            return None
        run = self._run(tool, task, unfinished, session, request, request.disconnected)
        run = replace(run, stops_when_gone=False)  # a disconnect is no cancellation here (L-19)
        return sse.stream(sse.guarded(self._inline.frames(run), lambda p: jsonrpc.error(unfinished.id, p)))

    def _run(
        self,
        tool: Tool,
        task: Task,
        unfinished: Unfinished,
        session: Session,
        request: Request,
        cancelled: Callable[[], Awaitable[None]],
    ) -> Run:
        resumable = session.version == V_2025_11_25 and request.headers is not None
        token = task.record.progress_token
        return Run(
            tool=tool,
            task=task,
            seconds_left=request.seconds_left,
            gone=cancelled,
            notices=Notices(None if token is None else orjson.loads(token), LOG_LEVEL, after=unfinished.after),
            respond=lambda result: jsonrpc.result(unfinished.id, tool_result(result, session.version)),
            requests=lambda task: self._offers.of_task(task, session),
            come_back=self._come_back(unfinished) if resumable else None,
            hold=self._hold,
        )

    def _come_back(self, unfinished: Unfinished) -> Callable[[Task, str | None], Frame]:
        def frame(task: Task, after: str | None) -> Frame:
            retry_ms = self._resumptions.retry_ms(task.record.created_at)
            return self._resumptions.frame(replace(unfinished, after=after), retry_ms)

        return frame

    async def _asked(
        self, tool: Tool, arguments: dict[str, Any], call: LegacyCall
    ) -> AsyncGenerator[Frame | Go, None]:
        """Requests on this stream until all is answered, then what to start. Raises NotStarted, ClientGone.

        The answers arrive as messages of their own, perhaps at another process: they are read from the store.
        """
        self._check_can_ask(tool, call)
        said = self._said(tool, arguments, call)
        decision = self._starter.decide(said)
        while isinstance(decision, Ask):
            ask = secrets.token_urlsafe(12)
            requests = decision.result["inputRequests"]
            for message in self._offers.before_start(ask, requests, call.session):
                yield Frame(message)
            async for _ in self._until_answered(ask, len(requests), call):
                yield KEEP_ALIVE
            replies = await self._service.replies(ask)
            responses = {key: orjson.loads(reply) for key, reply in replies.items()}
            state = decision.result["requestState"]
            try:
                said = Said(tool, arguments, call.owner, call.session.capabilities, responses, state)
                decision = self._starter.decide(said)
            except RpcError as problem:
                raise NotStarted(f"Nothing was started: {problem.message}") from None
        yield decision

    async def _until_answered(self, ask: str, count: int, call: LegacyCall) -> AsyncGenerator[None, None]:
        """Ends when there are `count` replies; yields now and then. Raises NotStarted, ClientGone."""
        loop = asyncio.get_running_loop()
        left = call.request.seconds_left
        over = loop.time() + (600.0 if left is None else max(left - 1.0, 0.0))
        quiet = loop.time()
        gone: asyncio.Future[None] = asyncio.ensure_future(call.cancelled())
        try:
            while len(await self._service.replies(ask)) < count:
                if loop.time() > over:
                    raise NotStarted("Nothing was started: no answer came in time")
                await asyncio.wait({gone}, timeout=_REPLY_PAUSE)
                if gone.done():
                    raise ClientGone
                if loop.time() - quiet > sse.KEEP_ALIVE_SECONDS:
                    quiet = loop.time()
                    yield
        finally:
            gone.cancel()

    def _said(self, tool: Tool, arguments: dict[str, Any], call: LegacyCall) -> Said:
        return Said(tool, arguments, call.owner, call.session.capabilities)

    def _check_can_ask(self, tool: Tool, call: LegacyCall) -> None:
        """What has to be asked first needs a client that declared it, and a stream (L-16)."""
        for round_ in tool.before_start:
            for key, request in round_.requests.items():
                takes = can_take(call.session.capabilities, request.method, request.params)
                if not takes and not request.when_supported:
                    raise NotStarted(
                        f"Nothing was started: tool {tool.name!r} asks {key!r} first ({request.method}), and this "
                        "client has not said that it can take such a request"
                    )
        if tool.before_start and not accepts_events(call.request.headers):
            raise NotStarted(
                "Nothing was started: this tool asks first, and the client accepts no event stream"
            )

    async def _shortest(self, frames: AsyncGenerator[Frame, None], call: LegacyCall) -> Reply:
        headers = call.request.headers
        return await sse.shortest(
            frames,
            events=accepts_events(headers),
            plain=accepts_json(headers),
            told=lambda problem: jsonrpc.error(call.id, problem),
        )


def _no_task(name: str) -> RpcError:
    return RpcError(METHOD_NOT_FOUND, f"Tool {name!r} does not run as a task: call it without `task`")


def _not_started(reason: NotStarted) -> RpcError:
    """A call that wanted a task gets an error, never a plain result (D10)."""
    return invalid_params(str(reason)) if reason.invalid else RpcError(INTERNAL_ERROR, str(reason))
