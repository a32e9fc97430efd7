"""The command line. What a command needs is imported when it runs, so that `adapter --help` is quick."""

from __future__ import annotations


def main() -> None:
    """The console script `adapter`."""
    from .app import app

    app(prog_name="adapter")
