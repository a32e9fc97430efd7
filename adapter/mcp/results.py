"""From how a job ended to what a caller gets: a CallToolResult or a JSON-RPC error. A pure function (M-38)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from adapter.tasks.model import Ending, Outcome
from adapter.tools.schema import Schema, too_deep

from .jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    JsonObject,
    RpcError,
)
from .meta import PREFIX
from .models import is_content

PROTOCOL_ERROR = "McpError"
"""A workflow that fails with this error and a cause `{code, message, data?}` means a JSON-RPC error (M-30)."""

_NO_OUTPUT = "(no output)"
_MAX_MESSAGE = 300
_MAX_TEXT = 4000
_REQUEST_ERRORS = (INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR)
_RESULT_KEYS = {"content", "structuredContent", "isError", "_meta", "resultType"}


@dataclass(frozen=True, slots=True)
class Failure:
    """The request itself failed: `failed` in 2026-07-28."""

    code: int
    message: str
    data: Any = None

    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


@dataclass(frozen=True, slots=True)
class Rendered:
    """`result` (a CallToolResult without resultType) or `failure`; `message` is a short text for people."""

    result: dict[str, Any] | None = None
    failure: Failure | None = None
    message: str | None = None


def render(outcome: Outcome, settings: str) -> Rendered:
    """What an ended task gives its caller; `settings` is what the tool pinned to it (Tool.result_settings).

    ABORTED has neither result nor failure. Raises RpcError -32603 where the output exists but is not available.
    """
    if outcome.ending is Ending.SUCCEEDED:
        return _succeeded(outcome, settings)
    if outcome.ending is Ending.ABORTED:
        return Rendered(message=_shortened(outcome.cause or "The execution was stopped"))
    if outcome.ending is Ending.LOST:
        text = "The job could not be started"
        return Rendered(failure=Failure(INTERNAL_ERROR, text), message=text)
    if outcome.ending is Ending.FAILED and outcome.error == PROTOCOL_ERROR:
        return _protocol_error(outcome.cause)
    return _error_result(_failure_text(outcome))


def error_result(text: str) -> dict[str, Any]:
    """A CallToolResult that tells the model what went wrong."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def cut(result: dict[str, Any], task_id: str, limit: int, *, more: bool, start: int = 0) -> dict[str, Any]:
    """The result with at most `limit` characters of text, and a note of how to get the rest (D11).

    `start`: how many characters have been shown before. `more`: there is a companion tool that shows the rest.
    Structured content over the limit is left out; a result without what its outputSchema promises is then an error
    result, the only kind that clients let go without.
    """
    structured = result.get("structuredContent")
    if structured is not None and len(orjson.dumps(structured)) > limit:
        result = {key: value for key, value in result.items() if key != "structuredContent"}
        result["isError"] = True
    if sum(len(text_of(block)) for block in result["content"]) <= limit:
        return result
    content: list[JsonObject] = []
    left: int | None = limit
    for block in result["content"]:
        text = text_of(block)
        if not text or (left is not None and len(text) <= left):
            content.append(block)
            left = left if left is None else left - len(text)
        elif left is not None:
            note = _cut_note(task_id, start + limit, more)
            content.append({"type": "text", "text": text[:left] + note})
            left = None
    return {**result, "content": content}


def text_of(block: JsonObject) -> str:
    """What of a block a model would read."""
    if block.get("type") == "resource":
        return str(block["resource"].get("text", ""))
    return str(block.get("text", ""))


def _cut_note(task_id: str, shown: int, more: bool) -> str:
    note = f"\n\n[Cut after {shown} characters."
    if more:
        note += f' For more, call task_result with {{"task_id": "{task_id}", "offset": {shown}}}.'
    return note + "]"


def _error_result(text: str) -> Rendered:
    return Rendered(result=error_result(text), message=_shortened(text))


def _failure_text(outcome: Outcome) -> str:
    if outcome.ending is Ending.TIMED_OUT:
        text = ": ".join(filter(None, ("The execution timed out", outcome.cause)))
    else:
        text = ": ".join(filter(None, (outcome.error, outcome.cause))) or "The execution failed"
    return _shortened(text, _MAX_TEXT)


