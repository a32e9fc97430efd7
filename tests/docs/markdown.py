"""Fenced blocks, tables and links of a Markdown document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCE = re.compile(r"( *)(```+|~~~+) *(\S*).*")
_MARKER = re.compile(r" *<!-- (not run|file|typed): (.*\S) -->")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"(#{1,6}) +(.*?) *#*")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A fenced block; `place` is its file and line, the last three are what a comment right before it says."""

    place: str
    language: str
    text: str
    not_run: str | None = None
    file: str | None = None
    typed: tuple[str, ...] = ()


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def snippets_of(text: str, name: str) -> Iterator[Snippet]:
    lines = iter(enumerate(text.splitlines(), 1))
    previous = ""
    for number, line in lines:
        if opening := _FENCE.fullmatch(line):
            indent, fence, language = opening.groups()
            body = _until(fence, lines)
            inner = "\n".join(body_line.removeprefix(indent) for body_line in body)
            yield _marked(Snippet(f"{name}:{number}", language, inner), previous)
        previous = line


def _until(fence: str, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    for _, line in lines:
        if line.strip() == fence:
            return
        yield line
    raise ValueError(f"a block that starts with {fence} has no end")


def _marked(snippet: Snippet, comment: str) -> Snippet:
    marker = _MARKER.fullmatch(comment)
    if marker is None:
        return snippet
    match marker[1]:
        case "not run":
            return replace(snippet, not_run=marker[2])
        case "file":
            return replace(snippet, file=marker[2])
        case _:
            return replace(snippet, typed=tuple(json.loads(marker[2])))


def without_blocks(text: str) -> str:
    """The text with its fenced blocks left out."""
    lines = iter(enumerate(text.splitlines(), 1))
    kept = []
    for _, line in lines:
        if opening := _FENCE.fullmatch(line):
            for _ in _until(opening[2], lines):
                pass
        else:
            kept.append(line)
    return "\n".join(kept)


def table(path: Path, first_column: str) -> list[dict[str, str]]:
    """The rows of all tables of a document whose first column is headed so, by column; code marks are kept."""
    rows: list[dict[str, str]] = []
    columns: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            columns = []
        elif not columns:
            columns = cells
        elif columns[0] == first_column and set(cells[0]) != {"-"}:
            rows.append(dict(zip(columns, cells, strict=True)))
    return rows


def code_of(text: str) -> list[str]:
    """Everything that is marked as code: the lines of fenced blocks, and what stands in a text between marks."""
    blocks = [line for snippet in snippets_of(text, "") for line in snippet.text.splitlines()]
    return [*blocks, *re.findall(r"`([^`\n]+)`", without_blocks(text))]


def links_of(text: str) -> list[str]:
    return _LINK.findall(without_blocks(text))


def anchors_of(text: str) -> set[str]:
    """The fragments of a document's headings, as they are made on the web."""
    headings = (_HEADING.fullmatch(line) for line in without_blocks(text).splitlines())
    return {_slug(heading[2]) for heading in headings if heading}


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
