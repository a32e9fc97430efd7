"""Following a task on behalf of one request: its changes, within a time, while the client is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from adapter.tasks.model import Task
from adapter.tasks.watcher import Watcher

from . import sse


class ClientGone(Exception):
    """The client closed its connection, or cancelled its request, before the reply."""


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Returns when one of these does."""
    waiting = {asyncio.ensure_future(wait()) for wait in waits}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waiting:
            wait.cancel()


async def follow(
    watcher: Watcher, task_id: str, owner: str, *, seconds: float | None, gone: Callable[[], Awaitable[None]]
) -> AsyncGenerator[Task | None, None]:
    """The task now and at each change, until it ends or `seconds` are over; None now and then meanwhile.

    Raises ClientGone once `gone` returns, and TaskNotFound.
    """
    loop = asyncio.get_running_loop()
    over = None if seconds is None else loop.time() + seconds
    left: asyncio.Future[None] = asyncio.ensure_future(gone())
    pending: asyncio.Future[Task | None] | None = None
    try:
        async with aclosing(watcher.changes(task_id, owner)) as changes:
            try:
                while over is None or loop.time() < over:
                    pending = pending or asyncio.ensure_future(anext(changes, None))
                    patience = (
                        sse.KEEP_ALIVE_SECONDS
                        if over is None
                        else min(over - loop.time(), sse.KEEP_ALIVE_SECONDS)
                    )
                    waited: set[asyncio.Future[Any]] = {pending, left}
                    await asyncio.wait(waited, timeout=max(patience, 0), return_when=asyncio.FIRST_COMPLETED)
                    if left.done():
                        raise ClientGone
                    if not pending.done():
                        if over is None or loop.time() < over:
                            yield None
                        continue
                    update, pending = pending.result(), None
                    if update is None:
                        return
                    yield update
            finally:
                await _let_go(pending)
    finally:
        left.cancel()


async def _let_go(pending: asyncio.Future[Any] | None) -> None:
    """End a read that is under way, so that its generator can be closed."""
    if pending is not None and not pending.done():
        pending.cancel()
        await asyncio.wait({pending})
