"""The endpoint over lines: both eras, in any order, until the input ends."""

from __future__ import annotations

import asyncio

import pytest

from adapter.stdio import transport
from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import PATIENCE, PREFIX, TASKS, Json, Mcp, accepted, tool, until
from tests.support.legacy import FORMS, VERSIONS
from tests.support.memory import MemoryEngine
from tests.support.stdio import MODERN_META, Lines, modern

from .jobs import CALL, started, watched

YES = accepted(sure=True)
SUBSCRIPTION = PREFIX + "subscriptionId"


@pytest.fixture
def mcp() -> Mcp:
    return Mcp(tool(inline_wait="20s"), refresh_min=0.001)


# --- messages -------------------------------------------------------------------------------------------


@pytest.mark.requirement("R-140", "R-144")
async def test_discovery_works_as_the_first_message(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        answer = await lines.call("server/discover", modern())

    assert answer["result"]["supportedVersions"][0] == "2026-07-28"
    assert lines.written == [lines.written[0].strip()]


@pytest.mark.requirement("R-141")
@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({PREFIX + "protocolVersion": "2026-07-28"}, -32602),
        ({**MODERN_META, PREFIX + "clientCapabilities": []}, -32602),
        ({**MODERN_META, PREFIX + "protocolVersion": "v9"}, -32022),
        ({**MODERN_META, PREFIX + "protocolVersion": 7}, -32602),
        (MODERN_META, None),
    ],
)
async def test_there_are_no_header_checks_but_the_rules_of_meta_stay(mcp: Mcp, meta: Json, code: int) -> None:
    async with Lines.opened(mcp) as lines:
        answer = await lines.call("tools/list", {"_meta": meta})

    assert answer.get("error", {}).get("code") == code


@pytest.mark.requirement("R-141")
async def test_arguments_that_http_mirrors_in_headers_need_none_here(mcp: Mcp) -> None:
    region = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    mcp = Mcp(tool(input_schema=region))
    async with Lines.opened(mcp) as lines:
        answer = await lines.call(
            "tools/call", modern({**CALL, "arguments": {"region": "eu"}}, TASKS), identifier="x"
        )

    assert answer["result"]["resultType"] == "task"


