from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from adapter.errors import ConfigurationError
from adapter.local.deploy import deploy
from adapter.tools.catalog import Catalog
from adapter.tools.tool import Tool
from tests.support.aws import aws_at, retry_without_pauses

from .conftest import Lab

pytestmark = pytest.mark.asyncio(loop_scope="package")

TABLE = {"TaskTable": "lab"}


def passing(result: object = 1) -> dict[str, object]:
    return {"StartAt": "A", "States": {"A": {"Type": "Pass", "Result": result, "End": True}}}


class Folder:
    """A tools file's folder with one definition, `work.asl.json`, and a state machine name of its own."""

    def __init__(self, path: Path) -> None:
        self.tools_file = path / "tools.yaml"
        self.path = path / "work.asl.json"
        self.machine = f"work-{secrets.token_hex(6)}"

    def write(self, definition: Mapping[str, object] | str) -> None:
        text = definition if isinstance(definition, str) else json.dumps(definition)
        self.path.write_text(text, encoding="utf-8")

    def tool(self, name: str = "work", **fields: str | None) -> Tool:
        settings = {"state_machine": self.machine, "definition": self.path.name, **fields}
        return Tool.model_validate({"name": name, "description": "Works.", **settings})

    async def deploy(self, lab: Lab, *tools: Tool) -> dict[str, str]:
        return await deploy(lab.states, Catalog(tools or [self.tool()]), self.tools_file, TABLE)

    async def refusal(self, lab: Lab, *tools: Tool) -> str:
        with pytest.raises(ConfigurationError) as caught:
            await self.deploy(lab, *tools)
        assert caught.value.__cause__ is None, "it would be told twice"
        message = str(caught.value)
        assert message.startswith(f"{self.path}: tool 'work': definition ")
        assert "\n" not in message
        return message.removeprefix(f"{self.path}: tool 'work': definition ")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


async def definition_of(lab: Lab, arn: str) -> dict[str, object]:
    described = await lab.states.describe_state_machine(stateMachineArn=arn)
    assert described["type"] == "STANDARD"
    return dict(json.loads(described["definition"]))


async def test_a_tool_gets_its_state_machine(lab: Lab, folder: Folder) -> None:
    folder.write(passing())
    arns = await folder.deploy(lab)
    assert list(arns) == ["work"]
    assert arns["work"].endswith(f":stateMachine:{folder.machine}")
    assert await definition_of(lab, arns["work"]) == passing()


async def test_deploying_again_brings_the_new_definition(lab: Lab, folder: Folder) -> None:
    folder.write(passing("old"))
    first = await folder.deploy(lab)
    folder.write(passing("new"))
    assert await folder.deploy(lab) == first
    assert await definition_of(lab, first["work"]) == passing("new")


async def test_a_tool_without_a_definition_is_left_alone(lab: Lab, folder: Folder) -> None:
    assert await folder.deploy(lab, folder.tool(definition=None)) == {}


@pytest.mark.parametrize("qualifier", ["", ":7", ":live"])
async def test_an_arn_gives_the_name(lab: Lab, folder: Folder, qualifier: str) -> None:
    folder.write(passing())
    arn = f"arn:aws:states:eu-central-1:999999999999:stateMachine:{folder.machine}{qualifier}"
    deployed = await folder.deploy(lab, folder.tool(state_machine=arn))
    assert deployed["work"].endswith(f":stateMachine:{folder.machine}")


async def test_tools_may_share_a_state_machine(lab: Lab, folder: Folder) -> None:
    folder.write(passing())
    arns = await folder.deploy(lab, folder.tool("one"), folder.tool("two"))
    assert arns["one"] == arns["two"]


async def test_one_state_machine_cannot_have_two_definitions(lab: Lab, folder: Folder) -> None:
    folder.write(passing(1))
    other = folder.path.with_name("other.asl.json")
    other.write_text(json.dumps(passing(2)))
    with pytest.raises(ConfigurationError, match=f"{other.name}: tool 'two': .*{folder.machine}.*'one'"):
        await folder.deploy(lab, folder.tool("one"), folder.tool("two", definition=other.name))


async def test_variables_are_filled_in_and_everything_else_is_left(lab: Lab, folder: Folder) -> None:
    template = passing({"a": "${TaskTable}", "b": "x-${TaskTable}-y", "c": "$.x ${} $$ {TaskTable}"})
    template["Comment"] = "States.Format('${TaskTable}#{}', $$.Execution.Name)"
    folder.write(template)
    deployed = await definition_of(lab, (await folder.deploy(lab))["work"])
    assert deployed == {
        **passing({"a": "lab", "b": "x-lab-y", "c": "$.x ${} $$ {TaskTable}"}),
        "Comment": "States.Format('lab#{}', $$.Execution.Name)",
    }


async def test_a_value_with_quotes_stays_one_string(lab: Lab, folder: Folder) -> None:
    folder.write(passing("${Text}"))
    arns = await deploy(lab.states, Catalog([folder.tool()]), folder.tools_file, {"Text": 'a "b" \\ c'})
    assert await definition_of(lab, arns["work"]) == passing('a "b" \\ c')


async def test_an_unknown_variable_is_named(lab: Lab, folder: Folder) -> None:
    folder.write(passing("${Queue}"))
    assert await folder.refusal(lab) == "uses ${Queue}; known variables: ${TaskTable}"


def missing(folder: Folder) -> None:
    folder.path.unlink(missing_ok=True)


def not_text(folder: Folder) -> None:
    folder.path.write_bytes(b"\xff\xfe\x00")


def not_json(folder: Folder) -> None:
    folder.write('{\n  "StartAt": }')


def not_asl(folder: Folder) -> None:
    folder.write({"StartAt": "A"})


def deep_states(folder: Folder) -> None:
    definition: dict[str, object] = passing()
    for _ in range(80):
        branches = {"Type": "Parallel", "Branches": [definition], "End": True}
        definition = {"StartAt": "A", "States": {"A": branches}}
    folder.write(definition)


def deep_json(folder: Folder) -> None:
    folder.write("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (missing, "cannot be read: No such file or directory"),
        (not_text, "is not UTF-8 text"),
        (not_json, "is not valid JSON at line 2, column 14: Expecting value"),
        (not_asl, "is refused: "),
        (deep_states, "is refused: it nests too deeply"),
        (deep_json, "is refused: it nests too deeply"),
    ],
)
async def test_a_definition_that_cannot_be_used_is_named(
    lab: Lab, folder: Folder, spoil: Callable[[Folder], None], rule: str
) -> None:
    spoil(folder)
    assert (await folder.refusal(lab)).startswith(rule)


async def test_an_engine_that_cannot_be_reached_is_told(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(passing())
    retry_without_pauses(monkeypatch)
    async with aws_at("http://127.0.0.1:9") as aws:
        with pytest.raises(ConfigurationError, match="the state machines cannot be deployed"):
            await deploy(aws.stepfunctions, Catalog([folder.tool()]), folder.tools_file, TABLE)
