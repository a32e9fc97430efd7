"""One table for all tests here: tasks have ids of their own, so they do not meet."""

from __future__ import annotations

import secrets

import pytest
import pytest_asyncio

from adapter.aws import Aws
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.stores.table import create_table
from tests.support.aws_fixtures import aws, faults, faulty_aws
from tests.support.partition import Partition

__all__ = ["aws", "faults", "faulty_aws"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
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
