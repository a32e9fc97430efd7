"""Every difference between the eras has a test on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.requirements import eras
from tests.requirements.registry import RegistryError

ROW = eras.Row(row=1, behaviour="Opening", legacy="initialize", modern="nothing")


def test_every_row_is_proven_for_both_eras() -> None:
    problems = eras.problems(eras.load(), eras.claims())

    if problems:
        pytest.fail("\n".join([f"{len(problems)} problems:", *problems]), pytrace=False)


def test_rows_are_numbered_without_gaps() -> None:
    rows = [row.row for row in eras.load()]

    assert rows == list(range(1, len(rows) + 1))


def test_a_column_without_a_test_and_a_row_that_does_not_exist_are_told() -> None:
    found = eras.problems([ROW], {("legacy", 1), ("modern", 2)})

    assert found == [
        "row 1 (Opening) has no test for the modern era: nothing",
        "row 2 of the modern era does not exist",
    ]
    assert eras.problems([ROW], {("legacy", 1), ("modern", 1)}) == []


@pytest.mark.parametrize(
    "mark", ["", "()", "('legacy')", "('early', 1)", "('legacy', '1')", "('legacy', ROW)"]
)
def test_a_mark_that_names_no_era_and_rows_is_refused(tmp_path: Path, mark: str) -> None:
    source = f"import pytest\n\n\n@pytest.mark.era_rows{mark}\ndef test_it():\n    pass\n"
    (tmp_path / "test_made_up.py").write_text(source)

    with pytest.raises(RegistryError, match=r"test_made_up\.py:4"):
        eras.claims(tmp_path)
