"""Signed session ids, that any process over the same keys reads, and what belongs to a session."""

from __future__ import annotations

import re
from typing import Any

import pytest

from adapter.mcp.session import _CACHED, PREFIX, Sessions, UnknownSession
from adapter.mcp.signing import Signer
from tests.support.adapter import Mcp, tool
from tests.support.legacy import FORMS, LATEST, VERSIONS, LegacyClient
from tests.support.memory import ManualClock

OLD, NEW, OTHER = "a" * 32, "b" * 32, "c" * 32
SESSION_SECONDS = 90 * 86_400


def keyed(*keys: str, **settings: Any) -> Mcp:
    return Mcp(tool(), signing_keys=keys, **settings)


async def refused(client: LegacyClient) -> tuple[int, int]:
    return (await client.call("tools/list")).refusal


# --- the id ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-16")
@pytest.mark.era_rows("legacy", 9)
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_initialize_opens_a_session_of_its_own(version: str) -> None:
    mcp = keyed(OLD)
    first, second = [await LegacyClient.opened(mcp, version) for _ in range(2)]

    assert first.session != second.session
    for client in (first, second):
        assert re.fullmatch(r"mwa1\.[\x21-\x7e]{1,500}", client.session or "")


@pytest.mark.requirement("L-16")
async def test_only_initialize_is_answered_with_a_session_id() -> None:
    client = await LegacyClient.opened(keyed(OLD))

    assert "mcp-session-id" not in (await client.call("ping")).headers
    assert "mcp-session-id" not in (await client.call("nothing/known")).headers


@pytest.mark.requirement("L-16", "L-06")
async def test_any_instance_over_the_same_keys_knows_the_session() -> None:
    mcp = keyed(OLD)
    client = await LegacyClient.opened(mcp, capabilities=FORMS)
    task_id = await client.start()
    mcp.ask(task_id)

    elsewhere = client.at(mcp.sibling(tool(), signing_keys=(OLD,)))

    assert len(await elsewhere.asked(task_id)) == 1


@pytest.mark.requirement("L-16")
async def test_an_instance_over_other_keys_asks_to_initialize_again() -> None:
    mcp = keyed(OLD)
    client = await LegacyClient.opened(mcp)

    answer = await client.at(mcp.sibling(tool(), signing_keys=(OTHER,))).call("ping")

    assert answer.status == 404
    assert "initialize" in answer.error["message"]


@pytest.mark.requirement("L-16")
@pytest.mark.parametrize(
    "tampered",
    [
        PREFIX,
        PREFIX + "x",
        PREFIX + ".",
        PREFIX + "é.ü",
        "{id}x",
        "{id}, {id}",
        PREFIX + "eyJ2ZXJzaW9uIjoiMjAyNS0xMS0yNSJ9.AAAA",
    ],
)
async def test_an_id_of_ours_that_was_changed_is_not_found(tampered: str) -> None:
    mcp = keyed(OLD)
    client = await LegacyClient.opened(mcp)
    client.session = tampered.format(id=client.session)

    assert await refused(client) == (404, -32600)
    assert (await client.notify("notifications/initialized")).status == 404
    assert (await client.post({"jsonrpc": "2.0", "id": "x", "result": {}})).status == 404


@pytest.mark.requirement("L-16")
async def test_a_signed_value_of_another_purpose_is_no_session() -> None:
    mcp = Mcp(*(tool(f"t{n}") for n in range(3)), signing_keys=(OLD,), page_size=1)
    client = await LegacyClient.opened(mcp)
    cursor = (await client.call("tools/list")).result["nextCursor"]
    client.session = PREFIX + cursor

    assert await refused(client) == (404, -32600)


@pytest.mark.requirement("L-16", "L-59")
async def test_a_session_belongs_to_the_caller_that_opened_it() -> None:
    mcp = keyed(OLD)
    client = await LegacyClient.opened(mcp, caller="ada")
    assert (await client.call("ping")).result == {}

    client.caller = "mallory"

    assert await refused(client) == (404, -32600)


@pytest.mark.requirement("L-16")
async def test_a_session_ends_no_sooner_than_any_task_can() -> None:
    mcp = keyed(OLD)
    client = await LegacyClient.opened(mcp)

    mcp.clock.advance(SESSION_SECONDS - 1)
    assert (await client.call("ping")).result == {}
    mcp.clock.advance(1)
    assert await refused(client) == (404, -32600)

    await client.initialize()
    assert (await client.call("ping")).result == {}


