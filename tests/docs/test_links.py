"""Links between documents lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from .markdown import DOCUMENTS, ROOT, anchors_of, links_of, name_of


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(document: Path) -> None:
    for link in links_of(document.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{link}: there is no such file"
        if anchor:
            assert anchor in anchors_of(target.read_text(encoding="utf-8")), (
                f"{link}: there is no such heading"
            )


def test_every_document_is_reachable_from_the_readme() -> None:
    linked = {link.partition("#")[0] for link in links_of((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert {name_of(document) for document in DOCUMENTS} - {"README.md"} <= linked
