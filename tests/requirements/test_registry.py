"""Every requirement of the protocol and every report of a bug has its test, and every claim names one of them."""

from __future__ import annotations

import pytest

from tests.requirements import registry


def test_requirements_and_tests_agree() -> None:
    problems = registry.problems(registry.load(), registry.claims())

    if problems:
        pytest.fail("\n".join([f"{len(problems)} problems:", *problems]), pytrace=False)


def test_links_are_to_the_specification() -> None:
    official = ("https://modelcontextprotocol.io/", "https://tasks.extensions.modelcontextprotocol.io/")

    requirements = [each for each in registry.load().values() if isinstance(each, registry.Requirement)]

    assert [each.id for each in requirements if not each.link.startswith(official)] == []


def test_reports_of_bugs_have_numbers_of_their_own() -> None:
    reports = {each.id for each in registry.load().values() if isinstance(each, registry.Report)}

    assert {name for name in registry.load() if name.startswith("B-")} == reports
