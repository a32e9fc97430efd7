"""How a call's progress is shown: a live line on a terminal, elsewhere one line per change, or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from .output import console, plain

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {"working": "cyan", "input_required": "yellow", "connection lost": "red", "cancelling": "yellow"}


class Display:
    """Shows nothing; the others differ in how much they show."""

    def show(self, state: str, message: str | None) -> None:
        """What the call does now."""

    def running(self) -> AbstractContextManager[None]:
        """The block in which something is shown."""
        return nullcontext()

    def paused(self) -> AbstractContextManager[None]:
        """A block in which a prompt has the screen."""
        return nullcontext()


class Lines(Display):
    """Each change as a line, with the time since the start."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._started = time.monotonic()
        self._last: tuple[str, str | None] | None = None

    def show(self, state: str, message: str | None) -> None:
        if (state, message) != self._last:
            self._last = (state, message)
            self._console.print(
                _line(state, message, self._started), style=_STYLES.get(state), soft_wrap=True
            )


class Live(Display):
    """One line that keeps moving."""

    def __init__(self) -> None:
        from rich.live import Live as RichLive
        from rich.spinner import Spinner

        self._spinner = Spinner("dots")
        self._state = "starting"
        self._message: str | None = None
        self._started = time.monotonic()
        self._live = RichLive(
            console=console(stderr=True),
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._render,
        )

    def show(self, state: str, message: str | None) -> None:
        self._state, self._message = state, message

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._live:
            yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def _render(self) -> RenderableType:
        from rich.text import Text

        line = _line(self._state, self._message, self._started)
        self._spinner.text = Text(line, style=_STYLES.get(self._state, ""), no_wrap=True, overflow="ellipsis")
        return self._spinner


def _line(state: str, message: str | None, started: float) -> str:
    elapsed = elapsed_text(time.monotonic() - started)
    return f"{elapsed}  {state}" + (f"  {' '.join(plain(message).split())}" if message else "")


def elapsed_text(seconds: float) -> str:
    """`4 s`, `2 min 05 s`, `3 h 07 min`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
