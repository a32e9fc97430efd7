"""What Lambda tells about an invocation."""

from __future__ import annotations

from typing import Protocol


class Context(Protocol):
    """The second argument of every handler."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function is ended."""
        ...
