"""What each client is driven through, and what it is to see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Json = Mapping[str, Any]
Era = Literal["2025-11-25", "2026-07-28"]

LEGACY: Era = "2025-11-25"
MODERN: Era = "2026-07-28"

SECONDS = 4
"""How long the work takes: longer than the clients' time-outs and than `inline_wait`."""
TIMEOUT_MS = 2000
"""What the clients' own request time-outs are set to, where a flow is about them."""

QUESTION = "What is your name?"
_SUPPORT = {
    "greet": "forbidden",
    "compute": "optional",
    "compute_as_task": "required",
    "compute_inline": "forbidden",
    "ask_name": "optional",
    "fail": "optional",
    "refuse": "optional",
    "task_status": "forbidden",
    "task_result": "forbidden",
    "task_answer": "forbidden",
    "task_cancel": "forbidden",
}
COMPUTED: Json = {"structured": {"seconds": SECONDS, "answer": 42}}
GREETED: Json = {"text": "Hello, Ada!"}
DECLINED: Json = {"text": "No name: decline"}


@dataclass(frozen=True, slots=True)
class Flow:
    """`legacy`, `modern`: what a driver is to see, by the era of its client.

    `resumed`: the driver of the first part is killed once its task is made, and a second one goes on by the id.
    """

    name: str
    title: str
    tool: str
    legacy: Json
    modern: Json
    resumed: bool = False

    def expected(self, era: Era) -> Json:
        return self.legacy if era == LEGACY else self.modern


def _flow(name: str, title: str, tool: str, seen: Json, *, resumed: bool = False) -> Flow:
    return Flow(name, title, tool, seen, seen, resumed)


def _asked(outcome: Json) -> tuple[Json, Json]:
    """In the older protocol a plain call can ask, too."""
    return (
        {"asked": [QUESTION, QUESTION], "task": outcome, "plain": outcome},
        {"asked": [QUESTION], "task": outcome},
    )


FLOWS = (
    Flow(
        "list",
        "List tools",
        "greet",
        {"protocol": LEGACY, "tools": _SUPPORT},
        {"protocol": MODERN, "tools": dict.fromkeys(_SUPPORT)},
    ),
    _flow("plain", "Plain call", "greet", GREETED),
    _flow(
        "continued",
        "Plain call that takes long",
        "compute",
        {
            "first": "compute is still running",
            "text": f'{{"seconds":{SECONDS},"answer":42}}',
            "status": "completed",
        },
    ),
    _flow("task", "Call as task", "compute", COMPUTED),
    Flow("accept", "Answer a question", "ask_name", *_asked(GREETED)),
    Flow("decline", "Decline it", "ask_name", *_asked(DECLINED)),
    _flow("tool_error", "Tool error", "fail", {"text": "JobFailed: The disk is full", "is_error": True}),
    _flow(
        "rpc_error",
        "JSON-RPC error",
        "refuse",
        {"code": 4011, "message": "The ledger is closed", "data": {"year": 2025}},
    ),
    _flow("cancel", "Cancel", "compute", {"status": "cancelled"}),
    _flow("outlives", "Outlive the time-out", "compute", COMPUTED),
    _flow("reconnect", "Reconnect by id", "compute", {"asked": [], **COMPUTED}, resumed=True),
    _flow(
        "reconnect_answer",
        "Reconnect and answer",
        "ask_name",
        {"asked": [QUESTION], **GREETED},
        resumed=True,
    ),
)
