"""Event ids by which a legacy client comes back for the rest of a reply, at any process (L-18, L-20)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Literal

from adapter.tasks.clock import Clock

from .exchange import Frame
from .jsonrpc import RequestId
from .signing import BadSignature, Signer

SHORTEST_RETRY_MS = 1_000
LONGEST_RETRY_MS = 60_000
_PURPOSE = "resume"


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A reply under way: to `tasks/result`, or to a plain `tools/call`."""

    kind: Literal["result", "call"]
    id: RequestId
    task_id: str
    owner: str
    after: str | None = None
    """The key of the last report (event) that this client was sent."""


class Resumptions:
    """Signs what is needed to go on into the event id."""

    def __init__(self, signer: Signer, clock: Clock) -> None:
        self._signer = signer
        self._clock = clock

    def frame(self, unfinished: Unfinished, retry_ms: int) -> Frame:
        """An event without a message: it says how to come back, and when."""
        state = {
            "kind": unfinished.kind,
            "id": unfinished.id,
            "task": unfinished.task_id,
            "owner": self._signer.mark("owner", unfinished.owner),
            "after": unfinished.after,
            "n": secrets.token_urlsafe(6),  # ids must not repeat within a session
        }
        return Frame(event_id=self._signer.sign(_PURPOSE, state), retry_ms=retry_ms)

    def read(self, event_id: str, owner: str) -> Unfinished | None:
        """None where the id is not ours, or somebody else's."""
        try:
            state = self._signer.verify(_PURPOSE, event_id)
        except BadSignature:
            return None
        if not self._signer.is_mark("owner", owner, state["owner"]):
            return None
        return Unfinished(state["kind"], state["id"], state["task"], owner, state["after"])

    def retry_ms(self, created_at: int) -> int:
        """Longer for older tasks: some clients come back only about a thousand times."""
        age = self._clock() - created_at
        return max(SHORTEST_RETRY_MS, min(LONGEST_RETRY_MS, age // 10))
