"""Reads the HTTP request in a Lambda event, and writes the reply that its source expects.

Four sources: REST API (payload 1.0), HTTP API and function URL (payload 2.0), application load balancer.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from adapter.mcp.headers import joined

JsonObject = Mapping[str, Any]


class UnknownEvent(Exception):
    """Not an HTTP request of one of the four sources."""


@dataclass(frozen=True, slots=True)
class HttpEvent:
    """One request. `path` is as the source tells it, perhaps with a stage or base path before it."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case; values of a name sent twice are joined."""
    body: bytes
    context: JsonObject
    """`requestContext`: what the gateway, not the client, says."""
    from_load_balancer: bool
    multi_value: bool

    def reply(self, status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        """The function's return value."""
        reply: dict[str, Any] = {
            "statusCode": status,
            "body": body.decode("utf-8"),
            "isBase64Encoded": False,
        }
        if self.from_load_balancer:
            reply["statusDescription"] = f"{status} {_phrase(status)}"
        if self.multi_value:
            reply["multiValueHeaders"] = {name: [value] for name, value in headers.items()}
        else:
            reply["headers"] = dict(headers)
        return reply


def read_event(event: object) -> HttpEvent:
    """Raises UnknownEvent."""
    if not isinstance(event, dict) or not isinstance(event.get("requestContext"), dict):
        raise UnknownEvent
    context = event["requestContext"]
    if isinstance(context.get("http"), dict):
        method, path = context["http"].get("method"), event.get("rawPath")
    else:
        method, path = event.get("httpMethod"), event.get("path")
    if not isinstance(method, str) or not isinstance(path, str):
        raise UnknownEvent
    several = event.get("multiValueHeaders")
    return HttpEvent(
        method=method.upper(),
        path=path,
        headers=_headers(event.get("headers")) | (_headers(several) if several else {}),
        body=_body(event),
        context=context,
        from_load_balancer="elb" in context,
        multi_value="elb" in context and isinstance(several, dict),
    )


def _headers(given: object) -> dict[str, str]:
    """A gateway may send one value of a name or a list of them, names that differ in case only, or null."""
    if not isinstance(given, dict):
        return {}
    plain = {name.lower(): value for name, value in given.items() if isinstance(value, str)}
    return plain if len(plain) == len(given) else joined(_pairs(given))


def _pairs(given: JsonObject) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str):
                yield name.lower(), each


def _body(event: JsonObject) -> bytes:
    """What does not decode stays as it is: the endpoint says then what is wrong with it."""
    body = event.get("body")
    if not isinstance(body, str):
        return b""
    raw = body.encode("utf-8", "surrogatepass")
    if not event.get("isBase64Encoded"):
        return raw
    try:
        return b64decode(raw, validate=True)
    except Base64Error:
        return raw


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
