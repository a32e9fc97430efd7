"""What runs at one look, as the job system lists it."""

from __future__ import annotations

import asyncio

from adapter.errors import EngineUnavailable

from .clock import Clock
from .engine import Engine

THROTTLED_SECONDS = 1.0
"""The pause before a list that was throttled is asked for again; 2 to 5 a second are granted."""


class RunningLists:
    """The running executions of targets, each target listed once, when it is first asked for.

    A list that is throttled is asked for again until the clock reads `patience` (epoch milliseconds): lists have a
    quota of their own, and with many state machines a run uses it up.
    """

    def __init__(self, engine: Engine, clock: Clock, patience: int) -> None:
        self._engine = engine
        self._clock = clock
        self._patience = patience
        self._is_listed: dict[str, bool] = {}
        self._targets: dict[str, str] = {}
        self._one_at_a_time = asyncio.Lock()

    async def lists(self, target: str) -> bool:
        """Whether it is known what runs of this target; where False, that a name is missing means nothing."""
        if target not in self._is_listed:
            async with self._one_at_a_time:
                if target not in self._is_listed:
                    self._is_listed[target] = await self._list(target)
        return self._is_listed[target]

    def target_of(self, name: str) -> str | None:
        """The target of which an execution of this name runs, as far as targets are listed."""
        return self._targets.get(name)

    async def _list(self, target: str) -> bool:
        while True:
            try:
                names = await self._engine.running(target)
            except EngineUnavailable as problem:
                if not problem.throttled or self._clock() >= self._patience:
                    return False
            else:
                self._targets |= dict.fromkeys(names, target)
                return True
            await asyncio.sleep(THROTTLED_SECONDS)
