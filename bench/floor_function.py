"""What every function pays that asks DynamoDB: the runtime client, aiobotocore and its clients, nothing else.

It takes the same event as the others and returns as much; member `query` says whether it makes one bare Query.
"""

from __future__ import annotations

from typing import Any

from adapter.aws import Aws, open_aws
from lambdas.loop import Container

TASK = "mcp-running-QkVOQ0gtUlVOTklORw"
REPLY = {
    "statusCode": 200,
    "headers": {"content-type": "application/json"},
    "body": '{"jsonrpc":"2.0","id":7,"result":{"status":"working","text":"' + "x" * 350 + '"}}',
    "isBase64Encoded": False,
}

_container = Container(open_aws)


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    if event["query"]:
        _container.run(_queried)
    return REPLY


async def _queried(aws: Aws) -> None:
    page = await aws.dynamodb.query(
        TableName="mcp-tasks",
        KeyConditionExpression="pk = :pk AND sk < :result",
        ExpressionAttributeValues={":pk": {"S": TASK}, ":result": {"S": "~result"}},
        ConsistentRead=True,
    )
    assert page["Items"]
