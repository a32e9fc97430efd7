"""What browsers ask before a web page's request and want to read with its reply (CORS), for listed origins only."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .access import Origins
from .endpoint import error_reply
from .exchange import Reply

_ORIGIN = "origin"
_METHOD = "access-control-request-method"
_HEADERS = "access-control-request-headers"
_PREFLIGHT = {
    # DELETE is not served, which clients that end a session have to be able to read.
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-max-age": "3600",
    "vary": "Origin, Access-Control-Request-Headers",
}


class Cors:
    """Without any origin it says nothing. Names of headers are in lower case."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = Origins(origins)

    def preflight(self, method: str, headers: Mapping[str, str]) -> Reply | None:
        """The reply to what a browser asks before a request; None for anything else."""
        origin = headers.get(_ORIGIN)
        if method != "OPTIONS" or not self._origins or origin is None or _METHOD not in headers:
            return None
        if origin not in self._origins:
            return error_reply(None, Origins.refusal(origin))
        allowed = dict(_PREFLIGHT)
        if asked := headers.get(_HEADERS):
            # Repeated, since `Mcp-Param-*` has no end and `*` does not stand for Authorization.
            allowed["access-control-allow-headers"] = asked
        return Reply(204, allowed, b"")

    def headers(self, asked: Mapping[str, str]) -> dict[str, str]:
        """To be added to every reply to a request with these headers; where both have a name, the reply's wins."""
        if not self._origins:
            return {}
        origin = asked.get(_ORIGIN)
        if origin is None or origin not in self._origins:
            return {"vary": "Origin"}
        return {
            "vary": "Origin",
            "access-control-allow-origin": origin,
            "access-control-expose-headers": "Mcp-Session-Id, WWW-Authenticate",
        }
