"""The check of the registry is itself checked, on made-up requirements and tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.requirements.registry import Claim, RegistryError, Report, Requirement, claims, load, problems


def requirement(name: str = "X-01", **members: str) -> Requirement:
    return Requirement.model_validate(
        {
            "id": name,
            "level": "MUST",
            "title": "It holds.",
            "link": "https://example.org/spec",
            "status": "tested",
            **members,
        }
    )


def registry_file(directory: Path, entries: str, name: str = "made_up.yaml") -> Path:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text("requirements:\n" + dedent(entries), encoding="utf-8")
    return directory


def entry(name: str, **members: str) -> str:
    values = {
        "id": name,
        "level": "MUST",
        "title": "It holds.",
        "link": "https://example.org/",
        "status": "tested",
        **members,
    }
    return "- {" + ", ".join(f"{key}: {value!r}" for key, value in values.items()) + "}\n"


def suite(directory: Path, source: str, name: str = "test_made_up.py") -> Path:
    tests = directory / "tests"
    (tests / name).parent.mkdir(parents=True, exist_ok=True)
    (tests / name).write_text(dedent(source), encoding="utf-8")
    return tests


def claimed_ids(tests: Path) -> list[str]:
    return sorted(claim.requirement for claim in claims(tests))


def test_agreement_is_no_problem() -> None:
    assert problems({"X-01": requirement()}, [Claim("X-01", "tests/test_a.py:1")]) == []


@pytest.mark.parametrize("status", ["tested", "diverges"])
def test_a_requirement_without_its_test_is_reported(status: str) -> None:
    reason = {} if status == "tested" else {"reason": "Because."}

    found = problems({"X-01": requirement(status=status, **reason)}, [])

    assert found == [f"X-01 is `{status}`, but no test claims it: It holds."]


def test_an_unknown_id_is_reported_with_its_places() -> None:
    found = problems({}, [Claim("X-09", "tests/test_b.py:7"), Claim("X-09", "tests/test_a.py:3")])

    assert found == ["X-09 is in no registry file, claimed by tests/test_a.py:3, tests/test_b.py:7"]


@pytest.mark.parametrize("status", ["deferred", "not_applicable"])
def test_a_status_that_a_test_has_overtaken_is_reported(status: str) -> None:
    rule = requirement(status=status, reason="Later.")

    found = problems({"X-01": rule}, [Claim("X-01", "tests/test_a.py:3")])

    assert found == [f"X-01 is `{status}`, but is claimed by tests/test_a.py:3: one of them is out of date"]


@pytest.mark.parametrize("status", ["deferred", "not_applicable"])
def test_a_requirement_put_aside_needs_no_test(status: str) -> None:
    assert problems({"X-01": requirement(status=status, reason="Later.")}, []) == []


def test_all_offenders_are_named_at_once() -> None:
    rules = {name: requirement(name) for name in ("X-01", "X-02", "X-03")}

    found = problems(rules, [Claim("X-02", "tests/test_a.py:1"), Claim("Y-01", "tests/test_a.py:2")])

    assert [problem.split()[0] for problem in found] == ["X-01", "X-03", "Y-01"]


def test_files_of_a_directory_are_joined(tmp_path: Path) -> None:
    registry_file(tmp_path, entry("X-01"), "one.yaml")
    registry_file(tmp_path, entry("Y-01", status="deferred", reason="To the next work."), "two.yaml")

    rules = load(tmp_path)

    assert {name: rule.needs_test for name, rule in rules.items()} == {"X-01": True, "Y-01": False}


def test_a_tested_requirement_may_say_what_is_still_to_come(tmp_path: Path) -> None:
    rules = load(registry_file(tmp_path, entry("X-01", later="The other half.")))

    assert rules["X-01"].later == "The other half."


@pytest.mark.parametrize("files", [["X-01", "X-01"], ["X-01 X-01"]], ids=["two files", "one file"])
def test_an_id_used_twice_is_refused(tmp_path: Path, files: list[str]) -> None:
    for number, names in enumerate(files):
        registry_file(tmp_path, "".join(map(entry, names.split())), f"{number}.yaml")

    with pytest.raises(RegistryError, match="used twice: X-01"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"status": "done"}, "status"),
        ({"level": "PERHAPS"}, "level"),
        ({"title": "  "}, "title"),
        ({"link": "http://example.org/"}, "link"),
        ({"status": "deferred"}, "has a reason"),
        ({"status": "not_applicable", "reason": " "}, "reason"),
        ({"status": "diverges"}, "has a reason"),
        ({"reason": "A tested one needs none."}, "has a reason"),
        ({"status": "deferred", "reason": "Later.", "later": "More."}, "for a tested requirement"),
        ({"owner": "nobody"}, "owner"),
    ],
)
def test_an_entry_that_breaks_a_rule_is_refused_by_name(
    tmp_path: Path, members: dict[str, str], place: str
) -> None:
    registry_file(tmp_path, entry("X-01") + entry("X-02", **members))

    with pytest.raises(RegistryError, match=f"made_up.yaml: X-02 .*{place}"):
        load(tmp_path)


def test_a_malformed_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"requirements\.0\.id"):
        load(registry_file(tmp_path, entry("requirement one")))


def reports_file(directory: Path, **members: object) -> Path:
    report = {"id": "B-01", "title": "It is right.", "status": "tested", **members}
    (directory / "reports.yaml").write_text(f"reports: [{report}]", encoding="utf-8")
    return directory


def test_reports_of_bugs_are_entries_like_requirements(tmp_path: Path) -> None:
    registry_file(reports_file(tmp_path, sources=["owner/some.repo#12"]), entry("X-01"))

    rules = load(tmp_path)

    assert rules.keys() == {"B-01", "X-01"}
    assert isinstance(rules["B-01"], Report)
    found = problems(rules, [Claim("X-01", "tests/test_a.py:1")])
    assert found == ["B-01 is `tested`, but no test claims it: It is right."]


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"sources": ["some-repo#12"]}, "sources"),
        ({"sources": ["/home/somebody/notes.md"]}, "sources"),
        ({"status": "deferred", "reason": "Later."}, "status"),
        ({"status": "not_applicable"}, "has a reason"),
        ({"level": "MUST"}, "level"),
    ],
)
def test_a_report_that_breaks_a_rule_is_refused_by_name(
    tmp_path: Path, members: dict[str, object], place: str
) -> None:
    with pytest.raises(RegistryError, match=f"reports.yaml: B-01 .*{place}"):
        load(reports_file(tmp_path, **members))


@pytest.mark.parametrize("content", ["", "requirements: []", "reports: []"])
def test_a_file_without_entries_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "empty.yaml").write_text(content, encoding="utf-8")

    with pytest.raises(RegistryError, match=r"empty\.yaml"):
        load(tmp_path)


def test_marks_on_functions_classes_modules_and_params_are_claims(tmp_path: Path) -> None:
    tests = suite(
        tmp_path,
        """
        import pytest

        pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("X-01")]
        CASES = [pytest.param(1, marks=pytest.mark.requirement("X-02"))]

        @pytest.mark.requirement("X-03", "X-04")
        def test_plain(): ...

        @pytest.mark.parametrize("n", [pytest.param(2, marks=[pytest.mark.requirement("X-05")])])
        async def test_awaited(n): ...

        @pytest.mark.requirement("X-06")
        class TestGroup:
            @pytest.mark.requirement("X-07")
            def test_inner(self): ...
        """,
    )

    assert claimed_ids(tests) == [f"X-0{n}" for n in range(1, 8)]


def test_a_claim_tells_its_place(tmp_path: Path) -> None:
    tests = suite(
        tmp_path, '\n@pytest.mark.requirement("X-01")\ndef test_it(): ...\n', name="mcp/test_wire.py"
    )

    assert claims(tests) == [Claim("X-01", "tests/mcp/test_wire.py:2")]


@pytest.mark.parametrize(
    "source",
    [
        '@pytest.mark.requirement("X-01")\ndef helper(): ...',
        '@pytest.mark.requirement("X-01")\nclass Helper: ...',
        '@pytest.mark.skip(reason="not yet")\n@pytest.mark.requirement("X-01")\ndef test_it(): ...',
        '@pytest.mark.requirement("X-01")\n@pytest.mark.xfail\ndef test_it(): ...',
        '@other.requirement("X-01")\ndef test_it(): ...',
        '@pytest.fixtures.requirement("X-01")\ndef test_it(): ...',
        '# @pytest.mark.requirement("X-01")\ndef test_it(): ...',
    ],
)
def test_what_proves_nothing_is_no_claim(tmp_path: Path, source: str) -> None:
    assert claimed_ids(suite(tmp_path, source)) == []


def test_files_that_hold_no_tests_are_not_read(tmp_path: Path) -> None:
    tests = suite(tmp_path, '@pytest.mark.requirement("X-01")\ndef test_it(): ...', name="support.py")

    assert claimed_ids(tests) == []


@pytest.mark.parametrize(
    "decorator",
    [
        "pytest.mark.requirement",
        "pytest.mark.requirement()",
        "pytest.mark.requirement(IDS)",
        "pytest.mark.requirement(*IDS)",
        'pytest.mark.requirement(f"X-{n}")',
        "pytest.mark.requirement(7)",
        'pytest.mark.requirement("X-01", level="MUST")',
    ],
)
def test_a_mark_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path, decorator: str) -> None:
    tests = suite(tmp_path, f"@{decorator}\ndef test_it(): ...\n")

    with pytest.raises(RegistryError, match=r"not literal strings: tests/test_made_up\.py:1"):
        claims(tests)
