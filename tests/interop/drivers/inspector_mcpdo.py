"""The Inspector's command line with lasting connections (`mcpdo`), whose daemon is the client."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from driver import GREET, NAME, Job, continued, drive, tell, text_of_json
from inspector import Program, Said, wire


class Mcpdo:
    """A daemon of its own with one connection."""

    def __init__(self, job: Job, program: Program) -> None:
        self._job = job
        self._program = program

    async def run(self, *arguments: str) -> Said:
        return await self._program.run("--format", "json", *arguments)

    async def connect(self, url: str, name: str = "adapter") -> None:
        target = [url, "--transport", "http", "--era", self._job.era, "--connection", name]
        said = await self.run("connect", *target)
        assert said.code == 0, said.error

    async def on(self, *arguments: str, connection: str = "adapter") -> Said:
        return await self.run("--connection", connection, *arguments)

    async def call(self, name: str, arguments: dict[str, Any], *, task: bool = False) -> Said:
        options = ["--task"] if task else []
        return await self.on("tools/call", name, json.dumps(arguments), *options)

    async def respond(self, pending: Said, action: str) -> Said:
        """Answer the question that a command ended with; gives what the command would have given."""
        identifier = pending.value["elicitationPending"]["elicitationId"]
        answer = [f"name:={NAME}"] if action == "accept" else ["--decline"]
        return await self.run("elicitation/respond", identifier, *answer)


@asynccontextmanager
async def daemon(job: Job, url: str | None = None, *, hurry: bool = False) -> AsyncIterator[Mcpdo]:
    script = "mcpdo/build/mcp-bin.js"
    private = await Program(job, script, {}).text("private")
    extra = dict(re.findall(r"export (\w+)='([^']*)'", private))
    mcpdo = Mcpdo(job, Program(job, script, extra, hurry=hurry))
    try:
        await mcpdo.connect(url or job.url)
        tell(pids=[(await mcpdo.run("daemon", "status")).value["pid"]])
        yield mcpdo
    finally:
        await mcpdo.run("daemon", "stop")


async def list_tools(job: Job) -> dict[str, Any]:
    async with daemon(job) as mcpdo:
        shown = (await mcpdo.run("connections/show", "adapter")).value
        tools = (await mcpdo.on("tools/list")).value["tools"]
    support = {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in tools}
    return {"protocol": shown["protocolVersion"], "tools": support}


async def plain(job: Job) -> dict[str, Any]:
    async with daemon(job) as mcpdo:
        return (await mcpdo.call(*GREET)).outcome


async def companions(job: Job) -> dict[str, Any]:
    async with wire(job.url) as seen, daemon(job, seen.url) as mcpdo:
        if job.era == "modern":
            await mcpdo.call(*GREET)
            extensions = [declared.get("extensions", {}) for declared in seen.declared()]
            return {"declares_tasks": any("io.modelcontextprotocol/tasks" in each for each in extensions)}

        async def call_tool(name: str, arguments: dict[str, Any]) -> tuple[str, Any]:
            result = (await mcpdo.call(name, arguments)).value
            return text_of_json(result["content"]), result.get("structuredContent")

        return await continued(call_tool, job)


async def task(job: Job) -> dict[str, Any]:
    async with daemon(job) as mcpdo:
        return (await mcpdo.call(*job.call, task=True)).outcome


async def asking(job: Job, action: str) -> dict[str, Any]:
    async with daemon(job) as mcpdo:
        pending = [await mcpdo.call(*job.call, task=True)]
        seen = {"task": (await mcpdo.respond(pending[0], action)).outcome}
        if job.era == "legacy":
            pending.append(await mcpdo.call(*job.call))
            seen["plain"] = (await mcpdo.respond(pending[1], action)).outcome
        return {"asked": [said.value["elicitationPending"]["message"] for said in pending], **seen}


async def accept(job: Job) -> dict[str, Any]:
    return await asking(job, "accept")


async def decline(job: Job) -> dict[str, Any]:
    return await asking(job, "decline")


async def cancel(job: Job) -> dict[str, Any]:
    async with wire(job.url) as seen, daemon(job, seen.url) as mcpdo:
        calling = asyncio.create_task(mcpdo.call(*job.call, task=True))
        task_id = await seen.task_id()
        await mcpdo.connect(job.url, "other")
        done = (await mcpdo.on("tasks/cancel", task_id, connection="other")).value
        status = (await mcpdo.on("tasks/get", task_id, connection="other")).value["task"]["status"]
        return {"cancelled": done["cancelled"], "status": status, "result": (await calling).error}


async def outlives(job: Job) -> dict[str, Any]:
    async with daemon(job, hurry=True) as mcpdo:
        plainly = await mcpdo.call(*job.slow)
        return {"plain": plainly.first_sentence, **(await mcpdo.call(*job.call, task=True)).outcome}


async def leave(job: Job) -> dict[str, Any]:
    async with wire(job.url) as seen, daemon(job, seen.url) as mcpdo:
        calling = asyncio.create_task(mcpdo.call(*job.call, task=True))
        tell(task=await seen.task_id())
        await calling
        await asyncio.sleep(60)  # until this process is killed, with the daemon
        return {}


async def resume(job: Job) -> dict[str, Any]:
    async with daemon(job) as mcpdo:
        if job.tool != "ask_name":
            return {"asked": [], **(await mcpdo.on("tasks/result", job.task)).outcome}
        asked = await (answer_update(mcpdo, job) if job.era == "modern" else answer_pending(mcpdo, job))
        return {"asked": asked, **(await mcpdo.on("tasks/result", job.task)).outcome}


async def answer_pending(mcpdo: Mcpdo, job: Job) -> list[str]:
    """The question of the older protocol arrives beside the status."""
    while "elicitationPending" not in (said := await mcpdo.on("tasks/get", job.task)).value:
        pass
    await mcpdo.respond(said, "accept")
    return [said.value["elicitationPending"]["message"]]


async def answer_update(mcpdo: Mcpdo, job: Job) -> list[str]:
    """The question of the newer protocol is part of the status."""
    while not (requests := (await mcpdo.on("tasks/get", job.task)).value["task"]["raw"].get("inputRequests")):
        pass
    answers = {key: {"action": "accept", "content": {"name": NAME}} for key in requests}
    await mcpdo.on("tasks/update", job.task, "--input-responses", json.dumps(answers))
    return [request["params"]["message"] for request in requests.values()]


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
