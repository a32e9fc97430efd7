"""The Inspector's one-shot command line (`mcp-inspector --cli`)."""

from __future__ import annotations

import json
from typing import Any

from driver import GREET, Job, continued, drive, text_of_json
from inspector import Program, Said, wire


def cli(job: Job, *, hurry: bool = False) -> Program:
    return Program(job, "launcher/build/index.js", {}, hurry=hurry)


async def run(program: Program, job: Job, *arguments: str, url: str | None = None) -> Said:
    server = ["--cli", url or job.url, "--transport", "http", "--protocol-era", job.era, "--format", "json"]
    return await program.run(*server, *arguments)


async def call(
    program: Program, job: Job, name: str, arguments: dict[str, Any], url: str | None = None
) -> Said:
    called = ["--method", "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments)]
    return await run(program, job, *called, url=url)


async def list_tools(job: Job) -> dict[str, Any]:
    program = cli(job)
    hello = await run(program, job, "--method", "initialize")
    tools = (await run(program, job, "--method", "tools/list")).value["result"]["tools"]
    support = {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in tools}
    return {"protocol": hello.value["result"]["protocolVersion"], "tools": support}


async def plain(job: Job) -> dict[str, Any]:
    return (await call(cli(job), job, *GREET)).outcome


async def companions(job: Job) -> dict[str, Any]:
    if job.era == "modern":
        return await declarations(job)
    program = cli(job)

    async def call_tool(name: str, arguments: dict[str, Any]) -> tuple[str, Any]:
        result = (await call(program, job, name, arguments)).value["result"]
        return text_of_json(result["content"]), result.get("structuredContent")

    return await continued(call_tool, job)


async def task(job: Job) -> dict[str, Any]:
    return (await call(cli(job), job, *job.call)).outcome


async def declarations(job: Job) -> dict[str, Any]:
    """What this program says it can do, read off the wire: it is the same in every call."""
    async with wire(job.url) as seen:
        await call(cli(job), job, *GREET, url=seen.url)
        declared = seen.declared()
    return {
        "declares_tasks": any("io.modelcontextprotocol/tasks" in d.get("extensions", {}) for d in declared),
        "declares_elicitation": any("elicitation" in d for d in declared),
    }


async def refused(job: Job, method: str) -> dict[str, Any]:
    return {"refused": (await run(cli(job), job, "--method", method)).first_sentence}


async def cancel(job: Job) -> dict[str, Any]:
    return await refused(job, "tasks/cancel")


async def outlives(job: Job) -> dict[str, Any]:
    program = cli(job, hurry=True)
    plainly = await call(program, job, *job.slow)
    return {"plain": plainly.first_sentence, **(await call(program, job, *job.call)).outcome}


async def leave(job: Job) -> dict[str, Any]:
    return await refused(job, "tasks/result")


drive(
    {
        "list": list_tools,
        "plain": plain,
        "continued": companions,
        "task": task,
        "accept": declarations,
        "decline": declarations,
        "tool_error": task,
        "rpc_error": task,
        "cancel": cancel,
        "outlives": outlives,
        "leave": leave,
    }
)
