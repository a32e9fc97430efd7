"""PyPI mcp 2.x; for tasks with the small extension of mcp2_tasks.py."""

from __future__ import annotations

from typing import Any

from driver import GREET, Job, Person, continued, drive, refusal, shown, tell, text_of
from mcp import Client, MCPError
from mcp2_tasks import CreateTaskResult, TaskFailed, Tasks, cancel_task, follow_task, get_task
from mcp_types import CallToolResult, ElicitResult


def client(job: Job, person: Person | None = None, *, limit: float | None = None) -> Client:
    """A client that takes tasks where there is somebody to answer their questions."""
    if person is None:
        return Client(job.url, read_timeout_seconds=limit)

    async def declared(_context: Any, _params: Any) -> ElicitResult:
        raise AssertionError("in this protocol questions come with the task")

    tasks = Tasks(lambda message: answer(person, message))
    return Client(job.url, read_timeout_seconds=limit, elicitation_callback=declared, extensions=[tasks])


async def answer(person: Person, message: str) -> dict[str, Any]:
    await person.ask(message)
    content = {} if person.content is None else {"content": person.content}
    return {"action": person.action, **content}


def outcome(result: CallToolResult) -> dict[str, Any]:
    return shown(text_of(result.content), result.structured_content, result.is_error)


async def as_task(connected: Client, job: Job) -> str:
    created = await connected.session.call_tool(*job.call, allow_claimed=True)
    assert isinstance(created, CreateTaskResult)
    return created.task_id


async def list_tools(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        tools = (await connected.list_tools()).tools
        return {"protocol": connected.protocol_version, "tools": dict.fromkeys(tool.name for tool in tools)}


async def plain(job: Job) -> dict[str, Any]:
    async with client(job) as connected:
        return outcome(await connected.call_tool(*GREET))


async def companions(job: Job) -> dict[str, Any]:
    async with client(job) as connected:

        async def call_tool(name: str, arguments: dict[str, Any]) -> tuple[str, Any]:
            result = await connected.call_tool(name, arguments)
            return text_of(result.content), result.structured_content

        return await continued(call_tool, job)


async def task(job: Job) -> dict[str, Any]:
    async with client(job, Person()) as connected:
        return outcome(await connected.call_tool(*job.call))


async def asking(job: Job, action: str) -> dict[str, Any]:
    person = Person(action)
    async with client(job, person) as connected:
        as_a_task = outcome(await connected.call_tool(*job.call))
        return {"asked": person.asked, "task": as_a_task}


async def accept(job: Job) -> dict[str, Any]:
    return await asking(job, "accept")


async def decline(job: Job) -> dict[str, Any]:
    return await asking(job, "decline")


async def failing(job: Job) -> dict[str, Any]:
    async with client(job, Person()) as connected:
        try:
            return outcome(await connected.call_tool(*job.call))
        except TaskFailed as failed:
            error = failed.task.error
            return {} if error is None else error.model_dump()


async def cancel(job: Job) -> dict[str, Any]:
    async with client(job, Person()) as connected:
        task_id = await as_task(connected, job)
        await cancel_task(connected.session, task_id)
        return {"status": (await get_task(connected.session, task_id)).status}


async def outlives(job: Job) -> dict[str, Any]:
    async with client(job, limit=job.timeout) as connected:
        plainly = await refusal(connected.call_tool(*job.slow), MCPError)
    async with client(job, Person(), limit=job.timeout) as connected:
        return {"plain": str(plainly), **outcome(await connected.call_tool(*job.call))}


async def leave(job: Job) -> dict[str, Any]:
    person = Person("never")
    async with client(job, person) as connected:
        task_id = await as_task(connected, job)
        tell(task=task_id)
        return outcome(await follow_task(connected.session, task_id, lambda message: answer(person, message)))


async def resume(job: Job) -> dict[str, Any]:
    person = Person()
    async with client(job, person) as connected:
        result = await follow_task(connected.session, job.task, lambda message: answer(person, message))
        return {"asked": person.asked, **outcome(result)}


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
