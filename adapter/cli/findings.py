"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked; but for `ok`, the text says what to do. Only a problem makes `check` fail."""

    subject: str
    text: str
    mark: Literal["ok", "advice", "problem", "unknown"]

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

    @classmethod
    def advice(cls, subject: str, text: str) -> Finding:
        return cls(subject, text, "advice")
