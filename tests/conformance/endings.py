"""Every way through every fixture: what goes in, what is answered, and what the engine must put out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ending:
    """One way through a fixture that succeeds. `answers` are as `Workbench.run` takes them."""

    tool: str
    way: str
    result: Json
    input: Json = field(default_factory=dict)
    answers: Json = field(default_factory=dict)
    in_time: bool = True

    def __str__(self) -> str:
        return f"{self.tool}: {self.way}"


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def error(value: str) -> dict[str, Any]:
    return {**text(value), "isError": True}


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def sampled(value: str) -> dict[str, Any]:
    return {"role": "assistant", "content": {"type": "text", "text": value}, "model": "test-model"}


def as_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


DECLINED = {"action": "decline"}
NOBODY = error("Nobody answered in time")
CAPITAL = {"capital_question": sampled("Paris")}
USER = {"user_name": accepted(name="Alice")}
CONFIRMED = {"confirm": accepted(ok=True)}
ROOTS = [{"uri": "file:///test/root", "name": "Test Root"}]
ALL_KINDS = {**USER, "greeting": sampled("Hello there!"), "client_roots": {"roots": ROOTS}}
PERSON = accepted(username="testuser", email="test@example.com")
DEFAULTS = accepted(name="Jane Smith", age=25, score=88, status="inactive", verified=False)
CHOICES = accepted(
    untitledSingle="option1",
    titledSingle="value1",
    legacyEnum="opt1",
    untitledMulti=["option1", "option2"],
    titledMulti=["value1", "value2"],
)

_DELETE, _FILE = "Delete a.txt?", {"filename": "a.txt"}
_NAME, _GO_ON = "What is your name?", "Go on?"
_WHO = {"message": "Who are you?"}
_PROMPT = {"prompt": "How are you?"}
_SAMPLE = "sampling/createMessage"
_PARIS = text('{"type":"text","text":"Paris"}')

ENDINGS = (
    Ending("test_simple_text", "replies", text("This is a simple text response for testing.")),
    Ending("test_error_handling", "reports", error("This tool intentionally returns an error for testing")),
    Ending("test_tool_with_progress", "replies", text("Tool with progress completed")),
    Ending("test_tool_with_logging", "replies", text("Tool with logging executed successfully")),
    Ending("test_logging_tool", "replies", text("Logged one line")),
    Ending("test_reconnection", "replies", text("Reconnected and completed")),
    Ending("json_schema_2020_12_tool", "echoes", text('{"email":"a@b.example"}'), {"email": "a@b.example"}),
    Ending("test_header_parameter", "echoes", text("Region: =?base64?SGVs"), {"region": "=?base64?SGVs"}),
    Ending("test_header_parameter", "echoes signs", text("Region: {} \"'\\ é"), {"region": "{} \"'\\ é"}),
    Ending("greet", "greets", text("Hello, sep-2243!"), {"name": "sep-2243"}),
    Ending("slow_compute", "at once", text("Computed a in 0 s"), {"seconds": 0, "label": "a"}),
    Ending("slow_compute", "a second", text("Computed b in 1 s"), {"seconds": 1, "label": "b"}),
    Ending("slow_compute", "a fraction", text("Computed c in 0 s"), {"seconds": 0.25, "label": "c"}),
    Ending("confirm_delete", "confirmed", text("Deleted a.txt"), _FILE, {_DELETE: accepted(confirm=True)}),
    Ending("confirm_delete", "refused", text("Kept a.txt"), _FILE, {_DELETE: accepted(confirm=False)}),
    Ending("confirm_delete", "declined", text("Kept a.txt"), _FILE, {_DELETE: DECLINED}),
    Ending(
        "confirm_delete",
        "unanswered",
        error("Nobody answered in time; a.txt was kept"),
        _FILE,
        in_time=False,
    ),
    Ending(
        "multi_input",
        "both accepted",
        text("Name: partial-1, go on: true"),
        answers={_NAME: accepted(name="partial-1", confirm=True), _GO_ON: accepted(name="p", confirm=True)},
    ),
    Ending(
        "multi_input",
        "one declined",
        text("Not every question was accepted"),
        answers={_NAME: accepted(name="Alice"), _GO_ON: DECLINED},
    ),
    Ending("multi_input", "unanswered", text("Not every question was accepted"), in_time=False),
    Ending("test_tool_with_task", "greets", text("Hello, Alice!"), USER),
    Ending("test_missing_capability", "sampled", _PARIS, CAPITAL),
    Ending("test_streaming_elicitation", "greets", text("Hello, Alice!"), USER),
    Ending("test_input_required_result_capabilities", "answered", text(as_text(USER)), USER),
    Ending("test_input_required_result_capabilities", "not asked", text("{}")),
    Ending("test_input_required_result_elicitation", "greets", text("Hello, Alice!"), USER),
    Ending("test_input_required_result_sampling", "sampled", _PARIS, CAPITAL),
    Ending(
        "test_input_required_result_list_roots",
        "lists",
        text(as_text(ROOTS)),
        {"client_roots": {"roots": ROOTS}},
    ),
    Ending("test_input_required_result_request_state", "confirmed", text("state-ok"), CONFIRMED),
    Ending("test_input_required_result_tampered_state", "confirmed", text("state-ok"), CONFIRMED),
    Ending("test_input_required_result_multiple_inputs", "answered", text(as_text(ALL_KINDS)), ALL_KINDS),
    Ending(
        "test_input_required_result_multi_round",
        "answered",
        text("Alice likes blue"),
        {"step1": accepted(name="Alice"), "step2": accepted(color="blue")},
    ),
    Ending(
        "test_sampling",
        "sampled",
        text('LLM response: {"type":"text","text":"Fine"}'),
        _PROMPT,
        {_SAMPLE: sampled("Fine")},
    ),
    Ending("test_sampling", "unanswered", NOBODY, _PROMPT, in_time=False),
    Ending(
        "test_elicitation",
        "accepted",
        text(f"User response: {as_text(PERSON)}"),
        _WHO,
        {_WHO["message"]: PERSON},
    ),
    Ending(
        "test_elicitation",
        "declined",
        text(f"User response: {as_text(DECLINED)}"),
        _WHO,
        {_WHO["message"]: DECLINED},
    ),
    Ending("test_elicitation", "unanswered", NOBODY, _WHO, in_time=False),
    Ending(
        "test_elicitation_sep1034_defaults",
        "accepted",
        text(f"Elicitation completed: {as_text(DEFAULTS)}"),
        answers={"Please check your data": DEFAULTS},
    ),
    Ending("test_elicitation_sep1034_defaults", "unanswered", NOBODY, in_time=False),
    Ending(
        "test_elicitation_sep1330_enums",
        "accepted",
        text(f"Elicitation completed: {as_text(CHOICES)}"),
        answers={"Please choose": CHOICES},
    ),
    Ending("test_elicitation_sep1330_enums", "unanswered", NOBODY, in_time=False),
)

BLOCKS = {
    "test_image_content": ["image"],
    "test_audio_content": ["audio"],
    "test_embedded_resource": ["resource"],
    "test_multiple_content_types": ["text", "image", "resource"],
}
"""Fixtures whose result is known by the types of its content blocks."""

FAILURES = {
    "failing_job": ("JobFailed", "The job fails on purpose"),
    "protocol_error_job": (
        "McpError",
        '{"code": -32000, "message": "The job was refused on purpose", "data": {"stage": "refuse"}}',
    ),
}
"""Fixtures whose execution fails, with their error and cause."""
