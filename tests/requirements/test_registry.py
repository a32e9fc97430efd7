"""Every requirement of the protocol has its test, and every claim of a test is one of a known requirement."""

from __future__ import annotations

import pytest

from tests.requirements import registry


def test_requirements_and_tests_agree() -> None:
    problems = registry.problems(registry.load(), registry.claims())

    if problems:
        pytest.fail("\n".join([f"{len(problems)} problems:", *problems]), pytrace=False)


def test_links_are_to_the_specification() -> None:
    official = ("https://modelcontextprotocol.io/", "https://tasks.extensions.modelcontextprotocol.io/")

    strangers = [each.id for each in registry.load().values() if not each.link.startswith(official)]

    assert strangers == []
