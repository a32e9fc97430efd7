"""The task table alone, for functions that need nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adapter.aws import open_dynamodb
from adapter.settings import Settings
from adapter.stores.dynamodb import DynamoTaskStore


@asynccontextmanager
async def open_store() -> AsyncIterator[DynamoTaskStore]:
    """The store over the table that ADAPTER_TABLE names."""
    async with open_dynamodb() as client:
        yield DynamoTaskStore(client, Settings().table)