@pytest.mark.requirement("R-144", "R-25")
async def test_both_eras_mix_on_one_process(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        first = await lines.call("tools/list", modern())
        await lines.initialize()
        legacy = await lines.call("tools/list")
        again = await lines.call("tools/list", modern())
        unknown = await lines.call("ping", modern())
        pong = await lines.call("ping")

    assert first["result"] == again["result"]
    assert legacy["result"]["tools"][0]["execution"] == {"taskSupport": "optional"}
    assert unknown["error"]["code"] == -32601
    assert pong["result"] == {}


@pytest.mark.requirement("R-144", "L-02")
@pytest.mark.parametrize("version", VERSIONS)
async def test_initialize_settles_the_version_for_the_process(mcp: Mcp, version: str) -> None:
    async with Lines.opened(mcp) as lines:
        assert (await lines.initialize(version=version))["protocolVersion"] == version
        listed = (await lines.call("tools/list"))["result"]["tools"][0]

    assert ("execution" in listed) == (version == VERSIONS[0])


@pytest.mark.requirement("R-144")
async def test_a_legacy_request_before_initialize_is_of_the_oldest_version(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        lines.version = "2025-03-26"
        assert "execution" not in (await lines.call("tools/list"))["result"]["tools"][0]


@pytest.mark.requirement("R-144")
async def test_a_second_initialize_begins_anew(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize(FORMS)
        await lines.initialize({}, "2025-06-18")
        assert "execution" not in (await lines.call("tools/list"))["result"]["tools"][0]


@pytest.mark.requirement("R-140", "R-03", "B-22")
@pytest.mark.parametrize(
    "line", [b"{\n", b"no json\n", b"\xff\xfe\n", b"5\n", b"[]\n", b'{"jsonrpc":"2.0"}\n'], ids=repr
)
async def test_a_line_that_is_no_message_is_told_and_the_next_one_served(mcp: Mcp, line: bytes) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize()
        lines.send(line)
        refused = await lines.next()
        assert (await lines.call("ping"))["result"] == {}

    assert refused["error"]["code"] in {-32700, -32600}
    assert "id" not in refused


@pytest.mark.requirement("R-03")
async def test_before_anybody_has_opened_an_error_has_no_id_either(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        lines.send(b"{\n")
        assert "id" not in await lines.next()


@pytest.mark.requirement("L-22")
async def test_in_an_early_session_such_an_error_has_a_null_id(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize(version="2025-06-18")
        lines.send(b"{\n")
        assert (await lines.next())["id"] is None


@pytest.mark.requirement("R-140")
async def test_blank_lines_and_other_ends_of_lines_do_no_harm(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize()
        for line in (b"\n", b"  \r\n", b'{"jsonrpc":"2.0","id":"x","method":"ping"}\r\n'):
            lines.send(line)
        answer = await lines.next()

    assert (answer["id"], lines.unread) == ("x", 0)


@pytest.mark.requirement("R-14", "L-03")
async def test_notifications_and_responses_are_not_answered(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize()
        lines.notify("notifications/unknown")
        lines.notify("notifications/unknown", _meta=MODERN_META)
        lines.answer({"id": "nothing asked"}, {})
        assert (await lines.call("ping"))["result"] == {}

    assert lines.unread == 0


@pytest.mark.requirement("L-21")
async def test_a_batch_of_the_version_that_has_them_is_answered_on_one_line(mcp: Mcp) -> None:
    written: list[bytes] = []
    async with Lines.opened(mcp) as lines:
        await lines.initialize(version="2025-03-26")

        async def write(message: bytes) -> None:
            written.append(message)

        lines.transport._write = write
        batch = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in (1, 2)]
        lines.send(batch)
        await until(lambda: bool(written))

    assert written == [b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]']


# --- parallel requests and cancellation -----------------------------------------------------------------


@pytest.mark.requirement("R-140")
async def test_requests_are_answered_as_they_finish(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        lines.ask("tools/call", modern(CALL), "slow")
        task_id = await started(mcp)
        for number in range(20):
            assert (await lines.call("tools/list", modern(), identifier=number))["result"]
        mcp.end(task_id, '"done"')
        slow = await lines.next()

    assert slow["id"] == "slow"
    assert slow["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("R-140")
async def test_many_requests_at_once_each_get_their_own_answer() -> None:
    engine = MemoryEngine(ends_at_once=lambda given: Outcome(Ending.SUCCEEDED, output=given.decode()))
    mcp = Mcp(tool(inline_wait="20s", input_schema={"type": "object"}), engine=engine)
    async with Lines.opened(mcp) as lines:
        for number in range(50):
            lines.ask("tools/call", modern({**CALL, "arguments": {"n": number}}), number)
        await until(lambda: len(engine.started) == 50)
        mcp.clock.advance(61)
        answers = [await lines.next() for _ in range(50)]

    assert {each["id"]: each["result"]["content"][0]["text"] for each in answers} == {
        number: f'{{"n":{number}}}' for number in range(50)
    }


@pytest.mark.requirement("R-142", "R-42")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_cancelled_request_is_stopped_and_silent(mcp: Mcp, era: str) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize()
        lines.ask("tools/call", modern(CALL) if era == "modern" else CALL, "call")
        await started(mcp)
        await watched(mcp)
        lines.notify("notifications/cancelled", requestId="call")
        await until(lambda: len(mcp.engine.stopped) == 1)
        assert (await lines.call("ping"))["result"] == {}

    assert lines.unread == 0


@pytest.mark.requirement("R-142")
async def test_a_cancellation_right_behind_its_request_is_not_missed(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        lines.ask("tools/call", modern(CALL), "call")
        lines.notify("notifications/cancelled", requestId="call")
        await until(lambda: len(mcp.engine.stopped) == 1)

    assert lines.unread == 0


@pytest.mark.requirement("R-142", "B-21")
@pytest.mark.parametrize(
    "params", [{"requestId": "7"}, {"requestId": 8}, {"requestId": None}, {"requestId": [7]}, {}, None]
)
async def test_an_id_that_is_not_running_is_ignored(mcp: Mcp, params: Json | None) -> None:
    async with Lines.opened(mcp) as lines:
        lines.ask("tools/call", modern(CALL), 7)
        task_id = await started(mcp)
        cancelled: Json = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        lines.send(cancelled if params is None else {**cancelled, "params": params})
        lines.send({**cancelled, "params": [7]})
        assert (await lines.next())["error"]["code"] == -32600
        mcp.end(task_id)
        assert (await lines.next())["id"] == 7

    assert mcp.engine.stopped == []


@pytest.mark.requirement("R-142")
async def test_a_request_that_is_cancelled_while_it_waits_is_silent_whatever_it_comes_to() -> None:
    mcp = Mcp(tool(inline_wait="0s"), companion_tools="on")
    async with Lines.opened(mcp) as lines:
        await lines.call("tools/call", modern(CALL))
        lines.ask(
            "tools/call", modern({"name": "task_result", "arguments": {"task_id": mcp.only_task}}), "wait"
        )
        await watched(mcp)
        lines.notify("notifications/cancelled", requestId="wait")
        await until(lambda: not mcp.parts.watcher._watched)
        assert (await lines.call("tools/list", modern()))["result"]

    assert lines.unread == 0


@pytest.mark.requirement("L-60")
async def test_a_cancelled_tasks_result_leaves_the_task_alone(mcp: Mcp) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize()
        task_id = (await lines.call("tools/call", {**CALL, "task": {}}))["result"]["task"]["taskId"]
        lines.ask("tasks/result", {"taskId": task_id}, "wait")
        await watched(mcp)
        lines.notify("notifications/cancelled", requestId="wait")
        await until(lambda: not mcp.parts.watcher._watched)
        shown = await lines.call("tasks/get", {"taskId": task_id})

    assert shown["result"]["status"] == "working"
    assert mcp.engine.stopped == []


# --- the end of input -----------------------------------------------------------------------------------


@pytest.mark.requirement("R-143")
async def test_what_was_sent_before_the_end_is_answered(mcp: Mcp) -> None:
    lines = Lines(mcp)
    lines.ask("tools/list", modern(), "a")
    lines.send(b'{"jsonrpc":"2.0","id":"b","method":"ping"}')
    lines.close()
    async with asyncio.timeout(PATIENCE):
        await lines.serving

    assert {(await lines.next())["id"], (await lines.next())["id"]} == {"a", "b"}


@pytest.mark.requirement("R-143")
@pytest.mark.parametrize(("era", "stops"), [("modern", 1), ("legacy", 0)])
async def test_whatever_still_waits_at_the_end_is_given_up(mcp: Mcp, era: str, stops: int) -> None:
    async with Lines.opened(mcp) as lines:
        await lines.initialize()
        lines.ask("tools/call", modern(CALL) if era == "modern" else CALL)
        await started(mcp)
        await watched(mcp)

    assert lines.unread == 0
    assert len(mcp.engine.stopped) == stops


@pytest.mark.requirement("R-143")
async def test_the_end_comes_even_if_something_does_not_give_up(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_LAST_SECONDS", 0.01)
    stuck = asyncio.Event()

    async def hang(*_: object, **__: object) -> None:
        await stuck.wait()

    monkeypatch.setattr(mcp.engine, "start", hang)
    async with Lines.opened(mcp) as lines:
        lines.ask("tools/call", modern(CALL))
        await until(lambda: bool(mcp.store.tasks))
    stuck.set()
    await until(lambda: not lines.transport._running)


@pytest.mark.requirement("R-143")
@pytest.mark.parametrize("problem", [BrokenPipeError, ConnectionResetError])
async def test_a_client_that_closed_our_output_is_no_failure(
    mcp: Mcp, problem: type[OSError], caplog: pytest.LogCaptureFixture
) -> None:
    async with Lines.opened(mcp) as lines:

        async def broken(_message: bytes) -> None:
            raise problem

        lines.transport._write = broken
        lines.ask("tools/list", modern())
        await until(lambda: not lines.transport._running)

    assert "Traceback" not in caplog.text
