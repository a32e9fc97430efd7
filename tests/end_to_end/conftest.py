"""One site for all tests here: tasks have ids of their own, so they do not meet."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from adapter.aws import Aws
from tests.end_to_end.site import Client, Site
from tests.support.aws_fixtures import aws, faults, faulty_aws

__all__ = ["aws", "faults", "faulty_aws"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(aws: Aws) -> Site:
    return await Site.deployed(aws)


@pytest_asyncio.fixture(loop_scope="session")
async def client(site: Site) -> AsyncIterator[Client]:
    async with site.client() as client:
        yield client
