"""PyPI mcp 1.x with its experimental tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from driver import GREET, Job, Person, continued, drive, refusal, shown, tell, text_of
from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamablehttp_client


@asynccontextmanager
async def opened(
    job: Job, person: Person | None = None, limit: timedelta | None = None
) -> AsyncIterator[ClientSession]:
    """A session before its handshake."""

    async def ask(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert person is not None
        await person.ask(params.message)
        return types.ElicitResult(action=person.action, content=person.content)

    async with (
        streamablehttp_client(job.url) as (reader, writer, _),
        ClientSession(reader, writer, limit, elicitation_callback=ask if person else None) as session,
    ):
        yield session


@asynccontextmanager
async def connected(
    job: Job, person: Person | None = None, limit: timedelta | None = None
) -> AsyncIterator[ClientSession]:
    async with opened(job, person, limit) as session:
        await session.initialize()
        yield session


def outcome(result: types.CallToolResult) -> dict[str, Any]:
    return shown(text_of(result.content), result.structuredContent, result.isError)


async def as_task(session: ClientSession, job: Job) -> str:
    created = await session.experimental.call_tool_as_task(*job.call)
    return created.task.taskId


async def followed(session: ClientSession, task_id: str) -> dict[str, Any]:
    """What an application does: poll to the end, then ask for the result."""
    async for _status in session.experimental.poll_task(task_id):
        pass
    return await blocking(session, task_id)


async def blocking(session: ClientSession, task_id: str) -> dict[str, Any]:
    return outcome(await session.experimental.get_task_result(task_id, types.CallToolResult))


async def list_tools(job: Job) -> dict[str, Any]:
    async with opened(job) as session:
        protocol = (await session.initialize()).protocolVersion
        tools = (await session.list_tools()).tools
        support = {tool.name: tool.execution and tool.execution.taskSupport for tool in tools}
        return {"protocol": protocol, "tools": support}


async def plain(job: Job) -> dict[str, Any]:
    async with connected(job) as session:
        return outcome(await session.call_tool(*GREET))


async def companions(job: Job) -> dict[str, Any]:
    async with connected(job) as session:

        async def call_tool(name: str, arguments: dict[str, Any]) -> tuple[str, Any]:
            result = await session.call_tool(name, arguments)
            return text_of(result.content), result.structuredContent

        return await continued(call_tool, job)


async def task(job: Job) -> dict[str, Any]:
    async with connected(job) as session:
        polled = await followed(session, await as_task(session, job))
        # The plainest way as well: ask for the result at once, which blocks until it is there.
        return {**polled, "blocking": await blocking(session, await as_task(session, job))}


async def asking(job: Job, action: str) -> dict[str, Any]:
    person = Person(action)
    async with connected(job, person) as session:
        as_a_task = await followed(session, await as_task(session, job))
        plainly = outcome(await session.call_tool(*job.call))
        return {"asked": person.asked, "task": as_a_task, "plain": plainly}


async def accept(job: Job) -> dict[str, Any]:
    return await asking(job, "accept")


async def decline(job: Job) -> dict[str, Any]:
    return await asking(job, "decline")


async def failing(job: Job) -> dict[str, Any]:
    async with connected(job) as session:
        task_id = await as_task(session, job)
        try:
            return await followed(session, task_id)
        except McpError as problem:
            return problem.error.model_dump()


async def cancel(job: Job) -> dict[str, Any]:
    async with connected(job) as session:
        task_id = await as_task(session, job)
        answer = await session.experimental.cancel_task(task_id)
        later = await session.experimental.get_task(task_id)
        gone = await refusal(blocking(session, task_id), McpError)
        return {"answer": answer.status, "status": later.status, "result": str(gone)}


async def outlives(job: Job) -> dict[str, Any]:
    async with connected(job, limit=timedelta(seconds=job.timeout)) as session:
        plainly = await refusal(session.call_tool(*job.slow), McpError)
        task_id = await as_task(session, job)
        waited = await refusal(blocking(session, task_id), McpError)
        polled = await followed(session, task_id)
        return {"plain": str(plainly), "blocking": str(waited), **polled}


async def leave(job: Job) -> dict[str, Any]:
    async with connected(job, Person("never")) as session:
        task_id = await as_task(session, job)
        tell(task=task_id)
        return await followed(session, task_id)


async def resume(job: Job) -> dict[str, Any]:
    person = Person()
    async with connected(job, person) as session:
        # A question comes with the status; without one, waiting for the result is enough.
        asks = job.tool == "ask_name"
        result = await (followed(session, job.task) if asks else blocking(session, job.task))
        return {"asked": person.asked, **result}


drive(
    {
        "list": list_tools,
        "plain": plain,
        "continued": companions,
        "task": task,
        "accept": accept,
        "decline": decline,
        "tool_error": failing,
        "rpc_error": failing,
        "cancel": cancel,
        "outlives": outlives,
        "leave": leave,
        "resume": resume,
    }
)
