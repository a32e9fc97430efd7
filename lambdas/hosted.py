"""The adapter as a function in AWS runs it: its key in Secrets Manager, its tools bundled, in S3 or in SSM."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import Field, SecretStr

from adapter.aws import open_client
from adapter.errors import ConfigurationError
from adapter.main import Parts, open_adapter, open_reconciler
from adapter.mcp.cors import Cors
from adapter.mcp.endpoint import Endpoint
from adapter.settings import Settings, Words, load
from adapter.tasks.reconcile import Reconciler
from adapter.tools.catalog import Catalog
from adapter.tools.file import load_catalog, parse_catalog


class HostedSettings(Settings):
    """What a gateway has checked already is not checked again; many containers share an account's quota."""

    allowed_hosts: Words = ("*",)
    inline_wait_limit: float = Field(default=24.0, ge=0)
    describe_rate: float = Field(default=1.0, gt=0)
    describe_burst: int = Field(default=20, ge=1)
    tools_source: str | None = None
    """Where the tools file is, if it is not bundled: `s3://bucket/key` or `ssm:/parameter/name`."""
    require_identity: bool = True
    """Refuse requests whose gateway event names no caller."""
    resource: str | None = None
    """The endpoint's public URL, for OAuth metadata (RFC 9728)."""
    authorization_servers: Words = ()
    scopes: Words = ()
    signing_keys_secret: str | None = None
    """The secret in Secrets Manager that holds the signing keys, unless these are set."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """A running adapter and what a function needs besides."""

    settings: HostedSettings
    parts: Parts
    metadata: bytes | None
    """The protected resource metadata document; None without OAuth."""
    cors: Cors

    @property
    def endpoint(self) -> Endpoint:
        return self.parts.endpoint


@asynccontextmanager
async def open_hosted() -> AsyncIterator[Hosted]:
    """Opened from the environment. Raises ConfigurationError."""
    settings = load(HostedSettings)
    catalog, keys = await asyncio.gather(_catalog(settings), _keys(settings))
    if not keys:
        raise ConfigurationError(
            "no signing key is set: set ADAPTER_SIGNING_KEYS_SECRET or ADAPTER_SIGNING_KEYS"
        )
    settings = load(HostedSettings, signing_keys=keys)
    async with open_adapter(settings, catalog) as parts:
        yield Hosted(settings, parts, protected_resource(settings), Cors(settings.allowed_origins))


@asynccontextmanager
async def open_unattended() -> AsyncIterator[Reconciler]:
    """For work that no client asks for: it needs neither signing key nor tools. Raises ConfigurationError."""
    async with open_reconciler(load(HostedSettings)) as reconciler:
        yield reconciler


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


async def _keys(settings: HostedSettings) -> tuple[SecretStr, ...]:
    if settings.signing_keys_secret is None or settings.signing_keys:
        return settings.signing_keys
    with _readable("ADAPTER_SIGNING_KEYS_SECRET: the secret"):
        async with open_client("secretsmanager") as client:
            reply = await client.get_secret_value(SecretId=settings.signing_keys_secret)
            text: str = reply.get("SecretString", "")
    return tuple(SecretStr(key.strip()) for key in text.split(",") if key.strip())


async def _catalog(settings: HostedSettings) -> Catalog:
    source = settings.tools_source
    if source is None:
        return load_catalog(Path(os.environ.get("LAMBDA_TASK_ROOT", ".")) / settings.tools)
    if source.startswith("s3://"):
        bucket, _, key = source.removeprefix("s3://").partition("/")
        return parse_catalog(await _object(bucket, key, source), source)
    if source.startswith("ssm:"):
        return parse_catalog(await _parameter(source.removeprefix("ssm:"), source), source)
    raise ConfigurationError(f"ADAPTER_TOOLS_SOURCE: {source!r} is neither s3://bucket/key nor ssm:/name")


async def _object(bucket: str, key: str, source: str) -> str:
    with _readable(source):
        async with open_client("s3") as client:
            reply = await client.get_object(Bucket=bucket, Key=key)
            content: bytes = await reply["Body"].read()
            return content.decode("utf-8")


async def _parameter(name: str, source: str) -> str:
    with _readable(source):
        async with open_client("ssm") as client:
            reply = await client.get_parameter(Name=name, WithDecryption=True)
            return str(reply["Parameter"]["Value"])


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError, UnicodeDecodeError) as error:
        why = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
        raise ConfigurationError(f"{what} cannot be read: {why}") from error
