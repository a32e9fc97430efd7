"""Runs operations of the service one step at a time, so that a test decides what happens between any two.

Every call of a store or a job system stops twice: before its work is done, and after it, before the caller knows.
"""

from __future__ import annotations

import asyncio
import inspect
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import pytest

from adapter.errors import EngineUnavailable, StartUncertain, StoreUnavailable
from adapter.tasks.engine import Engine
from adapter.tasks.pacing import DescribeBudget
from adapter.tasks.service import TaskService
from adapter.tasks.store import TaskStore
from tests.tasks.world import Policy, World

CRASHES = ("killed", "cancelled")


@dataclass(frozen=True)
class Step:
    """Where an operation stands. `done`: the work was done, and its reply is still to come."""

    part: Literal["store", "engine"]
    call: str
    done: bool

    def failure(self) -> Exception:
        """What the part would raise here: not reached, or the reply is lost."""
        if self.part == "store":
            return StoreUnavailable()
        return StartUncertain() if self.call == "start" else EngineUnavailable()


@types.coroutine
def pause(step: Step) -> Generator[Step, None, None]:
    yield step


class Stepped:
    """A store or job system whose calls stop before and after their work."""

    def __init__(self, part: object, name: Literal["store", "engine"]) -> None:
        self._part = part
        self._name = name

    def __getattr__(self, method: str) -> Any:
        work = getattr(self._part, method)
        if not inspect.iscoroutinefunction(work):
            return work

        async def call(*arguments: Any, **named: Any) -> Any:
            await pause(Step(self._name, method, done=False))
            result = await work(*arguments, **named)
            await pause(Step(self._name, method, done=True))
            return result

        return call


class Operation:
    """One request that is being served. It is `over` once it has a `result`, an `error`, or has crashed."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self.step: Step | None = None
        self.over = False
        self.result: Any = None
        self.error: Exception | None = None
        self._go(lambda: work.send(None))

    def advance(self) -> None:
        assert not self.over
        self._go(lambda: self._work.send(None))

    def reach(self, call: str, *, done: bool = False) -> Operation:
        """Goes on until it stands at this call."""
        while self.step is None or (self.step.call, self.step.done) != (call, done):
            self.advance()
        return self

    def fail(self) -> None:
        """The call that it stands at does not succeed, as far as the caller can tell."""
        assert self.step is not None
        error = self.step.failure()
        self._go(lambda: self._work.throw(error))

    def crash(self, how: str) -> None:
        """Its process dies, or its request is cancelled."""
        if how == "cancelled":
            with pytest.raises(asyncio.CancelledError):
                self._work.throw(asyncio.CancelledError())
        self._work.close()
        self.over = True

    def finish(self) -> Operation:
        while not self.over:
            self.advance()
        return self

    def _go(self, resume: Callable[[], Step]) -> None:
        try:
            self.step = resume()
        except StopIteration as stop:
            self.over, self.step, self.result = True, None, stop.value
        except Exception as error:  # noqa: BLE001 - whatever it is, the test judges it
            self.over, self.step, self.error = True, None, error


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of what nothing holds up."""
    operation = Operation(work)
    assert operation.over
    if operation.error is not None:
        raise operation.error
    return operation.result


def stepped_process(world: World, budget: DescribeBudget | None = None) -> TaskService:
    """Another instance of the server on the world's table, run by `Operation`."""
    return TaskService(
        cast(TaskStore, Stepped(world.memory, "store")),
        {"memory": cast(Engine, Stepped(world.jobs, "engine"))},
        Policy(),
        pace=world.pace,
        budget=budget or world.new_budget(),
        clock=world.clock,
    )


def interleavings(
    prepare: Callable[[], tuple[Any, list[Operation]]],
) -> Iterator[tuple[Any, list[Operation]]]:
    """Every order in which the steps of some operations can follow each other, each played to its end.

    `prepare` makes a new world and its operations, the same each time.
    """
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        order = waiting.pop()
        world, operations = prepare()
        for index in order:
            operations[index].advance()
        while running := [i for i, operation in enumerate(operations) if not operation.over]:
            waiting.extend((*order, other) for other in running[1:])
            order = (*order, running[0])
            operations[running[0]].advance()
        yield world, operations
