"""Plain calls of a legacy client, and the jobs behind them."""

from __future__ import annotations

import asyncio
from typing import Any

from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import Json, Mcp, accepted, tool, until
from tests.support.legacy import VERSIONS, LegacyClient, timed

KEY = "k" * 32
EARLY = VERSIONS[1:]
CALL: Json = {"name": "job"}
YES = accepted(sure=True)
DONE = Outcome(Ending.SUCCEEDED, output='"done"')


def quick(**settings: Any) -> Mcp:
    """A tool whose job a test ends, over time that stands still."""
    return Mcp(tool(inline_wait="20s"), signing_keys=(KEY,), **settings)


def slow(inline_wait: str = "20s", **settings: Any) -> Mcp:
    """The same in virtual time."""
    members = {"legacy_hold": 5, "companion_tools": "on", "signing_keys": (KEY,), **settings}
    return timed(tool(inline_wait=inline_wait), **members)


def finish(mcp: Mcp, outcome: Outcome = DONE) -> None:
    mcp.engine.end(mcp.execution(mcp.only_task), outcome)


def calling(client: LegacyClient, **options: Any) -> Any:
    return client.stream(client.request("tools/call", {**CALL, **options}, identifier="call"))


async def started(mcp: Mcp) -> str:
    await until(lambda: bool(mcp.engine.started))
    return mcp.only_task


def now() -> float:
    return asyncio.get_running_loop().time()
