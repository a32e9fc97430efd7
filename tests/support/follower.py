"""A client that follows its tasks while they run, as fast as it may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from tests.support.adapter import Answer, Json, Mcp

SECONDS = 60.0
"""After which something awaited counts as not happening, also on a machine that is busy."""
ENDED = ("completed", "failed", "cancelled")


class Follower(Mcp):
    """Looks at a task every `pause` seconds, for `seconds`."""

    seconds = SECONDS
    pause = 0.02

    async def until(self, task_id: str, reached: Callable[[Json], bool], **options: Any) -> Json:
        """Polls until the task is as wanted."""
        async with asyncio.timeout(self.seconds):
            while not reached(task := await self.get(task_id, **options)):
                await asyncio.sleep(self.pause)
        return task

    async def caught(self, tool: str, seen: Callable[[Json], bool]) -> Json:
        """A new task, seen in what lasts but a second: a busy machine may miss that, and then starts another."""
        async with asyncio.timeout(self.seconds):
            while True:
                task_id = await self.start(tool)
                task = await self.until(task_id, lambda task: seen(task) or task["status"] in ENDED)
                if seen(task):
                    return task

    async def ended(self, task_id: str) -> Json:
        return await self.until(task_id, lambda task: task["status"] in ENDED)

    async def questions(self, task_id: str, count: int = 1) -> Json:
        """The open questions, once there are so many."""
        task = await self.until(task_id, lambda task: len(task.get("inputRequests", {})) == count)
        return cast(Json, task["inputRequests"])

    async def update(self, task_id: str, answers: Json, **options: Any) -> Answer:
        params = {"taskId": task_id, "inputResponses": answers}
        return await self.call("tasks/update", params, **options)

    async def cancel(self, task_id: str) -> Answer:
        return await self.call("tasks/cancel", {"taskId": task_id})
