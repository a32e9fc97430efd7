"""A person at the terminal who has decided beforehand what to type."""

from __future__ import annotations

from collections.abc import Iterable

from adapter.cli.wishes import Interrupted

CTRL_C = "\x03"


class ScriptedTerminal:
    """Types `lines` one after the other; `CTRL_C` interrupts, and after the last line the input has ended."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = list(lines)
        self.seen: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self.seen)

    @property
    def unused(self) -> list[str]:
        return self._lines

    def write(self, text: str) -> None:
        self.seen.append(text)

    def read(self, prompt: str) -> str:
        self.seen.append(prompt)
        if not self._lines:
            raise EOFError
        line = self._lines.pop(0)
        if line == CTRL_C:
            raise Interrupted
        return line
