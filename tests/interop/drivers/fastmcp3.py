"""PyPI fastmcp 3.x with `call_tool(…, task=True)`."""

from __future__ import annotations

from typing import Any

from driver import GREET, Job, Person, continued, drive, refusal, shown, tell, text_of
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.tasks import ToolTask
from fastmcp.exceptions import ToolError
from mcp import McpError


def client(job: Job, person: Person | None = None, *, limit: float | None = None) -> Client[Any]:
    if person is None:
        return Client(job.url, timeout=limit)

    async def ask(message: str, _type: Any, _params: Any, _context: Any) -> ElicitResult[Any]:
        await person.ask(message)
        return ElicitResult(action=person.action, content=person.content)

    return Client(job.url, timeout=limit, elicitation_handler=ask)


async def outcome(waiting: Any) -> dict[str, Any]:
    """What an awaited call or task gives; the helper raises what is an error."""
    try:
        result = await waiting
    except ToolError as problem:
        return shown(str(problem), None, True)
    except McpError as problem:
        return problem.error.model_dump()
    return shown(text_of(result.content), result.structured_content, result.is_error)


async def as_task(connected: Client[Any], job: Job) -> ToolTask:
    return await connected.call_tool(*job.call, task=True)


async def list_tools(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        tools = await connected.list_tools()
        support = {tool.name: tool.execution and tool.execution.taskSupport for tool in tools}
        return {"protocol": connected.initialize_result.protocolVersion, "tools": support}


async def plain(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        return await outcome(connected.call_tool(*GREET))


async def companions(job: Job) -> dict[str, Any]:
    async with client(job) as connected:

        async def call_tool(name: str, arguments: dict[str, Any]) -> tuple[str, Any]:
            result = await connected.call_tool(name, arguments, raise_on_error=False)
            return text_of(result.content), result.structured_content

        return await continued(call_tool, job)


async def task(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        return await outcome(await as_task(connected, job))


async def asking(job: Job, action: str) -> dict[str, Any]:
    person = Person(action)
    async with client(job, person) as connected:
        as_a_task = await outcome(await as_task(connected, job))
        plainly = await outcome(connected.call_tool(*job.call))
        return {"asked": person.asked, "task": as_a_task, "plain": plainly}


async def accept(job: Job) -> dict[str, Any]:
    return await asking(job, "accept")


async def decline(job: Job) -> dict[str, Any]:
    return await asking(job, "decline")


async def cancel(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        running = await as_task(connected, job)
        await running.cancel()
        status = await running.status()
        return {"status": status.status, "result": (await outcome(running))["message"]}


async def outlives(job: Job) -> dict[str, Any]:
    async with client(job, limit=job.timeout) as connected:
        plainly = await refusal(connected.call_tool(*job.slow), McpError)
        return {"plain": str(plainly), **await outcome(await as_task(connected, job))}


async def leave(job: Job) -> dict[str, Any]:
    async with client(job, Person("never")) as connected:
        running = await as_task(connected, job)
        tell(task=running.task_id)
        return await outcome(running)


async def resume(job: Job) -> dict[str, Any]:
    person = Person()
    async with client(job, person) as connected:
        result = await outcome(ToolTask(connected, job.task, job.tool))
        return {"asked": person.asked, **result}


drive(
    {
        "list": list_tools,
        "plain": plain,
        "continued": companions,
        "task": task,
        "accept": accept,
        "decline": decline,
        "tool_error": task,
        "rpc_error": task,
        "cancel": cancel,
        "outlives": outlives,
        "leave": leave,
        "resume": resume,
    }
)
