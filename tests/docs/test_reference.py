"""What the documents list is what the code has."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.core import TyperGroup, TyperOption

from adapter.cli import probes
from adapter.cli.app import app
from adapter.cli.configuration import DevSettings
from adapter.cli.exits import ExitCode
from adapter.cli.tour_steps import STEPS
from adapter.settings import Settings
from adapter.stores import _items as items
from adapter.tools.before_start import InputRequestConfig
from adapter.tools.duration import parse_duration
from adapter.tools.tool import Tool
from lambdas.hosted import HostedSettings
from lambdas.request_input.app import Payload

from .markdown import DOCUMENTS, ROOT, Snippet, code_of, name_of, snippets_of, table

README = ROOT / "README.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
TOOLS = ROOT / "docs" / "tools.md"
WORKFLOWS = ROOT / "docs" / "workflows.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"

_ELSEWHERE = {"ADAPTER_TOKEN", "ADAPTER_TOOLS_FILE", "ADAPTER_URL"}
"""Variables that are not settings of the server but options of a command."""


def _code(cell: str) -> list[str]:
    """What stands between code marks in a table cell."""
    return re.findall(r"`([^`]+)`", cell)


def _by_name(path: Path, column: str) -> dict[str, dict[str, str]]:
    return {_code(row[column])[0]: row for row in table(path, column)}


# --- tools.yaml --------------------------------------------------------------------------------------------


TABLES = pytest.mark.parametrize(
    ("model", "column"), [(Tool, "Field"), (InputRequestConfig, "Question field")], ids=["tool", "question"]
)


@TABLES
def test_every_field_of_a_tools_file_is_listed(model: type[BaseModel], column: str) -> None:
    assert list(_by_name(TOOLS, column)) == list(model.model_fields)


@TABLES
def test_the_values_of_a_field_that_has_only_some_are_listed(model: type[BaseModel], column: str) -> None:
    rows = _by_name(TOOLS, column)
    choices = {name: get_args(f.annotation) for name, f in model.model_fields.items() if _is_choice(f)}
    assert {name: tuple(_code(rows[name]["Type"])) for name in choices} == choices


def _is_choice(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is Literal


@TABLES
def test_the_defaults_of_a_tools_file_are_right(model: type[BaseModel], column: str) -> None:
    listed = {name: _default_in(row) for name, row in _by_name(TOOLS, column).items()}
    assert listed == {name: _default_of(field) for name, field in model.model_fields.items()}


def _default_in(row: Mapping[str, str]) -> object:
    """What a row says: a text, seconds, True or False, `required`; None in other words."""
    value = next(iter(_code(row["Default"])), None)
    if row["Default"] == "required":
        return "required"
    if row["Type"] == "duration":
        return parse_duration(value)
    return {"true": True, "false": False}.get(value or "", value)


def _default_of(field: FieldInfo) -> object:
    if field.is_required():
        return "required"
    return field.default if isinstance(field.default, str | float | bool) else None


# --- settings ----------------------------------------------------------------------------------------------


def test_every_setting_is_listed() -> None:
    assert list(_by_name(CONFIGURATION, "Variable")) == [_variable(name) for name in Settings.model_fields]


def _variable(setting: str) -> str:
    return f"ADAPTER_{setting.upper()}"


@pytest.mark.parametrize("name", Settings.model_fields)
def test_its_default_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listed text, put into the environment, gives the default."""
    default = Settings.model_fields[name].default
    listed = _by_name(CONFIGURATION, "Variable")[_variable(name)]["Default"]
    if default == ():
        assert listed == "none"
    else:
        monkeypatch.setenv(_variable(name), *_code(listed))
        assert getattr(Settings(), name) == default


def test_the_other_defaults_of_dev_are_listed() -> None:
    changed = {
        _variable(name): field
        for name, field in DevSettings.model_fields.items()
        if field.default_factory or field.default != Settings.model_fields[name].default
    }
    listed = {name: row["In `adapter dev`"] for name, row in _by_name(CONFIGURATION, "Variable").items()}
    assert {name for name, cell in listed.items() if cell} == set(changed)
    for name, field in changed.items():
        if not field.default_factory:
            assert [float(text) for text in _code(listed[name])] == [field.default]


OF_FUNCTIONS = {
    name: field
    for name, field in HostedSettings.model_fields.items()
    if name not in Settings.model_fields or field.default != Settings.model_fields[name].default
}


def test_what_is_other_in_the_functions_is_listed() -> None:
    listed = set(_by_name(CONFIGURATION, "Variable of the functions"))
    assert listed == set(map(_variable, OF_FUNCTIONS))


@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_its_default_in_the_functions_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    default = OF_FUNCTIONS[name].default
    listed = _by_name(CONFIGURATION, "Variable of the functions")[_variable(name)]["Default"]
    if default in ((), None):
        assert listed == "none"
    else:
        monkeypatch.setenv(_variable(name), *_code(listed))
        assert getattr(HostedSettings(), name) == default


