"""The adapter opened as a function opens it: key, tools and settings from where AWS keeps them."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adapter.aws import open_client
from adapter.errors import ConfigurationError
from adapter.tasks.reconcile import Reconciler
from lambdas.hosted import Hosted, HostedSettings, open_hosted, open_unattended, protected_resource
from tests.support.aws import MACHINE, local_engine, point_at

KEY = "0123456789abcdef0123456789abcdef"
OTHER_KEY = "fedcba9876543210fedcba9876543210"
TOOLS = f"tools: [{{name: work, description: Works., state_machine: '{MACHINE}'}}]"
NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A function whose tools file is bundled and whose key is a variable."""
    point_at(local_engine().endpoint, monkeypatch)
    (tmp_path / "tools.yaml").write_text(TOOLS)
    monkeypatch.setenv("LAMBDA_TASK_ROOT", str(tmp_path))
    monkeypatch.setenv("ADAPTER_SIGNING_KEYS", KEY)
    return monkeypatch


@pytest.fixture
async def hosted(environment: pytest.MonkeyPatch) -> AsyncIterator[Callable[[], Awaitable[Hosted]]]:
    """Opens the adapter now; it is closed with the test."""
    async with AsyncExitStack() as stack:

        async def opened() -> Hosted:
            return await stack.enter_async_context(open_hosted())

        yield opened


Opened = Callable[[], Awaitable[Hosted]]


async def _refusal() -> str:
    with pytest.raises(ConfigurationError) as refused:
        async with open_hosted():
            raise AssertionError("it must not open")
    return str(refused.value)


async def _kept_secret(value: str | bytes) -> str:
    """The name of a new secret."""
    name = f"keys-{secrets.token_hex(4)}"
    content = {"SecretString": value} if isinstance(value, str) else {"SecretBinary": value}
    async with open_client("secretsmanager") as client:
        await client.create_secret(Name=name, **content)
    return name


# --- keys --------------------------------------------------------------------------------------------------


async def test_it_opens_from_variables_and_a_bundled_file(hosted: Opened) -> None:
    opened = await hosted()
    assert opened.parts.targets == {"work": MACHINE}
    assert opened.settings.keys == (KEY.encode(),)
    assert opened.endpoint is opened.parts.endpoint


async def test_keys_are_read_from_the_secret(hosted: Opened, environment: pytest.MonkeyPatch) -> None:
    environment.delenv("ADAPTER_SIGNING_KEYS")
    environment.setenv("ADAPTER_SIGNING_KEYS_SECRET", await _kept_secret(f"{KEY}, {OTHER_KEY}\n"))
    assert (await hosted()).settings.keys == (KEY.encode(), OTHER_KEY.encode())


