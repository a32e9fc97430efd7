"""One timer limits the work of all invocations."""

from __future__ import annotations

import asyncio

import pytest

from lambdas.deadline import Deadline
from tests.support.virtual_time import in_virtual_time


async def _work(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


def _now() -> float:
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_work_that_is_done_in_time_gives_its_result() -> None:
    assert await Deadline().within(29, _work(28)) == "done"
    assert _now() == 28


@in_virtual_time
async def test_work_that_takes_longer_is_ended_in_time() -> None:
    with pytest.raises(TimeoutError):
        await Deadline().within(29, _work(30))
    assert _now() == 29


@in_virtual_time
async def test_without_any_time_it_is_ended_at_its_first_pause() -> None:
    with pytest.raises(TimeoutError):
        await Deadline().within(-1, _work(1))
    assert _now() == 0


@in_virtual_time
async def test_the_timer_of_earlier_work_does_not_end_later_work() -> None:
    deadline = Deadline()
    for _ in range(20):
        assert await deadline.within(29, _work(7)) == "done"
    with pytest.raises(TimeoutError):
        await deadline.within(29, _work(60))
    assert _now() == 20 * 7 + 29


@in_virtual_time
async def test_work_with_less_time_than_the_work_before_is_ended_in_time() -> None:
    deadline = Deadline()
    await deadline.within(29, _work(1))
    with pytest.raises(TimeoutError):
        await deadline.within(5, _work(60))
    assert _now() == 6
    assert await deadline.within(5, _work(4)) == "done"


@in_virtual_time
async def test_a_timer_that_finds_nothing_to_do_is_not_set_again() -> None:
    deadline = Deadline()
    await deadline.within(5, _work(1))
    await asyncio.sleep(60)
    assert await deadline.within(5, _work(4)) == "done"


@in_virtual_time
async def test_what_work_raises_is_raised() -> None:
    async def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await Deadline().within(5, broken())


@in_virtual_time
async def test_a_hundred_invocations_leave_one_timer() -> None:
    deadline = Deadline()
    for _ in range(100):
        await deadline.within(29, _work(0))
    assert len(asyncio.get_running_loop()._scheduled) <= 1  # type: ignore[attr-defined]
