"""A host that knows no tasks, of any era, as the model behind it sees the tools."""

from __future__ import annotations

from typing import Any

from adapter.tools.schema import Schema
from tests.support.adapter import Json, Mcp, tool
from tests.support.legacy import VERSIONS, LegacyClient

ERAS = ("2026-07-28", *VERSIONS)
NAMES = ("task_status", "task_result", "task_answer", "task_cancel")


class Host:
    """Lists and calls tools, and checks each result against the tool's output schema."""

    def __init__(self, mcp: Mcp, era: str = ERAS[0], caller: str = "anonymous") -> None:
        self.mcp = mcp
        self.era = era
        self.caller = caller
        self.seconds_left: float | None = None
        self.schemas: dict[str, Json] = {}

    async def tools(self) -> list[Json]:
        return list((await self._send("tools/list", {})).result["tools"])

    async def call(self, name: str, **arguments: Any) -> Json:
        """The result of a tool call."""
        answer = await self._send("tools/call", {"name": name, "arguments": arguments})
        result: Json = {k: v for k, v in answer.result.items() if k not in ("_meta", "resultType")}
        if name in NAMES and not result.get("isError"):
            await self._check(name, result)
        return result

    async def _check(self, name: str, result: Json) -> None:
        if not self.schemas:
            self.schemas = {each["name"]: each.get("outputSchema", {}) for each in await self.tools()}
        if self.era == "2025-03-26":
            assert result.keys() == {"content"}
        else:
            assert Schema(self.schemas[name]).violation(result["structuredContent"]) is None

    async def _send(self, method: str, params: Json) -> Any:
        if self.era == ERAS[0]:
            options: Any = {"caps": {}, "caller": self.caller, "seconds_left": self.seconds_left}
            return await self.mcp.call(method, params, **options)
        client = LegacyClient(self.mcp, self.era, caller=self.caller, seconds_left=self.seconds_left)
        return await client.call(method, params)


def background(*tools: Any, **settings: Any) -> Mcp:
    """An adapter with companion tools, whose tool `job` goes on in the background at once."""
    return Mcp(*(tools or (tool(inline_wait="0s"),)), **{"companion_tools": "on", **settings})


def text(result: Json) -> str:
    return str(result["content"][0]["text"])


async def begun(mcp: Mcp, era: str = ERAS[0], **options: Any) -> tuple[Host, str]:
    """A host with a job that goes on in the background, and its task id."""
    host = Host(mcp, era, **options)
    await host.call("job")
    return host, mcp.only_task
