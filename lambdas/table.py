"""The task table alone, for functions that need nothing else; so little that they start without pydantic."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adapter.aws import open_dynamodb
from adapter.stores.dynamodb import DynamoTaskStore


@asynccontextmanager
async def open_store() -> AsyncIterator[DynamoTaskStore]:
    """The store over the table that ADAPTER_TABLE names."""
    async with open_dynamodb() as client:
        yield DynamoTaskStore(client, os.environ["ADAPTER_TABLE"])
