"""What DescribeExecution and GetExecutionHistory say, in the domain's words and safe to show to a client."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import orjson

from adapter.tasks.model import Ending, Outcome
from adapter.tools.schema import too_deep

if TYPE_CHECKING:
    from types_aiobotocore_stepfunctions.type_defs import (
        DescribeExecutionOutputTypeDef,
        HistoryEventTypeDef,
    )

_REDACTED = "[redacted]"
_ARN = re.compile(r"(?i)(?<![a-z0-9])arn(:|%3a)[a-z0-9-]+\1[^\s\"'`<>(){}\[\],;\\|]+")

# Every other status, also one that does not exist yet, means that it still runs.
ENDINGS = {
    "SUCCEEDED": Ending.SUCCEEDED,
    "FAILED": Ending.FAILED,
    "TIMED_OUT": Ending.TIMED_OUT,
    "ABORTED": Ending.ABORTED,
}


def outcome_of(reply: DescribeExecutionOutputTypeDef) -> Outcome | None:
    """The outcome of an execution; None while it runs."""
    ending = ENDINGS.get(reply["status"])
    if ending is None:
        return None
    stopped = reply.get("stopDate")
    ended_at = 0 if stopped is None else round(stopped.timestamp() * 1000)
    if ending is Ending.SUCCEEDED:
        return Outcome(ending, output=_output(reply), ended_at=ended_at)
    account = reply["executionArn"].split(":")[4]
    error, cause = reply.get("error"), reply.get("cause")
    return Outcome(
        ending,
        error=_redacted(error, account) if error else None,
        cause=_redacted(_readable_cause(cause), account) if cause else None,
        ended_at=ended_at,
    )


def running_state(newest_first: Iterable[HistoryEventTypeDef]) -> str | None:
    """The state that was entered last and not left since; None where these events do not tell."""
    left: Counter[str] = Counter()
    for event in newest_first:
        if event["type"].endswith("StateExited"):
            left[event.get("stateExitedEventDetails", {}).get("name", "")] += 1
        elif event["type"].endswith("StateEntered"):
            name = event.get("stateEnteredEventDetails", {}).get("name", "")
            if not left[name]:
                return name or None
            left[name] -= 1
    return None


def _output(reply: DescribeExecutionOutputTypeDef) -> str | None:
    """JSON text; None where it is not shown to us."""
    text = reply.get("output")
    if text is None or reply.get("outputDetails", {}).get("included") is False:
        return None
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.dumps(_encodable(text)).decode()
    return text


def _readable_cause(cause: str) -> str:
    """The message alone of a failed Lambda function, whose cause is JSON with a stack trace."""
    try:
        document = orjson.loads(cause)
    except orjson.JSONDecodeError:
        return cause
    message = document.get("errorMessage") if isinstance(document, dict) else None
    return message if isinstance(message, str) and message else cause


def _redacted(text: str, account: str) -> str:
    """JSON stays JSON, whatever is taken out of it, and cannot hide anything in escapes."""
    try:
        document = orjson.loads(_encodable(text))
    except orjson.JSONDecodeError:
        return _without_names(_encodable(text), account)
    if not isinstance(document, (dict, list)) or too_deep(document):
        return _without_names(_encodable(text), account)
    return orjson.dumps(_cleaned(document, account)).decode()


def _cleaned(value: object, account: str) -> object:
    if isinstance(value, dict):
        return {_without_names(name, account): _cleaned(member, account) for name, member in value.items()}
    if isinstance(value, list):
        return [_cleaned(member, account) for member in value]
    if isinstance(value, str):
        return _without_names(value, account)
    return _REDACTED if str(value) == account else value


def _without_names(text: str, account: str) -> str:
    return re.sub(rf"(?<!\d){account}(?!\d)", _REDACTED, _ARN.sub(_REDACTED, text))


def _encodable(text: str) -> str:
    """Without half characters, which a cut at a length limit may leave and no store takes."""
    return text.encode("utf-8", "replace").decode()
