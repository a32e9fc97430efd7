"""What all drivers in Python share. A driver does one job and tells what it saw, one JSON object a line.

It runs in the environment of its client, so it needs nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

NAME = "Ada"
GREET = ("greet", {"name": NAME})


class Job:
    """The first argument: {url, flow, era, tool, seconds, timeout_ms, environment, node, task}."""

    def __init__(self, text: str) -> None:
        job = json.loads(text)
        self.url: str = job["url"]
        self.flow: str = job["flow"]
        self.era: str = job["era"]
        self.tool: str = job["tool"]
        self.task: str = job["task"] or ""
        self.timeout: float = job["timeout_ms"] / 1000
        self.environment: str = job["environment"]
        self.node: str = job["node"]
        self.compute = ("compute", {"seconds": job["seconds"]})
        self.slow = ("compute_inline", {"seconds": job["seconds"]})
        self.call: tuple[str, dict[str, Any]] = (self.tool, _arguments(job))


def _arguments(job: Mapping[str, Any]) -> dict[str, Any]:
    return {"seconds": job["seconds"]} if job["tool"].startswith("compute") else {}


Flow = Callable[[Job], Coroutine[Any, Any, Mapping[str, Any]]]


def tell(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def drive(flows: Mapping[str, Flow]) -> None:
    """Run the job's flow and tell what it saw, or how it broke."""
    job = Job(sys.argv[1])
    try:
        tell(seen=asyncio.run(flows[job.flow](job)))
    except BaseException as problem:  # noqa: BLE001 - whatever it is, the runner has to know
        traceback.print_exc()
        tell(broke=f"{type(problem).__name__}: {problem}")
        sys.exit(1)


def shown(text: str, structured: object, is_error: bool | None) -> dict[str, Any]:
    """The result of a tool, as the runner compares it."""
    if structured is not None and not is_error:
        return {"structured": structured}
    return {"text": text, "is_error": True} if is_error else {"text": text}


def text_of(content: Any) -> str:
    return "".join(block.text for block in content)


def text_of_json(content: list[dict[str, Any]]) -> str:
    return "".join(block["text"] for block in content)


async def refusal(call: Awaitable[object], kind: type[BaseException]) -> BaseException:
    """The error of this kind that the call raises."""
    try:
        await call
    except kind as problem:
        return problem
    raise AssertionError("this was to fail, and did not")


CallTool = Callable[[str, dict[str, Any]], Awaitable[Any]]


async def continued(call_tool: CallTool, job: Job) -> dict[str, Any]:
    """What a host does that knows no tasks: a plain call that takes too long, continued by a companion tool."""
    text, _ = await call_tool(*job.compute)
    found = re.search(r"task id is (\S+)\.", text)
    assert found is not None, text
    result, structured = await call_tool("task_result", {"task_id": found[1]})
    return {"first": text.split(" after ")[0], "text": result, "status": structured["status"]}


class Person:
    """Answers every question in the same way. `asked`: the messages that it was asked with."""

    def __init__(self, action: str = "accept") -> None:
        self.action = action
        self.asked: list[str] = []

    @property
    def content(self) -> dict[str, Any] | None:
        return {"name": NAME} if self.action == "accept" else None

    async def ask(self, message: str) -> None:
        """Returns when there is an answer: never, where the action is `never`."""
        self.asked.append(message)
        if self.action == "never":
            await asyncio.Event().wait()
