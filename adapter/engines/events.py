"""EventBridge's `Step Functions Execution Status Change`: best effort, in any order, perhaps twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from adapter.tasks.model import Ending, Outcome

from ._outcomes import outcome_of

if TYPE_CHECKING:
    from types_aiobotocore_stepfunctions.type_defs import DescribeExecutionOutputTypeDef


_MAX_NAME = 80
_COLONS_OF_AN_EXECUTION = 7
_YEAR_10000_MS = 253_402_300_800_000


class NotAStatusEvent(Exception):
    """Not an event of an execution's status."""


@dataclass(frozen=True, slots=True)
class StatusEvent:
    """What an event tells of the execution `name`, whose ARN is `execution`.

    `outcome` is None while it runs. `complete` is false where it ended with more than the event tells: then only
    DescribeExecution knows.
    """

    name: str
    execution: str
    outcome: Outcome | None
    complete: bool


def read_status_event(event: object) -> StatusEvent:
    """Raises NotAStatusEvent."""
    if not isinstance(event, Mapping) or event.get("source") != "aws.states":
        raise NotAStatusEvent
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise NotAStatusEvent
    name, execution, status = (detail.get(key) for key in ("name", "executionArn", "status"))
    if not (isinstance(name, str) and isinstance(execution, str) and isinstance(status, str)):
        raise NotAStatusEvent
    if not 0 < len(name) <= _MAX_NAME or execution.count(":") < _COLONS_OF_AN_EXECUTION:
        raise NotAStatusEvent
    outcome = outcome_of(_as_described(detail))
    return StatusEvent(name, execution, outcome, complete=outcome is None or _is_complete(outcome))


def _as_described(detail: Mapping[str, Any]) -> DescribeExecutionOutputTypeDef:
    """The members that an event shares with DescribeExecution's reply; its times are epoch milliseconds."""
    texts = ("executionArn", "status", "output", "error", "cause")
    reply = {name: detail[name] for name in texts if isinstance(detail.get(name), str)}
    if isinstance(details := detail.get("outputDetails"), Mapping):
        reply["outputDetails"] = details
    stopped = detail.get("stopDate")
    if isinstance(stopped, int) and 0 <= stopped < _YEAR_10000_MS:
        reply["stopDate"] = datetime.fromtimestamp(stopped / 1000, UTC)
    return cast("DescribeExecutionOutputTypeDef", reply)


def _is_complete(outcome: Outcome) -> bool:
    """Large output is left out of events, and the documented ones of failures have neither error nor cause.

    A time-out has none in DescribeExecution either.
    """
    if outcome.ending is Ending.SUCCEEDED:
        return outcome.output is not None
    return outcome.ending is Ending.TIMED_OUT or outcome.error is not None
