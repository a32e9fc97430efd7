"""One loop and one set of clients per container."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lambdas.loop import Container

INITIALIZATION = "AWS_LAMBDA_INITIALIZATION_TYPE"


class Clients:
    """Things that belong to the loop on which they were opened."""

    def __init__(self, *, failures: int = 0) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.closed = 0
        self.failures = failures

    @asynccontextmanager
    async def open(self) -> AsyncIterator[asyncio.AbstractEventLoop]:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("not yet")
        self.loops.append(asyncio.get_running_loop())
        yield self.loops[-1]
        assert asyncio.get_running_loop() is self.loops[-1]
        self.closed += 1


async def _same(opened: asyncio.AbstractEventLoop) -> bool:
    return opened is asyncio.get_running_loop()


async def _broken(_: object) -> None:
    raise ValueError("broken")


def test_it_is_opened_once_for_all_invocations_and_closed_at_the_end() -> None:
    clients = Clients()
    with Container(clients.open) as container:
        assert clients.loops == []
        assert all(container.run(_same) for _ in range(100))
        assert (len(clients.loops), clients.closed) == (1, 0)
    assert clients.closed == 1


def test_what_was_never_opened_is_not_closed() -> None:
    clients = Clients()
    with Container(clients.open):
        pass
    assert clients.closed == 0


@pytest.mark.parametrize("start", ["on-demand", "provisioned-concurrency"])
def test_it_is_opened_while_the_function_starts(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INITIALIZATION, start)
    clients = Clients()
    with Container(clients.open) as container:
        assert len(clients.loops) == 1
        assert container.run(_same)
        assert len(clients.loops) == 1


@pytest.mark.parametrize("start", ["snap-start", "something-new"])
def test_nothing_is_opened_before_a_snapshot_is_restored(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INITIALIZATION, start)
    clients = Clients()
    with Container(clients.open) as container:
        assert clients.loops == []
        assert container.run(_same)


@pytest.mark.requirement("B-61")
def test_an_invocation_after_one_that_failed_is_served_by_the_same_clients() -> None:
    clients = Clients()
    with Container(clients.open) as container:
        container.run(_same)
        with pytest.raises(ValueError, match="broken"):
            container.run(_broken)
        assert container.run(_same)
        assert len(clients.loops) == 1


def test_what_an_invocation_leaves_behind_goes_on_during_the_next() -> None:
    ended = asyncio.Event()
    left: list[asyncio.Task[None]] = []

    async def leave(_: object) -> None:
        async def work() -> None:
            await asyncio.sleep(0)
            ended.set()

        left.append(asyncio.create_task(work()))

    async def wait(_: object) -> None:
        await asyncio.wait_for(ended.wait(), 5)

    with Container(Clients().open) as container:
        container.run(leave)
        container.run(wait)
        assert left[0].done()


def test_what_could_not_be_opened_is_opened_by_the_next_invocation() -> None:
    clients = Clients(failures=2)
    with Container(clients.open) as container:
        for _ in range(2):
            with pytest.raises(ConnectionError):
                container.run(_same)
        assert container.run(_same)
