"""tools/list and tools/call of 2026-07-28."""

from __future__ import annotations

from functools import partial
from typing import Any

from adapter.errors import InvalidAnswer
from adapter.tools.tool import Tool

from . import jsonrpc, sse
from .access import accepts_events, accepts_json
from .call import Call
from .companions import Companions
from .exchange import Reply
from .headers import check_parameters
from .inline import Inline, Run
from .inputs import invalid_response
from .jsonrpc import invalid_params, shown
from .listing import Listing
from .meta import TASKS_REQUIRED, can_take, cannot_be_asked, complete, missing_capability
from .notices import Notices
from .results import error_result
from .rounds import Ask, CannotAsk, Said, check_can_ask
from .starting import Exposed, NotStarted, Starter, Wishes, arguments_of, described
from .task_shapes import TaskShapes


class ToolMethods:
    """Lists tools, and turns a call into a task or a bounded inline run."""

    def __init__(
        self,
        exposed: Exposed,
        shapes: TaskShapes,
        starter: Starter,
        inline: Inline,
        companions: Companions,
        listing: Listing,
    ) -> None:
        self._exposed = exposed
        self._shapes = shapes
        self._starter = starter
        self._inline = inline
        self._companions = companions
        self._listing = listing
        self._described = [*map(described, exposed.catalog), *companions.described()]

    async def list(self, call: Call) -> dict[str, Any]:
        tools, cursor = self._listing.page(self._described, call.params)
        result: dict[str, Any] = {
            "tools": tools,
            "ttlMs": self._exposed.list_ttl_ms,
            "cacheScope": "public",
        }
        return result if cursor is None else {**result, "nextCursor": cursor}

    async def call(self, call: Call) -> dict[str, Any] | Reply:
        name = call.text("name")
        arguments = arguments_of(call.params)
        if arguments is None:
            raise invalid_params("params.arguments must be an object")
        if self._companions.serves(name):
            return await self._companions.call(name, arguments, call.request)
        tool = self._exposed.catalog.get(name)
        if tool is None:
            raise invalid_params(f"Unknown tool: {shown(name)}")
        if tool.task_support == "required" and not call.meta.takes_tasks:
            raise missing_capability(TASKS_REQUIRED, f"Tool {name!r} runs as a task only")
        said = _said(tool, arguments, call)
        try:
            check_can_ask(said)
            self._check_headers(tool, arguments, call)
            return await self._run(said, call)
        except NotStarted as reason:
            return error_result(str(reason))
        except InvalidAnswer as problem:
            raise invalid_response(problem) from None
        except CannotAsk as problem:
            raise cannot_be_asked(problem.method, problem.params, str(problem)) from None

    def _check_headers(self, tool: Tool, arguments: dict[str, Any], call: Call) -> None:
        if call.request.headers is not None and tool.header_parameters:
            check_parameters(call.request.headers, tool.header_parameters, arguments)

    async def _run(self, said: Said, call: Call) -> dict[str, Any] | Reply:
        tool = said.tool
        decision = self._starter.decide(said)
        if isinstance(decision, Ask):
            return decision.result
        task = await self._starter.create(tool, decision, call.owner, Wishes())
        run = Run(
            tool=tool,
            task=task,
            seconds_left=call.request.left(),
            gone=call.request.disconnected,
            notices=Notices(call.meta.progress_token, call.meta.log_level),
            respond=lambda result: jsonrpc.result(call.id, complete(result)),
        )
        if not call.meta.takes_tasks or tool.task_support == "forbidden":
            return await self._plain_reply(run, call)
        if tool.task_support == "optional" and tool.task_after > 0:
            return await self._inline.within(tool.task_after, run) or self._shapes.created(task)
        return self._shapes.created(task)

    async def _plain_reply(self, run: Run, call: Call) -> Reply:
        headers = call.request.headers
        events = accepts_events(headers)
        wanted = call.meta.progress_token is not None or call.meta.log_level is not None
        return await sse.shortest(
            self._inline.frames(run),
            events=events,
            plain=accepts_json(headers) and not (events and wanted),
            told=lambda problem: jsonrpc.error(call.id, problem),
        )


def _said(tool: Tool, arguments: dict[str, Any], call: Call) -> Said:
    """What is answered before a start means something only to a tool that asks."""
    takes = partial(can_take, call.meta.capabilities)
    if not tool.before_start:
        return Said(tool, arguments, call.owner, takes)
    responses = call.objects("inputResponses") if "inputResponses" in call.params else {}
    state = call.params.get("requestState")
    return Said(tool, arguments, call.owner, takes, responses, state)
