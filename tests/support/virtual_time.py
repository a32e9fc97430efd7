"""An event loop whose time jumps to the next timer, so that a test of pauses takes none."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from tests.support.memory import ManualClock

P = ParamSpec("P")


class LoopClock(ManualClock):
    """Epoch milliseconds that move with the event loop, and when a test says so."""

    def __call__(self) -> int:
        return self.now + round(asyncio.get_running_loop().time() * 1000)


class _Jumping(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("everything waits, and nothing will ever happen")
        self.now += 0 if ready else max(timeout or 0, 0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs a test on such a loop, and expects that it leaves nothing running."""

    @functools.wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(_leaving_nothing(test(*arguments, **named)))

    return run


async def _leaving_nothing(test: Coroutine[Any, Any, None]) -> None:
    await test
    for _ in range(20):  # turns of the loop, for what has just been told to end
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"left running: {left}"
