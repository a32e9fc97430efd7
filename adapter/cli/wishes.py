"""Signals as an event loop is told of them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from .signals import handled

T = TypeVar("T")

_GIVING_UP_SECONDS = 1.0


class Interrupted(Exception):
    """The user wants an end."""


class Wishes:
    """What the signals say: `to_end`, and with another Ctrl-C `to_leave`.

    Supervisors repeat SIGTERM; that says nothing new.
    """

    def __init__(self) -> None:
        self.to_end = asyncio.Event()
        self.to_leave = asyncio.Event()
        self._said = False
        self._prompting = False

    @contextmanager
    def heard(self, *, settles: bool = False) -> Iterator[None]:
        """A block, in the running loop, in which signals do nothing else. `settles`: see `handled`."""
        loop = asyncio.get_running_loop()

        def hear(number: int, _: FrameType | None) -> None:
            wish = self.to_leave if self._said and number == signal.SIGINT else self.to_end
            self._said = True
            loop.call_soon_threadsafe(wish.set)
            if self._prompting:  # the one wait that the loop cannot end
                raise KeyboardInterrupt

        with handled(hear, settles=settles):
            yield

    def prompted(self, read: Callable[[], str]) -> str:
        """What `read` returns, which blocks. Raises Interrupted for a signal meanwhile, or before."""
        line = ""
        try:
            self._prompting = True
            if not self._said:
                line = read()
        except KeyboardInterrupt:
            self._said = True
        finally:
            self._prompting = False
        if self._said:
            raise Interrupted
        return line


async def unless(wish: asyncio.Event, work: Awaitable[T], *, within: float | None = None) -> T:
    """The result of `work`. Raises Interrupted if `wish` comes first or `within` seconds are over, and where the
    work does."""
    task, waiting = asyncio.ensure_future(work), asyncio.create_task(wish.wait())
    await asyncio.wait((task, waiting), timeout=within, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done() and not wish.is_set():
        return await task
    while not task.done():  # again, since a library may take a cancellation for its own time-out
        task.cancel()
        await asyncio.wait((task,), timeout=_GIVING_UP_SECONDS)
    if task.cancelled() or task.exception() is not None:
        raise Interrupted
    return task.result()
