"""Whether a command printed what a document shows."""

from __future__ import annotations

import re

_ANYTHING = "…"
_VARIES = re.compile(
    r"(?P<task>mcp-[A-Za-z0-9_-]{8,})"
    r"|(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z?)"
    r"|(?P<seconds>\d+ s\b)"
    r"|(?P<any>…)"
)
_EXPRESSIONS = {
    "task": r"mcp-[A-Za-z0-9_-]+",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z?",
    "seconds": r"\d+ s",
    "any": ".*",
}
"""Shown as an example, printed with other values."""


def missing_line(shown: str, printed: str) -> str | None:
    """The first shown line that was not printed after those before it; None where all were."""
    rest = iter(_lines(printed))
    for line in filter(None, _lines(shown)):
        pattern = _pattern(line)
        if line != _ANYTHING and not any(pattern.fullmatch(candidate) for candidate in rest):
            return line
    return None


def _lines(text: str) -> list[str]:
    """Without differences in spaces, which columns make."""
    return [" ".join(line.split()) for line in text.splitlines()]


def _pattern(line: str) -> re.Pattern[str]:
    expression, end = "", 0
    for match in _VARIES.finditer(line):
        expression += re.escape(line[end : match.start()]) + _EXPRESSIONS[match.lastgroup or ""]
        end = match.end()
    return re.compile(expression + re.escape(line[end:]))
