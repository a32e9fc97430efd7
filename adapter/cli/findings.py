"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked; the text of a problem says what to do."""

    subject: str
    text: str
    problem: bool

    @classmethod
    def good(cls, subject: str, text: str) -> Finding:
        return cls(subject, text, problem=False)

    @classmethod
    def bad(cls, subject: str, text: str) -> Finding:
        return cls(subject, text, problem=True)
