"""`adapter serve`: the server over real AWS."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from adapter.aws import open_dynamodb
from adapter.errors import ConfigurationError
from adapter.main import Parts, check_catalog, open_adapter
from adapter.settings import Settings, random_keys
from adapter.stores.table import require_table
from adapter.tools.catalog import Catalog
from adapter.tools.file import load_catalog

from . import server
from .configuration import load_settings

logger = logging.getLogger("adapter.serve")

_MAKE_KEY = "python -c 'import secrets; print(secrets.token_urlsafe(48))'"


def run(tools: Path | None, host: str, port: int, *, stdio: bool) -> None:
    """Serve until Ctrl-C or SIGTERM. Raises ConfigurationError."""
    settings = load_settings(Settings, tools)
    catalog = load_catalog(settings.tools)
    check_catalog(catalog, settings)
    server.log_to_stderr(logging.INFO)
    settings = reachable_settings(settings, host)
    if stdio:
        server.run(_serve_stdio(settings, catalog))
        return
    with server.listen(host, port) as listener:
        server.run(_serve(settings, catalog, listener))


async def _serve(settings: Settings, catalog: Catalog, listener: socket.socket) -> None:
    def ready() -> None:
        logger.info("serving %d tools at %s", len(catalog), server.url_of(listener, settings.path))

    async with _opened(settings, catalog) as parts:
        await server.serve(parts, settings, listener, origins=settings.allowed_origins, on_ready=ready)
    logger.info("ended")


async def _serve_stdio(settings: Settings, catalog: Catalog) -> None:
    async with _opened(settings, catalog) as parts:
        logger.info("serving %d tools over standard input and output", len(catalog))
        await server.serve_pipes(parts)


@asynccontextmanager
async def _opened(settings: Settings, catalog: Catalog) -> AsyncIterator[Parts]:
    async with open_dynamodb() as client:
        await require_table(client, settings.table)
    async with open_adapter(settings, catalog) as parts:
        yield parts


def reachable_settings(settings: Settings, host: str) -> Settings:
    """What the address demands: signing keys beyond loopback, and any host name unless some are listed (D13).

    Raises ConfigurationError.
    """
    if server.is_loopback(host):
        return settings if settings.signing_keys else _with_a_key_of_its_own(settings)
    if not settings.signing_keys:
        raise ConfigurationError(
            f"serving on {host} needs ADAPTER_SIGNING_KEYS, the same on every instance; make one: {_MAKE_KEY}"
        )
    if "allowed_hosts" in settings.model_fields_set:
        return settings
    logger.info("ADAPTER_ALLOWED_HOSTS is not set: every Host header is served, as behind a gateway")
    return settings.model_copy(update={"allowed_hosts": ("*",)})


def _with_a_key_of_its_own(settings: Settings) -> Settings:
    logger.info("ADAPTER_SIGNING_KEYS is not set: confirmations under way end with this process")
    return settings.model_copy(update={"signing_keys": random_keys()})
