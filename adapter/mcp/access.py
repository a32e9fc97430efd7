"""Checks on the HTTP request itself, before any JSON is read. Every transport that has headers shares them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from .jsonrpc import INVALID_REQUEST, RpcError

_IMPLIED_PORTS = {"http": ":80", "https": ":443"}


class Origins:
    """Web pages' origins, as an operator lists them; `*` stands for any."""

    def __init__(self, listed: Collection[str]) -> None:
        self._listed = {_plain(origin) for origin in listed}
        self._any = "*" in self._listed

    def __bool__(self) -> bool:
        return bool(self._listed)

    def __contains__(self, origin: str) -> bool:
        return self._any or _plain(origin) in self._listed

    @staticmethod
    def refusal(origin: str) -> RpcError:
        return _refusal(
            403, f"Origin {_plain(origin)!r} is not allowed; allow it with ADAPTER_ALLOWED_ORIGINS"
        )


class Access:
    """Which hosts and origins are served, and how large a body may be."""

    def __init__(self, hosts: Collection[str], origins: Collection[str], max_body_bytes: int) -> None:
        self._hosts = {host.lower() for host in hosts}
        self._any_host = "*" in self._hosts
        self._origins = Origins(origins)
        self.max_body_bytes = max_body_bytes

    def check(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raises RpcError with status 403, 413, 415 or 406."""
        self.check_source(headers)
        if len(body) > self.max_body_bytes:
            raise self.too_large()
        _check_content_type(headers.get("content-type", ""))
        _check_accept(headers.get("accept"))

    def check_source(self, headers: Mapping[str, str]) -> None:
        """Raises RpcError with status 403."""
        self._check_host(headers.get("host"))
        origin = headers.get("origin")
        if origin is not None:
            self._check_origin(origin)

    def too_large(self) -> RpcError:
        return _refusal(413, f"The body is larger than {self.max_body_bytes} bytes")

    def _check_host(self, host: str | None) -> None:
        if not self._any_host and host is not None and _host_name(host) not in self._hosts:
            raise _refusal(403, f"Host {host!r} is not served; allow it with ADAPTER_ALLOWED_HOSTS")

    def _check_origin(self, origin: str) -> None:
        if origin in self._origins:
            return
        try:
            address = urlsplit(_plain(origin)).netloc
        except ValueError:
            address = ""
        name = "" if "@" in address else _host_name(address)
        if name not in self._hosts:
            raise Origins.refusal(origin)


def _plain(origin: str) -> str:
    """As browsers send it: without the port that the scheme implies."""
    origin = origin.lower().rstrip("/")
    scheme, _, _ = origin.partition("://")
    return origin.removesuffix(_IMPLIED_PORTS.get(scheme, "/"))


def _host_name(host: str) -> str:
    """The name without port, brackets of an IPv6 address kept."""
    host = host.strip().lower()
    if host.startswith("["):
        address, bracket, _ = host.partition("]")
        return address + bracket
    return host.partition(":")[0]


def _check_content_type(value: str) -> None:
    if value.partition(";")[0].strip().lower() != "application/json":
        raise _refusal(415, "Send `Content-Type: application/json`")


def _check_accept(value: str | None) -> None:
    """Lenient (R-32): only a client that can take neither form of reply is refused."""
    if not value:
        return
    types = {part.partition(";")[0].strip().lower() for part in value.split(",")}
    if types.isdisjoint({"application/json", "text/event-stream", "application/*", "text/*", "*/*"}):
        raise _refusal(406, "Send `Accept: application/json, text/event-stream`")


def accepts_events(headers: Mapping[str, str] | None) -> bool:
    """Whether a reply may be an event stream. Without headers (stdio) notifications can always be sent."""
    if headers is None:
        return True
    accept = headers.get("accept", "").lower()
    return "text/event-stream" in accept or "text/*" in accept or "*/*" in accept


def accepts_json(headers: Mapping[str, str] | None) -> bool:
    if headers is None:
        return True
    accept = headers.get("accept", "").lower()
    return not accept or "json" in accept or "application/*" in accept or "*/*" in accept


def _refusal(status: int, message: str) -> RpcError:
    return RpcError(INVALID_REQUEST, message, status=status)
