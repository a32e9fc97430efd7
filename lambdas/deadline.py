"""A limit for the work of each invocation, by one timer for all of them.

A timer per invocation (`asyncio.timeout`) costs an eighth of what a warm invocation costs besides its AWS calls: all
those that were cancelled stay in the loop's queue for as long as they were to run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

R = TypeVar("R")


class Deadline:
    """For one piece of work at a time."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._at = 0.0

    async def within(self, seconds: float, work: Awaitable[R]) -> R:
        """The result of `work`. Raises TimeoutError if it takes longer."""
        loop = asyncio.get_running_loop()
        self._task, self._at = asyncio.current_task(), loop.time() + seconds
        if self._timer is None or self._timer.when() > self._at:
            self._arm(loop)
        try:
            return await work
        except asyncio.CancelledError:
            raise TimeoutError from None
        finally:
            self._task = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._at, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """The timer may be that of an earlier invocation."""
        self._timer = None
        if self._task is None:
            return
        if loop.time() < self._at:
            self._arm(loop)
        else:
            self._task.cancel()
