"""PyPI fastmcp 4.x with fastmcp-tasks, whose import alone makes every client take tasks."""

from __future__ import annotations

from typing import Any

from driver import GREET, Job, Person, continued, drive, refusal, shown, tell, text_of
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.exceptions import ToolError
from mcp import MCPError


def plain_client(job: Job, *, limit: float | None = None) -> Client[Any]:
    """A client that takes no tasks: fastmcp-tasks must not have been imported yet."""
    return Client(job.url, timeout=limit)


def client(job: Job, person: Person | None = None, *, limit: float | None = None) -> Client[Any]:
    import fastmcp_tasks  # noqa: F401

    someone = person or Person()

    async def ask(message: str, _type: Any, _params: Any, _context: Any) -> ElicitResult[Any]:
        await someone.ask(message)
        return ElicitResult(action=someone.action, content=someone.content)

    return Client(job.url, timeout=limit, elicitation_handler=ask)


async def outcome(waiting: Any) -> dict[str, Any]:
    """What an awaited call or task gives; the helper raises what is an error."""
    try:
        result = await waiting
    except ToolError as problem:
        return shown(str(problem), None, True)
    return shown(text_of(result.content), result.structured_content, result.is_error)


async def as_task(connected: Client[Any], job: Job) -> Any:
    from fastmcp_tasks import call_tool_task

    return await call_tool_task(connected, *job.call)


async def list_tools(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        tools = await connected.list_tools()
        protocol = connected.session.protocol_version
        return {"protocol": protocol, "tools": dict.fromkeys(tool.name for tool in tools)}


async def plain(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        return await outcome(connected.call_tool(*GREET))


async def companions(job: Job) -> dict[str, Any]:
    async with plain_client(job) as connected:

        async def call_tool(name: str, arguments: dict[str, Any]) -> tuple[str, Any]:
            result = await connected.call_tool(name, arguments, raise_on_error=False)
            return text_of(result.content), result.structured_content

        return await continued(call_tool, job)


async def task(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        transparent = await outcome(connected.call_tool(*job.call))
        return {**transparent, "handle": await outcome(await as_task(connected, job))}


async def asking(job: Job, action: str) -> dict[str, Any]:
    person = Person(action)
    async with client(job, person) as connected:
        as_a_task = await outcome(connected.call_tool(*job.call))
        return {"asked": person.asked, "task": as_a_task}


async def accept(job: Job) -> dict[str, Any]:
    return await asking(job, "accept")


async def decline(job: Job) -> dict[str, Any]:
    return await asking(job, "decline")


async def failing(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        return await outcome(connected.call_tool(*job.call))


async def cancel(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        running = await as_task(connected, job)
        await running.cancel()
        status = await running.status()
        return {"status": status.status, "result": (await outcome(running))["text"]}


async def outlives(job: Job) -> dict[str, Any]:
    async with plain_client(job, limit=job.timeout) as connected:
        plainly = await refusal(connected.call_tool(*job.slow), MCPError)
    async with client(job, limit=job.timeout) as connected:
        return {"plain": str(plainly), **await outcome(await as_task(connected, job))}


async def leave(job: Job) -> dict[str, Any]:
    async with client(job, Person("never")) as connected:
        running = await as_task(connected, job)
        tell(task=running.task_id)
        return await outcome(running)


async def resume(job: Job) -> dict[str, Any]:
    from fastmcp_tasks import ToolTask
    from fastmcp_tasks.client_models import ClientCreateTaskResult

    person = Person()
    handle = {"taskId": job.task, "status": "working", "createdAt": "", "lastUpdatedAt": ""}
    created = ClientCreateTaskResult.model_validate({**handle, "resultType": "task"})
    async with client(job, person) as connected:
        result = await outcome(ToolTask(connected, job.tool, created))
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
