from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from typer.testing import CliRunner, Result

from adapter.aws import open_aws
from adapter.cli.app import app
from adapter.cli.check import state_machine, table_findings
from adapter.cli.probes import engine_permissions, store_permissions
from adapter.local.deploy import deploy
from adapter.stores.table import create_table
from adapter.tools.file import load_catalog
from tests.support.aws import local_engine

_SAMPLES = Path(__file__).parents[2] / "infra" / "pipelines" / "tools.yaml"
_TABLE = "tasks-of-check"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local engine with the samples deployed and the table made."""
    for name, value in local_engine().environment.items():
        monkeypatch.setenv(name, value)

    async def prepare() -> None:
        async with open_aws() as clients:
            await create_table(clients.dynamodb, _TABLE)
            await deploy(clients.stepfunctions, load_catalog(_SAMPLES), _SAMPLES, {"TaskTable": _TABLE})

    asyncio.run(prepare())
    monkeypatch.setenv("ADAPTER_TABLE", _TABLE)


def _check(tools: Path) -> Result:
    return CliRunner().invoke(app, ["check", "--tools", str(tools)])


def _tools(tmp_path: Path, state_machine: str) -> Path:
    file = tmp_path / "tools.yaml"
    file.write_text(
        f"tools:\n  - {{name: work, description: Works, state_machine: '{state_machine}'}}\n",
        encoding="utf-8",
    )
    return file


@pytest.mark.usefixtures("aws")
def test_a_complete_installation_has_no_problems() -> None:
    result = _check(_SAMPLES)
    assert result.exit_code == 0, result.output
    assert "account 123456789012, region us-east-1" in result.stdout
    assert f"{_TABLE}: keys, index and time to live are as they should be" in result.stdout
    assert result.stdout.count("is STANDARD and active") == 5
    assert result.stdout.count("StartExecution, DescribeExecution") == 5
    assert "no problems found" in result.stdout


@pytest.mark.usefixtures("aws")
def test_it_starts_and_writes_nothing() -> None:
    async def leftovers() -> int:
        async with open_aws() as clients:
            machine = await clients.resolve_target("sales-report")
            executions = await clients.stepfunctions.list_executions(stateMachineArn=machine)
            items = await clients.dynamodb.scan(TableName=_TABLE)
            return len(executions["executions"]) + items["Count"]

    before = asyncio.run(leftovers())
    assert _check(_SAMPLES).exit_code == 0
    assert asyncio.run(leftovers()) == before


@pytest.mark.usefixtures("aws")
def test_a_state_machine_that_does_not_exist_is_a_problem(tmp_path: Path) -> None:
    result = _check(_tools(tmp_path, "nobody-knows-it"))
    assert result.exit_code == 1
    assert "does not exist; deploy it, or correct `state_machine`" in result.stdout
    assert "1 problem found" in result.stdout


@pytest.mark.usefixtures("aws")
def test_what_cannot_be_started_is_a_problem_of_its_tool(tmp_path: Path) -> None:
    arn = "arn:aws:states:us-east-1:123456789012:execution:work:1"
    result = _check(_tools(tmp_path, arn))
    assert result.exit_code == 1
    assert "tool work" in result.stdout
    assert "is not the ARN of a state machine" in result.stdout


@pytest.mark.usefixtures("aws")
def test_an_express_state_machine_is_a_problem(tmp_path: Path) -> None:
    async def create() -> None:
        async with open_aws() as clients:
            await clients.stepfunctions.create_state_machine(
                name="hasty",
                type="EXPRESS",
                roleArn="arn:aws:iam::123456789012:role/any",
                definition='{"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}',
            )

    asyncio.run(create())
    result = _check(_tools(tmp_path, "hasty"))
    assert result.exit_code == 1
    assert "is EXPRESS; only STANDARD can run as a task" in result.stdout


@pytest.mark.usefixtures("aws")
def test_a_missing_table_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTER_TABLE", "no-such-table")
    result = _check(_SAMPLES)
    assert result.exit_code == 1
    assert "table 'no-such-table' does not exist" in result.stdout


@pytest.mark.usefixtures("aws")
def test_a_bad_tools_file_is_a_problem_and_the_rest_is_checked_all_the_same(tmp_path: Path) -> None:
    result = _check(_tools(tmp_path, ""))
    assert result.exit_code == 1
    assert "state_machine: String should have at least 1 character" in result.stdout
    assert "keys, index and time to live" in result.stdout


def test_without_a_region_the_problem_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    result = _check(_SAMPLES)
    assert result.exit_code == 1
    assert "no AWS region is set: set AWS_REGION" in result.stdout


def test_credentials_that_do_not_work_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = _check(_SAMPLES)
    assert result.exit_code == 1
    assert "check the AWS credentials" in " ".join(result.stdout.split())
    assert "Could not connect to the endpoint URL" in " ".join(result.stdout.split())


class _Client:
    """Answers each operation with the error of its name, or with nothing special."""

    def __init__(self, **errors: str) -> None:
        self._errors = errors

    def __getattr__(self, operation: str) -> Any:
        async def call(**_: object) -> dict[str, Any]:
            if operation in self._errors:
                raise ClientError({"Error": {"Code": self._errors[operation], "Message": ""}}, operation)
            return {}

        return call


_MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:work"


class _Machines(_Client):
    """One state machine that can be described, and what is asked about."""

    def __init__(self, **answer: str) -> None:
        super().__init__()
        self.asked: list[str] = []
        self._answer = answer

    async def describe_state_machine(self, **named: str) -> dict[str, str]:
        self.asked += named.values()
        return {"type": "STANDARD", **self._answer}

    async def describe_state_machine_alias(self, **named: str) -> dict[str, str]:
        self.asked += named.values()
        return {}


def _aws(stepfunctions: Any) -> Any:
    return SimpleNamespace(stepfunctions=stepfunctions)


async def test_an_alias_is_looked_at_together_with_its_state_machine() -> None:
    client = _Machines()
    finding, _ = await state_machine(_aws(client), f"{_MACHINE}:live", ["work"])
    assert not finding.problem
    assert client.asked == [f"{_MACHINE}:live", _MACHINE]


async def test_a_version_is_looked_at_as_itself() -> None:
    client = _Machines()
    finding, _ = await state_machine(_aws(client), f"{_MACHINE}:3", ["work"])
    assert not finding.problem
    assert client.asked == [f"{_MACHINE}:3"]


async def test_a_state_machine_that_is_being_deleted_is_a_problem() -> None:
    finding, _ = await state_machine(_aws(_Machines(status="DELETING")), _MACHINE, ["work"])
    assert finding.problem
    assert "is being deleted" in finding.text


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("AccessDeniedException", "allow states:DescribeStateMachine"),
        ("InvalidArn", f"{_MACHINE}: InvalidArn"),
        ("StateMachineDoesNotExist", "does not exist"),
    ],
)
async def test_why_a_state_machine_cannot_be_looked_at_is_told(code: str, told: str) -> None:
    finding, _ = await state_machine(_aws(_Client(describe_state_machine=code)), _MACHINE, ["work"])
    assert finding.problem
    assert told in finding.text


async def test_an_endpoint_that_is_lost_meanwhile_is_a_problem() -> None:
    lost: Any = _Client()
    lost.query = lost.describe_state_machine = AsyncMock(
        side_effect=EndpointConnectionError(endpoint_url="x")
    )
    assert (await state_machine(_aws(lost), _MACHINE, ["work"]))[0].problem
    (finding,) = await store_permissions(lost, "tasks")
    assert "dynamodb:Query answers Could not connect" in finding.text


async def test_a_table_that_may_not_be_looked_at_tells_what_to_allow() -> None:
    denied = ClientError({"Error": {"Code": "AccessDeniedException", "Message": ""}}, "DescribeTable")
    client: Any = SimpleNamespace(describe_table=AsyncMock(side_effect=denied))
    (finding,) = await table_findings(SimpleNamespace(dynamodb=client), "tasks")  # type: ignore[arg-type]
    assert finding.text.endswith("; allow dynamodb:DescribeTable and dynamodb:DescribeTimeToLive")


async def test_what_an_emulator_starts_all_the_same_is_stopped_and_no_problem() -> None:
    stopped: list[str] = []

    class _Emulator(_Client):
        async def start_execution(self, **_: object) -> dict[str, str]:
            return {"executionArn": "the-started-one"}

        async def stop_execution(self, *, executionArn: str) -> dict[str, str]:  # noqa: N803
            stopped.append(executionArn)
            return {}

    client: Any = _Emulator()
    (finding,) = await engine_permissions(client, _MACHINE)
    assert not finding.problem
    assert "the-started-one" in stopped
    (again,) = await engine_permissions(
        cast(Any, _Client(start_execution="ExecutionAlreadyExists")), _MACHINE
    )
    assert not again.problem


@pytest.mark.usefixtures("aws")
def test_what_is_piped_has_whole_lines() -> None:
    lines = _check(_SAMPLES).stdout.splitlines()
    assert f"ok  table  {_TABLE}: keys, index and time to live are as they should be" in lines


async def test_denied_actions_are_named_with_their_resource() -> None:
    client: Any = _Client(start_execution="AccessDeniedException", stop_execution="AccessDeniedException")
    (finding,) = await engine_permissions(client, _MACHINE)
    assert finding.problem
    assert finding.text == f"allow states:StartExecution, states:StopExecution for {_MACHINE}"


async def test_what_aws_answers_where_permission_was_not_the_problem_counts_as_allowed() -> None:
    client: Any = _Client(put_item="ConditionalCheckFailedException")
    (finding,) = await store_permissions(client, "tasks")
    assert not finding.problem


async def test_another_answer_is_a_problem_of_its_own() -> None:
    client: Any = _Client(query="ResourceNotFoundException", get_item="AccessDeniedException")
    findings = await store_permissions(client, "tasks")
    assert [f.text for f in findings] == [
        "allow dynamodb:GetItem for tasks",
        "dynamodb:Query answers ResourceNotFoundException",
    ]
