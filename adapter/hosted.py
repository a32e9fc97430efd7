"""The adapter as a function in AWS runs it: its key in Secrets Manager, its tools bundled, in S3 or in SSM."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import SecretStr, ValidationError

from adapter.errors import ConfigurationError
from adapter.main import Parts, open_adapter
from adapter.mcp.endpoint import Endpoint
from adapter.settings import Settings, Words
from adapter.tools.catalog import Catalog
from adapter.tools.file import load_catalog, parse_catalog

SECRET_VARIABLE = "ADAPTER_SIGNING_KEYS_SECRET"  # noqa: S105 - the name of a variable


class HostedSettings(Settings):
    """What a gateway has checked already is not checked again."""

    allowed_hosts: Words = ("*",)
    inline_wait_limit: float = 24.0
    tools_source: str | None = None
    """Where the tools file is, if it is not bundled: `s3://bucket/key` or `ssm:/parameter/name`."""
    require_identity: bool = True
    """Refuse requests whose gateway event names no caller."""
    resource: str | None = None
    """The endpoint's public URL, for OAuth metadata (RFC 9728)."""
    authorization_servers: Words = ()
    scopes: Words = ()


@dataclass(frozen=True, slots=True)
class Hosted:
    """A running adapter and what a function needs besides."""

    settings: HostedSettings
    catalog: Catalog
    parts: Parts
    metadata: bytes | None
    """The protected resource metadata document; None without OAuth."""

    @property
    def endpoint(self) -> Endpoint:
        return self.parts.endpoint


@asynccontextmanager
async def open_hosted() -> AsyncIterator[Hosted]:
    """Opened from the environment. Raises ConfigurationError."""
    settings = await _settings()
    catalog = await _catalog(settings)
    async with open_adapter(settings, catalog) as parts:
        yield Hosted(settings, catalog, parts, protected_resource(settings))


def protected_resource(settings: HostedSettings) -> bytes | None:
    """The RFC 9728 document, None where there is no authorization server to name."""
    if settings.resource is None or not settings.authorization_servers:
        return None
    return orjson.dumps(
        {
            "resource": settings.resource,
            "authorization_servers": list(settings.authorization_servers),
            "scopes_supported": list(settings.scopes),
            "bearer_methods_supported": ["header"],
        }
    )


async def _settings() -> HostedSettings:
    secret = os.environ.get(SECRET_VARIABLE)
    try:
        settings = HostedSettings()
        if secret is None or settings.signing_keys:
            return settings
        keys = [SecretStr(key) for key in (await _secret(secret)).split(",") if key]
        return HostedSettings(signing_keys=tuple(keys))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigurationError(f"ADAPTER_{str(first['loc'][0]).upper()}: {first['msg']}") from None


async def _catalog(settings: HostedSettings) -> Catalog:
    source = settings.tools_source
    if source is None:
        return load_catalog(Path(os.environ.get("LAMBDA_TASK_ROOT", ".")) / settings.tools)
    if source.startswith("s3://"):
        bucket, _, key = source.removeprefix("s3://").partition("/")
        return parse_catalog(await _object(bucket, key), source)
    if source.startswith("ssm:"):
        return parse_catalog(await _parameter(source.removeprefix("ssm:")), source)
    raise ConfigurationError(f"ADAPTER_TOOLS_SOURCE: {source!r} is neither s3://bucket/key nor ssm:/name")


async def _secret(identifier: str) -> str:
    try:
        async with get_session().create_client("secretsmanager") as client:
            reply = await client.get_secret_value(SecretId=identifier)
            return str(reply["SecretString"])
    except (BotoCoreError, ClientError) as error:
        raise ConfigurationError(f"{SECRET_VARIABLE}: the secret cannot be read: {_why(error)}") from error


async def _object(bucket: str, key: str) -> str:
    try:
        async with get_session().create_client("s3") as client:
            reply = await client.get_object(Bucket=bucket, Key=key)
            return (await reply["Body"].read()).decode("utf-8")  # type: ignore[no-any-return]
    except (BotoCoreError, ClientError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"s3://{bucket}/{key} cannot be read: {_why(error)}") from error


async def _parameter(name: str) -> str:
    try:
        async with get_session().create_client("ssm") as client:
            reply = await client.get_parameter(Name=name, WithDecryption=True)
            return str(reply["Parameter"]["Value"])
    except (BotoCoreError, ClientError) as error:
        raise ConfigurationError(f"ssm:{name} cannot be read: {_why(error)}") from error


def _why(error: Exception) -> str:
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
