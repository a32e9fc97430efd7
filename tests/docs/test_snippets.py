"""What the documents show works."""

from __future__ import annotations

from pathlib import Path

import pytest

from .markdown import DOCUMENTS, name_of, snippets_of
from .reader import Problem, Reader



@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_a_reader_who_follows_it_succeeds(document: Path, reader: Reader) -> None:
    for snippet in snippets_of(document.read_text(encoding="utf-8"), name_of(document)):
        try:
            reader.follow(snippet)
        except (Problem, TimeoutError, ValueError) as problem:
            pytest.fail(f"{snippet.place}: {problem}", pytrace=False)
    reader.finish()
