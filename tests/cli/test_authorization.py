from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from adapter.cli.app import app
from adapter.cli.authorization import AwsSignature, BearerToken, authorization
from adapter.cli.client import TASKS, connected
from adapter.cli.exits import CommandError

_KEY = "not-a-real-secret"
_URL = "https://abc.execute-api.eu-central-1.amazonaws.com/live/mcp"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": _KEY,
        "AWS_REGION": "eu-west-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def _expected(url: str, headers: Mapping[str, str], body: bytes) -> str:
    """The signature that the published algorithm gives, from what the server received."""
    scope = headers["authorization"].split("Credential=")[1].split(",")[0].split("/", 1)[1]
    signed = headers["authorization"].split("SignedHeaders=")[1].split(",")[0]
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in signed.split(";"))
    request = f"POST\n{urlsplit(url).path}\n\n{lines}\n{signed}\n{hashlib.sha256(body).hexdigest()}"
    text = (
        f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    )
    key = f"AWS4{_KEY}".encode()
    for part in [*scope.split("/"), text]:
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


async def test_the_server_can_verify_the_signature_of_every_request() -> None:
    seen: list[tuple[dict[str, str], bytes]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(({name.lower(): value for name, value in request.headers.items()}, await request.read()))
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}})

    application = web.Application()
    application.router.add_post("/live/mcp", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/live/mcp"
        async with connected(url, TASKS, AwsSignature()) as client:
            await client.tools()
            await client.on_task("tasks/cancel", "mcp-é")
    finally:
        await runner.cleanup()
    assert len(seen) == 2
    for headers, body in seen:
        assert headers["authorization"].endswith(f"Signature={_expected(url, headers, body)}")
        assert {"content-type", "host", "mcp-method", "x-amz-date"} <= set(
            headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
        )


@pytest.mark.parametrize(
    ("url", "region"),
    [
        (_URL, "eu-central-1"),
        ("https://abc.execute-api.cn-north-1.amazonaws.com.cn/live/mcp", "cn-north-1"),
        ("https://mcp.example.com/mcp", "eu-west-1"),
    ],
)
async def test_the_region_is_that_of_the_api_or_the_configured_one(url: str, region: str) -> None:
    headers = await AwsSignature().headers(url, {}, b"{}")
    today = (datetime.now(UTC), datetime.now(UTC) - timedelta(minutes=1))
    scopes = [f"Credential=AKIDEXAMPLE/{day:%Y%m%d}/{region}/execute-api/aws4_request" for day in today]
    assert any(scope in headers["Authorization"] for scope in scopes)


async def test_temporary_credentials_send_their_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "temporary")
    assert (await AwsSignature().headers(_URL, {}, b"{}"))["X-Amz-Security-Token"] == "temporary"


async def test_missing_credentials_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(CommandError, match="no AWS credentials are set"):
        await AwsSignature().headers(_URL, {}, b"{}")


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
@pytest.mark.parametrize("value", ["line\nbreak", "two words", "é", "\udcff"])
async def test_credentials_that_cannot_be_any_are_told_and_not_shown(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(CommandError, match="--iam: the AWS credentials hold a line break") as told:
        await AwsSignature().headers(_URL, {}, b"{}")
    assert told.value.code == 2
    assert value not in str(told.value)


@pytest.mark.parametrize("region", ["eu-west-1\n", "eu west", "é", "\udcff"])
async def test_what_is_no_region_is_told(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", region)
    with pytest.raises(CommandError, match="is not an AWS region: correct AWS_REGION") as told:
        await AwsSignature().headers("https://mcp.example.com/mcp", {}, b"{}")
    assert told.value.code == 2


async def test_a_profile_that_does_not_exist_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(CommandError, match=r"--iam: .*nobody"):
        await AwsSignature().headers(_URL, {}, b"{}")


async def test_a_role_that_may_not_be_assumed_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "[profile other]\nregion = eu-west-1\nsource_profile = own\n"
        "role_arn = arn:aws:iam::123456789012:role/other\nendpoint_url = http://127.0.0.1:9\n"
        "[profile own]\naws_access_key_id = a\naws_secret_access_key = b\n"
    )

    async def denied(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "AssumeRole")

    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "other")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("aiobotocore.client.AioBaseClient._make_api_call", denied)
    with pytest.raises(CommandError, match=r"--iam: .*AccessDenied") as told:
        await AwsSignature().headers(_URL, {}, b"{}")
    assert told.value.code == 2


async def test_a_region_that_is_nowhere_to_be_found_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(CommandError, match="set AWS_REGION"):
        await AwsSignature().headers("https://mcp.example.com/mcp", {}, b"{}")


async def test_an_access_token_is_sent_as_it_is() -> None:
    headers = await authorization(iam=False, token="abc.def").headers(_URL, {}, b"{}")
    assert headers == {"Authorization": "Bearer abc.def"}


@pytest.mark.parametrize("url", ["http://mcp.example.com/mcp", "http://10.0.0.1/mcp"])
async def test_a_token_crosses_no_network_in_the_clear(url: str) -> None:
    with pytest.raises(CommandError, match="over https only"):
        await BearerToken("abc").headers(url, {}, b"{}")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
async def test_on_this_machine_it_may(host: str) -> None:
    assert await BearerToken("abc").headers(f"http://{host}:8000/mcp", {}, b"{}")


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "é"])
def test_what_is_no_access_token_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(CommandError, match="ADAPTER_TOKEN is not an access token") as refused:
        authorization(iam=False, token=token)
    assert token not in str(refused.value)


def test_one_proof_is_enough() -> None:
    result = CliRunner().invoke(app, ["call", "any", "--iam"], env={"ADAPTER_TOKEN": "abc"})
    assert result.exit_code == 2
    assert "give --iam or ADAPTER_TOKEN, not both" in result.stderr
