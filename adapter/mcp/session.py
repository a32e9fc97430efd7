"""Sessions of the legacy protocols, without storing anything (D10).

What `initialize` settled is in the signed `Mcp-Session-Id` itself; any process that has the keys reads it.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adapter.tasks.clock import Clock

from .jsonrpc import JsonObject
from .legacy_shapes import V_2025_03_26, V_2025_06_18, V_2025_11_25
from .meta import can_take
from .signing import BadSignature, Signer

PREFIX = "mwa1."
"""Marks our ids; one without it, such as a platform adds, counts as none."""
_PURPOSE = "session"
_CACHED = 4096
_KNOWN: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    V_2025_11_25: {"elicitation": ("form", "url"), "sampling": ("tools",), "roots": ()},
    V_2025_06_18: {"elicitation": ("form",), "sampling": (), "roots": ()},
    V_2025_03_26: {"sampling": (), "roots": ()},
}
"""What each version knows of the capabilities that input requests need."""


class UnknownSession(Exception):
    """The id is ours in form, but not valid: the client must initialize again."""


@dataclass(frozen=True, slots=True)
class Session:
    """What a legacy client said when it initialized; without an id, only what its headers say."""

    version: str
    capabilities: JsonObject = field(default_factory=dict)
    nonce: str | None = None
    """Names the session; None without one."""
    begun_at: int = 0
    """When the client initialized, in epoch milliseconds."""

    def takes(self, method: str, params: JsonObject) -> bool:
        """Whether this client can be sent such a request (L-06, L-52)."""
        if self.version != V_2025_11_25 and _asks_for_several(params):
            return False
        return can_take(self.capabilities, method, params)


class Sessions:
    """Makes and reads session ids, valid for `seconds`."""

    def __init__(self, signer: Signer, clock: Clock, seconds: float) -> None:
        self._signer = signer
        self._clock = clock
        self._seconds = seconds
        self._read: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def issue(self, version: str, capabilities: JsonObject, owner: str) -> str:
        payload = {
            "version": version,
            "capabilities": _kept(version, capabilities),
            "owner": self._signer.mark("owner", owner),
            "nonce": secrets.token_urlsafe(9),
            "at": self._clock(),
        }
        return PREFIX + self._signer.sign(_PURPOSE, payload)

    def read(self, identifier: str | None, owner: str) -> Session | None:
        """None where the client has no session of ours. Raises UnknownSession."""
        if identifier is None or not identifier.startswith(PREFIX):
            return None
        session = self._read.get((identifier, owner)) or self._verified(identifier, owner)
        if session.begun_at + self._seconds * 1000 <= self._clock():
            raise UnknownSession
        return session

    def _verified(self, identifier: str, owner: str) -> Session:
        try:
            payload = self._signer.verify(_PURPOSE, identifier.removeprefix(PREFIX))
        except BadSignature:
            raise UnknownSession from None
        if not self._signer.is_mark("owner", owner, payload["owner"]):
            raise UnknownSession
        session = Session(payload["version"], payload["capabilities"], payload["nonce"], payload["at"])
        self._read[identifier, owner] = session
        if len(self._read) > _CACHED:
            self._read.popitem(last=False)
        return session


def _kept(version: str, capabilities: JsonObject) -> dict[str, Any]:
    """Only what decides about input requests, so that the id stays short."""
    kept: dict[str, Any] = {}
    for name, members in _KNOWN[version].items():
        declared = capabilities.get(name)
        if isinstance(declared, dict):
            kept[name] = {member: {} for member in members if isinstance(declared.get(member), dict)}
            if name == "elicitation" and not kept[name] and "url" in declared:
                del kept[name]  # an empty declaration would mean forms, and this client takes none
    return kept


def _asks_for_several(params: JsonObject) -> bool:
    """A form with a choice of several values, which versions before 2025-11-25 do not know."""
    schema = params.get("requestedSchema")
    fields = schema.get("properties", {}).values() if isinstance(schema, Mapping) else ()
    return any(isinstance(field, Mapping) and field.get("type") == "array" for field in fields)
