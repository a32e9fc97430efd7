"""The list of replacements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Replacement = TypeVar("_Replacement")
_mends: list[tuple[object, str, object]] = []


def replaces(owner: object, name: str) -> Callable[[_Replacement], _Replacement]:
    """Mark what `apply` puts in the place of `owner.name`, a member of one of moto's classes or modules."""

    def register(replacement: _Replacement) -> _Replacement:
        _mends.append((owner, name, replacement))
        return replacement

    return register


def apply() -> None:
    """Put every replacement in its place, in this process."""
    for owner, name, replacement in _mends:
        setattr(owner, name, replacement)
