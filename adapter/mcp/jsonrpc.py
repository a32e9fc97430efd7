"""JSON-RPC 2.0: reading one message, writing one result or error."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from adapter.errors import StoreUnavailable, TaskNotFound

logger = logging.getLogger(__name__)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022

JsonObject = Mapping[str, Any]
RequestId = str | int


class RpcError(Exception):
    """Ends a request with a JSON-RPC error. `status` is the HTTP status of the reply."""

    def __init__(self, code: int, message: str, *, data: JsonObject | None = None, status: int = 200) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status


def invalid_params(message: str, *, status: int = 200) -> RpcError:
    return RpcError(INVALID_PARAMS, message, status=status)


def told_as(problem: Exception) -> RpcError:
    """What a client is told of anything that ends its request; what should not have happened goes to the log."""
    if isinstance(problem, RpcError):
        return problem
    if isinstance(problem, TaskNotFound):
        return invalid_params(str(problem))
    if isinstance(problem, StoreUnavailable):
        return RpcError(INTERNAL_ERROR, "The server is busy; try again")
    logger.error("A request failed", exc_info=problem)
    return RpcError(INTERNAL_ERROR, "The server failed; its log says why")


@dataclass(slots=True)
class Message:
    """One well-formed request (`id` is set) or notification (`id` is None)."""

    id: RequestId | None
    method: str
    params: JsonObject | None


def parse(body: bytes) -> Any:
    """The JSON value of a body. Raises RpcError -32700."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise RpcError(PARSE_ERROR, "The body is not valid JSON in UTF-8", status=400) from None


def request_id(value: object) -> RequestId | None:
    """The usable id of a JSON value, None where there is none: errors before or about the envelope echo it."""
    identifier = value.get("id") if isinstance(value, dict) else None
    return identifier if isinstance(identifier, str) or type(identifier) is int else None


def envelope(value: Any) -> Message:
    """The message in a JSON value (R-01, R-03). Raises RpcError -32600."""
    if not isinstance(value, dict):
        kind = "Batches are not served: send" if isinstance(value, list) else "Send"
        raise _invalid(f"{kind} exactly one JSON-RPC object")
    if value.get("jsonrpc") != "2.0":
        raise _invalid('`jsonrpc` must be "2.0"')
    method = value.get("method")
    if not isinstance(method, str):
        raise _invalid("`method` must be a string; this server accepts no responses")
    params = value.get("params")
    if params is not None and not isinstance(params, dict):
        raise _invalid("`params` must be an object")
    identifier = request_id(value)
    if identifier is None and "id" in value:
        raise _invalid("`id` must be a string or an integer")
    return Message(identifier, method, params)


def result(identifier: RequestId, value: JsonObject) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": identifier, "result": value})


def error(identifier: RequestId | None, problem: RpcError, *, null_id: bool = False) -> bytes:
    """An error message; without an id the member is left out (R-03), or null where `null_id` (L-22)."""
    body: dict[str, Any] = {"code": problem.code, "message": problem.message}
    if problem.data is not None:
        body["data"] = problem.data
    head: dict[str, Any] = {"jsonrpc": "2.0"}
    if identifier is not None or null_id:
        head["id"] = identifier
    return orjson.dumps({**head, "error": body})


def notification(method: str, params: JsonObject) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params})


def shown(value: object) -> str:
    """What a client sent, short enough to be repeated in an error message."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _invalid(message: str) -> RpcError:
    return RpcError(INVALID_REQUEST, message, status=400)