async def test_keys_in_variables_spare_the_secret(hosted: Opened, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ADAPTER_SIGNING_KEYS_SECRET", "no-such-secret")
    assert (await hosted()).settings.keys == (KEY.encode(),)


async def test_without_any_key_it_does_not_open(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("ADAPTER_SIGNING_KEYS")
    assert await _refusal() == (
        "no signing key is set: set ADAPTER_SIGNING_KEYS_SECRET or ADAPTER_SIGNING_KEYS"
    )


@pytest.mark.parametrize("empty", [" , ", b"binary"])
async def test_a_secret_without_a_key_is_no_key(environment: pytest.MonkeyPatch, empty: str | bytes) -> None:
    environment.delenv("ADAPTER_SIGNING_KEYS")
    environment.setenv("ADAPTER_SIGNING_KEYS_SECRET", await _kept_secret(empty))
    assert "no signing key is set" in await _refusal()


async def test_a_short_key_is_refused_without_being_shown(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("ADAPTER_SIGNING_KEYS")
    environment.setenv("ADAPTER_SIGNING_KEYS_SECRET", await _kept_secret("too-short"))
    refusal = await _refusal()
    assert refusal == "ADAPTER_SIGNING_KEYS: each signing key needs at least 32 characters"


async def test_a_secret_that_cannot_be_read_is_told(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("ADAPTER_SIGNING_KEYS")
    environment.setenv("ADAPTER_SIGNING_KEYS_SECRET", "no-such-secret")
    assert await _refusal() == (
        "ADAPTER_SIGNING_KEYS_SECRET: the secret cannot be read: ResourceNotFoundException"
    )


async def test_work_that_no_client_asks_for_needs_neither_key_nor_tools(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.delenv("ADAPTER_SIGNING_KEYS")
    environment.setenv("ADAPTER_SIGNING_KEYS_SECRET", "no-such-secret")
    environment.setenv("ADAPTER_TOOLS_SOURCE", "s3://no-such-bucket/tools.yaml")
    (tmp_path / "tools.yaml").write_text("tools: broken")
    async with open_unattended() as reconciler:
        assert isinstance(reconciler, Reconciler)


# --- tools -------------------------------------------------------------------------------------------------


async def test_tools_are_read_from_s3(hosted: Opened, environment: pytest.MonkeyPatch) -> None:
    bucket = f"tools-{secrets.token_hex(4)}"
    async with open_client("s3") as client:
        await client.create_bucket(Bucket=bucket)
        await client.put_object(Bucket=bucket, Key="prod/tools.yaml", Body=TOOLS.encode())
        await client.put_object(Bucket=bucket, Key="latin1.yaml", Body="ä".encode("latin-1"))
    environment.setenv("ADAPTER_TOOLS_SOURCE", f"s3://{bucket}/prod/tools.yaml")
    assert (await hosted()).parts.targets == {"work": MACHINE}

    environment.setenv("ADAPTER_TOOLS_SOURCE", f"s3://{bucket}/latin1.yaml")
    assert await _refusal() == f"s3://{bucket}/latin1.yaml cannot be read: UnicodeDecodeError"
    environment.setenv("ADAPTER_TOOLS_SOURCE", f"s3://{bucket}/none.yaml")
    assert await _refusal() == f"s3://{bucket}/none.yaml cannot be read: NoSuchKey"


async def test_tools_are_read_from_a_parameter(hosted: Opened, environment: pytest.MonkeyPatch) -> None:
    name = f"/mcp/tools-{secrets.token_hex(4)}"
    async with open_client("ssm") as client:
        await client.put_parameter(Name=name, Value=TOOLS, Type="SecureString")
    environment.setenv("ADAPTER_TOOLS_SOURCE", f"ssm:{name}")
    assert (await hosted()).parts.targets == {"work": MACHINE}

    environment.setenv("ADAPTER_TOOLS_SOURCE", "ssm:/mcp/none")
    assert await _refusal() == "ssm:/mcp/none cannot be read: ParameterNotFound"


async def test_a_mistake_in_tools_from_elsewhere_names_their_source(
    environment: pytest.MonkeyPatch,
) -> None:
    name = f"/mcp/tools-{secrets.token_hex(4)}"
    async with open_client("ssm") as client:
        await client.put_parameter(Name=name, Value="tools: []", Type="String")
    environment.setenv("ADAPTER_TOOLS_SOURCE", f"ssm:{name}")
    assert (await _refusal()).startswith(f"ssm:{name}: `tools` must be a list")


async def test_a_source_of_another_kind_is_refused(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ADAPTER_TOOLS_SOURCE", "https://example.com/tools.yaml")
    assert "neither s3://bucket/key nor ssm:/name" in await _refusal()


async def test_a_bundled_file_that_is_missing_is_told(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tools.yaml").unlink()
    assert "tools.yaml: cannot be read" in await _refusal()


# --- settings ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("B-05")
def test_a_function_serves_any_host_but_only_callers_that_the_gateway_names() -> None:
    settings = HostedSettings()
    assert settings.allowed_hosts == ("*",)
    assert settings.require_identity
    assert settings.inline_wait_limit < 29 - 1


async def test_a_setting_that_cannot_be_used_is_named(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ADAPTER_REFRESH_MIN", "soon")
    assert (await _refusal()).startswith("ADAPTER_REFRESH_MIN: ")


def test_the_metadata_needs_the_resource_and_an_authorization_server() -> None:
    resource, servers = "https://mcp.example.com/mcp", ("https://login.example.com",)
    assert protected_resource(HostedSettings(resource=resource)) is None
    assert protected_resource(HostedSettings(authorization_servers=servers)) is None
    document = protected_resource(HostedSettings(resource=resource, authorization_servers=servers))
    assert document is not None
    assert json.loads(document)["authorization_servers"] == list(servers)


async def test_an_unreachable_endpoint_is_told_by_name_of_the_error(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("AWS_ENDPOINT_URL", NOBODY)
    environment.setattr("adapter.aws.ATTEMPTS", 1)
    environment.setenv("ADAPTER_TOOLS_SOURCE", "ssm:/mcp/tools")
    assert await _refusal() == "ssm:/mcp/tools cannot be read: EndpointConnectionError"
