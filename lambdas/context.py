"""What Lambda tells: about an invocation, and about how the container was started."""

from __future__ import annotations

import os
from typing import Protocol

_WITHOUT_SNAPSHOT = ("on-demand", "provisioned-concurrency")


def may_open_now() -> bool:
    """Whether what is opened while the module is imported belongs to this container alone.

    That is when a function has the most CPU; but what a snapshot holds is shared by all that are restored from it.
    """
    return os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") in _WITHOUT_SNAPSHOT


class Context(Protocol):
    """The second argument of every handler."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function is ended."""
        ...
