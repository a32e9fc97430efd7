"""One endpoint for every era: a task made in one is followed in the other, and requests of both mix freely."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapter.tasks.model import Ending
from tests.support.adapter import FORMS as MODERN_FORMS
from tests.support.adapter import Json, Mcp, accepted, tool
from tests.support.legacy import FORMS, RELATED, VERSIONS, LegacyClient

YES = accepted(sure=True)


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool())


@pytest.mark.requirement("R-25", "L-15")
async def test_requests_of_all_versions_mix_on_one_endpoint(mcp: Mcp) -> None:
    clients = [await LegacyClient.opened(mcp, version) for version in VERSIONS]

    modern, *legacy = await asyncio.gather(
        mcp.call("tools/list"), *(client.call("tools/list") for client in clients)
    )

    assert modern.result["resultType"] == "complete"
    assert ["execution" in each.result["tools"][0] for each in legacy] == [True, False, False]


@pytest.mark.requirement("R-25")
@pytest.mark.era_rows("modern", 9)
async def test_a_session_id_means_nothing_in_the_modern_era(mcp: Mcp) -> None:
    session = (await LegacyClient.opened(mcp)).session

    for said in (session, "mwa1.broken", "aws-agent"):
        answer = await mcp.call("tools/list", headers={"mcp-session-id": said})
        assert answer.status == 200
        assert "mcp-session-id" not in answer.headers


@pytest.mark.requirement("L-45", "L-46")
@pytest.mark.parametrize(
    ("how", "modern", "legacy"),
    [
        ({"output": '"done"'}, "completed", "completed"),
        ({"ending": Ending.FAILED, "error": "Boom"}, "completed", "failed"),
        ({"ending": Ending.FAILED, "error": "McpError", "cause": '{"message":"no"}'}, "failed", "failed"),
        ({"ending": Ending.ABORTED}, "cancelled", "cancelled"),
    ],
)
async def test_each_era_derives_its_own_status_from_one_outcome(
    mcp: Mcp, how: dict[str, Any], modern: str, legacy: str
) -> None:
    client = await LegacyClient.opened(mcp)
    made_there, made_here = await mcp.start(), await client.start()
    for task_id in (made_there, made_here):
        mcp.end(task_id, **how)

    for task_id in (made_there, made_here):
        assert (await mcp.get(task_id))["status"] == modern
        assert await client.status(task_id) == legacy


@pytest.mark.requirement("L-46", "L-44")
async def test_a_task_of_the_modern_era_has_its_result_in_the_legacy_one(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp)
    task_id = await mcp.start()
    mcp.end(task_id, '"done"')

    legacy = await client.call("tasks/result", {"taskId": task_id})
    modern = (await mcp.get(task_id))["result"]

    assert legacy.result == {"content": modern["content"], "_meta": {RELATED: {"taskId": task_id}}}
    assert RELATED not in modern.get("_meta", {})


@pytest.mark.requirement("L-48", "L-49")
async def test_a_question_asked_in_one_era_is_answered_in_the_other(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp, capabilities=FORMS)
    task_id = await client.start()
    mcp.ask(task_id, "a")
    mcp.ask(task_id, "b")
    first, second = await client.asked(task_id)

    shown = await mcp.get(task_id, caps=MODERN_FORMS)
    assert shown["inputRequests"].keys() == {"a", "b"}
    answers: Json = {"inputResponses": {"a": YES}}
    await mcp.call("tasks/update", {"taskId": task_id, **answers}, caps=MODERN_FORMS)
    await client.answer(first, {"action": "decline"})
    await client.answer(second, YES)

    assert mcp.given == {"a": YES, "b": YES}
    assert (await mcp.get(task_id, caps=MODERN_FORMS))["status"] == "working"


@pytest.mark.requirement("L-54")
async def test_a_cancel_of_the_modern_era_is_seen_in_the_legacy_one(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await LegacyClient.opened(mcp)
    task_id = await client.start()

    async def ignored(*_: object, **__: object) -> None:
        """A job system that takes its time."""

    monkeypatch.setattr(mcp.engine, "stop", ignored)
    await mcp.call("tasks/cancel", {"taskId": task_id})

    assert await client.status(task_id) == "cancelled"
    assert (await mcp.get(task_id))["status"] == "working", "the modern era waits for what happens"


@pytest.mark.requirement("L-43")
async def test_both_eras_tell_the_same_times(mcp: Mcp) -> None:
    client = await LegacyClient.opened(mcp)
    task_id = await client.start(ttl=10**9)
    mcp.clock.advance(7)
    mcp.ask(task_id)

    legacy, modern = await client.get(task_id), await mcp.get(task_id)

    assert (legacy["ttl"], legacy["pollInterval"]) == (modern["ttlMs"], modern["pollIntervalMs"])
    for name in ("createdAt", "lastUpdatedAt"):
        assert legacy[name] == modern[name]
