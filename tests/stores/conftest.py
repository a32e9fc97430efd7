"""One set of clients and one table for all tests here: tasks have ids of their own, so they do not meet."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from adapter.aws import Aws
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.stores.table import create_table
from tests.support.aws import aws_at, local_engine, retry_without_pauses
from tests.support.faults import FaultyAws
from tests.support.partition import Partition


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def faulty_aws() -> AsyncIterator[FaultyAws]:
    async with FaultyAws(local_engine().endpoint) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def aws(faulty_aws: FaultyAws) -> AsyncIterator[Aws]:
    """Clients on the local engine, by way of a server that can misbehave."""
    async with aws_at(faulty_aws.endpoint) as clients:
        yield clients


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def table(aws: Aws) -> str:
    name = f"tasks-{secrets.token_hex(6)}"
    await create_table(aws.dynamodb, name)
    return name


@pytest.fixture
def faults(faulty_aws: FaultyAws, monkeypatch: pytest.MonkeyPatch) -> FaultyAws:
    faulty_aws.reset()
    retry_without_pauses(monkeypatch)
    return faulty_aws


@pytest.fixture
def store(aws: Aws, table: str) -> DynamoTaskStore:
    return DynamoTaskStore(aws.dynamodb, table)


@pytest.fixture
def partition(aws: Aws, table: str) -> Partition:
    return Partition(aws.dynamodb, table)