@pytest.mark.requirement("L-16")
async def test_keys_can_be_changed_without_ending_a_session() -> None:
    mcp = keyed(OLD)
    before = await LegacyClient.opened(mcp, caller="ada")
    both = mcp.sibling(tool(), signing_keys=(NEW, OLD))
    between = await LegacyClient.opened(both, caller="ada")
    after = mcp.sibling(tool(), signing_keys=(NEW,))

    assert (await before.at(both).call("ping")).result == {}
    assert (await between.at(after).call("ping")).result == {}
    assert await refused(before.at(after)) == (404, -32600)


def test_sessions_that_were_read_are_remembered_up_to_a_number() -> None:
    sessions = Sessions(Signer([b"k" * 32]), ManualClock(), 60)
    ids = [sessions.issue(LATEST, {}, "ada") for _ in range(_CACHED + 5)]
    for identifier in ids:
        sessions.read(identifier, "ada")

    assert len(sessions._read) == _CACHED
    assert sessions.read(ids[0], "ada") is not None
    with pytest.raises(UnknownSession):
        sessions.read(ids[-1], "mallory")


# --- clients without one --------------------------------------------------------------------------------


@pytest.mark.requirement("L-15", "B-65")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("session", [None, "", "aws-agent-7f3a", "MWA1.x"])
async def test_without_an_id_of_ours_the_version_header_is_enough(version: str, session: str | None) -> None:
    client = LegacyClient(keyed(OLD), version, session=session)

    listed = (await client.call("tools/list")).result["tools"][0]

    assert ("execution" in listed) == (version == LATEST)


@pytest.mark.requirement("L-15", "L-16")
async def test_without_a_session_a_task_is_served_but_nothing_is_asked() -> None:
    mcp = keyed(OLD)
    client = LegacyClient(mcp)
    task_id = await client.start()
    mcp.ask(task_id)

    answer = await client.call("tasks/get", {"taskId": task_id})

    assert (answer.requests, answer.result["status"]) == ([], "working")
    assert "cannot give" in answer.result["statusMessage"]


@pytest.mark.requirement("L-12")
@pytest.mark.era_rows("legacy", 8)
async def test_without_session_and_header_the_version_is_the_oldest() -> None:
    client = LegacyClient(keyed(OLD), "2025-03-26", says_version=False)

    assert (await client.post([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])).status == 200
    assert (await client.call("tasks/list")).refusal == (200, -32601)


@pytest.mark.requirement("L-12", "L-16")
@pytest.mark.parametrize("version", VERSIONS)
async def test_without_a_header_the_session_tells_the_version(version: str) -> None:
    client = await LegacyClient.opened(keyed(OLD), version)
    client.says_version = False

    listed = (await client.call("tools/list")).result["tools"][0]

    assert ("execution" in listed) == (version == LATEST)


@pytest.mark.requirement("L-12")
async def test_a_header_that_differs_from_the_session_counts() -> None:
    client = await LegacyClient.opened(keyed(OLD), LATEST)
    client.version = "2025-06-18"

    assert "execution" not in (await client.call("tools/list")).result["tools"][0]


# --- what a client can take -----------------------------------------------------------------------------

URL_PARAMS = {"mode": "url", "message": "Pay", "url": "https://pay.example.com/1"}
SAMPLING = {"messages": [], "maxTokens": 1}
WITH_TOOLS = {**SAMPLING, "tools": []}
SEVERAL = {
    "message": "Which?",
    "requestedSchema": {
        "type": "object",
        "properties": {"days": {"type": "array", "items": {"type": "string", "enum": ["mon"]}}},
    },
}
ONE = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {"day": {"type": "string"}}}}


