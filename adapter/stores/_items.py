"""Items of the table and what they mean.

Workflows write `input#` and `event#` items themselves, so the types of these are not trusted. There is one
partition per task (D5), and the sort key says what an item is:

    #task      the record, sorts first
    event#…    progress or a log line
    input#…    a question
    ~result    output that is too long for the record; a query for the rest stops before it
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from adapter.tasks.model import Ending, Event, Outcome, Question, Task, TaskRecord
from adapter.tasks.store import Open

if TYPE_CHECKING:
    from collections.abc import Mapping

    from types_aiobotocore_dynamodb.type_defs import AttributeValueTypeDef

    Item = Mapping[str, AttributeValueTypeDef]

logger = logging.getLogger("adapter.stores")

RECORD = "#task"
RESULT = "~result"
LAST = "}"
"""Nothing of what a read wants sorts after this."""
QUESTION_PREFIX = "input#"
EVENT_PREFIX = "event#"
OWNER_PREFIX = "owner#"
ASK_PREFIX = "ask#"
OFFER_PREFIX = "offer."
SHARDS = 16
"""Of each kind of open work: 0-15 running, 16-31 to be stopped, 32-47 answered, 48-63 running with an end."""
STOP_GRACE_MS = 3_600_000
"""A record whose execution is to be stopped when it expires stays so much longer, or nothing would tell of it."""
INLINE_OUTPUT_BYTES = 32_768
_KEY_CHARACTERS = 40
_GREATEST = 1e15
"""Numbers beyond are no times, counts or progress, whatever a workflow wrote."""


def string(value: str) -> AttributeValueTypeDef:
    return {"S": value}


def integer(value: int) -> AttributeValueTypeDef:
    return {"N": str(int(value))}


def expiry(expires_at: int) -> AttributeValueTypeDef:
    """Epoch milliseconds as the TTL attribute wants them: whole epoch seconds, never too early."""
    return integer(-(-expires_at // 1000))


_KINDS = tuple(Open)


def open_shard(task_id: str, kind: Open) -> int:
    return zlib.crc32(task_id.encode()) % SHARDS + SHARDS * _KINDS.index(kind)


def kind_of(shard: int) -> Open:
    return _KINDS[shard // SHARDS]


def key(task_id: str, sort: str) -> dict[str, AttributeValueTypeDef]:
    return {"pk": string(task_id), "sk": string(sort)}


def text(item: Item, name: str) -> str | None:
    """The value of a string attribute; None where it is missing or of another type."""
    value = item.get(name)
    return value.get("S") if value is not None else None


def number(item: Item, name: str) -> float | None:
    """The finite value of a number attribute, or of a string that holds a number."""
    value = item.get(name)
    if value is None:
        return None
    try:
        parsed = float(value.get("N") or value.get("S") or "")
    except ValueError:
        return None
    return parsed if abs(parsed) < _GREATEST else None  # which NaN is not either


def whole(item: Item, name: str) -> int | None:
    value = number(item, name)
    return None if value is None else int(value)


def content_mark(question: Question) -> str:
    """Says which question has been checked: an item that is overwritten afterwards is checked anew."""
    return token_mark("\0".join((question.token, question.method, question.params)))


def token_mark(token: str) -> str:
    """Says which token an attribute belongs to, without holding it."""
    return sha256(token.encode()).hexdigest()[:32]


# --- the record --------------------------------------------------------------------------------------------


def new_record(record: TaskRecord, *, refresh_at: int) -> dict[str, AttributeValueTypeDef]:
    to_stop = record.on_expire == "stop"
    kind = Open.EXPIRING if to_stop else Open.RUNNING
    return {
        **key(record.task_id, RECORD),
        "owner": string(record.owner),
        "tool": string(record.tool),
        "engine": string(record.engine),
        "target": string(record.target),
        "execution": string(record.execution),
        "createdAt": integer(record.created_at),
        "ttlMs": integer(record.ttl_ms),
        "pollMs": integer(record.poll_ms),
        "onExpire": string(record.on_expire),
        "resultSettings": string(record.result_settings),
        **({} if record.input_digest is None else {"inputDigest": string(record.input_digest)}),
        **({} if record.progress_token is None else {"progressToken": string(record.progress_token)}),
        "updatedAt": integer(record.created_at),
        "refreshAt": integer(refresh_at),
        "claimedUntil": integer(0),
        "openShard": integer(open_shard(record.task_id, kind)),
        "expiresAt": expiry(record.expires_at + STOP_GRACE_MS if to_stop else record.expires_at),
    }


def record_of(item: Item) -> TaskRecord:
    """Raises KeyError or ValueError for an item that this code did not write."""
    return TaskRecord(
        task_id=item["pk"]["S"],
        owner=item["owner"]["S"],
        tool=item["tool"]["S"],
        engine=item["engine"]["S"],
        target=item["target"]["S"],
        execution=item["execution"]["S"],
        created_at=int(item["createdAt"]["N"]),
        ttl_ms=int(item["ttlMs"]["N"]),
        poll_ms=int(item["pollMs"]["N"]),
        on_expire="stop" if item["onExpire"]["S"] == "stop" else "leave",
        result_settings=item["resultSettings"]["S"],
        input_digest=text(item, "inputDigest"),
        progress_token=text(item, "progressToken"),
    )


def outcome_attributes(outcome: Outcome) -> dict[str, AttributeValueTypeDef]:
    """What the record keeps of an outcome. Long output is only pointed to; its item is written before."""
    attributes = {"ending": string(outcome.ending), "endedAt": integer(outcome.ended_at)}
    if outcome.output is not None:
        long = is_long(outcome.output)
        attributes |= {"outputItem": string(RESULT)} if long else {"output": string(outcome.output)}
    for name, value in (("error", outcome.error), ("cause", outcome.cause)):
        if value is not None:
            attributes[name] = string(value)
    return attributes


def is_long(output: str) -> bool:
    return len(output.encode()) > INLINE_OUTPUT_BYTES


def outcome_of(item: Item) -> Outcome | None:
    """The outcome that a record holds, without output that is kept elsewhere."""
    if "ending" not in item:
        return None
    return Outcome(
        Ending(item["ending"]["S"]),
        output=text(item, "output"),
        error=text(item, "error"),
        cause=text(item, "cause"),
        ended_at=int(item["endedAt"]["N"]),
    )


def task_of(items: Sequence[Item]) -> Task | None:
    """The task that the items of a partition make up (in the order of sort keys); None without a record."""
    if not items or items[0]["sk"]["S"] != RECORD:
        return None
    item = items[0]
    record = record_of(item)
    outcome = outcome_of(item)
    cancel_requested_at = whole(item, "cancelRequestedAt")
    questions, events, last_change = _parts(items[1:], record.created_at)
    return Task(
        record=record,
        updated_at=max(
            int(item["updatedAt"]["N"]),
            last_change,
            cancel_requested_at or 0,
            0 if outcome is None else outcome.ended_at,
        ),
        message=text(item, "step"),
        refresh_at=int(item["refreshAt"]["N"]),
        claimed_until=whole(item, "claimedUntil") or 0,
        cancel_requested_at=cancel_requested_at,
        stopped_at=whole(item, "stoppedAt"),
        told_at=whole(item, "toldAt"),
        absent_at=whole(item, "absentAt"),
        outcome=outcome,
        questions=questions,
        events=events,
    )


def _parts(items: Sequence[Item], created_at: int) -> tuple[tuple[Question, ...], tuple[Event, ...], int]:
    """What stands beside a record, and when a question was last asked or answered."""
    questions: list[Question] = []
    events: list[Event] = []
    last_change = 0
    for item in items:
        sort = item["sk"]["S"]
        if sort.startswith(QUESTION_PREFIX):
            entered_at = _epoch_ms(text(item, "enteredAt"))
            last_change = max(last_change, entered_at or 0, whole(item, "answeredAt") or 0)
            if question := _question(item, sort, entered_at, created_at):
                questions.append(question)
        elif sort.startswith(EVENT_PREFIX) and (event := _event(item, sort)):
            events.append(event)
    questions.sort(key=lambda question: question.asked_at)
    return tuple(questions), tuple(events), last_change


# --- what workflows write ----------------------------------------------------------------------------------


def _question(item: Item, sort: str, entered_at: int | None, created_at: int) -> Question | None:
    token = text(item, "token")
    if not token:
        if "closedToken" not in item:
            _report_ignored(item["pk"]["S"], sort, "it has no token")
        return None
    mark = token_mark(token)
    if text(item, "closedToken") == mark:
        return None
    # A new wait on the same item keeps the old attributes: an answer counts only for its own token.
    answered = text(item, "answeredToken") == mark
    question = Question(
        key=_question_key(sort, token, mark),
        item=sort,
        token=token,
        method=text(item, "method") or "",
        params=text(item, "params") or "",
        asked_at=created_at if entered_at is None else entered_at,
        deadline=_deadline(entered_at, number(item, "timeoutSeconds")),
        answer=text(item, "answer") if answered else None,
        delivery_until=whole(item, "deliveryUntil") or 0 if answered else 0,
        offers=_offers(item, mark),
    )
    question.adopted = text(item, "adopted") == content_mark(question)
    return question


def offer_attribute(session: str, token: str) -> str:
    """The attribute for one session and one wait: a new wait on the same item is offered anew."""
    return f"{OFFER_PREFIX}{token_mark(token)[:10]}.{session}"


def _offers(item: Item, mark: str) -> dict[str, int]:
    prefix = f"{OFFER_PREFIX}{mark[:10]}."
    names = [name for name in item if name.startswith(prefix)]
    return {name.removeprefix(prefix): whole(item, name) or 0 for name in names}


def _question_key(sort: str, token: str, mark: str) -> str:
    suffix = sort[len(QUESTION_PREFIX) :][:_KEY_CHARACTERS]
    if not suffix or token.startswith(suffix):  # a workflow that named the item after its token
        suffix = "question"
    return f"{suffix}-{mark[:10]}"


def _deadline(entered_at: int | None, timeout_seconds: float | None) -> int | None:
    if entered_at is None or timeout_seconds is None:
        return None
    return entered_at + int(timeout_seconds * 1000)


def _epoch_ms(iso: str | None) -> int | None:
    try:
        time = datetime.fromisoformat(iso or "")
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _event(item: Item, sort: str) -> Event | None:
    kind = _event_kind(item)
    if kind is None:
        _report_ignored(item["pk"]["S"], sort, "its kind is neither progress nor log")
        return None
    return Event(
        key=sort[len(EVENT_PREFIX) :],
        kind=kind,
        message=text(item, "message"),
        progress=number(item, "progress"),
        total=number(item, "total"),
        level=text(item, "level") or "info",
        data=text(item, "data"),
        adopted="N" in item.get("expiresAt", {}),
    )


def _event_kind(item: Item) -> Literal["progress", "log"] | None:
    match text(item, "kind"):
        case "progress":
            return "progress"
        case "log":
            return "log"
        case _:
            return None


@lru_cache(maxsize=1024)
def _report_ignored(task_id: str, sort: str, reason: str) -> None:
    """Cached, so that polling does not log the same item again and again."""
    logger.warning("task %s: item %s is ignored: %s", task_id, sort, reason)
