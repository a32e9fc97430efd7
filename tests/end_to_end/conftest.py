from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.end_to_end.site import Client, Site, deployed


@pytest.fixture(scope="session")
def site() -> Site:
    return deployed()


@pytest_asyncio.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    async with site.client() as client:
        yield client
