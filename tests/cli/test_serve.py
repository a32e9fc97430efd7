from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pydantic import SecretStr

from adapter.cli.serve import reachable_settings
from adapter.cli.server import is_loopback, listen, url_of
from adapter.errors import ConfigurationError
from adapter.settings import LOOPBACK_HOSTS, Settings
from adapter.stores.table import create_table, require_table
from tests.support.aws import aws_at, local_engine

from .console import Console

_KEY = SecretStr("k" * 32)
_SAMPLES = Path(__file__).parents[2] / "infra" / "pipelines" / "tools.yaml"


async def _create_table(name: str) -> None:
    async with aws_at(local_engine().endpoint) as aws:
        await create_table(aws.dynamodb, name)


def test_beyond_loopback_signing_keys_are_demanded() -> None:
    with pytest.raises(ConfigurationError, match=r"needs ADAPTER_SIGNING_KEYS.*make one: python -c"):
        reachable_settings(Settings(), "0.0.0.0")


@pytest.mark.requirement("B-05")
def test_beyond_loopback_every_host_is_served_unless_some_are_listed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    open_settings = reachable_settings(Settings(signing_keys=(_KEY,)), "0.0.0.0")
    listed = Settings(signing_keys=(_KEY,), allowed_hosts=("mcp.example.com",))
    assert open_settings.allowed_hosts == ("*",)
    assert reachable_settings(listed, "0.0.0.0").allowed_hosts == ("mcp.example.com",)
    assert caplog.text.count("ADAPTER_ALLOWED_HOSTS is not set") == 1


def test_on_loopback_a_key_is_made_and_only_local_hosts_are_served() -> None:
    settings = reachable_settings(Settings(), "127.0.0.1")
    assert len(settings.keys) == 1
    assert settings.allowed_hosts == LOOPBACK_HOSTS


def test_given_keys_are_kept() -> None:
    settings = Settings(signing_keys=(_KEY,))
    assert reachable_settings(settings, "localhost") is settings


@pytest.mark.parametrize(
    ("host", "local"),
    [("localhost", True), ("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("example.com", False)],
)
def test_loopback_is_recognised(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_the_url_of_an_ipv6_address_has_brackets() -> None:
    with listen("::1", 0) as listener:
        assert url_of(listener, "/mcp") == f"http://[::1]:{listener.getsockname()[1]}/mcp"


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot listen on 192\.0\.2\.1 port 0: .+ --port"):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize("options", [["--port", "0"], ["--stdio"]], ids=["http", "stdio"])
def test_without_its_table_it_does_not_start(options: list[str]) -> None:
    environment = {**local_engine().environment, "ADAPTER_TABLE": "no-such-table"}
    with Console("serve", "--tools", str(_SAMPLES), *options, environment=environment) as console:
        assert console.ended() == 2
    assert "table 'no-such-table' does not exist in us-east-1: set ADAPTER_TABLE" in console.stderr
    assert "Traceback" not in console.stderr


async def test_a_table_that_cannot_be_read_now_is_no_reason_not_to_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for error in (
        ClientError({"Error": {"Code": "AccessDeniedException", "Message": ""}}, "GetItem"),
        EndpointConnectionError(endpoint_url="x"),
    ):
        client: Any = SimpleNamespace(get_item=AsyncMock(side_effect=error))
        await require_table(client, "tasks")
    assert caplog.text.count("table tasks cannot be read now") == 2


def test_it_serves_logs_and_ends_quietly() -> None:
    asyncio.run(_create_table("served-tasks"))
    environment = {
        **local_engine().environment,
        "ADAPTER_SIGNING_KEYS": secrets.token_urlsafe(48),
        "ADAPTER_TABLE": "served-tasks",
    }
    arguments = ("serve", "--tools", str(_SAMPLES), "--host", "0.0.0.0", "--port", "0")
    with Console(*arguments, environment=environment) as console:
        console.wait_for("INFO adapter.serve serving 5 tools at http://0.0.0.0:")
        port = console.stderr.rpartition("http://0.0.0.0:")[2].partition("/")[0]
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/healthz", headers={"Host": "mcp.example.com"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert reply.read() == b"ok"
        console.process.send_signal(signal.SIGTERM)
        assert console.ended() == 0
    assert "healthz" not in console.printed
    assert console.stderr.endswith("INFO adapter.serve ended\n")
