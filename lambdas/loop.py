"""One event loop and one set of clients per container, kept from one invocation to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, Self, TypeVar

from .context import may_open_now

T = TypeVar("T")
R = TypeVar("R")


class Container(Generic[T]):
    """What a function needs, opened once on a loop that lives as long as the container.

    It is opened when the module is imported (see `may_open_now`), else by the first invocation. As a context
    manager it closes what it opened; Lambda only ever ends the process.
    """

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._opened = opened
        self._runner = asyncio.Runner()
        self._context: AbstractAsyncContextManager[T] | None = None
        self._value: T | None = None
        if may_open_now():
            self._run(self._open())

    def run(self, use: Callable[[T], Awaitable[R]]) -> R:
        """The result of `use`, whatever an earlier invocation came to."""
        return self._run(self._use(use))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._context is not None:
            self._run(self._close(self._context))
        self._runner.close()

    def _run(self, work: Coroutine[object, object, R]) -> R:
        """Not by the runner's own `run`: that takes a seventh of a warm invocation to guard against Ctrl-C."""
        return self._runner.get_loop().run_until_complete(work)

    async def _use(self, use: Callable[[T], Awaitable[R]]) -> R:
        return await use(await self._open() if self._value is None else self._value)

    async def _open(self) -> T:
        context = self._opened()
        self._value = await context.__aenter__()
        self._context = context
        return self._value

    async def _close(self, context: AbstractAsyncContextManager[T]) -> None:
        await context.__aexit__(None, None, None)
