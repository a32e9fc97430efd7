"""Text on the terminal: results go to stdout, everything else to stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_DIRECTIONS = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_REMOVED = {code: None for code in (*_CONTROLS, *_DIRECTIONS) if chr(code) not in "\n\t"}


def plain(text: object) -> str:
    """What a server sent, without anything that moves the cursor, colours or reorders text."""
    return str(text).translate(_REMOVED)


def console(*, stderr: bool = False) -> Console:
    """A console that takes texts as they are: no markup, no emoji names, no guessing of colours."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
