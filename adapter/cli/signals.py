"""What Ctrl-C and SIGTERM do, at every moment of a command: one of them is enough, and none is lost.

Python's own way is an exception, raised wherever the program happens to be. Inside a destructor, or in a callback of a
weak reference (each import runs one), it is printed and forgotten, and the process goes on. So no handler raises here:
while there is nothing to finish it ends the process on the spot, and later it only tells the event loop (`wishes`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .exits import ExitCode

ENDING = (signal.SIGINT, signal.SIGTERM)
_AT_ONCE = {"dev": ExitCode.OK, "serve": ExitCode.OK, "call": ExitCode.CANCELLED}
"""The exit codes of the commands that have one for this; the others die of the signal."""


_Handler = Callable[[int, FrameType | None], Any] | int | None


class _AtOnce:
    """A handler that ends the process."""

    def __init__(self, code: ExitCode) -> None:
        self._code = code

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        os._exit(self._code)


def end_at_once(words: Sequence[str]) -> None:
    """From now on a signal ends this process. `words`: its command line."""
    command = next((word for word in words if not word.startswith("-")), "")
    code = _AT_ONCE.get(command)
    if code is not None:
        for number in ENDING:
            signal.signal(number, _AtOnce(code))
    elif signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def ended() -> None:
    """The command has its exit code: from now on a signal does nothing, at least to those that end at once.

    Python's own teardown would let it end the process with another code.
    """
    for number in ENDING:
        if isinstance(signal.getsignal(number), _AtOnce):
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def handled(handler: Callable[[int, FrameType | None], object], *, settles: bool = False) -> Iterator[None]:
    """A block in which a signal calls `handler`, in the place of ending the process.

    `settles`: where the block comes to its end, so has the command.
    """
    previous = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
        if settles:
            previous = {number: _settled(earlier) for number, earlier in previous.items()}
    finally:
        for number, earlier in previous.items():
            signal.signal(number, earlier)


def _settled(handler: _Handler) -> _Handler:
    return signal.SIG_IGN if isinstance(handler, _AtOnce) else handler
