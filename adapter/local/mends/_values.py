"""JSON and time as Step Functions writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

_MAX_BYTES = 262_144


def is_acceptable_json(text: str) -> bool:
    """True for JSON of at most 262,144 bytes, the limit of an execution's input and of a task's output."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return len(text.encode()) <= _MAX_BYTES


def json_text(value: object) -> str:
    """Compact JSON; what JSON has no form for becomes text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_as_text)


def _as_text(value: object) -> str:
    return timestamp(value) if isinstance(value, datetime) else str(value)


def timestamp(moment: datetime | str) -> str:
    """ISO 8601 in UTC with milliseconds and `Z`."""
    moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
