"""What the templates tell the server is what it takes, and what an account has room for (D7)."""

from __future__ import annotations

import os
from typing import Any

import pytest

from adapter.settings import Settings
from lambdas.hosted import HostedSettings
from tests.package.stack import Stack

MACHINES = "arn:aws:states:eu-central-1:123456789012:stateMachine:billing"
FEWEST = {"refill": 10, "bucket": 250}
"""DescribeExecution calls of an account in most Regions: per second, and at once."""
CONTAINER = {
    "ServerPolicyArn": "arn:aws:iam::123456789012:policy/server",
    "SigningKeyArn": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:key",
    "AuthMode": "None",
    "AllowUnauthenticated": "true",
}


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("ADAPTER_")]:
        monkeypatch.delenv(name)


def _function(patch: pytest.MonkeyPatch, name: str, **parameters: str) -> HostedSettings:
    stack = Stack("template.yaml", StateMachineArns=MACHINES, **parameters)
    for variable, value in stack.resource(name)["Environment"]["Variables"].items():
        patch.setenv(variable, str(value))
    return HostedSettings()


def _container(patch: pytest.MonkeyPatch, **parameters: str) -> Settings:
    stack = Stack("infra/fargate.yaml", **CONTAINER, **parameters)
    (container,) = stack.resource("TaskDefinition")["ContainerDefinitions"]
    for entry in container["Environment"]:
        patch.setenv(entry["Name"], entry["Value"])
    return Settings()


def test_the_endpoint_takes_what_the_template_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _function(
        monkeypatch,
        "Mcp",
        AuthMode="OAuth",
        CognitoUserPoolArn="arn:aws:cognito-idp:eu-west-1:123456789012:userpool/eu-west-1_AbCdEf",
        OAuthScopes="mcp/tasks,mcp/admin",
        PublicUrl="https://mcp.example.com",
        AllowedOrigins="https://a.example.com,https://b.example.com",
        DescribePerSecond="0.25",
        MaxTaskTtlSeconds="60",
        ToolsParameter="/mcp/tools",
    )
    assert settings.allowed_origins == ("https://a.example.com", "https://b.example.com")
    assert settings.scopes == ("mcp/tasks", "mcp/admin")
    assert settings.resource == "https://mcp.example.com/mcp"
    assert settings.authorization_servers == ("https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEf",)
    assert (settings.describe_rate, settings.max_ttl, settings.events) == (0.25, 60, "on")
    assert settings.tools_source == "ssm:/mcp/tools"
    assert settings.require_identity
    assert settings.signing_keys_secret == "<SigningKey.Id>"


def test_what_is_left_out_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _function(monkeypatch, "Mcp", AuthMode="None", AllowUnauthenticated="true")
    assert (settings.allowed_origins, settings.scopes, settings.tools_source) == ((), (), None)
    assert not settings.require_identity


@pytest.mark.parametrize("rate", ["0", "0.0", "00", "-1", ".5", "1.", "fast", ""])
def test_a_rate_that_no_server_takes_is_refused_before_anything_is_deployed(rate: str) -> None:
    with pytest.raises(ValueError, match="DescribePerSecond"):
        Stack("template.yaml", StateMachineArns=MACHINES, DescribePerSecond=rate)
    with pytest.raises(ValueError, match="DescribePerSecond"):
        Stack("infra/fargate.yaml", **CONTAINER, DescribePerSecond=rate)


@pytest.mark.parametrize("rate", ["1", "10", "0.05", "12.5"])
def test_any_other_rate_is_taken(monkeypatch: pytest.MonkeyPatch, rate: str) -> None:
    assert _function(monkeypatch, "Mcp", DescribePerSecond=rate).describe_rate == float(rate)
    assert _container(monkeypatch, DescribePerSecond=rate).describe_rate == float(rate)


def test_five_busy_instances_and_the_reconciliation_fit_into_an_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates: dict[str, tuple[float, int]] = {}
    for name in ("Mcp", "Reconcile"):
        with monkeypatch.context() as patch:
            rates[name] = _rate(_function(patch, name))
    with monkeypatch.context() as patch:
        rates["container"] = _rate(_container(patch))
    assert rates["container"] == rates["Mcp"]
    for total, quota in zip(
        (5 * one + run for one, run in zip(rates["Mcp"], rates["Reconcile"], strict=True)),
        FEWEST.values(),
        strict=True,
    ):
        assert total <= quota


def _rate(settings: Settings) -> tuple[float, int]:
    return settings.describe_rate, settings.describe_burst


def test_a_container_knows_that_events_come_as_the_functions_do(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = [_container(monkeypatch).events]
    found += [_function(monkeypatch, name).events for name in ("Mcp", "Reconcile")]
    assert found == ["on", "on", "on"]
