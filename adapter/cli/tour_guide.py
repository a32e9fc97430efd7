"""What the steps of the tour share: calls, waiting, expectations, and a voice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from .answers import Answers
from .client import JsonObject, McpClient, RequestRefused
from .display import Display
from .following import ENDED, Follower

_LOOK_SECONDS = 0.2


class Surprise(Exception):
    """Something went otherwise than it should."""


def expect(condition: object, otherwise: str) -> None:
    """Raises Surprise."""
    if not condition:
        raise Surprise(otherwise)


class Guide:
    """`client` declares the tasks extension, `simple` does not; `say` tells one sentence."""

    def __init__(self, client: McpClient, simple: McpClient, say: Callable[[str], None]) -> None:
        self.client = client
        self.simple = simple
        self.say = say
        self.tools: dict[str, JsonObject] = {}

    async def run(self, tool: str, answers: Sequence[JsonObject] = (), **arguments: object) -> JsonObject:
        """Call a tool as `adapter call` does and follow it to its end; status messages are told."""
        given = Answers(answers, decline=True, terminal=None)
        follower = Follower(self.client, given, _Told(self.say), patience=5.0)
        return await follower.start(self.tools[tool], arguments)

    async def start(self, tool: str, **arguments: object) -> JsonObject:
        """The handle of a new task."""
        task = await self.client.call_tool(self.tools[tool], {"arguments": arguments})
        expect(task.get("resultType") == "task", f"there is no task, but {task}")
        self.say(f"The call returned at once with task {task['taskId']}, {task['status']}.")
        return task

    async def until(self, task: JsonObject, *statuses: str) -> JsonObject:
        """The task once it has one of the statuses. Raises Surprise where it ended with another."""
        while True:
            task = await self.client.on_task("tasks/get", task["taskId"])
            if task["status"] in statuses:
                return task
            expect(task["status"] not in ENDED, f"the task is {task['status']}, not {' or '.join(statuses)}")
            await asyncio.sleep(_LOOK_SECONDS)

    async def until_asked(self, task: JsonObject) -> tuple[str, JsonObject]:
        """The key and the request of the one question that a task asks."""
        task = await self.until(task, "input_required")
        requests: JsonObject = task["inputRequests"]
        expect(len(requests) == 1, f"it asks {len(requests)} questions, not one")
        key, request = next(iter(requests.items()))
        self.say(f"The running workflow asks: {request['params']['message']}")
        return key, request

    async def answer(self, task: JsonObject, key: str, response: JsonObject) -> None:
        await self.client.on_task("tasks/update", task["taskId"], inputResponses={key: response})

    async def refused(self, request: Awaitable[object], code: int) -> RequestRefused:
        """The JSON-RPC error of a request that has to fail."""
        try:
            await request
        except RequestRefused as refusal:
            expect(refusal.rpc_code == code, f"it was refused with {refusal.rpc_code}, not {code}")
            return refusal
        raise Surprise("it was not refused")


class _Told(Display):
    """Tells each status message once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: set[str] = set()

    def show(self, state: str, message: str | None) -> None:
        if message and message not in self._told:
            self._told.add(message)
            self._say(f"{state}: {message}")