def test_no_other_variable_is_named_anywhere() -> None:
    known = {_variable(name) for name in HostedSettings.model_fields} | _ELSEWHERE
    for document in DOCUMENTS:
        named = set(re.findall(r"\bADAPTER_[A-Z_]+\b", document.read_text(encoding="utf-8")))
        assert named <= known, f"{name_of(document)} names {sorted(named - known)}"


# --- commands ----------------------------------------------------------------------------------------------


def _group() -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def _options(command: str) -> list[list[str]]:
    """The names of each option that the help of a command shows."""
    parameters = _group().commands[command].params
    return [p.opts for p in parameters if isinstance(p, TyperOption) and not p.hidden]


def test_every_command_is_listed() -> None:
    listed = [name.removeprefix("adapter ") for name in _by_name(CONFIGURATION, "Command")]
    assert sorted(listed) == sorted(_group().commands)


def test_every_option_is_listed_with_its_commands() -> None:
    found: dict[str, list[str]] = {}
    for name in _group().commands:
        for names in _options(name):
            found.setdefault(", ".join(names), []).append(name)
    listed = {
        ", ".join(_code(row["Option"])): _code(row["Commands"]) for row in table(CONFIGURATION, "Option")
    }
    assert listed == found


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_only_commands_and_options_that_exist_are_named(document: Path) -> None:
    for line in code_of(document.read_text(encoding="utf-8")):
        for name, rest in re.findall(r"(?:^|\$ |[;|] ?)adapter ([a-z]+)\b([^;|]*)", line):
            assert name in _group().commands, line
            known = {option for names in _options(name) for option in names} | {"--help"}
            assert set(re.findall(r"(?<!\S)--?[a-z][\w-]*", rest)) <= known, line


def test_every_exit_code_is_listed() -> None:
    assert [int(row["Code"]) for row in table(CONFIGURATION, "Code")] == list(ExitCode)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_only_make_targets_that_exist_are_named(document: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    lines = "\n".join(code_of(document.read_text(encoding="utf-8")))
    assert set(re.findall(r"^make ([\w-]+)", lines, re.MULTILINE)) <= targets


def test_the_steps_of_the_demo_are_listed() -> None:
    listed = re.findall(
        r"^\d+\. (.*)$", README.read_text(encoding="utf-8").partition("## Try")[0], re.MULTILINE
    )
    assert listed == [step.title for step in STEPS]


# --- permissions and attributes ----------------------------------------------------------------------------


def test_the_permissions_are_those_that_check_tries() -> None:
    source = Path(probes.__file__).read_text(encoding="utf-8")
    tried = set(re.findall(r'"((?:dynamodb|states):\w+)":', source))
    listed = {name for row in table(CONFIGURATION, "Action") for name in _code(row["Action"])}
    assert listed == tried


def test_the_attributes_that_a_workflow_may_write_are_those_that_are_read() -> None:
    source = Path(items.__file__).read_text(encoding="utf-8")
    written_by_workflows = source.partition("# --- what workflows write")[2]
    read = set(re.findall(r'(?:text|number|_whole)\(item, "(\w+)"\)', written_by_workflows))
    ours = {name for name in read if name.endswith("Token") or name in ("adopted", "answer", "deliveryUntil")}
    listed = {name for row in table(WORKFLOWS, "Item") for name in _code(row["Attributes"])}
    assert listed == (read - ours) | {"enteredAt"}
    policy = next(s.text for s in _snippets(WORKFLOWS) if '"dynamodb:Attributes"' in s.text)
    allowed = re.search(r'"dynamodb:Attributes": \[([^\]]*)\]', policy)
    assert allowed is not None
    assert set(re.findall(r'"(\w+)"', allowed[1])) == listed | {"pk", "sk"}


def test_the_payload_of_the_function_is_what_it_takes() -> None:
    state = next(s.text for s in _snippets(WORKFLOWS) if "lambda:invoke.waitForTaskToken" in s.text)
    payload = state.partition('"Payload": {')[2].partition('"TimeoutSeconds"')[0]
    given = re.findall(r'^ {8}"(\w+)(?:\.\$)?":', payload, re.MULTILINE)
    assert sorted(given) == sorted(field.alias or name for name, field in Payload.model_fields.items())


def _snippets(path: Path) -> list[Snippet]:
    return list(snippets_of(path.read_text(encoding="utf-8"), name_of(path)))


# --- the house ---------------------------------------------------------------------------------------------


def test_the_house_has_the_layers_that_are_enforced() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(c for c in project["tool"]["importlinter"]["contracts"] if c["id"] == "layers")
    enforced = [module.strip() for layer in contract["layers"] for module in layer.split("|")]
    listed = [name for row in table(ARCHITECTURE, "Package") for name in _code(row["Package"])]
    assert [name.removesuffix(".py").replace("/", ".") for name in listed] == enforced
