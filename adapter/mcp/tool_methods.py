"""tools/list and tools/call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from adapter.errors import StartRejected
from adapter.tasks.service import NewTask, TaskService
from adapter.tools.catalog import Catalog
from adapter.tools.tool import Tool

from .call import Call
from .exchange import Reply
from .headers import check_parameters
from .inline import Inline
from .jsonrpc import INTERNAL_ERROR, JsonObject, RpcError, invalid_params, shown
from .meta import TASKS_REQUIRED, missing_capability
from .results import error_result
from .rounds import Ask, Declined, Go, Rounds, check_can_ask
from .signing import BadSignature, Signer
from .task_shapes import TaskShapes

ENGINE = "step_functions"
_CURSOR = "cursor"


@dataclass(frozen=True, slots=True)
class Exposed:
    """The tools that are served and what each of them starts."""

    catalog: Catalog
    targets: Mapping[str, str]
    """By tool name: the state machine, version or alias, fully resolved."""
    page_size: int
    list_ttl_ms: int


class ToolMethods:
    """Lists tools, and turns a call into a task or a bounded inline run."""

    def __init__(
        self,
        exposed: Exposed,
        service: TaskService,
        shapes: TaskShapes,
        rounds: Rounds,
        inline: Inline,
        signer: Signer,
    ) -> None:
        self._exposed = exposed
        self._service = service
        self._shapes = shapes
        self._rounds = rounds
        self._inline = inline
        self._signer = signer
        self._listing = {tool.name: _described(tool) for tool in exposed.catalog}

    async def list(self, call: Call) -> dict[str, Any]:
        start = self._page_start(call.params)
        tools, following = self._exposed.catalog.page(start, self._exposed.page_size)
        result: dict[str, Any] = {
            "tools": [self._listing[tool.name] for tool in tools],
            "ttlMs": self._exposed.list_ttl_ms,
            "cacheScope": "public",
        }
        if following is not None:
            cursor = {"start": following, "catalog": self._exposed.catalog.digest}
            result["nextCursor"] = self._signer.sign(_CURSOR, cursor)
        return result

    def _page_start(self, params: JsonObject) -> int:
        cursor = params.get("cursor")
        if cursor is None:
            return 0
        try:
            payload = self._signer.verify(_CURSOR, cursor) if isinstance(cursor, str) else {}
        except BadSignature:
            payload = {}
        if payload.get("catalog") != self._exposed.catalog.digest:
            raise invalid_params("params.cursor is not valid any more; list again without it")
        return int(payload["start"])

    async def call(self, call: Call) -> dict[str, Any] | Reply:
        name = call.text("name")
        arguments = call.params.get("arguments")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise invalid_params("params.arguments must be an object")
        tool = self._exposed.catalog.get(name)
        if tool is None:
            raise invalid_params(f"Unknown tool: {shown(name)}")
        if tool.task_support == "required" and not call.meta.takes_tasks:
            raise missing_capability(TASKS_REQUIRED, f"Tool {name!r} runs as a task only")
        check_can_ask(tool, arguments, call.meta.capabilities)
        if call.request.headers is not None and tool.header_parameters:
            check_parameters(call.request.headers, tool.header_parameters, arguments)
        return await self._run(tool, arguments, call)

    async def _run(self, tool: Tool, arguments: JsonObject, call: Call) -> dict[str, Any] | Reply:
        problem = tool.violation(arguments, before_answers=True)
        if problem is not None:
            return error_result(f"The arguments do not match the input schema: {problem}")
        decision = (
            self._rounds.decide(tool, arguments, call) if tool.before_start else Go(dict(arguments), {}, None)
        )
        if isinstance(decision, Ask):
            return decision.result
        if isinstance(decision, Declined):
            return error_result(f"Nothing was started: {decision.reason}")
        if tool.before_start:
            problem = tool.violation(decision.arguments)
            if problem is not None:
                return error_result(
                    f"The arguments with the answers do not match the input schema: {problem}"
                )
        try:
            task = await self._service.create(self._new_task(tool, decision, call))
        except StartRejected as rejection:
            return _not_started(rejection)
        if call.meta.takes_tasks and tool.task_support != "forbidden":
            return self._shapes.created(task)
        return await self._inline.reply(tool, task, call)

    def _new_task(self, tool: Tool, decision: Go, call: Call) -> NewTask:
        return NewTask(
            owner=call.owner,
            tool=tool.name,
            engine=ENGINE,
            target=self._exposed.targets[tool.name],
            input_json=orjson.dumps({**decision.arguments, **decision.additions}),
            ttl_ms=int(tool.ttl * 1000),
            poll_ms=max(1, int(tool.poll_interval * 1000)),
            on_expire=tool.on_expire,
            result_settings=tool.result_settings,
            nonce=decision.nonce,
        )


def _described(tool: Tool) -> dict[str, Any]:
    described: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.title is not None:
        described["title"] = tool.title
    described["inputSchema"] = tool.input_schema
    if tool.output_schema is not None:
        described["outputSchema"] = tool.output_schema
    if tool.annotations is not None:
        described["annotations"] = tool.annotations.model_dump(exclude_none=True)
    return described


def _not_started(rejection: StartRejected) -> dict[str, Any]:
    """What the caller can mend or try again is told to the model; the rest is our failure (M-08)."""
    if rejection.caller_fault or rejection.retryable:
        return error_result(str(rejection))
    raise RpcError(INTERNAL_ERROR, str(rejection))
