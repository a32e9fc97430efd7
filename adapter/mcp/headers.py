"""Request headers of 2026-07-28: routing headers, the base64 sentinel, mirrored arguments."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from adapter.tools.schema import HeaderParameter

from .jsonrpc import HEADER_MISMATCH, JsonObject, RpcError, shown

Headers = Mapping[str, str]

VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d{1,3})?")
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")


def joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Names (in lower case) with their values; those of a name sent twice are joined, as RFC 9110 says."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def mismatch(message: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, message, status=400)


def header(headers: Headers, name: str) -> str | None:
    """The value without surrounding white space; None where absent. Raises -32020 for non-visible characters."""
    value = headers.get(name)
    if value is None:
        return None
    value = value.strip(" \t")
    if not value.isascii() or not value.isprintable():
        raise mismatch(f"Header {name}: only visible ASCII characters are allowed")
    return value


def decoded_header(headers: Headers, name: str) -> str | None:
    """As `header`, with the base64 sentinel decoded (R-38). Raises -32020 for a sentinel that does not decode."""
    value = header(headers, name)
    sentinel = None if value is None else _SENTINEL.fullmatch(value)
    if sentinel is None:
        return value
    try:
        return b64decode(sentinel[1].encode(), validate=True).decode("utf-8")
    except (Base64Error, ValueError):
        raise mismatch(f"Header {name}: the base64 value does not decode to UTF-8 text") from None


def check_version(headers: Headers, body_version: str) -> None:
    value = header(headers, VERSION)
    if value != body_version:
        raise mismatch(f"Header {VERSION} {_said(value)}; the body's _meta says {shown(body_version)}")


def check_method(headers: Headers, method: str) -> None:
    value = header(headers, METHOD)
    if value != method:
        raise mismatch(f"Header {METHOD} {_said(value)}; the body's method is {shown(method)}")


def check_name(headers: Headers, expected: object, *, required: bool) -> None:
    """`Mcp-Name` against the member of `params` that it mirrors.

    On tasks/* a missing header is accepted, since clients in use leave it out; a different one is not. A member
    that is no string cannot be repeated: the method itself refuses it.
    """
    value = decoded_header(headers, NAME)
    if value is None and not (required and isinstance(expected, str)):
        return
    if value != expected:
        raise mismatch(f"Header {NAME} {_said(value)}; the body says {shown(expected)}")


def check_parameters(headers: Headers, parameters: Sequence[HeaderParameter], arguments: JsonObject) -> None:
    """Each `x-mcp-header` argument against its header (R-71, R-72)."""
    for parameter in parameters:
        argument = _at(arguments, parameter.path)
        value = decoded_header(headers, parameter.name)
        if argument is None and value is None:
            continue
        where = ".".join(parameter.path)
        if argument is None:
            raise mismatch(f"Header {parameter.name} is sent, but argument {where!r} is not")
        if value is None:
            raise mismatch(f"Header {parameter.name} is missing; it must repeat argument {where!r}")
        if not _same(value, argument):
            raise mismatch(f"Header {parameter.name} differs from argument {where!r}")


def _said(value: str | None) -> str:
    return "is missing" if value is None else f"says {shown(value)}"


def _at(arguments: JsonObject, path: Sequence[str]) -> object:
    node: object = arguments
    for step in path:
        if not isinstance(node, Mapping):
            return None
        node = node.get(step)
    return node


def _same(text: str, argument: object) -> bool:
    if isinstance(argument, bool):
        return text == ("true" if argument else "false")
    if isinstance(argument, (int, float)):
        return _NUMBER.fullmatch(text) is not None and Decimal(text) == Decimal(str(argument))
    return text == argument
