from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator

import pytest

import adapter.aws
from adapter.aws import Aws, execution_arn, open_aws
from adapter.errors import ConfigurationError
from tests.support.aws import (
    ACCOUNT,
    MACHINE,
    REGION,
    aws_at,
    local_engine,
    point_at,
    retry_without_pauses,
)
from tests.support.faults import LOST_REQUEST, FaultyAws, reply

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
async def aws() -> AsyncIterator[Aws]:
    async with aws_at(NOBODY, patient=False) as clients:
        yield clients


async def test_clients_go_where_the_environment_says(aws: Aws) -> None:
    for client in (aws.stepfunctions, aws.dynamodb):
        assert client.meta.endpoint_url == NOBODY
        assert client.meta.region_name == REGION


async def test_clients_are_bounded_in_time_attempts_and_connections(aws: Aws) -> None:
    for client in (aws.stepfunctions, aws.dynamodb):
        config = client.meta.config
        assert (config.connect_timeout, config.read_timeout, config.max_pool_connections) == (2, 5, 64)
        assert config.retries == {"mode": "standard", "total_max_attempts": 3}
        assert config.user_agent.startswith("mcp-workflow-adapter/")


async def test_connections_are_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_alive: list[int] = []
    connect = adapter.aws._keepalive_socket

    def noted(address: tuple[int, int, int, str, object]) -> socket.socket:
        connection = connect(address)
        kept_alive.append(connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        return connection

    monkeypatch.setattr(adapter.aws, "_keepalive_socket", noted)
    async with FaultyAws() as server, aws_at(server.endpoint) as aws:
        server.script("ListTables", reply(TableNames=[]))
        await aws.dynamodb.list_tables()
    assert kept_alive == [1]


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
async def test_either_region_variable_will_do(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv(variable, "eu-north-1")
    async with open_aws() as aws:
        assert aws.dynamodb.meta.region_name == "eu-north-1"


async def test_a_missing_region_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    point_at(NOBODY, monkeypatch)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigurationError, match="set AWS_REGION"):
        async with open_aws():
            pass


@pytest.mark.parametrize(("variable", "value"), [("AWS_ENDPOINT_URL", "nonsense"), ("AWS_PROFILE", "nobody")])
async def test_settings_that_cannot_be_used_are_told(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    point_at(NOBODY, monkeypatch)
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=f"the AWS settings cannot be used: .*{value}"):
        async with open_aws():
            pass


async def test_names_are_resolved_in_the_callers_account_which_is_looked_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with FaultyAws(local_engine().endpoint) as server, aws_at(server.endpoint) as aws:
        point_at(server.endpoint, monkeypatch)
        assert await aws.resolve_target(MACHINE) == MACHINE
        assert server.operations == []
        assert await aws.resolve_target("work") == MACHINE
        assert (await aws.resolve_target("a.b+c")).endswith(f":{ACCOUNT}:stateMachine:a.b+c")
        assert server.operations == ["GetCallerIdentity"]


async def test_an_account_that_cannot_be_looked_up_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    retry_without_pauses(monkeypatch)
    async with FaultyAws() as server, aws_at(server.endpoint) as aws:
        point_at(server.endpoint, monkeypatch)
        server.script("GetCallerIdentity", *[LOST_REQUEST] * 3)
        with pytest.raises(ConfigurationError, match=r"cannot be looked up .*: check the AWS credentials"):
            await aws.resolve_target("work")


@pytest.mark.parametrize(
    "arn",
    [
        MACHINE,
        f"{MACHINE}:10",
        f"{MACHINE}:PROD",
        "arn:aws-cn:states:cn-north-1:123456789012:stateMachine:bericht-ü",
        "arn:aws-us-gov:states:us-gov-west-1:123456789012:stateMachine:a.b+c",
    ],
)
async def test_the_arn_of_a_machine_version_or_alias_is_its_own_target(aws: Aws, arn: str) -> None:
    assert await aws.resolve_target(arn) == arn


@pytest.mark.parametrize(
    "arn",
    [
        f"{MACHINE}/map-label",
        f"{MACHINE}/map-label:10",
        f"{MACHINE}:10:20",
        "arn:aws:states:us-east-1:123456789012:stateMachine:",
        "arn:aws:states:us-east-1:123456789012:execution:work:one",
        "arn:aws:states:us-east-1:123456789012:express:work:one:two",
        "arn:aws:states:us-east-1:123456789012:mapRun:work/label:one",
        "arn:aws:states:us-east-1:123456789012:activity:work",
        "arn:aws:states:us-east-1:12345:stateMachine:work",
        "arn:aws:lambda:us-east-1:123456789012:function:work",
        "arn:aws:states:us-east-1:123456789012:stateMachine:two words",
        f"{MACHINE}\n",
    ],
)
async def test_an_arn_that_cannot_be_started_is_refused(aws: Aws, arn: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the ARN of a state machine, version or alias"):
        await aws.resolve_target(arn)


@pytest.mark.parametrize("name", ["", "two words", "a/b", "work:PROD", "x" * 81, "a*", "work\n"])
async def test_what_cannot_be_a_name_is_refused(aws: Aws, name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the name of a state machine"):
        await aws.resolve_target(name)


def test_an_execution_has_the_arn_of_its_machine_without_version_or_alias() -> None:
    wanted = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:work:mcp-one"
    assert {execution_arn(f"{MACHINE}{end}", "mcp-one") for end in ("", ":10", ":PROD")} == {wanted}
