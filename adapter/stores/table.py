"""The table of the DynamoDB store: made for the local engine and tests, checked before it is relied on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError, WaiterError

from adapter.errors import ConfigurationError, StoreUnavailable

from ._items import RECORD

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient
    from types_aiobotocore_dynamodb.type_defs import (
        AttributeDefinitionTypeDef,
        KeySchemaElementTypeDef,
        TableDescriptionTypeDef,
        UniversalAttributeValueTypeDef,
    )

logger = logging.getLogger(__name__)

TTL_ATTRIBUTE = "expiresAt"
OPEN_TASKS = "open-tasks"
_KEYS: Sequence[KeySchemaElementTypeDef] = [
    {"AttributeName": "pk", "KeyType": "HASH"},
    {"AttributeName": "sk", "KeyType": "RANGE"},
]
_INDEX_KEYS: Sequence[KeySchemaElementTypeDef] = [
    {"AttributeName": "openShard", "KeyType": "HASH"},
    {"AttributeName": "createdAt", "KeyType": "RANGE"},
]
_TYPES: Sequence[AttributeDefinitionTypeDef] = [
    {"AttributeName": "pk", "AttributeType": "S"},
    {"AttributeName": "sk", "AttributeType": "S"},
    {"AttributeName": "openShard", "AttributeType": "N"},
    {"AttributeName": "createdAt", "AttributeType": "N"},
]


async def create_table(client: DynamoDBClient, name: str) -> None:
    """Create the table unless it exists, wait until it is active, and have DynamoDB remove expired items.

    Raises StoreUnavailable.
    """
    try:
        await _create(client, name)
        await client.get_waiter("table_exists").wait(
            TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
        if await _ttl_problem(client, name) is not None:
            await client.update_time_to_live(
                TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
            )
    except (ClientError, BotoCoreError, WaiterError) as error:
        raise StoreUnavailable(f"The table {name!r} cannot be created") from error


async def require_table(client: DynamoDBClient, name: str) -> None:
    """Raises ConfigurationError where there is no such table, by a read that the server may make anyway."""
    nothing: Mapping[str, UniversalAttributeValueTypeDef] = {"pk": {"S": "nothing"}, "sk": {"S": RECORD}}
    try:
        await client.get_item(TableName=name, Key=nothing)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            raise ConfigurationError(
                f"table {name!r} does not exist in {client.meta.region_name}: set ADAPTER_TABLE to the one of the "
                "deployed stack (its output TaskTableName)"
            ) from None
        logger.warning("table %s cannot be read now: %s", name, error)
    except BotoCoreError as error:
        logger.warning("table %s cannot be read now: %s", name, error)


async def check_table(client: DynamoDBClient, name: str) -> list[str]:
    """What keeps the table from serving as the store, in plain words; empty when it is fit."""
    try:
        description = (await client.describe_table(TableName=name))["Table"]
        ttl = await _ttl_problem(client, name)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "ResourceNotFoundException":
            return [f"table {name!r} does not exist"]
        return [f"table {name!r} cannot be checked: {code}"]
    except BotoCoreError as error:
        return [f"table {name!r} cannot be checked: {type(error).__name__}"]
    problems = [_key_problem(description), _index_problem(description), ttl]
    return [f"table {name!r}: {problem}" for problem in problems if problem is not None]


async def _create(client: DynamoDBClient, name: str) -> None:
    try:
        await client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=_TYPES,
            KeySchema=_KEYS,
            GlobalSecondaryIndexes=[
                {
                    "IndexName": OPEN_TASKS,
                    "KeySchema": _INDEX_KEYS,
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
        )
    except client.exceptions.ResourceInUseException:
        return


async def _ttl_problem(client: DynamoDBClient, name: str) -> str | None:
    reply = await client.describe_time_to_live(TableName=name)
    ttl = reply["TimeToLiveDescription"]
    if ttl.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
        return f"expired items stay for ever: enable time to live (TTL) on {TTL_ATTRIBUTE!r}"
    if ttl.get("AttributeName") != TTL_ATTRIBUTE:
        return f"time to live (TTL) is enabled on {ttl.get('AttributeName')!r}, not on {TTL_ATTRIBUTE!r}"
    return None


def _key_problem(table: TableDescriptionTypeDef) -> str | None:
    return _mismatch(table, table.get("KeySchema", []), _KEYS, "its keys")


def _index_problem(table: TableDescriptionTypeDef) -> str | None:
    indexes = {index.get("IndexName"): index for index in table.get("GlobalSecondaryIndexes", [])}
    index = indexes.get(OPEN_TASKS)
    if index is None:
        return f"the index {OPEN_TASKS!r} is missing"
    projection = index.get("Projection", {}).get("ProjectionType")
    if projection != "KEYS_ONLY":
        return f"the index {OPEN_TASKS!r} projects {projection}, not KEYS_ONLY"
    return _mismatch(table, index.get("KeySchema", []), _INDEX_KEYS, f"the keys of the index {OPEN_TASKS!r}")


def _mismatch(
    table: TableDescriptionTypeDef,
    found: Sequence[KeySchemaElementTypeDef],
    wanted: Sequence[KeySchemaElementTypeDef],
    what: str,
) -> str | None:
    is_now = _spelt(found, table.get("AttributeDefinitions", []))
    should_be = _spelt(wanted, _TYPES)
    return None if is_now == should_be else f"{what} are {is_now}, not {should_be}"


def _spelt(keys: Sequence[KeySchemaElementTypeDef], types: Sequence[AttributeDefinitionTypeDef]) -> str:
    kinds = {entry["AttributeName"]: entry["AttributeType"] for entry in types}
    return ", ".join(f"{key['AttributeName']} ({kinds[key['AttributeName']]})" for key in keys)
