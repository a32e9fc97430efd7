from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console as Screen

from adapter.cli import tour
from adapter.cli.client import FORMS, TASKS, connected
from adapter.cli.tour_guide import Guide, Surprise, expect
from adapter.cli.tour_steps import STEPS, Step

from .console import Console
from .memory_server import MemoryServer


def test_the_tour_goes_as_expected() -> None:
    with Console("tour") as console:
        assert console.ended(within=300) == 0, console.printed
    assert "All went as expected" in console.stdout
    assert console.stdout.count("\n   as expected\n") == len(STEPS)
    assert console.stderr == ""


def _outcomes(
    steps: tuple[Step, ...], server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str]:
    """How many of the steps had a surprise, and what was printed."""
    screen = Screen(file=io.StringIO(), width=200)
    monkeypatch.setattr(tour, "STEPS", steps)
    surprises = asyncio.run(tour._all_steps(server.url, screen))
    assert isinstance(screen.file, io.StringIO)
    return surprises, screen.file.getvalue()


def test_each_surprise_is_told_and_the_tour_goes_on(
    server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other(_: Guide) -> None:
        expect(1 == 2, "one is not two")

    async def absent(guide: Guide) -> None:
        await guide.client.on_task("tasks/get", "mcp-unknown")

    async def fine(guide: Guide) -> None:
        expect(await guide.client.tools(), "there are no tools")

    steps = tuple(Step(run.__name__, run) for run in (other, absent, fine))
    surprises, printed = _outcomes(steps, server, monkeypatch)
    assert surprises == 2
    assert "not as expected: one is not two" in printed
    assert "not as expected: the server refused the request: Task not found" in printed
    assert printed.count("   as expected") == 1


def test_a_step_that_does_not_end_is_given_up(server: MemoryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(_: Guide) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(tour, "_STEP_SECONDS", 0.2)
    surprises, printed = _outcomes((Step("endless", endless),), server, monkeypatch)
    assert surprises == 1
    assert "not as expected: it took longer than 0.2 s" in printed


async def _guide_with_a_task(server: MemoryServer, tool: str) -> None:
    async with connected(server.url, {**TASKS, **FORMS}) as client:
        guide = Guide(client, client, lambda _: None)
        guide.tools = {t["name"]: t for t in await client.tools()}
        await guide.until(await guide.start(tool), "input_required")


def test_a_task_that_ends_otherwise_is_a_surprise(server: MemoryServer) -> None:
    with pytest.raises(Surprise, match="the task is completed, not input_required"):
        asyncio.run(_guide_with_a_task(server, "echo"))


def test_a_reply_without_a_task_is_a_surprise(server: MemoryServer) -> None:
    with pytest.raises(Surprise, match="there is no task"):
        asyncio.run(_guide_with_a_task(server, "inline"))


def test_a_request_that_should_fail_and_does_not_is_a_surprise(server: MemoryServer) -> None:
    async def refused(tool: str, code: int) -> None:
        async with connected(server.url, TASKS) as client:
            guide = Guide(client, client, lambda _: None)
            await guide.refused(client.on_task("tasks/get", tool) if tool else client.tools(), code)

    with pytest.raises(Surprise, match="it was not refused"):
        asyncio.run(refused("", -32602))
    with pytest.raises(Surprise, match="refused with -32602, not -32021"):
        asyncio.run(refused("mcp-unknown", -32021))


def test_a_dev_that_does_not_start_ends_the_tour_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**tour._environment(), "ADAPTER_PATH": "without-a-slash"}
    monkeypatch.setattr(tour, "_environment", lambda: environment)
    with pytest.raises(Exception, match="`adapter dev` did not start"), tour._dev():
        pass
