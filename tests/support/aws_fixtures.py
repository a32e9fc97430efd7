"""Fixtures of the tests that use AWS: one set of clients for all, so they share the session's event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from adapter.aws import Aws
from tests.support.aws import aws_at, local_engine, retry_without_pauses
from tests.support.faults import FaultyAws


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def faulty_aws() -> AsyncIterator[FaultyAws]:
    async with FaultyAws(local_engine().endpoint) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def aws(faulty_aws: FaultyAws) -> AsyncIterator[Aws]:
    """Clients on the local engine, by way of a server that can misbehave."""
    async with aws_at(faulty_aws.endpoint) as clients:
        yield clients


@pytest.fixture
def faults(faulty_aws: FaultyAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyAws]:
    faulty_aws.reset()
    retry_without_pauses(monkeypatch)
    yield faulty_aws
    faulty_aws.reset()  # what was not used up would meet the next test
