"""`before_start` for legacy clients: the server asks on the stream of the call that waits (L-48, D9).

The answers arrive as messages of their own, perhaps at another process: they are read from the store.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from typing import Any

import orjson

from adapter.errors import InvalidAnswer, StoreUnavailable
from adapter.tasks.service import TaskService
from adapter.tools.tool import Tool

from . import sse
from .access import accepts_events
from .exchange import KEEP_ALIVE, Frame
from .following import ClientGone
from .legacy_call import LegacyCall
from .offers import Offers
from .rounds import Ask, CannotAsk, Go, Said
from .starting import NotStarted, Starter

ANSWER_SECONDS = 600.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class Asking:
    """Decides what to start, asking the client first where the tool says so."""

    def __init__(self, starter: Starter, service: TaskService, offers: Offers) -> None:
        self._starter = starter
        self._service = service
        self._offers = offers

    async def steps(
        self, tool: Tool, arguments: dict[str, Any], call: LegacyCall
    ) -> AsyncGenerator[Frame | Go, None]:
        """Requests on this stream until all is answered, then what to start. Raises NotStarted, ClientGone."""
        said = Said(tool, arguments, call.owner, call.session.takes)
        decision = self._decide(said)
        while isinstance(decision, Ask):
            _check_reachable(call)
            ask = secrets.token_urlsafe(12)
            requests = decision.result["inputRequests"]
            for message in self._offers.before_start(ask, requests, call.session, call.owner):
                yield Frame(message)
            async for _ in self._until_answered(ask, len(requests), call):
                yield KEEP_ALIVE
            replies = await self._service.replies(ask)
            responses = {key: orjson.loads(reply) for key, reply in replies.items()}
            state = decision.result["requestState"]
            decision = self._decide(Said(tool, arguments, call.owner, call.session.takes, responses, state))
        yield decision

    def _decide(self, said: Said) -> Ask | Go:
        try:
            return self._starter.decide(said)
        except CannotAsk as problem:
            reason = f"{problem}, and this client has not said that it can take such a request"
            raise NotStarted(f"Nothing was started: {reason}") from None
        except InvalidAnswer as problem:
            raise NotStarted(f"Nothing was started: the answer to {problem.key!r}: {problem.rule}") from None

    async def _until_answered(self, ask: str, count: int, call: LegacyCall) -> AsyncGenerator[None, None]:
        """Ends when there are `count` replies; yields now and then. Raises NotStarted, ClientGone."""
        loop = asyncio.get_running_loop()
        over, told, pause = loop.time() + ANSWER_SECONDS, loop.time(), _SHORTEST_PAUSE
        gone: asyncio.Future[None] = asyncio.ensure_future(call.gone())
        try:
            while not await self._has(ask, count):
                if loop.time() > over:
                    raise NotStarted("Nothing was started: no answer came in time")
                await asyncio.wait({gone}, timeout=pause)
                if gone.done():
                    raise ClientGone
                pause = min(pause * 1.5, _LONGEST_PAUSE)
                if loop.time() - told > sse.KEEP_ALIVE_SECONDS:
                    told = loop.time()
                    yield
        finally:
            gone.cancel()

    async def _has(self, ask: str, count: int) -> bool:
        try:
            return len(await self._service.replies(ask)) >= count
        except StoreUnavailable:
            return False


def _check_reachable(call: LegacyCall) -> None:
    """Only a live stream reaches a client that is to answer now."""
    if not accepts_events(call.request.headers):
        raise NotStarted("Nothing was started: this tool asks first, and the client accepts no event stream")
    if call.request.seconds_left is not None:
        raise NotStarted(
            "Nothing was started: this tool asks first, and this server's replies are sent in one piece. "
            "Use a client of protocol version 2026-07-28, or another transport"
        )
