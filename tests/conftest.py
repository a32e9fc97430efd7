"""No test passes in which the product calls AWS beyond what the template allows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.calls import Calls, excess


@pytest.fixture(scope="session", autouse=True)
def _recorder() -> Iterator[Calls]:
    calls = Calls()
    with calls.recorded():
        yield calls


@pytest.fixture(autouse=True)
def calls(_recorder: Calls) -> Iterator[Calls]:
    """What the product calls in this test."""
    _recorder.made.clear()
    yield _recorder
    assert not excess(_recorder.made)
