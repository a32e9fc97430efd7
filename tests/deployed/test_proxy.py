"""Hosts reach the deployed API through `mcp-proxy-for-aws`, which signs what they send; here with the real one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import ClientSession, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitRequestParams, ElicitResult

from .deployment import Account, Deployment
from .emulator import ENVIRONMENT, REGION

SIGNED_FOR = ("--service", "execute-api", "--region", REGION)
"""The proxy would take the service from the host's name, whose first part is the id of the API."""


@asynccontextmanager
async def host(deployment: Deployment, account: Account, asked: list[str]) -> AsyncIterator[ClientSession]:
    """A host that started the proxy as its server. It accepts what it is asked."""

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"delivery": "express"})

    proxy = StdioServerParameters(
        command=str(ENVIRONMENT / "bin" / "mcp-proxy-for-aws"),
        args=[deployment.url, *SIGNED_FOR, "--disable-telemetry"],
        env={"PATH": os.environ["PATH"], **account.environment},
    )
    async with (
        stdio_client(proxy) as (read, write),
        ClientSession(read, write, elicitation_callback=answer) as session,
    ):
        yield session


async def test_a_host_calls_tools_and_is_asked_by_workflows(deployment: Deployment) -> None:
    asked: list[str] = []
    async with host(deployment, deployment.caller("ada"), asked) as session:
        await session.initialize()
        tools = await session.list_tools()
        order = {"order_id": "A-1", "customer": "Ada", "amount": 250}
        result = await session.call_tool("place_order", order)

    assert "place_order" in {tool.name for tool in tools.tools}
    assert asked == ["Approve order A-1 of Ada for 250 EUR?"]
    assert result.structured_content == {"order_id": "A-1", "status": "shipped", "delivery": "express"}


async def test_a_host_without_permission_is_told_so(deployment: Deployment) -> None:
    async with host(deployment, deployment.assumed("eve"), []) as session:
        with pytest.raises(MCPError, match="403"):
            await session.initialize()
