"""The record store on DynamoDB (D5)."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from adapter.errors import StoreUnavailable
from adapter.tasks.model import Event, Outcome, Question, Task, TaskRecord
from adapter.tasks.store import Open, OpenItem, place_of

from . import _changes, _items
from ._items import integer, string
from .table import OPEN_TASKS

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient
    from types_aiobotocore_dynamodb.type_defs import AttributeValueTypeDef, QueryInputTypeDef

    from ._items import Item

    Values = Mapping[str, AttributeValueTypeDef]

A = TypeVar("A")
R = TypeVar("R")

logger = logging.getLogger("adapter.stores")


class DynamoTaskStore:
    """A `TaskStore` in one table, which `create_table` makes and `check_table` checks.

    Reads are strongly consistent. Every write is one conditional call that carries a random `op`: where a
    retry by the SDK finds that `op` in its way, an earlier attempt had succeeded and its reply was lost.
    """

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    # --- records -------------------------------------------------------------------------------------------

    async def create(self, record: TaskRecord, *, refresh_at: int, listed: bool = False) -> TaskRecord | None:
        if listed:
            place = _items.key(_items.OWNER_PREFIX + record.owner, place_of(record))
            await self._put(place | {"expiresAt": _items.expiry(record.expires_at)})
        standing = await self._put(_items.new_record(record, refresh_at=refresh_at))
        return None if standing is None else _readable(_items.record_of, standing)

    async def discard(self, task_id: str) -> None:
        key = _items.key(task_id, _items.RECORD)
        await _reached(self._client.delete_item(TableName=self._table, Key=key))

    async def read(self, task_id: str) -> Task | None:
        found = await self._partition(task_id)
        task = _readable(_items.task_of, found)
        if task is None or task.outcome is None:
            return task
        return replace(task, outcome=await self._complete(task.outcome, found[0]))

    async def claim_refresh(self, task_id: str, *, now: int, until: int) -> bool:
        values = {"now": integer(now), "claimedUntil": integer(until)}
        return await self._update(task_id, _items.RECORD, _changes.CLAIM_REFRESH, values) is None

    async def note_refresh(
        self, task_id: str, *, lease: int, refresh_at: int, message: str | None, updated_at: int
    ) -> None:
        values = {
            "lease": integer(lease),
            "refreshAt": integer(refresh_at),
            "claimedUntil": integer(0),
            "updatedAt": integer(updated_at),
        }
        if message is None:
            change = _changes.NOTE_REFRESH_WITHOUT_MESSAGE
        else:
            change = _changes.NOTE_REFRESH
            values["step"] = string(message)
        await self._update(task_id, _items.RECORD, change, values)

    async def latch(self, task_id: str, outcome: Outcome, *, expires_at: int) -> Outcome:
        if outcome.output is not None and _items.is_long(outcome.output):
            await self._put_long_output(task_id, outcome.output, expires_at)
        attributes = _items.outcome_attributes(outcome)
        standing = await self._update(task_id, _items.RECORD, _changes.latch(attributes), attributes)
        earlier = _readable(_items.outcome_of, standing) if standing else None
        if standing is None or earlier is None:
            return outcome
        return await self._complete(earlier, standing)

    async def latch_seen(self, task_id: str, execution: str, outcome: Outcome) -> bool:
        if outcome.output is not None and _items.is_long(outcome.output):
            running = await self._running(task_id, execution)
            if running is None:  # an output beside it would be taken for the right execution's
                return False
            await self._put_long_output(task_id, outcome.output, running.expires_at)
        attributes = _items.outcome_attributes(outcome)
        values = {**attributes, "toldAt": integer(outcome.ended_at), "execution": string(execution)}
        return await self._update(task_id, _items.RECORD, _changes.latch_told(attributes), values) is None

    async def mark_due(self, task_id: str, execution: str, *, now: int, told: bool) -> bool:
        values = {
            "execution": string(execution),
            "refreshAt": integer(now),
            "claimedUntil": integer(0),
        }
        change = _changes.MARK_DUE
        if told:
            change = _changes.MARK_TOLD
            values["toldAt"] = integer(now)
        return await self._update(task_id, _items.RECORD, change, values) is None

    async def mark_absent(self, task_id: str, *, now: int) -> int | None:
        values = {"absentAt": integer(now)}
        standing = await self._update(task_id, _items.RECORD, _changes.MARK_ABSENT, values)
        if standing is None:
            return now
        return None if "ending" in standing else _items.whole(standing, "absentAt")

    async def open_items(self) -> AsyncIterator[OpenItem]:
        for shard in range(_items.SHARDS * len(Open)):
            kind = _items.kind_of(shard)
            async for item in self._shard(shard):
                yield OpenItem(item["pk"]["S"], int(item["createdAt"]["N"]), kind)

    async def _shard(self, shard: int) -> AsyncIterator[Item]:
        query: QueryInputTypeDef = {
            "TableName": self._table,
            "IndexName": OPEN_TASKS,
            "KeyConditionExpression": "openShard = :shard",
            "ExpressionAttributeValues": {":shard": integer(shard)},
        }
        while True:
            page = await _reached(self._client.query(**query))
            for item in page["Items"]:
                yield item
            last = page.get("LastEvaluatedKey")
            if last is None:
                return
            query["ExclusiveStartKey"] = last

    async def _running(self, task_id: str, execution: str) -> TaskRecord | None:
        """The record, if it is of that execution and has not ended."""
        key = _items.key(task_id, _items.RECORD)
        reply = await _reached(self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True))
        item = reply.get("Item")
        if item is None or "ending" in item or _items.text(item, "execution") != execution:
            return None
        return _readable(_items.record_of, item)

    async def request_cancel(self, task_id: str, *, now: int) -> None:
        shard = _items.open_shard(task_id, Open.CANCELLING)
        values = {
            "cancelRequestedAt": integer(now),
            "refreshAt": integer(now),
            "claimedUntil": integer(0),
            "openShard": integer(shard),
        }
        await self._update(task_id, _items.RECORD, _changes.REQUEST_CANCEL, values)

    async def note_stopped(self, task_id: str, *, now: int) -> None:
        values = {"stoppedAt": integer(now)}
        await self._update(task_id, _items.RECORD, _changes.NOTE_STOPPED, values)

    # --- what workflows wrote ------------------------------------------------------------------------------

    async def adopt(self, task_id: str, items: Sequence[Question | Event], *, expires_at: int) -> None:
        """A question is adopted for its current token only: a new wait on the same item is checked again."""
        adoptions = [self._adopt(task_id, item, expires_at) for item in items]
        for result in await asyncio.gather(*adoptions, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _adopt(self, task_id: str, item: Question | Event, expires_at: int) -> None:
        values = {"expiresAt": _items.expiry(expires_at)}
        if isinstance(item, Event):
            await self._update(task_id, _items.EVENT_PREFIX + item.key, _changes.ADOPT_EVENT, values)
        else:
            values |= {"token": string(item.token), "adopted": string(_items.content_mark(item))}
            await self._update(task_id, item.item, _changes.ADOPT_QUESTION, values)

    async def record_answer(
        self, task_id: str, question: Question, answer: str, *, now: int, delivery_until: int
    ) -> bool:
        if question.deadline is not None and now >= question.deadline:
            return False
        values = _of_token(question, "answeredToken")
        values |= {
            "answer": string(answer),
            "answeredAt": integer(now),
            "openShard": integer(_items.open_shard(task_id, Open.ANSWERED)),
            "createdAt": integer(now),
            "deliveryUntil": integer(delivery_until),
        }
        return await self._update(task_id, question.item, _changes.RECORD_ANSWER, values) is None

    async def claim_delivery(self, task_id: str, question: Question, *, now: int, until: int) -> bool:
        values = _of_token(question, "answeredToken")
        values |= {"now": integer(now), "deliveryUntil": integer(until)}
        return await self._update(task_id, question.item, _changes.CLAIM_DELIVERY, values) is None

    async def claim_offer(
        self, task_id: str, question: Question, session: str, *, now: int, until: int
    ) -> bool:
        values = {
            "token": string(question.token),
            "mark": string(_items.token_mark(question.token)),
            "now": integer(now),
            "offer": integer(until),
        }
        names = {"#offer": _items.offer_attribute(session, question.token)}
        return await self._update(task_id, question.item, _changes.CLAIM_OFFER, values, names) is None

    async def release_offer(self, task_id: str, question: Question, session: str) -> None:
        names = {"#offer": _items.offer_attribute(session, question.token)}
        values = {"token": string(question.token)}
        await self._update(task_id, question.item, _changes.RELEASE_OFFER, values, names)

    async def places(self, owner: str, *, before: str | None, limit: int) -> list[str]:
        values = {":pk": string(_items.OWNER_PREFIX + owner)}
        condition = "pk = :pk"
        if before is not None:
            condition += " AND sk < :before"
            values[":before"] = string(before)
        reply = await _reached(
            self._client.query(
                TableName=self._table,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=values,
                ScanIndexForward=False,
                ConsistentRead=True,
                Limit=limit,
            )
        )
        return [item["sk"]["S"] for item in reply["Items"]]

    async def write_reply(self, ask: str, key: str, reply: str, *, expires_at: int) -> None:
        item = {"reply": string(reply), "expiresAt": _items.expiry(expires_at)}
        await self._put(_items.key(_items.ASK_PREFIX + ask, key) | item)

    async def replies(self, ask: str) -> dict[str, str]:
        found = await self._found("pk = :pk", {":pk": string(_items.ASK_PREFIX + ask)})
        return {item["sk"]["S"]: item["reply"]["S"] for item in found}

    async def close_question(self, task_id: str, question: Question) -> None:
        """Without an adoption there is no expiry for a tombstone to have, so the item is removed."""
        if question.adopted:
            values = _of_token(question, "closedToken")
            await self._update(task_id, question.item, _changes.CLOSE_QUESTION, values)
        else:
            await self._delete_wait(task_id, question)

    # --- calls ---------------------------------------------------------------------------------------------

    async def _partition(self, task_id: str) -> list[Item]:
        """The record and what stands beside it, in the order of their sort keys, without long output."""
        values = {":pk": string(task_id), ":record": string(_items.RECORD), ":last": string(_items.LAST)}
        return await self._found("pk = :pk AND sk BETWEEN :record AND :last", values)

    async def _found(self, condition: str, values: Values) -> list[Item]:
        """All items that meet a key condition, strongly consistent."""
        query: QueryInputTypeDef = {
            "TableName": self._table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values,
            "ConsistentRead": True,
        }
        page = await _reached(self._client.query(**query))
        found: list[Item] = [*page["Items"]]
        while last := page.get("LastEvaluatedKey"):
            query["ExclusiveStartKey"] = last
            page = await _reached(self._client.query(**query))
            found.extend(page["Items"])
        return found

    async def _complete(self, outcome: Outcome, record: Item) -> Outcome:
        """With the output that is kept beside the record, if it is."""
        if "outputItem" not in record:
            return outcome
        key = _items.key(record["pk"]["S"], _items.RESULT)
        reply = await _reached(self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True))
        return replace(outcome, output=_items.text(reply.get("Item", {}), "output"))

    async def _put_long_output(self, task_id: str, output: str, expires_at: int) -> None:
        """The first output written stays: where two readers see the end at once, both saw the same one."""
        result = {"output": string(output), "expiresAt": _items.expiry(expires_at)}
        await self._put(_items.key(task_id, _items.RESULT) | result)

    async def _put(self, item: Values) -> Item | None:
        """None when written, else the item that stands there."""
        op = secrets.token_hex(8)
        call = self._client.put_item(
            TableName=self._table,
            Item={**item, "op": string(op)},
            ConditionExpression="attribute_not_exists(pk)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        return await _written(call, op)

    async def _update(
        self,
        task_id: str,
        sort: str,
        change: _changes.Change,
        values: Values,
        names: Mapping[str, str] | None = None,
    ) -> Item | None:
        """None when written, else the item that does not meet the condition, empty where there is none."""
        op = secrets.token_hex(8)
        call = self._client.update_item(
            TableName=self._table,
            Key=_items.key(task_id, sort),
            ConditionExpression=change.condition,
            UpdateExpression=change.update,
            ExpressionAttributeNames=change.names if names is None else {**change.names, **names},
            ExpressionAttributeValues={f":{name}": value for name, value in values.items()}
            | {":op": string(op)},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        return await _written(call, op)

    async def _delete_wait(self, task_id: str, question: Question) -> None:
        call = self._client.delete_item(
            TableName=self._table,
            Key=_items.key(task_id, question.item),
            ConditionExpression="#token = :token",
            ExpressionAttributeNames={"#token": "token"},
            ExpressionAttributeValues={":token": string(question.token)},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        await _written(call, op="")


def _of_token(question: Question, mark: str) -> dict[str, AttributeValueTypeDef]:
    """The values of a change that holds for the question's token only, and leaves this mark of it."""
    return {"token": string(question.token), mark: string(_items.token_mark(question.token))}


async def _written(call: Awaitable[object], op: str) -> Item | None:
    """None when a conditional write succeeded, now or in an earlier attempt; else the item in its way."""
    try:
        await call
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise _unavailable(error) from None
        standing: Item = error.response.get("Item", {})  # type: ignore[assignment]  # not in the stubs
        return None if _items.text(standing, "op") == op else standing
    except BotoCoreError as error:
        raise _unavailable(error) from None
    return None


async def _reached(call: Awaitable[R]) -> R:
    try:
        return await call
    except (ClientError, BotoCoreError) as error:
        raise _unavailable(error) from None


def _unavailable(error: Exception) -> StoreUnavailable:
    logger.warning("DynamoDB: %s: %s", type(error).__name__, error)
    return StoreUnavailable()


def _readable(parse: Callable[[A], R], stored: A) -> R:
    try:
        return parse(stored)
    except (KeyError, ValueError) as error:
        logger.exception("a stored record cannot be understood")
        raise StoreUnavailable("The stored task cannot be read") from error
