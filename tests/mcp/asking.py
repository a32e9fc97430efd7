"""Tools that ask before they start, and calls of them."""

from __future__ import annotations

from typing import Any

from tests.support.adapter import FORMS, Answer, Mcp, accepted, form, tool

KEY = "k" * 32
YES = accepted(sure=True)
DECLINE: dict[str, Any] = {"action": "decline"}
CANCEL: dict[str, Any] = {"action": "cancel"}
CONFIRM = {"ok": {"params": form("Delete it?", ["sure"], sure="boolean"), "proceed_if": {"sure": True}}}
NAME = {"who": {"params": form("Who?", ["name"], name="string")}}
URL = {"pay": {"params": {"mode": "url", "message": "Pay", "url": "https://pay.example.com/1"}}}
SAMPLE_PARAMS: dict[str, Any] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Capital of France?"}}],
    "maxTokens": 10,
}
SAMPLE = {"model": {"method": "sampling/createMessage", "params": SAMPLE_PARAMS}}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}
ROOTS = {"roots": {"method": "roots/list"}}
ROOT_LIST = {"roots": [{"uri": "file:///a", "name": "a"}]}
EVERYTHING = {**FORMS, "elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
OPEN = {"type": "object"}


def asking(*rounds: dict[str, Any], **members: Any) -> Mcp:
    return Mcp(tool(before_start=list(rounds), **{"input_schema": OPEN, **members}), tool("other"))


async def call(mcp: Mcp, answers: object = None, state: object = None, **options: Any) -> Answer:
    params: dict[str, Any] = {"name": "job", **options.pop("params", {})}
    if answers is not None:
        params["inputResponses"] = answers
    if state is not None:
        params["requestState"] = state
    return await mcp.call("tools/call", params, **{"caps": EVERYTHING, **options})


def asked(answer: Answer) -> set[str]:
    assert answer.result["resultType"] == "input_required", answer.result
    return set(answer.result["inputRequests"])