@pytest.mark.requirement("L-06", "L-52")
@pytest.mark.parametrize(
    ("version", "declared", "method", "params", "takes"),
    [
        (LATEST, {"elicitation": {}}, "elicitation/create", ONE, True),
        (LATEST, {"elicitation": {}}, "elicitation/create", SEVERAL, True),
        (LATEST, {"elicitation": {}}, "elicitation/create", URL_PARAMS, False),
        (LATEST, {"elicitation": {"url": {}}}, "elicitation/create", URL_PARAMS, True),
        (LATEST, {"elicitation": {"url": {}}}, "elicitation/create", ONE, False),
        (LATEST, {"elicitation": True}, "elicitation/create", ONE, False),
        (LATEST, {"elicitation": {"form": True}}, "elicitation/create", ONE, True),
        (LATEST, {}, "elicitation/create", ONE, False),
        ("2025-06-18", {"elicitation": {}}, "elicitation/create", ONE, True),
        ("2025-06-18", {"elicitation": {}}, "elicitation/create", SEVERAL, False),
        ("2025-06-18", {"elicitation": {"form": {}, "url": {}}}, "elicitation/create", ONE, True),
        ("2025-06-18", {"elicitation": {"form": {}, "url": {}}}, "elicitation/create", URL_PARAMS, False),
        ("2025-06-18", {"elicitation": {"url": {}}}, "elicitation/create", ONE, False),
        ("2025-03-26", {"elicitation": {}}, "elicitation/create", ONE, False),
        (LATEST, {"sampling": {}}, "sampling/createMessage", SAMPLING, True),
        (LATEST, {"sampling": {}}, "sampling/createMessage", WITH_TOOLS, False),
        (LATEST, {"sampling": {"tools": {}}}, "sampling/createMessage", WITH_TOOLS, True),
        ("2025-06-18", {"sampling": {"tools": {}}}, "sampling/createMessage", WITH_TOOLS, False),
        ("2025-03-26", {"sampling": {}}, "sampling/createMessage", SAMPLING, True),
        ("2025-03-26", {"roots": {"listChanged": True}}, "roots/list", {}, True),
        (LATEST, {}, "roots/list", {}, False),
    ],
)
def test_a_session_takes_what_it_declared_and_its_version_knows(
    version: str, declared: dict[str, Any], method: str, params: dict[str, Any], takes: bool
) -> None:
    sessions = Sessions(Signer([b"k" * 32]), ManualClock(), 60)

    session = sessions.read(sessions.issue(version, declared, "ada"), "ada")

    assert session is not None
    assert session.takes(method, params) is takes


# --- isolation: session ---------------------------------------------------------------------------------


@pytest.mark.requirement("L-59", "L-57", "B-38")
async def test_isolated_sessions_do_not_see_each_others_tasks() -> None:
    mcp = keyed(OLD, isolation="session")
    mine, foreign = await LegacyClient.opened(mcp), await LegacyClient.opened(mcp)
    task_id = await mine.start()

    assert await mine.status(task_id) == "working"
    for client in (foreign, LegacyClient(mcp)):
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            answer = await client.call(method, {"taskId": task_id})
            assert answer.refusal == (200, -32602)
            assert answer.error["message"] == "Task not found"
    assert (await mcp.call("tasks/get", {"taskId": task_id})).error["code"] == -32602
    assert mcp.engine.stopped == []


@pytest.mark.requirement("L-56", "L-59")
async def test_an_isolated_session_has_a_list_of_its_own_tasks() -> None:
    mcp = keyed(OLD, isolation="session")
    mine, foreign = LegacyClient(mcp), await LegacyClient.opened(mcp)
    declared = (await mine.initialize())["capabilities"]["tasks"]
    task_id = await mine.start()

    assert declared["list"] == {}
    listed = await mine.at(mcp.sibling(tool(), signing_keys=(OLD,), isolation="session")).call("tasks/list")
    assert [task["taskId"] for task in listed.result["tasks"]] == [task_id]
    assert (await foreign.call("tasks/list")).result == {"tasks": []}


@pytest.mark.requirement("L-56")
async def test_isolation_gives_no_list_to_a_client_without_a_session() -> None:
    client = LegacyClient(keyed(OLD, isolation="session"))

    assert (await client.call("tasks/list")).refusal == (200, -32601)


@pytest.mark.requirement("L-59")
async def test_an_authenticated_caller_owns_its_tasks_whatever_the_session() -> None:
    mcp = keyed(OLD, isolation="session")
    first = await LegacyClient.opened(mcp, caller="ada")
    second = await LegacyClient.opened(mcp, caller="ada")

    assert await second.status(await first.start()) == "working"


@pytest.mark.requirement("L-59", "L-21")
async def test_an_isolated_session_may_send_a_batch() -> None:
    mcp = keyed(OLD, isolation="session")
    client = await LegacyClient.opened(mcp, "2025-03-26")

    answer = await client.post([{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(3)])

    assert [message["result"] for message in answer.messages] == [{}, {}, {}]


@pytest.mark.requirement("L-59", "L-49")
async def test_an_isolated_session_answers_its_own_questions_only() -> None:
    mcp = keyed(OLD, isolation="session")
    mine = await LegacyClient.opened(mcp, capabilities=FORMS)
    foreign = await LegacyClient.opened(mcp, capabilities=FORMS)
    task_id = await mine.start()
    mcp.ask(task_id)
    (question,) = await mine.asked(task_id)

    await foreign.answer(question, {"action": "decline"})
    assert mcp.given == {}
    await mine.answer(question, {"action": "accept", "content": {"sure": True}})
    assert mcp.given == {"q": {"action": "accept", "content": {"sure": True}}}
