"""The conditional writes, as expressions; names are always aliased, since many are reserved words."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ALIAS = re.compile(r"#(\w+)")


class Change:
    """One conditional UpdateItem: `set` and `remove` name attributes; each is set to the value of its name.

    Every change also sets `op`, by which a retried write knows its own earlier success (D5).
    """

    __slots__ = ("condition", "names", "update")

    def __init__(self, condition: str, *, set: Iterable[str], remove: Iterable[str] = ()) -> None:  # noqa: A002
        self.condition = condition
        self.update = "SET " + ", ".join(f"#{name} = :{name}" for name in (*set, "op"))
        if removed := ", ".join(f"#{name}" for name in remove):
            self.update += f" REMOVE {removed}"
        self.names = {f"#{name}": name for name in _ALIAS.findall(condition + self.update)}


# A missing attribute makes a comparison false, so these also fail for a record that is gone.
_RUNNING = "attribute_exists(#pk) AND attribute_not_exists(#ending)"
_SAME_WAIT = "#token = :token"

CLAIM_REFRESH = Change(
    "attribute_not_exists(#ending) AND #refreshAt <= :now AND #claimedUntil <= :now", set=["claimedUntil"]
)
_UNDER_LEASE = f"{_RUNNING} AND #claimedUntil = :lease"
_REFRESHED = ("refreshAt", "claimedUntil", "updatedAt")
NOTE_REFRESH = Change(_UNDER_LEASE, set=[*_REFRESHED, "step"], remove=["absentAt"])
NOTE_REFRESH_WITHOUT_MESSAGE = Change(_UNDER_LEASE, set=_REFRESHED, remove=["step", "absentAt"])
REQUEST_CANCEL = Change(
    f"{_RUNNING} AND attribute_not_exists(#cancelRequestedAt)",
    set=["cancelRequestedAt", "refreshAt", "claimedUntil", "openShard"],
)
_OF_EXECUTION = f"{_RUNNING} AND #execution = :execution"
MARK_DUE = Change(_OF_EXECUTION, set=["refreshAt", "claimedUntil"])
MARK_TOLD = Change(_OF_EXECUTION, set=["refreshAt", "claimedUntil", "toldAt"])
MARK_ABSENT = Change(f"{_RUNNING} AND attribute_not_exists(#absentAt)", set=["absentAt"])

NOTE_STOPPED = Change(_RUNNING, set=["stoppedAt"])

ADOPT_QUESTION = Change(_SAME_WAIT, set=["expiresAt", "adopted"])
ADOPT_EVENT = Change("attribute_exists(#pk)", set=["expiresAt"])
RECORD_ANSWER = Change(
    f"{_SAME_WAIT} AND (attribute_not_exists(#answeredToken) OR #answeredToken <> :answeredToken)",
    set=["answer", "answeredToken", "answeredAt", "deliveryUntil", "openShard", "createdAt"],
)
CLAIM_DELIVERY = Change(
    f"{_SAME_WAIT} AND #answeredToken = :answeredToken AND #deliveryUntil <= :now", set=["deliveryUntil"]
)
CLAIM_OFFER = Change(
    f"{_SAME_WAIT} AND (attribute_not_exists(#answeredToken) OR #answeredToken <> :mark) "
    "AND (attribute_not_exists(#offer) OR #offer <= :now)",
    set=["offer"],
)
RELEASE_OFFER = Change(_SAME_WAIT, set=[], remove=["offer"])
# `enteredAt` and `answeredAt` stay, so that the time of a task's last update never goes back.
CLOSE_QUESTION = Change(
    _SAME_WAIT,
    set=["closedToken"],
    remove=[
        *("token", "method", "params", "timeoutSeconds"),
        *("adopted", "answer", "answeredToken", "deliveryUntil", "openShard", "createdAt"),
    ],
)


_WHILE_RUNNING = ("openShard", "step", "claimedUntil", "absentAt")


def latch(attributes: Iterable[str]) -> Change:
    """Give a running task its outcome, which has these attributes; it leaves the index of open tasks."""
    return Change(_RUNNING, set=attributes, remove=_WHILE_RUNNING)


def latch_told(attributes: Iterable[str]) -> Change:
    """The same for what an event told of that execution."""
    return Change(_OF_EXECUTION, set=[*attributes, "toldAt"], remove=_WHILE_RUNNING)
