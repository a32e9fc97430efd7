"""A simulated Step Functions with the quotas of an account, and an event bus that keeps no promises.

Time is the event loop's. What is simulated is the client of the AWS SDK, so that the adapter's own code runs above it.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

EPOCH = 1_800_000_000
"""The time at which every simulation begins, in epoch seconds."""
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:work"
QUOTAS = {
    "StartExecution": (1300, 300),
    "DescribeExecution": (300, 15),
    "StopExecution": (1000, 200),
    "GetExecutionHistory": (400, 20),
    "ListExecutions": (200, 5),
}
"""Bucket and refill per second of an account in us-east-1, us-west-2 or eu-west-1."""
CALL_SECONDS = (0.02, 0.08)
"""How long a call takes."""
LAG_SECONDS = 0.5
"""DescribeExecution and ListExecutions show the past, at most so long ago."""
ATTEMPTS = 3

# How executions end, and with which share. Events of the last three tell that they ended, but not how.
ENDINGS = {
    "SUCCEEDED": 0.94,
    "TIMED_OUT": 0.01,
    "FAILED": 0.03,
    "ABORTED": 0.01,
    "SUCCEEDED LARGE": 0.01,
}


def epoch_ms() -> int:
    """The simulated time."""
    return EPOCH * 1000 + int(asyncio.get_running_loop().time() * 1000)


class Bucket:
    """A token bucket as AWS has it: a refused call takes no token."""

    def __init__(self, size: float, refill: float) -> None:
        self._size = self._tokens = max(size, 1.0)
        self._refill = refill
        self._then = 0.0

    def take(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._tokens = min(self._size, self._tokens + (now - self._then) * self._refill)
        self._then = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@dataclass(slots=True, eq=False)
class Execution:
    """One execution; times are seconds of the loop."""

    name: str
    started: float
    ends: float
    status: str
    told: float | None = None
    """When its first event arrived."""
    written: float | None = None
    """When its record held the end."""
    seen: float | None = None
    """When its client's poll showed the end."""

    @property
    def arn(self) -> str:
        return f"{MACHINE.replace(':stateMachine:', ':execution:')}:{self.name}"

    @property
    def is_told_fully(self) -> bool:
        return self.status in ("SUCCEEDED", "TIMED_OUT")


@dataclass(slots=True)
class Calls:
    """Attempts, and how many of them were throttled, by operation."""

    made: Counter[str] = field(default_factory=Counter)
    throttled: Counter[str] = field(default_factory=Counter)


class StepFunctionsClient:
    """What `StepFunctions` calls. Executions run until their time comes; `ended` is told then."""

    def __init__(
        self, scale: float, random: Random, lifetime: Callable[[], float], ended: Callable[[Execution], None]
    ) -> None:
        self.meta = SimpleNamespace(events=SimpleNamespace(register=lambda *_, **__: None))
        self.calls = Calls()
        self.executions: dict[str, Execution] = {}
        self._running: dict[str, Execution] = {}
        self._random = random
        self._lifetime = lifetime
        self._ended = ended
        self._buckets = {
            name: Bucket(size * scale, refill * scale) for name, (size, refill) in QUOTAS.items()
        }
        self._lists: dict[str, list[str]] = {}

    def begin(self, name: str, *, age: float, lasts: float) -> Execution:
        """An execution that has run for `age` seconds and will for `lasts` more."""
        loop = asyncio.get_running_loop()
        status = self._random.choices(list(ENDINGS), list(ENDINGS.values()))[0]
        execution = Execution(name, loop.time() - age, loop.time() + lasts, status)
        self.executions[name] = self._running[name] = execution
        loop.call_at(execution.ends, self._end, execution)
        return execution

    async def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:  # noqa: A002, N803
        await self._called("StartExecution")
        execution = self.executions.get(name) or self.begin(name, age=0, lasts=self._lifetime())
        return {"executionArn": execution.arn}

    async def describe_execution(self, *, executionArn: str) -> dict[str, Any]:  # noqa: N803
        await self._called("DescribeExecution")
        execution = self.executions[executionArn.rpartition(":")[2]]
        seen_at = asyncio.get_running_loop().time() - self._random.uniform(0, LAG_SECONDS)
        return described(execution) if seen_at >= execution.ends else {"status": "RUNNING"}

    async def get_execution_history(self, **_: Any) -> dict[str, Any]:
        await self._called("GetExecutionHistory")
        details = {"name": "Work"}
        return {"events": [{"type": "TaskStateEntered", "stateEnteredEventDetails": details}]}

    async def list_executions(
        self,
        *,
        nextToken: str | None = None,  # noqa: N803
        maxResults: int,  # noqa: N803
        **_: Any,
    ) -> dict[str, Any]:
        await self._called("ListExecutions")
        listed = self._lists.pop(nextToken) if nextToken else list(self._running)
        page = {"executions": [{"name": name} for name in listed[:maxResults]]}
        if len(listed) > maxResults:
            token = f"page-{self.calls.made['ListExecutions']}"
            self._lists[token] = listed[maxResults:]
            page["nextToken"] = token  # type: ignore[assignment]
        return page

    async def _called(self, operation: str) -> None:
        """As the SDK calls it: a throttled attempt is followed by another, after a random pause that grows."""
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(self._random.uniform(*CALL_SECONDS))
            self.calls.made[operation] += 1
            if self._buckets[operation].take():
                return
            self.calls.throttled[operation] += 1
            if attempt + 1 < ATTEMPTS:
                await asyncio.sleep(self._random.random() * 2**attempt)
        raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, operation)

    def _end(self, execution: Execution) -> None:
        del self._running[execution.name]
        self._ended(execution)


