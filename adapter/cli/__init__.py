"""The command line. What a command needs is imported when it runs, so that `adapter --help` is quick."""

from __future__ import annotations

import sys

from . import signals, streams


def main() -> None:
    """The console script `adapter`."""
    streams.open_missing()
    signals.end_at_once(sys.argv[1:])
    from .app import app

    try:
        app(prog_name="adapter")
    finally:
        signals.ended()
