"""Whatever a client sends, the endpoint answers with one valid message, repeats a readable id, and never fails."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapter.mcp.exchange import Request
from tests.support.adapter import (
    EXTENSION,
    PREFIX,
    VERSION,
    Answer,
    Mcp,
    accepted,
    form,
    routing_headers,
    tool,
)

SCHEMA = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer"}},
}
ASKING = [{"ok": {"params": form("Sure?", ["sure"], sure="boolean")}}]
MEMBERS = (
    "jsonrpc id method params _meta name arguments taskId inputResponses requestState cursor notifications taskIds "
    "region action content ok q io.modelcontextprotocol/logLevel"
)
KEYS = st.sampled_from(MEMBERS.split())
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
KNOWN_METHODS = (
    "server/discover tools/list tools/call tasks/get tasks/update tasks/cancel subscriptions/listen "
    "initialize ping notifications/x"
)
METHODS = st.sampled_from(KNOWN_METHODS.split())
HEADER_NAMES = [
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "mcp-param-region",
    "accept",
    "content-type",
]
HEADERS = st.dictionaries(
    st.sampled_from([*HEADER_NAMES, "host", "origin", "mcp-session-id"]),
    st.text(st.characters(codec="latin-1"), max_size=20)
    | st.sampled_from(
        [VERSION, "tools/call", "job", "=?base64?am9i?=", "=?base64?!?=", "*/*", "text/event-stream"]
    ),
    max_size=3,
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["job", "asking", "plain"]) | JSON,
        "arguments": st.fixed_dictionaries({}, optional={"region": JSON, "n": JSON}) | JSON,
        "taskId": st.sampled_from(["TASK", "mcp-unknown"]) | JSON,
        "inputResponses": st.dictionaries(
            st.sampled_from(["ok", "q", "x"]), st.just(accepted(sure=True)) | JSON
        )
        | JSON,
        "requestState": st.just("STATE") | JSON,
        "cursor": JSON,
        "notifications": st.fixed_dictionaries({}, optional={"taskIds": st.just(["TASK"]) | JSON}) | JSON,
    },
)
META = st.fixed_dictionaries(
    {PREFIX + "protocolVersion": st.just(VERSION), PREFIX + "clientCapabilities": st.just({})},
    optional={
        "progressToken": JSON,
        PREFIX + "logLevel": st.just("info") | JSON,
        PREFIX + "clientInfo": JSON,
    },
)
CAPABILITIES = st.dictionaries(
    st.sampled_from(["elicitation", "sampling", "roots", "extensions"]),
    st.sampled_from([{}, {EXTENSION: {}}, {"form": {}}, {"url": {}}]) | JSON,
)
IDS = st.integers(-(2**63), 2**64 - 1) | st.text()
fuzz = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def make() -> Mcp:
    plain = tool("plain", inline_wait="0s", input_schema={"type": "object"})
    return Mcp(
        tool(input_schema=SCHEMA, inline_wait="0s"),
        tool("asking", before_start=ASKING, inline_wait="0s"),
        plain,
    )


async def answered(mcp: Mcp, body: bytes, headers: dict[str, str]) -> Answer:
    """The reply, checked by the client; one that stays open is closed by a shutdown."""
    mcp.parts.watcher.close()
    answer = await mcp.send(Request("POST", headers, body, "anonymous"))
    assert answer.status < 500
    assert all(record.levelno < logging.ERROR for record in CAUGHT)
    return answer


CAUGHT: list[logging.LogRecord] = []


@pytest.fixture(autouse=True)
def _no_errors_logged() -> Any:
    handler = logging.Handler(logging.ERROR)
    handler.emit = CAUGHT.append  # type: ignore[method-assign]
    logger = logging.getLogger("adapter")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    CAUGHT.clear()


def given_headers(method: str, params: dict[str, Any], changed: dict[str, str]) -> dict[str, str]:
    headers = {**routing_headers(method, params), **changed}
    return {name: value for name, value in headers.items() if value is not None}


@pytest.mark.requirement("R-01", "R-03", "R-12")
@fuzz
@given(st.binary() | st.text().map(str.encode) | JSON.map(orjson.dumps), HEADERS)
def test_any_body_with_any_headers_gets_a_valid_answer(body: bytes, headers: dict[str, str]) -> None:
    async def run() -> None:
        await answered(make(), body, given_headers("tools/list", {}, headers))

    asyncio.run(run())


@pytest.mark.requirement("R-02", "R-06", "R-12")
@fuzz
@given(
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "id": IDS | JSON, "method": METHODS | JSON, "params": JSON}
    )
)
def test_any_envelope_gets_a_valid_answer(body: dict[str, Any]) -> None:
    async def run() -> None:
        method = body["method"] if isinstance(body["method"], str) and body["method"].isascii() else "x"
        await answered(make(), orjson.dumps(body), given_headers(method, {}, {}))

    asyncio.run(run())


@pytest.mark.requirement("R-02", "R-04", "R-12")
@fuzz
@given(METHODS, IDS, PARAMS, META, CAPABILITIES, HEADERS | st.just({}))
def test_any_params_meta_and_headers_get_a_valid_answer(
    method: str,
    identifier: object,
    params: dict[str, Any],
    meta: dict[str, Any],
    caps: dict[str, Any],
    headers: dict[str, str],
) -> None:
    async def run() -> None:
        mcp = make()
        task_id = await mcp.start("plain")
        mcp.ask(task_id)
        state = (await mcp.call("tools/call", {"name": "asking"})).result["requestState"]
        full = {**params, "_meta": {**meta, PREFIX + "clientCapabilities": caps}}
        text = orjson.dumps({"jsonrpc": "2.0", "id": identifier, "method": method, "params": full})
        body = text.replace(b'"TASK"', orjson.dumps(task_id)).replace(b'"STATE"', orjson.dumps(state))
        sent = given_headers(method, orjson.loads(body)["params"], headers)
        await answered(mcp, body, sent)

    asyncio.run(run())
