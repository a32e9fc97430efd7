"""The local engine for functions, which are synchronous: each test has a container of its own."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

import pytest

from adapter.stores.dynamodb import DynamoTaskStore
from adapter.stores.table import create_table
from lambdas.loop import Container
from lambdas.table import open_store
from tests.support.aws import aws_at, local_engine, point_at


@pytest.fixture(scope="session")
def table() -> str:
    """A table of the local engine."""
    name = f"tasks-{secrets.token_hex(6)}"

    async def create() -> None:
        async with aws_at(local_engine().endpoint) as aws:
            await create_table(aws.dynamodb, name)

    asyncio.run(create())
    return name


@pytest.fixture
def environment(table: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment of a function that uses the local engine and the table. Gives the endpoint."""
    point_at(local_engine().endpoint, monkeypatch)
    monkeypatch.setenv("ADAPTER_TABLE", table)
    return local_engine().endpoint


@pytest.fixture
def container(environment: str) -> Iterator[Container[DynamoTaskStore]]:
    """The store as functions have it."""
    with Container(open_store) as container:
        yield container
