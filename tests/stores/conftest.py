from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from adapter.aws import Aws
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.stores.table import create_table
from tests.support.aws import aws_at, local_engine
from tests.support.faults import FaultyAws
from tests.support.partition import Partition


@pytest.fixture
async def faults() -> AsyncIterator[FaultyAws]:
    async with FaultyAws(local_engine().endpoint) as server:
        yield server


@pytest.fixture
async def aws(faults: FaultyAws, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Aws]:
    """Clients on the local engine, by way of the server that can misbehave."""
    async with aws_at(faults.endpoint, monkeypatch) as clients:
        yield clients


@pytest.fixture
async def table(aws: Aws) -> str:
    name = f"tasks-{secrets.token_hex(6)}"
    await create_table(aws.dynamodb, name)
    return name


@pytest.fixture
def store(aws: Aws, table: str) -> DynamoTaskStore:
    return DynamoTaskStore(aws.dynamodb, table)


@pytest.fixture
def partition(aws: Aws, table: str) -> Partition:
    return Partition(aws.dynamodb, table)
