"""Whether some attempt of a call was lost: sent, and without a reply that tells what became of it.

The SDK retries inside one call, and only the last attempt's error comes out of it. A throttle that follows a
lost attempt says nothing about that attempt, so a start that ends with it may have happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from aiohttp import ClientConnectorError
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError, SSLError

if TYPE_CHECKING:
    from aiobotocore.client import AioBaseClient

_REQUEST_TIMEOUT = 408
_SERVER_ERROR = 500


class Attempts:
    """The attempts of one call: how many were sent, and of how many it is known what became of them."""

    __slots__ = ("sent", "settled")

    def __init__(self) -> None:
        self.sent = 0
        self.settled = 0

    @property
    def lost(self) -> bool:
        return self.sent > self.settled


_current: ContextVar[Attempts | None] = ContextVar("attempts", default=None)


def watch(client: AioBaseClient, event: str) -> None:
    """Count the attempts of an operation, such as `sfn.StartExecution`, in what `counted` yields."""
    events = client.meta.events
    events.register(f"before-send.{event}", _sending, unique_id=f"attempts-sent-{event}")
    events.register(f"response-received.{event}", _replied, unique_id=f"attempts-settled-{event}")


@contextmanager
def counted() -> Iterator[Attempts]:
    """The attempts of the one call that is made inside."""
    token = _current.set(attempts := Attempts())
    try:
        yield attempts
    finally:
        _current.reset(token)


def _sending(**_: object) -> None:
    if attempts := _current.get():
        attempts.sent += 1


def _replied(
    *, response_dict: dict[str, object] | None = None, exception: Exception | None = None, **_: object
) -> None:
    attempts = _current.get()
    if attempts and (_is_definite(response_dict) if response_dict else _never_sent(exception)):
        attempts.settled += 1


def _is_definite(response: dict[str, object]) -> bool:
    status = response["status_code"]
    return isinstance(status, int) and status < _SERVER_ERROR and status != _REQUEST_TIMEOUT


def _never_sent(exception: Exception | None) -> bool:
    """The connection could not be made, so that no byte of the request left."""
    if isinstance(exception, EndpointConnectionError):  # also a reset of a connection that was made
        return isinstance(exception.kwargs.get("error"), ClientConnectorError)
    return isinstance(exception, ConnectTimeoutError | ProxyConnectionError | SSLError)
