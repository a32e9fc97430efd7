"""Of two things that are wrong with a request, the one that is checked first is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from adapter.mcp.exchange import Request
from tests.support.adapter import PREFIX, VERSION, Mcp, form, routing_headers, tool

META = {PREFIX + "protocolVersion": VERSION, PREFIX + "clientCapabilities": {}}
REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


@dataclass(slots=True)
class Draft:
    """A right `tools/call`, until a fault is put into it."""

    http_method: str = "POST"
    method: str = "tools/call"
    name: Any = "job"
    arguments: Any = field(default_factory=lambda: {"region": "north"})
    meta: dict[str, Any] = field(default_factory=lambda: dict(META))
    envelope: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str | None] = field(default_factory=dict)
    cut: int | None = None

    def request(self) -> Request:
        params = {"name": self.name, "arguments": self.arguments, "_meta": self.meta}
        body = {"jsonrpc": "2.0", "id": 1, "method": self.method, "params": params, **self.envelope}
        headers = {**routing_headers(self.method, params), "mcp-param-region": "north", **self.headers}
        given = {name: value for name, value in headers.items() if value is not None}
        return Request(self.http_method, given, orjson.dumps(body)[: self.cut], "anonymous")


def headers(**changed: str | None) -> Callable[[Draft], None]:
    return lambda draft: draft.headers.update({name.replace("_", "-"): v for name, v in changed.items()})


def change(**members: Any) -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        for name, value in members.items():
            setattr(draft, name, value)

    return apply


def unsupported(draft: Draft) -> None:
    draft.meta[PREFIX + "protocolVersion"] = "2027-01-01"
    draft.headers.setdefault("mcp-protocol-version", "2027-01-01")


def unknown_method(draft: Draft) -> None:
    """Without a header of its own fault: what repeats the method repeats the unknown one."""
    draft.method = "tools/nothing"


@dataclass(frozen=True, slots=True)
class Fault:
    step: str
    put_into: Callable[[Draft], None]
    refusal: tuple[int, int]
    says: str = ""


FAULTS = (
    Fault("http method", change(http_method="GET"), (405, -32600)),
    Fault("host", headers(host="evil.example.com"), (403, -32600), "Host"),
    Fault("origin", headers(origin="https://evil.example.com"), (403, -32600), "Origin"),
    Fault("content type", headers(content_type="text/plain"), (415, -32600)),
    Fault("accept", headers(accept="image/png"), (406, -32600)),
    Fault("json", change(cut=-1), (400, -32700)),
    Fault("envelope", lambda draft: draft.envelope.update(jsonrpc="1.0"), (400, -32600), "jsonrpc"),
    Fault("meta", lambda draft: draft.meta.pop(PREFIX + "clientCapabilities"), (400, -32602), "Capabilities"),
    Fault("version header", headers(mcp_protocol_version="2026-01-01"), (400, -32020), "version"),
    Fault("version", unsupported, (400, -32022)),
    Fault("method header", headers(mcp_method="tools/list"), (400, -32020), "mcp-method"),
    Fault("method", unknown_method, (404, -32601)),
    Fault("name header", headers(mcp_name="other"), (400, -32020), "mcp-name"),
    Fault("params", change(arguments=[]), (200, -32602), "arguments"),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.step)
async def test_each_fault_alone_has_its_own_answer(fault: Fault) -> None:
    await refused(fault, fault)


@pytest.mark.requirement("R-12", "R-31", "R-32", "R-34", "R-35", "R-36")
@pytest.mark.parametrize(
    ("first", "second"),
    [(one, other) for index, one in enumerate(FAULTS) for other in FAULTS[index + 1 :]],
    ids=lambda fault: fault.step,
)
async def test_the_fault_that_is_checked_first_is_told(first: Fault, second: Fault) -> None:
    await refused(first, second)


async def refused(told: Fault, other: Fault) -> None:
    mcp = Mcp(tool(input_schema=REGION))
    draft = Draft()
    for fault in {other.step: other, told.step: told}.values():
        fault.put_into(draft)

    answer = await mcp.send(draft.request())

    assert answer.refusal == told.refusal
    assert told.says in answer.error["message"]
    assert mcp.engine.started == []


@pytest.mark.requirement("R-36", "R-57")
async def test_the_name_header_is_checked_before_the_tool_is_looked_up() -> None:
    answer = await Mcp(tool()).call("tools/call", {"name": "nothing"}, headers={"mcp-name": "other"})

    assert answer.refusal == (400, -32020)


@pytest.mark.requirement("R-57", "R-74")
async def test_an_unknown_tool_is_told_before_its_argument_headers() -> None:
    mcp = Mcp(tool(input_schema=REGION))

    answer = await mcp.call("tools/call", {"name": "nothing"}, headers={"mcp-param-region": "south"})

    assert answer.refusal == (200, -32602)
    assert "nothing" in answer.error["message"]


@pytest.mark.requirement("R-09", "R-102")
@pytest.mark.parametrize(
    "needs",
    [{"task_support": "required"}, {"before_start": [{"ok": {"params": form(sure="boolean")}}]}],
    ids=["task", "question"],
)
async def test_a_missing_capability_is_told_before_argument_headers_and_arguments(
    needs: dict[str, Any],
) -> None:
    mcp = Mcp(tool(input_schema=REGION, **needs))

    answer = await mcp.call("tools/call", {"name": "job", "arguments": {"region": 7}}, caps={})

    assert answer.refusal == (400, -32021)


@pytest.mark.requirement("R-74")
async def test_argument_headers_are_told_before_arguments() -> None:
    mcp = Mcp(tool(input_schema={**REGION, "required": ["day"]}))

    answer = await mcp.call("tools/call", {"name": "job", "arguments": {"region": "north"}})

    assert answer.refusal == (400, -32020)


@pytest.mark.requirement("R-103", "R-36")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_on_tasks_the_capability_is_told_before_params_and_the_task(method: str) -> None:
    mcp = Mcp(tool())

    for params in ({"taskId": "gate-test"}, {"taskId": 7}, {}):
        assert (await mcp.call(method, params, caps={})).refusal == (400, -32021)
    assert (await mcp.call(method, {"taskId": "a"}, caps={}, headers={"mcp-name": "b"})).refusal == (
        400,
        -32020,
    )
