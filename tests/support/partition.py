"""A task's items as they are in the table, read and written past the store, as a workflow does."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapter.tasks.model import TaskRecord

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient

NOW = 1_800_000_000_000
HOUR = 3_600_000
EXPIRES = NOW + 24 * HOUR


def new_record(**changes: Any) -> TaskRecord:
    task_id = f"mcp-{secrets.token_urlsafe(16)}"
    settings: dict[str, Any] = {
        "task_id": task_id,
        "owner": "",
        "tool": "report",
        "engine": "step_functions",
        "target": "arn:aws:states:us-east-1:123456789012:stateMachine:report",
        "execution": f"arn:aws:states:us-east-1:123456789012:execution:report:{task_id}",
        "created_at": NOW,
        "ttl_ms": EXPIRES - NOW,
        "poll_ms": 5_000,
        "on_expire": "leave",
        "result_settings": '{"mode":"auto"}',
    }
    return TaskRecord(**(settings | changes))


@dataclass
class Partition:
    client: DynamoDBClient
    table: str

    async def ask(self, task_id: str, name: str = "approval", **attributes: Any) -> None:
        """What `aws-sdk:dynamodb:updateItem.waitForTaskToken` does: old attributes stay."""
        defaults = {
            "token": {"S": f"token-{secrets.token_hex(40)}"},
            "method": {"S": "elicitation/create"},
            "params": {"S": '{"message":"Go on?"}'},
            "enteredAt": {"S": "2027-01-15T08:00:00.250Z"},
        }
        await self.update(task_id, f"input#{name}", defaults | attributes)

    async def update(self, task_id: str, sort: str, attributes: dict[str, Any]) -> None:
        names = {f"#{name}": name for name in attributes}
        await self.client.update_item(
            TableName=self.table,
            Key={"pk": {"S": task_id}, "sk": {"S": sort}},
            UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in attributes),
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={f":{name}": value for name, value in attributes.items()},
        )

    async def item(self, task_id: str, sort: str) -> dict[str, Any]:
        """Empty where there is none."""
        reply = await self.client.get_item(
            TableName=self.table, Key={"pk": {"S": task_id}, "sk": {"S": sort}}, ConsistentRead=True
        )
        return dict(reply.get("Item", {}))

    async def remove(self, task_id: str, sort: str) -> None:
        await self.client.delete_item(TableName=self.table, Key={"pk": {"S": task_id}, "sk": {"S": sort}})