def _succeeded(outcome: Outcome, settings_text: str) -> Rendered:
    if outcome.output is None:
        raise RpcError(INTERNAL_ERROR, "The result exists, but it cannot be read now")
    settings = _settings(settings_text)
    try:
        value = orjson.loads(outcome.output)
    except orjson.JSONDecodeError:
        value = outcome.output
        if settings.output_schema is not None:
            return _mismatch("it is not JSON")
    if settings.mode == "result" or (settings.mode == "auto" and _is_tool_result(value)):
        return _ready_made(value, settings)
    return _plain(value, outcome.output, settings)


def _ready_made(value: Any, settings: _Settings) -> Rendered:
    if not _is_tool_result(value):
        return _error_result(
            "The workflow's output is not a tool result, as this tool's `result` setting says"
        )
    if too_deep(value):
        return _error_result("The workflow's result nests too deeply")
    result = {key: value[key] for key in ("content", "structuredContent", "isError") if key in value}
    result["content"] = result["content"] or [{"type": "text", "text": _NO_OUTPUT}]
    meta = {k: v for k, v in value.get("_meta", {}).items() if not k.startswith(PREFIX)}
    if meta:
        result["_meta"] = meta
    if result.get("isError"):
        return Rendered(result=result, message=_shortened(_first_text(result["content"])))
    if settings.output_schema is not None:
        if "structuredContent" not in result:
            return _error_result(
                "The workflow's result has no structuredContent, which this tool's outputSchema needs"
            )
        problem = settings.output_schema.violation(result["structuredContent"])
        if problem is not None:
            return _mismatch(problem)
    return Rendered(result=result)


def _plain(value: Any, output: str, settings: _Settings) -> Rendered:
    if settings.output_schema is not None:
        problem = "it nests too deeply" if too_deep(value) else settings.output_schema.violation(value)
        if problem is not None:
            return _mismatch(problem)
    text = value if isinstance(value, str) else output
    result: dict[str, Any] = {"content": [{"type": "text", "text": text or _NO_OUTPUT}]}
    if settings.output_schema is not None:
        result["structuredContent"] = value
    return Rendered(result=result)


def _mismatch(problem: str) -> Rendered:
    return _error_result(f"The workflow's output does not match this tool's outputSchema: {problem}")


def _protocol_error(cause: str | None) -> Rendered:
    try:
        value = orjson.loads(cause or "")
    except orjson.JSONDecodeError:
        value = {"message": cause}
    if not isinstance(value, dict):
        value = {}
    message = value.get("message")
    if not isinstance(message, str) or not message:
        message = "The workflow failed"
    data = value.get("data")
    failure = Failure(_allowed_code(value.get("code")), message, None if too_deep(data) else data)
    return Rendered(failure=failure, message=_shortened(message))


def _allowed_code(code: object) -> int:
    """JSON-RPC's own range is reserved: of it a workflow may use what a request can be told (R-13)."""
    if isinstance(code, float) and code.is_integer():
        code = int(code)  # some workflows' arithmetic makes 1.0 of 1, which in JSON is the same number
    if isinstance(code, bool) or not isinstance(code, int) or not -(2**31) <= code < 2**31:
        return INTERNAL_ERROR
    return INTERNAL_ERROR if -32768 <= code <= -32000 and code not in _REQUEST_ERRORS else code


def _is_tool_result(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= _RESULT_KEYS:
        return False
    return (
        is_content(value.get("content"))
        and isinstance(value.get("isError", False), bool)
        and isinstance(value.get("_meta", {}), dict)
    )


def _first_text(content: list[JsonObject]) -> str:
    return next((b["text"] for b in content if b.get("type") == "text"), "The tool reported an error")


def _shortened(text: str, limit: int = _MAX_MESSAGE) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


@dataclass(frozen=True, slots=True)
class _Settings:
    mode: str
    output_schema: Schema | None


@lru_cache(maxsize=256)
def _settings(text: str) -> _Settings:
    document = orjson.loads(text)
    schema = document.get("outputSchema")
    return _Settings(document.get("mode", "auto"), None if schema is None else Schema(schema))
