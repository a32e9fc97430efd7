"""Jobs behind the lines of a client."""

from __future__ import annotations

from tests.support.adapter import Json, Mcp, until

CALL: Json = {"name": "job"}


async def started(mcp: Mcp) -> str:
    await until(lambda: bool(mcp.engine.started))
    return mcp.only_task


async def watched(mcp: Mcp) -> None:
    """Until somebody waits for a job."""
    await until(lambda: bool(mcp.parts.watcher._watched))
