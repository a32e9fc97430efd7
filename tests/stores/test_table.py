from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from adapter.aws import Aws
from adapter.errors import StoreUnavailable
from adapter.stores.table import check_table, create_table
from tests.support.faults import LOST_REQUEST, FaultyAws, error

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEYS = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
INDEX_KEYS = [
    {"AttributeName": "openShard", "KeyType": "HASH"},
    {"AttributeName": "createdAt", "KeyType": "RANGE"},
]
WANTED = "not openShard (N), createdAt (N)"


def _index(keys: list[dict[str, str]], projection: str = "KEYS_ONLY") -> dict[str, Any]:
    return {"IndexName": "open-tasks", "KeySchema": keys, "Projection": {"ProjectionType": projection}}


async def _made(
    client: DynamoDBClient, *, ttl: str | None = "expiresAt", created_at: str = "N", **settings: Any
) -> str:
    """A table made by somebody else."""
    name = f"table-{secrets.token_hex(6)}"
    types = {"pk": "S", "sk": "S", "openShard": "N", "createdAt": created_at}
    request: dict[str, Any] = {"KeySchema": KEYS, "GlobalSecondaryIndexes": [_index(INDEX_KEYS)]} | settings
    used = str(request)
    await client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": attribute, "AttributeType": kind}
            for attribute, kind in types.items()
            if f"'{attribute}'" in used
        ],
        **{key: value for key, value in request.items() if value},
    )
    if ttl is not None:
        await client.update_time_to_live(
            TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": ttl}
        )
    return name


async def test_a_created_table_passes_the_check(aws: Aws) -> None:
    name = f"table-{secrets.token_hex(6)}"
    await create_table(aws.dynamodb, name)
    assert await check_table(aws.dynamodb, name) == []


async def test_creating_a_table_again_changes_nothing(aws: Aws, faults: FaultyAws) -> None:
    name = f"table-{secrets.token_hex(6)}"
    await create_table(aws.dynamodb, name)
    faults.reset()
    await create_table(aws.dynamodb, name)
    assert "UpdateTimeToLive" not in faults.operations
    assert await check_table(aws.dynamodb, name) == []


@pytest.mark.requirement("B-50")
async def test_a_table_that_exists_without_ttl_gets_it(aws: Aws) -> None:
    name = await _made(aws.dynamodb, ttl=None)
    await create_table(aws.dynamodb, name)
    assert await check_table(aws.dynamodb, name) == []


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"ttl": None}, "expired items stay for ever: enable time to live (TTL) on 'expiresAt'"),
        ({"ttl": "ttl"}, "time to live (TTL) is enabled on 'ttl', not on 'expiresAt'"),
        ({"KeySchema": KEYS[:1]}, "its keys are pk (S), not pk (S), sk (S)"),
        ({"GlobalSecondaryIndexes": None}, "the index 'open-tasks' is missing"),
        (
            {"GlobalSecondaryIndexes": [_index(INDEX_KEYS, "ALL")]},
            "the index 'open-tasks' projects ALL, not KEYS_ONLY",
        ),
        (
            {"GlobalSecondaryIndexes": [_index(INDEX_KEYS[:1])]},
            "the keys of the index 'open-tasks' are openShard (N), " + WANTED,
        ),
        (
            {"created_at": "S"},
            "the keys of the index 'open-tasks' are openShard (N), createdAt (S), " + WANTED,
        ),
    ],
)
async def test_a_table_that_does_not_fit_is_told_why(
    aws: Aws, settings: dict[str, Any], problem: str
) -> None:
    name = await _made(aws.dynamodb, **settings)
    assert await check_table(aws.dynamodb, name) == [f"table {name!r}: {problem}"]


async def test_a_missing_table_is_told(aws: Aws) -> None:
    assert await check_table(aws.dynamodb, "nowhere") == ["table 'nowhere' does not exist"]


async def test_a_table_that_may_not_be_described_is_told(aws: Aws, faults: FaultyAws) -> None:
    faults.script("DescribeTable", error("AccessDeniedException"))
    assert await check_table(aws.dynamodb, "t") == ["table 't' cannot be checked: AccessDeniedException"]


async def test_an_endpoint_that_cannot_be_reached_is_told(aws: Aws, faults: FaultyAws) -> None:
    faults.script("DescribeTable", *[LOST_REQUEST] * 3)
    assert await check_table(aws.dynamodb, "t") == ["table 't' cannot be checked: ConnectionClosedError"]


async def test_a_table_that_cannot_be_created_is_told(aws: Aws, faults: FaultyAws) -> None:
    faults.script("CreateTable", error("AccessDeniedException"))
    with pytest.raises(StoreUnavailable, match="The table 't' cannot be created"):
        await create_table(aws.dynamodb, "t")
