"""Sessions of the legacy protocols, without storing anything (D10).

What `initialize` settled is in the signed `Mcp-Session-Id` itself; any process that has the keys reads it.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from adapter.tasks.clock import Clock

from .jsonrpc import JsonObject
from .signing import BadSignature, Signer

PREFIX = "mwa1."
"""Marks our ids; one without it, such as a platform adds, counts as none."""
_PURPOSE = "session"
_CACHED = 4096


class UnknownSession(Exception):
    """The id is ours in form, but not valid: the client must initialize again."""


@dataclass(frozen=True, slots=True)
class Session:
    """What a legacy client said when it initialized; without an id, only what its headers say."""

    version: str
    capabilities: JsonObject = field(default_factory=dict)
    nonce: str | None = None
    """Names the session; None without one."""


class Sessions:
    """Makes and reads session ids, valid for `seconds`."""

    def __init__(self, signer: Signer, clock: Clock, seconds: float) -> None:
        self._signer = signer
        self._clock = clock
        self._seconds = seconds
        self._read: OrderedDict[tuple[str, str], tuple[Session, int]] = OrderedDict()

    def issue(self, version: str, capabilities: JsonObject, owner: str) -> str:
        payload = {
            "version": version,
            "capabilities": _kept(capabilities),
            "owner": self._signer.mark("owner", owner),
            "nonce": secrets.token_urlsafe(9),
            "expires": self._clock() // 1000 + int(self._seconds),
        }
        return PREFIX + self._signer.sign(_PURPOSE, payload)

    def read(self, identifier: str | None, owner: str) -> Session | None:
        """None where the client has no session of ours. Raises UnknownSession."""
        if identifier is None or not identifier.startswith(PREFIX):
            return None
        session, expires = self._read.get((identifier, owner)) or self._verified(identifier, owner)
        if expires * 1000 <= self._clock():
            raise UnknownSession
        return session

    def _verified(self, identifier: str, owner: str) -> tuple[Session, int]:
        try:
            payload = self._signer.verify(_PURPOSE, identifier.removeprefix(PREFIX))
        except BadSignature:
            raise UnknownSession from None
        if payload["owner"] != self._signer.mark("owner", owner):
            raise UnknownSession
        session = Session(payload["version"], payload["capabilities"], payload["nonce"])
        self._read[identifier, owner] = session, payload["expires"]
        if len(self._read) > _CACHED:
            self._read.popitem(last=False)
        return session, payload["expires"]


def _kept(capabilities: JsonObject) -> dict[str, Any]:
    """Only what decides about input requests, so that the id stays short."""
    kept: dict[str, Any] = {}
    for name in ("elicitation", "sampling", "roots"):
        declared = capabilities.get(name)
        if isinstance(declared, dict):
            kept[name] = {
                need: {} for need in ("form", "url", "tools") if isinstance(declared.get(need), dict)
            }
    return kept
