"""What the documents show works."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .markdown import DOCUMENTS, name_of, snippets_of
from .reader import Problem, Reader


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_a_reader_who_follows_it_succeeds(document: Path, reader: Reader) -> None:
    text = document.read_text(encoding="utf-8")
    if "$ curl " in text and shutil.which("curl") is None:
        pytest.skip("this machine has no curl")
    for snippet in snippets_of(text, name_of(document)):
        try:
            reader.follow(snippet)
        except (Problem, TimeoutError, ValueError) as problem:
            pytest.fail(f"{snippet.place}: {problem}", pytrace=False)
    reader.finish()
