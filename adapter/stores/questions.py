"""The item by which a workflow asks, for those who write it without the rest of the store.

It costs little to import: no AWS SDK, no pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._items import QUESTION_PREFIX, RECORD, integer, key, string, token_mark, whole

if TYPE_CHECKING:
    from types_boto3_dynamodb.type_defs import AttributeValueTypeDef

    from ._items import Item

EXPIRY = "expiresAt"


def record_key(task_id: str) -> dict[str, AttributeValueTypeDef]:
    return key(task_id, RECORD)


def expiry_of(record: Item) -> int:
    """When the record's items may go, in epoch seconds; 0 where it does not say."""
    return whole(record, EXPIRY) or 0


def new_question(
    task_id: str,
    *,
    token: str,
    method: str,
    params: str,
    entered_at: str | None,
    timeout_seconds: int | None,
    expires_at: int,
) -> dict[str, AttributeValueTypeDef]:
    """Keyed by the token, so that who is retried writes the same item.

    `params` is JSON, `entered_at` ISO 8601, `expires_at` in epoch seconds.
    """
    return {
        **key(task_id, f"{QUESTION_PREFIX}{token_mark(token)}"),
        "token": string(token),
        "method": string(method),
        "params": string(params),
        EXPIRY: integer(expires_at),
        **({} if entered_at is None else {"enteredAt": string(entered_at)}),
        **({} if timeout_seconds is None else {"timeoutSeconds": integer(timeout_seconds)}),
    }
