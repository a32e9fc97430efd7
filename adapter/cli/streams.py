"""Standard streams that whoever started us has closed (`<&-`, `2>&-`).

Python has None in their place, which has no `isatty`, and the first socket takes their number: what a library writes to
stderr would then go to the server.
"""

from __future__ import annotations

import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_missing() -> None:
    """Nothing to read and nowhere to write, in place of each stream that is closed."""
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            _take(number)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _take(number: int) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
