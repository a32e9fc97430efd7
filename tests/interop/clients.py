"""The clients that are driven, how each differs from what a flow expects, and what it cannot do and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .flows import LEGACY, MODERN, Era, Flow, Json


@dataclass(frozen=True, slots=True)
class Client:
    """`also`: what its driver sees beyond what a flow expects; `instead`: what it sees in place of that.

    `notes`: what a reader has to know of a flow. `cannot`: the flows that this client has no means for, and why;
    they are driven all the same, and what is seen `instead` is the proof. `tools`: the tool of a flow, where it is
    another one.
    """

    name: str
    title: str
    environment: str
    driver: str
    mode: str
    """What its driver passes to the client as the protocol to speak."""
    era: Era
    also: Mapping[str, Json] = field(default_factory=dict)
    instead: Mapping[str, Json] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    cannot: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)

    def sees(self, flow: Flow) -> Json:
        """What its driver is to see in this flow."""
        expected = self.instead.get(flow.name, flow.expected(self.era))
        return {**expected, **self.also.get(flow.name, {})}


_LOSES_CONTENT = "the helper gives the message only; `tasks/result` has it all"
_MESSAGE_ONLY = "the client shows the message only, not code and data"
_NO_ELICITATION = "declares no elicitation, so that nothing is asked (read off the wire)"
_ALWAYS_TASKS = (
    "declares tasks in every call, so that no call of an `optional` tool is plain (read off the wire)"
)
_DECLARED_NOTHING = {"declares_tasks": True, "declares_elicitation": False}
_MESSAGE = {"message": "The ledger is closed"}
_MINUTE = "Request timed out after 1m00s (tools/call)"
_FIXED = "its time-out of 60 s cannot be set; it is made to come sooner"
_ID_FROM_WIRE = "mcpdo shows no task id before the end: it is read off the wire"


def _unsupported(method: str) -> Json:
    return {"refused": f"Unsupported method: {method}"}


SDK1 = Client(
    "sdk1",
    "`@modelcontextprotocol/sdk` 1.32.2",
    "sdk1",
    "sdk1.mjs",
    "legacy",
    LEGACY,
    also={
        "task": {"blocking": {"structured": {"seconds": 4, "answer": 42}}},
        "tool_error": {"helper": "MCP error -32603: Task TASK failed"},
        "rpc_error": {
            "helper": "MCP error -32603: Task TASK failed",
            "message": "MCP error 4011: The ledger is closed",
        },
        "cancel": {"answer": "cancelled", "helper": "MCP error -32603: Task TASK was cancelled"},
        "outlives": {"plain": "MCP error -32001: Request timed out"},
    },
    notes={
        "tool_error": "`callToolStream` says only that the task failed; `tasks/result` has it all",
        "rpc_error": "`callToolStream` says only that the task failed; `tasks/result` has it all",
    },
)
CLIENT2_LEGACY = Client(
    "client2-legacy",
    "`@modelcontextprotocol/client` 2.4.0 with `ext-tasks` 0.2.2, legacy mode",
    "client2",
    "client2.mjs",
    "legacy",
    LEGACY,
    also={
        "tool_error": {"helper": "JobFailed: The disk is full"},
        "rpc_error": {"helper": "The ledger is closed"},
        "cancel": {"helper": "cancelled"},
        "outlives": {"plain": "Request timed out"},
    },
    notes={"tool_error": _LOSES_CONTENT, "rpc_error": _LOSES_CONTENT},
)
CLIENT2_AUTO = Client(
    "client2-auto",
    "`@modelcontextprotocol/client` 2.4.0 with `ext-tasks` 0.2.2, auto mode",
    "client2",
    "client2.mjs",
    "auto",
    MODERN,
    also={
        "rpc_error": {"status": "failed"},
        "cancel": {"helper": "cancelled"},
        "outlives": {"plain": "Request timed out"},
    },
)
MCP1 = Client(
    "mcp1",
    "`mcp` 1.30.0",
    "mcp1",
    "mcp1.py",
    "legacy",
    LEGACY,
    also={
        "task": {"blocking": {"structured": {"seconds": 4, "answer": 42}}},
        "cancel": {"answer": "cancelled", "result": "Task was cancelled"},
        "outlives": {
            "plain": "Timed out while waiting for response to ClientRequest. Waited 2.0 seconds.",
            "blocking": "Timed out while waiting for response to ClientRequest. Waited 2.0 seconds.",
        },
    },
    notes={"outlives": "polling; a blocking `tasks/result` ends at the time-out and can be repeated"},
)
MCP2 = Client(
    "mcp2",
    "`mcp` 2.3.0",
    "mcp2",
    "mcp2.py",
    "auto",
    MODERN,
    also={"outlives": {"plain": "Request 'tools/call' timed out"}},
    notes=dict.fromkeys(
        (
            *("task", "accept", "decline", "tool_error", "rpc_error"),
            *("cancel", "outlives", "reconnect", "reconnect_answer"),
        ),
        "the package has no tasks: with a client extension of a hundred lines (`drivers/mcp2_tasks.py`)",
    ),
)
FASTMCP3 = Client(
    "fastmcp3",
    "`fastmcp` 3.4.11",
    "fastmcp3",
    "fastmcp3.py",
    "legacy",
    LEGACY,
    also={
        "cancel": {"result": "Task was cancelled"},
        "outlives": {"plain": "Timed out while waiting for response to ClientRequest. Waited 2.0 seconds."},
    },
)
FASTMCP4 = Client(
    "fastmcp4",
    "`fastmcp` 4.1.4 with `fastmcp-tasks` 4.1.4",
    "fastmcp4",
    "fastmcp4.py",
    "auto",
    MODERN,
    also={
        "task": {"handle": {"structured": {"seconds": 4, "answer": 42}}},
        "cancel": {"result": "Task TASK was cancelled"},
        "outlives": {"plain": "Request 'tools/call' timed out"},
    },
    instead={"rpc_error": {"text": "The ledger is closed", "is_error": True}},
    notes={
        "continued": "without `fastmcp-tasks`, which declares tasks in every call",
        "rpc_error": _MESSAGE_ONLY,
    },
)
INSPECTOR_LEGACY = Client(
    "inspector-legacy",
    "MCP Inspector 2.12.0, `--cli`, legacy era",
    "inspector",
    "inspector_cli.py",
    "legacy",
    LEGACY,
    also={"outlives": {"plain": _MINUTE}},
    instead={
        "accept": _DECLARED_NOTHING,
        "decline": _DECLARED_NOTHING,
        "rpc_error": _MESSAGE,
        "cancel": _unsupported("tasks/cancel"),
        "reconnect": _unsupported("tasks/result"),
        "reconnect_answer": _unsupported("tasks/result"),
    },
    notes={
        "task": "only tools with `task_support: required` are called as tasks",
        "rpc_error": _MESSAGE_ONLY,
        "outlives": _FIXED,
    },
    cannot={
        "accept": _NO_ELICITATION,
        "decline": _NO_ELICITATION,
        "cancel": "has no command to cancel",
        "reconnect": "has no command that takes a task id",
        "reconnect_answer": "has no command that takes a task id",
    },
    tools={"task": "compute_as_task", "outlives": "compute_as_task"},
)
INSPECTOR_MODERN = Client(
    "inspector-modern",
    "MCP Inspector 2.12.0, `--cli`, modern era",
    "inspector",
    "inspector_cli.py",
    "modern",
    MODERN,
    also=INSPECTOR_LEGACY.also,
    instead={**INSPECTOR_LEGACY.instead, "continued": _DECLARED_NOTHING},
    notes={"rpc_error": _MESSAGE_ONLY, "outlives": _FIXED},
    cannot={**INSPECTOR_LEGACY.cannot, "continued": _ALWAYS_TASKS},
)
MCPDO_LEGACY = Client(
    "mcpdo-legacy",
    "MCP Inspector 2.12.0, `mcpdo`, legacy era",
    "inspector",
    "inspector_mcpdo.py",
    "legacy",
    LEGACY,
    also={
        "cancel": {"cancelled": True, "result": 'Tool call "compute" was cancelled.'},
        "outlives": {"plain": _MINUTE},
    },
    instead={"tool_error": {"message": "JobFailed: The disk is full"}, "rpc_error": _MESSAGE},
    notes={
        "rpc_error": _MESSAGE_ONLY,
        "cancel": _ID_FROM_WIRE,
        "outlives": _FIXED,
        "reconnect": _ID_FROM_WIRE,
        "reconnect_answer": _ID_FROM_WIRE,
    },
)
MCPDO_MODERN = Client(
    "mcpdo-modern",
    "MCP Inspector 2.12.0, `mcpdo`, modern era",
    "inspector",
    "inspector_mcpdo.py",
    "modern",
    MODERN,
    also=MCPDO_LEGACY.also,
    instead={"continued": {"declares_tasks": True}, "rpc_error": _MESSAGE},
    notes=MCPDO_LEGACY.notes,
    cannot={"continued": _ALWAYS_TASKS},
)

CLIENTS = (
    SDK1,
    CLIENT2_LEGACY,
    CLIENT2_AUTO,
    MCP1,
    MCP2,
    FASTMCP3,
    FASTMCP4,
    INSPECTOR_LEGACY,
    INSPECTOR_MODERN,
    MCPDO_LEGACY,
    MCPDO_MODERN,
)
