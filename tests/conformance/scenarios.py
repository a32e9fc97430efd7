"""Which scenarios of the official suite are run, at which versions, and what may fail there and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MODERN = "2026-07-28"
SERVED = (MODERN, "2025-11-25", "2025-06-18", "2025-03-26")
"""The versions that are run unless others are asked for."""

_EARLY = "2025-03-26"
_MIDDLE = "2025-06-18"
_LATE = "2025-11-25"
_EXTENSION = "extension"


@dataclass(frozen=True, slots=True)
class Scenario:
    """`expected` maps ids of checks that may fail or warn to the reason; they must really do so."""

    name: str
    versions: tuple[str, ...] = (MODERN,)
    extension: bool = False
    """Outside the suite's version timeline: it runs at the newest version and takes no `--spec-version`."""
    alone: bool = False
    """Gives up within a few hundred milliseconds, so nothing else may run beside it."""
    expected: Mapping[str, str] = field(default_factory=dict)


_SINCE_MIDDLE = (_MIDDLE, _LATE, MODERN)
_SINCE_LATE = (_LATE, MODERN)
_LEGACY = (_MIDDLE, _LATE)

_NEEDS_PROMPTS = "the server has no prompts"
_NEEDS_RESOURCES = "the server has no resources"
_NEEDS_COMPLETIONS = "the server has no completions"

SCENARIOS = (
    Scenario("tools-list", _SINCE_MIDDLE),
    Scenario("tools-call-simple-text", _SINCE_MIDDLE),
    Scenario("tools-call-image", _SINCE_MIDDLE),
    Scenario("tools-call-audio", _SINCE_MIDDLE),
    Scenario("tools-call-embedded-resource", _SINCE_MIDDLE),
    Scenario("tools-call-mixed-content", _SINCE_MIDDLE),
    Scenario("tools-call-error", _SINCE_MIDDLE),
    Scenario("tools-call-with-progress", _SINCE_MIDDLE),
    Scenario("json-schema-2020-12", _SINCE_LATE),
    Scenario("dns-rebinding-protection", _SINCE_LATE),
    Scenario("server-sse-multiple-streams", _SINCE_LATE),
    Scenario("http-header-validation"),
    Scenario("http-custom-header-server-validation"),
    Scenario("input-required-result-basic-elicitation"),
    Scenario("input-required-result-basic-sampling"),
    Scenario("input-required-result-basic-list-roots"),
    Scenario("input-required-result-request-state"),
    Scenario("input-required-result-multiple-input-requests"),
    Scenario("input-required-result-multi-round"),
    Scenario("input-required-result-missing-input-response"),
    Scenario("input-required-result-result-type"),
    Scenario("input-required-result-unsupported-methods"),
    Scenario("input-required-result-tampered-state"),
    Scenario("input-required-result-capability-check"),
    Scenario("input-required-result-ignore-extra-params"),
    Scenario("input-required-result-validate-input"),
    Scenario("tasks-lifecycle", extension=True),
    Scenario("tasks-capability-negotiation", extension=True),
    Scenario("tasks-wire-fields", extension=True),
    Scenario("tasks-request-state-removal", extension=True),
    Scenario("tasks-mrtr-input", extension=True),
    Scenario("tasks-request-headers", extension=True),
    Scenario("tasks-dispatch-and-envelope", extension=True),
    Scenario("tasks-required-task-error", extension=True),
    Scenario("tasks-mrtr-composition", extension=True),
    Scenario(
        "caching",
        expected={
            "sep-2549-prompts-list-caching-hints": _NEEDS_PROMPTS,
            "sep-2549-resources-list-caching-hints": _NEEDS_RESOURCES,
            "sep-2549-resources-templates-list-caching-hints": _NEEDS_RESOURCES,
        },
    ),
    Scenario("server-initialize", _LEGACY),
    Scenario("server-session-lifecycle", (_EARLY, *_LEGACY)),
    Scenario("ping", _LEGACY),
    Scenario("logging-set-level", _LEGACY),
    Scenario("tools-call-with-logging", _LEGACY),
    Scenario("tools-call-sampling", _LEGACY),
    Scenario("tools-call-elicitation", _LEGACY),
    Scenario("elicitation-sep1034-defaults", (_LATE,)),
    Scenario("elicitation-sep1330-enums", (_LATE,)),
    Scenario("server-sse-polling", (_LATE,)),
    Scenario("server-stateless", alone=True),
)

NOT_RUN: Mapping[str, str] = {
    "completion-complete": _NEEDS_COMPLETIONS,
    "prompts-list": _NEEDS_PROMPTS,
    "prompts-get-simple": _NEEDS_PROMPTS,
    "prompts-get-with-args": _NEEDS_PROMPTS,
    "prompts-get-embedded-resource": _NEEDS_PROMPTS,
    "prompts-get-with-image": _NEEDS_PROMPTS,
    "input-required-result-non-tool-request": _NEEDS_PROMPTS,
    "resources-list": _NEEDS_RESOURCES,
    "resources-read-text": _NEEDS_RESOURCES,
    "resources-read-binary": _NEEDS_RESOURCES,
    "resources-templates-read": _NEEDS_RESOURCES,
    "resources-subscribe": _NEEDS_RESOURCES,
    "resources-unsubscribe": _NEEDS_RESOURCES,
    "sep-2164-resource-not-found": _NEEDS_RESOURCES,
    "sep-2640-skills-directory": _NEEDS_RESOURCES,
    "sep-2640-skills-enumeration": _NEEDS_RESOURCES,
    "sep-2640-skills-manifest": _NEEDS_RESOURCES,
    "tasks-status-notifications": "the suite itself skips it",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario at one version."""

    scenario: Scenario
    version: str


def chosen(versions: Sequence[str], names: Sequence[str]) -> list[Run]:
    """The runs of these scenarios (of all, if none is named) at these versions; those that run alone last."""
    runs = [
        Run(scenario, version)
        for version in versions
        for scenario in SCENARIOS
        if version in scenario.versions and (not names or scenario.name in names)
    ]
    return sorted(runs, key=lambda run: run.scenario.alone)


def unaccounted(listing: str) -> list[str]:
    """How this table differs from `list --server` of the suite: `- name [version,version]` per line."""
    offered = dict(_offered(listing))
    known = {s.name: {_EXTENSION} if s.extension else set(s.versions) for s in SCENARIOS}
    new = [f"{name} is neither run nor excluded" for name in offered.keys() - known.keys() - NOT_RUN.keys()]
    gone = [f"{name} is not in the suite" for name in (known.keys() | NOT_RUN.keys()) - offered.keys()]
    other = [
        f"{name} is for {sorted(offered[name])}, not {sorted(versions)}"
        for name, versions in known.items()
        if name in offered and offered[name] != versions
    ]
    return sorted(new + gone + other)


def _offered(listing: str) -> Iterator[tuple[str, set[str]]]:
    for line in listing.splitlines():
        name, bracket, versions = line.strip().removeprefix("- ").partition(" [")
        if line.lstrip().startswith("- ") and bracket:
            yield name, set(versions.rstrip("]").split(","))
