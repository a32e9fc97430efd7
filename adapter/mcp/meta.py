"""`_meta` of a 2026-07-28 request: who speaks which version and can do what, said anew in every request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adapter import __version__

from .jsonrpc import MISSING_CLIENT_CAPABILITY, JsonObject, RpcError, invalid_params

MODERN_VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = PREFIX + "protocolVersion"
CAPABILITIES_KEY = PREFIX + "clientCapabilities"
LOG_LEVEL_KEY = PREFIX + "logLevel"
SERVER_INFO_KEY = PREFIX + "serverInfo"
SUBSCRIPTION_KEY = PREFIX + "subscriptionId"
TASKS_EXTENSION = PREFIX + "tasks"
TASKS_REQUIRED: JsonObject = {"extensions": {TASKS_EXTENSION: {}}}

SERVER_INFO = {SERVER_INFO_KEY: {"name": "mcp-workflow-adapter", "version": __version__}}

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


@dataclass(slots=True)
class Meta:
    """The checked members of `_meta`."""

    version: str
    capabilities: JsonObject
    log_level: str | None
    progress_token: str | int | None

    @property
    def takes_tasks(self) -> bool:
        """Only this request's declaration of the extension counts (R-100)."""
        extensions = self.capabilities.get("extensions")
        return isinstance(extensions, dict) and isinstance(extensions.get(TASKS_EXTENSION), dict)


def complete(result: JsonObject) -> dict[str, Any]:
    """A finished result: who served it is said in its `_meta` (R-04, R-10)."""
    return {"resultType": "complete", **result, "_meta": {**result.get("_meta", {}), **SERVER_INFO}}


def modern_version_of(params: JsonObject | None) -> object:
    """What `_meta` says the version is, unchecked; None where it says nothing."""
    meta = params.get("_meta") if params is not None else None
    return meta.get(VERSION_KEY) if isinstance(meta, dict) else None


def required_meta(params: JsonObject | None) -> JsonObject:
    """`_meta`. Raises RpcError -32602 (HTTP 400) where a required member is missing or of a wrong type (R-06)."""
    meta = params.get("_meta") if params is not None else None
    if not isinstance(meta, dict):
        raise _missing("params._meta", "an object")
    if not isinstance(meta.get(VERSION_KEY), str):
        raise _missing(f"params._meta[{VERSION_KEY!r}]", "a string")
    if not isinstance(meta.get(CAPABILITIES_KEY), dict):
        raise _missing(f"params._meta[{CAPABILITIES_KEY!r}]", "an object")
    return meta


def read_meta(meta: JsonObject) -> Meta:
    """The members of what `required_meta` gave. Raises RpcError -32602 for an odd optional one (R-05)."""
    level = meta.get(LOG_LEVEL_KEY)
    if level is not None and level not in LOG_LEVELS:
        raise invalid_params(f"params._meta[{LOG_LEVEL_KEY!r}] must be one of {', '.join(LOG_LEVELS)}")
    token = meta.get("progressToken")
    if token is not None and (isinstance(token, bool) or not isinstance(token, (str, int))):
        raise invalid_params("params._meta.progressToken must be a string or an integer")
    return Meta(meta[VERSION_KEY], meta[CAPABILITIES_KEY], level, token)


def _missing(place: str, kind: str) -> RpcError:
    return invalid_params(f"{place} is required and must be {kind}", status=400)


def can_take(capabilities: JsonObject, method: str, params: JsonObject) -> bool:
    """Whether a client with these capabilities can take an input request (R-82)."""
    return _declares(capabilities, required_capability(method, params))


def required_capability(method: str, params: JsonObject) -> dict[str, Any]:
    """The ClientCapabilities that an input request needs."""
    if method == "sampling/createMessage":
        return {"sampling": {"tools": {}} if "tools" in params or "toolChoice" in params else {}}
    if method == "roots/list":
        return {"roots": {}}
    return {"elicitation": {"url": {}} if params.get("mode") == "url" else {"form": {}}}


def cannot_be_asked(method: str, params: JsonObject, reason: str) -> RpcError:
    """The error for a client that did not declare what this input request needs."""
    needed = required_capability(method, params)
    return missing_capability(
        {"elicitation": {}} if needed == {"elicitation": {"form": {}}} else needed, reason
    )


def missing_capability(required: JsonObject, reason: str) -> RpcError:
    data = {"requiredCapabilities": dict(required)}
    return RpcError(MISSING_CLIENT_CAPABILITY, reason, data=data, status=400)


def _declares(declared: JsonObject, required: JsonObject) -> bool:
    for name, needs in required.items():
        has = declared.get(name)
        if not isinstance(has, Mapping):
            return False
        if name == "elicitation" and not has:
            has = {"form": {}}  # an empty declaration means forms only
        if not all(isinstance(has.get(need), Mapping) for need in needs):
            return False
    return True
