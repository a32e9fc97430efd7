"""One event loop and one set of clients per container, kept from one invocation to the next."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Container(Generic[T]):
    """What a function needs, opened once on a loop that lives as long as the container.

    It is opened when the module is imported, where CPU time is not billed, but not before a snapshot is taken:
    what a snapshot holds would be shared by every container restored from it.
    """

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._opened = opened
        self._runner = asyncio.Runner()
        self._context: AbstractAsyncContextManager[T] | None = None
        self._value: T | None = None
        if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "on-demand":
            self._runner.run(self._open())

    def run(self, use: Callable[[T], Awaitable[R]]) -> R:
        """The result of `use`, whatever an earlier invocation came to."""
        return self._runner.run(self._use(use))

    async def _use(self, use: Callable[[T], Awaitable[R]]) -> R:
        return await use(await self._open())

    async def _open(self) -> T:
        if self._value is None:
            context = self._opened()
            self._value = await context.__aenter__()
            self._context = context
        return self._value
