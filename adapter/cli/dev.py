"""`adapter dev`: an embedded AWS with the pipelines deployed, and the server in front of it."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from adapter.aws import open_aws
from adapter.local.deploy import deploy, ensure_role
from adapter.local.engine import LocalAws
from adapter.main import check_catalog, open_adapter
from adapter.stores.table import create_table
from adapter.tools.catalog import Catalog
from adapter.tools.file import load_catalog
from adapter.tools.tool import Tool

from . import defaults, server
from .configuration import DevSettings, load_settings
from .output import console

if TYPE_CHECKING:
    from rich.console import Console

_ANY_ORIGIN = ("*",)
"""For CORS only: pages of other hosts than ours are refused by the endpoint itself."""


def run(tools: Path | None, port: int, *, stdio: bool, end_with_stdin: bool) -> None:
    """Serve until Ctrl-C or SIGTERM. Raises ConfigurationError, StoreUnavailable."""
    if end_with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    settings = load_settings(DevSettings, tools)
    catalog = load_catalog(settings.tools)
    check_catalog(catalog, settings)
    server.log_to_stderr(logging.WARNING)
    if stdio:
        with _engine():
            server.run(_serve_stdio(settings, catalog))
        return
    with server.listen(defaults.HOST, port) as listener, _engine():
        server.run(_serve(settings, catalog, listener))


async def _serve(settings: DevSettings, catalog: Catalog, listener: socket.socket) -> None:
    await _deploy(settings, catalog)

    def ready() -> None:
        welcome(console(), catalog, server.url_of(listener, settings.path))

    async with open_adapter(settings, catalog) as parts:
        await server.serve(parts, settings, listener, origins=_ANY_ORIGIN, on_ready=ready)


async def _serve_stdio(settings: DevSettings, catalog: Catalog) -> None:
    await _deploy(settings, catalog)
    async with open_adapter(settings, catalog) as parts:
        await server.serve_pipes(parts)


async def _deploy(settings: DevSettings, catalog: Catalog) -> None:
    async with open_aws() as aws:
        await create_table(aws.dynamodb, settings.table)
        await deploy(aws.stepfunctions, catalog, settings.tools, {"TaskTable": settings.table})


@contextmanager
def _engine() -> Iterator[None]:
    """The embedded AWS, which every client in this process then talks to; nothing where another is set."""
    if os.environ.get("AWS_ENDPOINT_URL"):
        asyncio.run(ensure_role())
        yield
        return
    with LocalAws.start() as aws:
        for name in list(os.environ):
            if name.startswith("AWS_") or name.lower().endswith("_proxy"):
                del os.environ[name]
        os.environ.update(aws.environment)
        os.environ.update(AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)
        yield


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def welcome(screen: Console, catalog: Catalog, url: str) -> None:
    """The first line is the address alone: `tour` reads it there."""
    from rich.table import Table

    tools = Table.grid(padding=(0, 2))
    for tool in catalog:
        tools.add_row(f"  {tool.name}", tool.title or tool.description)
    screen.print(f"Serving MCP at {url}", style="bold green", soft_wrap=True)
    screen.print(tools)
    screen.print(f"Try:  {first_command(next(iter(catalog)), url)}", soft_wrap=True)
    screen.print("Ctrl-C ends it.", style="dim")


def first_command(tool: Tool, url: str) -> str:
    """A command line that calls `tool`, with its required arguments to be filled in."""
    words = ["adapter", "call", tool.name]
    for name in tool.input_schema.get("required", []):
        words += ["-a", f"{name}={_example(tool.input_schema.get('properties', {}).get(name))}"]
    if url != defaults.URL:
        words += ["--url", url]
    return shlex.join(words)


_FORMATS = {
    "date": "2026-07-28",
    "time": "12:00:00Z",
    "date-time": "2026-07-28T12:00:00Z",
    "email": "ada@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def _example(schema: object) -> str:
    schema = schema if isinstance(schema, dict) else {}
    kinds = {"integer": 1, "number": 1, "boolean": "true", "array": "[]", "object": "{}"}
    known = [schema[k] for k in ("const", "default") if k in schema]
    listed = [*known, *schema.get("examples", []), *schema.get("enum", [])]
    if schema.get("format") in _FORMATS:
        listed.append(_FORMATS[schema["format"]])
    return str(listed[0] if listed else kinds.get(str(schema.get("type")), "x"))