def described(execution: Execution) -> dict[str, Any]:
    """What DescribeExecution says of an execution that has ended."""
    reply: dict[str, Any] = {
        "executionArn": execution.arn,
        "status": execution.status.split()[0],
        "stopDate": datetime.fromtimestamp(EPOCH + execution.ends, UTC),
    }
    if reply["status"] == "SUCCEEDED":
        reply["output"] = '{"rows":1834}'
    elif reply["status"] != "TIMED_OUT":
        reply |= {"error": "Broken", "cause": "It broke"}
    return reply


class EventBus:
    """Loses `lost` of the events, delivers 1 % twice, and each after a time of its own, so in any order.

    Delays: log-normal, half of them above 0.5 s, 1 in 100 above 3.2 s; besides, 1 in 200 takes 10 to 60 s.
    """

    def __init__(
        self, random: Random, lost: float, deliver: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        self._random = random
        self._lost = lost
        self._deliver = deliver
        self._deliveries: set[asyncio.Future[None]] = set()
        self.sent = self.dropped = self.delivered = 0

    def send(self, event: dict[str, Any]) -> None:
        self.sent += 1
        if self._random.random() < self._lost:
            self.dropped += 1
            return
        for _ in range(2 if self._random.random() < 0.01 else 1):
            asyncio.get_running_loop().call_later(self._delay(), self._start, event)

    def _delay(self) -> float:
        slow = self._random.uniform(10, 60) if self._random.random() < 0.005 else 0
        return self._random.lognormvariate(math.log(0.5), 0.8) + slow

    def _start(self, event: dict[str, Any]) -> None:
        self.delivered += 1
        delivery = asyncio.ensure_future(self._deliver(event))
        self._deliveries.add(delivery)
        delivery.add_done_callback(self._deliveries.discard)


def status_event(execution: Execution, *, ended: bool) -> dict[str, Any]:
    """The EventBridge event, as Step Functions sends it."""
    detail: dict[str, Any] = {
        "executionArn": execution.arn,
        "stateMachineArn": MACHINE,
        "name": execution.name,
        "status": execution.status.split()[0] if ended else "RUNNING",
        "startDate": int((EPOCH + execution.started) * 1000),
        "stopDate": int((EPOCH + execution.ends) * 1000) if ended else None,
        "input": "{}",
        "output": None,
        "outputDetails": None,
    }
    if ended and execution.status == "SUCCEEDED":
        detail |= {"output": '{"rows":1834}', "outputDetails": {"included": True}}
    if ended and execution.status == "SUCCEEDED LARGE":
        detail["outputDetails"] = {"included": False}
    return {"source": "aws.states", "detail-type": "Step Functions Execution Status Change", "detail": detail}


def percentiles(values: Iterable[float], *percents: float) -> list[float]:
    """NaN where there are no values."""
    ordered = sorted(values)
    if not ordered:
        return [math.nan] * len(percents)
    return [ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] for percent in percents]
