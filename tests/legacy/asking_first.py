"""Tools that ask before they start, and calls of them, as a legacy client makes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import Json, Mcp, tool
from tests.support.legacy import LATEST, LegacyAnswer, LegacyClient
from tests.support.memory import MemoryEngine

KEY = "k" * 32
EVERYTHING: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
TASK: Json = {"task": {}}
PLAIN: Json = {}
OPEN: Json = {"type": "object"}


def asking_first(*rounds: Json, **members: Any) -> Mcp:
    """A tool with these rounds, whose jobs end at once with their input as output."""
    engine = MemoryEngine(ends_at_once=lambda given: Outcome(Ending.SUCCEEDED, output=given.decode()))
    asks = tool(before_start=list(rounds), **{"input_schema": OPEN, **members})
    return Mcp(asks, engine=engine, signing_keys=(KEY,), refresh_min=0.001)


async def able(mcp: Mcp, version: str = LATEST, capabilities: Json | None = None) -> LegacyClient:
    return await LegacyClient.opened(mcp, version, EVERYTHING if capabilities is None else capabilities)


def calling(client: LegacyClient, params: Json, arguments: Json | None = None) -> Any:
    """The stream of a call."""
    sent = {"name": "job", "arguments": arguments or {}, **params}
    return client.stream(client.request("tools/call", sent, identifier="call"))


@asynccontextmanager
async def time_passing(mcp: Mcp) -> AsyncIterator[None]:
    """The clock goes on, so that the end of a job is seen."""

    async def tick() -> None:
        while True:
            mcp.clock.advance(0.1)
            await asyncio.sleep(0.001)

    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()


async def answered(
    mcp: Mcp, params: Json, *answers: Json | None, version: str = LATEST, arguments: Json | None = None
) -> LegacyAnswer:
    """The reply to a call whose questions got these answers (None: an error), in turn."""
    client = await able(mcp, version)
    async with time_passing(mcp), calling(client, params, arguments) as stream:
        for answer in answers:
            request = await stream.next()
            await client.answer(request, answer)
        return await stream.rest()


def refusal(answer: LegacyAnswer, params: Json) -> str:
    """What a call was told that started nothing: an error of a task call, an error result of a plain one."""
    if params is TASK:
        assert answer.error["code"] in {-32602, -32603}
        return str(answer.error["message"])
    assert answer.result["isError"] is True
    return answer.text
