"""The stack that runs the container behind a load balancer."""

from __future__ import annotations

from typing import Any

import pytest

from .stack import Stack

JWT = {"JwtIssuer": "https://login.example.com", "JwksEndpoint": "https://login.example.com/keys"}
SERVER_POLICY = "arn:aws:iam::123456789012:policy/stack-ServerPolicy-1"
KEY = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:key-AbCdEf"


def _stack(**parameters: str) -> Stack:
    given = {"ServerPolicyArn": SERVER_POLICY, "SigningKeyArn": KEY, "TaskTableName": "tasks", **parameters}
    return Stack("infra/fargate.yaml", **given)


@pytest.fixture
def stack() -> Stack:
    return _stack(**JWT)


def _container(stack: Stack) -> dict[str, Any]:
    (container,) = stack.resource("TaskDefinition")["ContainerDefinitions"]
    assert isinstance(container, dict)
    return container


def test_the_container_can_do_no_more_than_it_must(stack: Stack) -> None:
    container = _container(stack)
    assert container["ReadonlyRootFilesystem"] is True
    assert int(container["User"]) > 0
    assert container["LinuxParameters"] == {"Capabilities": {"Drop": ["ALL"]}}
    assert "Privileged" not in container


def test_the_container_has_exactly_the_functions_permissions(stack: Stack) -> None:
    role = stack.resource("TaskRole")
    assert role["ManagedPolicyArns"] == [SERVER_POLICY]
    assert "Policies" not in role


def test_starting_the_container_reads_its_key_and_its_image_only() -> None:
    repository = "arn:aws:ecr:eu-central-1:123456789012:repository/adapter"
    statements = _execution_statements(_stack(**JWT, RepositoryArn=repository))
    assert [(s["Action"], s["Resource"]) for s in statements] == [
        (["logs:CreateLogStream", "logs:PutLogEvents"], "<Logs.Arn>"),
        ("secretsmanager:GetSecretValue", KEY),
        (["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"], repository),
        ("ecr:GetAuthorizationToken", "*"),
    ]
    assert len(_execution_statements(_stack(**JWT))) == 2


def _execution_statements(stack: Stack) -> list[dict[str, Any]]:
    (policy,) = stack.resource("ExecutionRole")["Policies"]
    statements: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
    return statements


def test_the_signing_key_is_no_plain_variable(stack: Stack) -> None:
    container = _container(stack)
    assert container["Secrets"] == [{"Name": "ADAPTER_SIGNING_KEYS", "ValueFrom": KEY}]
    assert {"Name": "ADAPTER_TABLE", "Value": "tasks"} in container["Environment"]


def test_tokens_are_checked_before_anything_is_forwarded(stack: Stack) -> None:
    check, forward = stack.resource("Listener")["DefaultActions"]
    assert (check["Type"], check["Order"], forward["Type"], forward["Order"]) == (
        "jwt-validation",
        1,
        "forward",
        2,
    )
    validation = check["JwtValidationConfig"]
    assert (validation["Issuer"], validation["JwksEndpoint"]) == (JWT["JwtIssuer"], JWT["JwksEndpoint"])
    (scope,) = validation["AdditionalClaims"]
    assert scope == {"Name": "scope", "Format": "space-separated-values", "Values": ["mcp/tasks"]}


def test_preflights_pass_without_a_token_where_there_are_browser_clients() -> None:
    rule = _stack(**JWT, AllowedOrigins="https://inspector.example.com").resource("PreflightRule")
    (condition,) = rule["Conditions"]
    assert condition == {
        "Field": "http-request-method",
        "HttpRequestMethodConfig": {"Values": ["OPTIONS"]},
    }
    assert rule["Actions"] == [{"Type": "forward", "TargetGroupArn": "<TargetGroup>"}]
    for without in (JWT, {"AuthMode": "None", "AllowUnauthenticated": "true"}):
        with pytest.raises(KeyError):
            _stack(**without).resource("PreflightRule")


def test_nobody_is_asked_only_by_two_switches_and_only_inside() -> None:
    opened = _stack(AuthMode="None", AllowUnauthenticated="true")
    (forward,) = opened.resource("Listener")["DefaultActions"]
    assert forward["Type"] == "forward"
    with pytest.raises(ValueError, match="AllowUnauthenticated=true"):
        _stack(AuthMode="None")
    with pytest.raises(ValueError, match="internal load balancers only"):
        _stack(AuthMode="None", AllowUnauthenticated="true", Scheme="internet-facing")


def test_incomplete_oauth_is_refused() -> None:
    for missing in JWT:
        with pytest.raises(ValueError, match=missing):
            _stack(**{name: value for name, value in JWT.items() if name != missing})


@pytest.mark.parametrize(
    ("image", "taken"),
    [
        ("example.com/adapter:1.0", True),
        ("adapter@sha256:" + "a" * 64, True),
        ("adapter:latest", False),
        ("adapter", False),
    ],
)
def test_the_image_is_pinned(image: str, taken: bool) -> None:
    if taken:
        assert _container(_stack(**JWT, ImageUri=image))["Image"] == image
    else:
        with pytest.raises(ValueError, match="ImageUri"):
            _stack(**JWT, ImageUri=image)


def test_clients_connect_with_tls_and_containers_take_only_the_load_balancer(stack: Stack) -> None:
    listener = stack.resource("Listener")
    assert (listener["Protocol"], listener["Port"]) == ("HTTPS", 443)
    assert "TLS13" in listener["SslPolicy"]
    (ingress,) = stack.resource("ServiceSecurityGroup")["SecurityGroupIngress"]
    assert ingress["SourceSecurityGroupId"] == "<BalancerSecurityGroup>"
    assert "CidrIp" not in ingress


def test_silent_streams_outlast_the_pause_between_two_keep_alive_comments(stack: Stack) -> None:
    attributes = {
        item["Key"]: item["Value"] for item in stack.resource("LoadBalancer")["LoadBalancerAttributes"]
    }
    assert int(attributes["idle_timeout.timeout_seconds"]) >= 3 * 15


def test_unhealthy_containers_are_replaced_and_bad_deployments_rolled_back(stack: Stack) -> None:
    assert stack.resource("TargetGroup")["HealthCheckPath"] == "/healthz"
    breaker = stack.resource("Service")["DeploymentConfiguration"]["DeploymentCircuitBreaker"]
    assert breaker == {"Enable": True, "Rollback": True}


def test_the_service_scales_between_its_limits(stack: Stack) -> None:
    scaling = stack.resource("Scaling")
    assert (scaling["MinCapacity"], scaling["MaxCapacity"]) == ("2", "10")
    assert stack.resource("ScaleByCpu")["ScalingTargetId"] == "<Scaling>"
