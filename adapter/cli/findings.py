"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked; the text of a problem, or of what could not be checked, says what to do."""

    subject: str
    text: str
    mark: Literal["ok", "problem", "unknown"]

    @property
    def problem(self) -> bool:
        return self.mark == "problem"

    @classmethod
    def good(cls, subject: str, text: str) -> Finding:
        return cls(subject, text, "ok")

    @classmethod
    def bad(cls, subject: str, text: str) -> Finding:
        return cls(subject, text, "problem")

    @classmethod
    def unknown(cls, subject: str, text: str) -> Finding:
        return cls(subject, text, "unknown")
