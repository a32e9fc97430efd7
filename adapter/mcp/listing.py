"""Pages of a list, with signed cursors (R-53)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

import orjson

from .jsonrpc import JsonObject, RpcError, invalid_params
from .signing import BadSignature, Signer

MAX_PAGE_BYTES = 2_000_000
"""A page ends before this however few items it has: a function's reply is limited to three times as much."""
_PURPOSE = "cursor"
T = TypeVar("T")


class Listing:
    """`edition` changes when the list does: a cursor of another edition is not valid."""

    def __init__(self, signer: Signer, edition: str, size: int) -> None:
        self._signer = signer
        self._edition = edition
        self._size = size
        self._ends: dict[int, int] = {}

    def page(self, items: Sequence[T], params: JsonObject) -> tuple[list[T], str | None]:
        """One page and the cursor of the next (None after the last); `items` are always the same.

        Raises RpcError -32602.
        """
        start = self._start(params)
        end = self._ends.get(start)
        if end is None:
            end = self._ends[start] = start + max(1, _fitting(items[start : start + self._size]))
        return list(items[start:end]), self._cursor(end) if end < len(items) else None

    def _cursor(self, start: int) -> str:
        return self._signer.sign(_PURPOSE, {"start": start, "edition": self._edition})

    def _start(self, params: JsonObject) -> int:
        cursor = params.get("cursor")
        if cursor is None:
            return 0
        payload = read_cursor(self._signer, _PURPOSE, cursor)
        if payload.get("edition") != self._edition:
            raise bad_cursor()
        return int(payload["start"])


def _fitting(items: Sequence[object]) -> int:
    """How many of these fit into one page."""
    totals = accumulate(len(orjson.dumps(item)) for item in items)
    return sum(total <= MAX_PAGE_BYTES for total in totals)


def read_cursor(signer: Signer, purpose: str, cursor: object) -> JsonObject:
    """What we signed into a cursor. Raises RpcError -32602."""
    if not isinstance(cursor, str):
        raise bad_cursor()
    try:
        return signer.verify(purpose, cursor)
    except BadSignature:
        raise bad_cursor() from None


def bad_cursor() -> RpcError:
    return invalid_params("params.cursor is not valid any more; list again without it")
