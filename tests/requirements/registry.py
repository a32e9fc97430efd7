"""The requirement registry, as data: what the protocol asks, what went wrong elsewhere, and which tests prove it.

Claims are read from the source of the tests and not from a running session, so the answer is the same when
only a part of the suite runs, in any order, and in any number of processes.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

HERE = Path(__file__).parent
TESTS = HERE.parent
MARK = "requirement"
ERA_DIFFERENCES = HERE / "era_differences.yaml"
_PROVES_NOTHING = frozenset({"skip", "xfail"})
_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class RegistryError(Exception):
    """The data or a mark cannot be read as a registry. The message names every offender."""


class Entry(BaseModel):
    """One rule. `reason` says why it is not simply tested."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[A-Z]-\d{2,3}$")]
    title: Annotated[str, Field(pattern=r"\S")]
    status: Literal["tested", "not_applicable", "diverges", "deferred"]
    reason: Annotated[str, Field(pattern=r"\S")] | None = None

    @model_validator(mode="after")
    def _explained(self) -> Self:
        if (self.status == "tested") == (self.reason is not None):
            raise ValueError("every status but `tested`, and no other, has a reason")
        return self

    @property
    def needs_test(self) -> bool:
        """A divergence is behaviour too: what is done instead is proven."""
        return self.status in {"tested", "diverges"}


class Requirement(Entry):
    """A rule of the protocol. `later` says what of a tested rule is still to come."""

    level: Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "OPEN"]
    link: Annotated[str, Field(pattern=r"^https://\S+$")]
    later: Annotated[str, Field(pattern=r"\S")] | None = None

    @model_validator(mode="after")
    def _still_to_come(self) -> Self:
        if self.later is not None and self.status != "tested":
            raise ValueError("`later` is for a tested requirement")
        return self


class Report(Entry):
    """What users of a similar project met as a bug; the title says what is right instead.

    `sources` are public issues, as `owner/repository#number`; none where it was only observed.
    """

    sources: list[Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+#\d+$")]] = Field(default_factory=list)
    status: Literal["tested", "not_applicable"]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    requirements: list[Requirement] = Field(default_factory=list)
    reports: list[Report] = Field(default_factory=list)

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.entries:
            raise ValueError("a file has `requirements` or `reports`")
        return self

    @property
    def entries(self) -> list[Entry]:
        return [*self.requirements, *self.reports]


@dataclass(frozen=True, slots=True)
class Claim:
    """A test says that it proves a requirement. `place` is `path:line` of the mark."""

    requirement: str
    place: str


def load(directory: Path = HERE) -> dict[str, Entry]:
    """Every entry of the `*.yaml` files (but for the table of the eras), by id.

    Raises RegistryError for a file that breaks a rule of its kind of entry, and for an id used twice.
    """
    paths = sorted(path for path in directory.glob("*.yaml") if path.name != ERA_DIFFERENCES.name)
    found = [entry for path in paths for entry in _load_file(path)]
    by_id = {entry.id: entry for entry in found}
    if len(by_id) != len(found):
        twice = sorted({each.id for each in found if by_id[each.id] is not each})
        raise RegistryError(f"ids used twice: {', '.join(twice)}")
    return by_id


def _load_file(path: Path) -> list[Entry]:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        return _File.model_validate(data).entries
    except ValidationError as error:
        lines = [f"{_entry_name(data, each['loc'])}: {each['msg']}" for each in error.errors()]
        raise RegistryError(f"{path.name}: " + "; ".join(lines)) from error


def _entry_name(data: object, location: tuple[int | str, ...]) -> str:
    place = ".".join(map(str, location))
    entries = data.get(location[0]) if isinstance(data, dict) and location else None
    if isinstance(entries, list) and len(location) > 1 and isinstance(location[1], int):
        entry = entries[location[1]]
        return f"{entry.get('id', place) if isinstance(entry, dict) else place} ({place})"
    return place


def claims(tests: Path = TESTS) -> list[Claim]:
    """Every id in a `@pytest.mark.requirement("R-38", …)` of the `test_*.py` files below `tests`.

    Marks on helpers, and of tests that are skipped or expected to fail, prove nothing and are left out.
    Raises RegistryError for a mark whose ids are not written out as strings.
    """
    found: list[Claim] = []
    unreadable: list[str] = []
    for path in sorted(tests.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for mark in marks(tree, MARK):
            place = f"{path.relative_to(tests.parent)}:{mark.lineno}"
            ids = _literal_ids(mark)
            if ids is None:
                unreadable.append(place)
            else:
                found.extend(Claim(each, place) for each in ids)
    if unreadable:
        raise RegistryError(f"marks whose ids are not literal strings: {', '.join(unreadable)}")
    return found


def marks(tree: ast.AST, name: str) -> Iterator[ast.expr]:
    """The marks of a name that count: the calls, or the bare attribute where the call is missing."""
    called: set[ast.expr] = set()
    for node in _collected(tree):
        if isinstance(node, ast.Call) and _mark_name(node.func) == name:
            called.add(node.func)
            yield node
        elif isinstance(node, ast.Attribute) and _mark_name(node) == name and node not in called:
            yield node


def _collected(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes from the outside in, without the decorators of what pytest does not run as a test."""
    yield node
    ignored = node.decorator_list if isinstance(node, _Definition) and not _proves(node) else []
    for child in ast.iter_child_nodes(node):
        if child not in ignored:
            yield from _collected(child)


def _proves(node: _Definition) -> bool:
    names = {_mark_name(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list}
    prefix = "Test" if isinstance(node, ast.ClassDef) else "test"
    return node.name.startswith(prefix) and not names & _PROVES_NOTHING


def _mark_name(node: ast.expr) -> str | None:
    """`requirement` for the expression `pytest.mark.requirement`; None for anything that is no mark."""
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "mark"
    ):
        return node.attr
    return None


def _literal_ids(mark: ast.expr) -> list[str] | None:
    if not isinstance(mark, ast.Call) or not mark.args or mark.keywords:
        return None
    ids = [each.value for each in mark.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return ids if len(ids) == len(mark.args) else None


def problems(requirements: Mapping[str, Entry], claimed: Iterable[Claim]) -> list[str]:
    """One sentence for each entry without its test, unknown id, and status overtaken by a test."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for claim in claimed:
        places[claim.requirement].append(claim.place)
    untested = [
        f"{each.id} is `{each.status}`, but no test claims it: {each.title}"
        for each in requirements.values()
        if each.needs_test and each.id not in places
    ]
    unknown = [
        f"{name} is in no registry file, claimed by {_list(at)}"
        for name, at in places.items()
        if name not in requirements
    ]
    stale = [
        f"{name} is `{requirements[name].status}`, but is claimed by {_list(at)}: one of them is out of date"
        for name, at in places.items()
        if name in requirements and not requirements[name].needs_test
    ]
    return untested + sorted(unknown) + sorted(stale)


def _list(places: list[str]) -> str:
    return ", ".join(sorted(places))
