"""Clients of the deployed API, of both eras. They check every message, as everywhere in the tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from adapter.main import Parts
from adapter.mcp.exchange import Frame, Reply, Request
from tests.support import legacy
from tests.support.follower import Follower

from .deployment import Account
from .emulator import REGION

PATIENCE = 60.0
"""Seconds for one request: the process of a function takes some to start on a busy machine."""


class SigV4(httpx.Auth):
    """Signs requests with AWS credentials."""

    requires_request_body = True

    def __init__(self, account: Account) -> None:
        credentials = Credentials(account.key, account.secret, account.token)
        self._signer = SigV4Auth(credentials, "execute-api", REGION)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        said = {
            name: value
            for name, value in request.headers.items()
            if name.startswith(("content-type", "mcp-"))
        }
        signed = AWSRequest(request.method, str(request.url), data=request.content, headers=said)
        self._signer.add_auth(signed)
        request.headers.update(dict(signed.headers))
        yield request


class Bearer(httpx.Auth):
    """Shows an access token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["authorization"] = f"Bearer {self._token}"
        yield request


class RemoteEndpoint:
    """Takes the place of an endpoint in this process: sends requests to a URL."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._url = url
        self._client = client

    async def handle(self, request: Request) -> Reply:
        headers = {name: value for name, value in (request.headers or {}).items() if name != "host"}
        reply = await self._client.request(request.method, self._url, content=request.body, headers=headers)
        told = _of_the_function(reply)
        if told.get("content-type") == "text/event-stream":
            return Reply(reply.status_code, told, _frames(reply.content))
        return Reply(reply.status_code, told, reply.content)


def _of_the_function(reply: httpx.Response) -> dict[str, str]:
    """Without what the gateway adds, such as a content type where there is no content."""
    added = ("x-amz", "date", "content-length", *(() if reply.content else ("content-type",)))
    return {
        name.lower(): value for name, value in reply.headers.items() if not name.lower().startswith(added)
    }


async def _frames(body: bytes) -> AsyncGenerator[Frame, None]:
    """The events of a whole stream; what only keeps a line open is left out by the function."""
    for chunk in body.split(b"\n\n")[:-1]:
        event = legacy.read_event(chunk + b"\n\n")
        message = chunk.partition(b"data: ")[2] if event.message is not None else None
        yield Frame(message, event_id=event.id, retry_ms=event.retry)


class Caller(Follower):
    """A client of 2026-07-28."""

    patience = PATIENCE

    def __init__(self, endpoint: RemoteEndpoint) -> None:
        self.parts = cast(Parts, SimpleNamespace(endpoint=endpoint))

    async def legacy(self, capabilities: dict[str, Any] | None = None) -> legacy.LegacyClient:
        """A client of 2025-11-25 with the same credentials."""
        return await legacy.LegacyClient.opened(self, capabilities=capabilities)


@asynccontextmanager
async def calling(url: str, auth: httpx.Auth | None) -> AsyncIterator[Caller]:
    async with httpx.AsyncClient(timeout=PATIENCE, auth=auth) as client:
        yield Caller(RemoteEndpoint(url, client))
