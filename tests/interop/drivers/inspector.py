"""What the drivers of the Inspector's two command lines share: running them, and reading their wire."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from driver import Job, shown, text_of_json

PACKAGE = Path("node_modules/@modelcontextprotocol/inspector/clients")
_TASK_ID = re.compile(rb"mcp-[A-Za-z0-9_-]{22}")


@dataclass(frozen=True)
class Said:
    """What a command printed: JSON on stdout, or an error on stderr."""

    code: int
    value: Any
    error: str | None

    @property
    def first_sentence(self) -> str:
        assert self.error is not None
        return self.error.split(". ")[0]

    @property
    def outcome(self) -> dict[str, Any]:
        """The result of a tool, as the runner compares it."""
        if self.value is None:
            return {"message": self.error}
        result = self.value.get("result", self.value)
        return shown(text_of_json(result["content"]), result.get("structuredContent"), result.get("isError"))


class Program:
    """One of the Inspector's programs. `hurry`: its request time-out comes after the job's `timeout`."""

    def __init__(self, job: Job, script: str, extra: Mapping[str, str], *, hurry: bool = False) -> None:
        self._command = [job.node, str(Path(job.environment) / PACKAGE / script)]
        self._environment = {**os.environ, **extra, "NO_COLOR": "1"}
        self._environment["MCP_INSPECTOR_SECRET_STORE"] = "memory"
        if hurry:
            preload = Path(__file__).with_name("hurry.mjs").as_uri()
            self._environment["NODE_OPTIONS"] = f"--import {preload}"
            self._environment["HURRY_MS"] = str(int(job.timeout * 1000))

    async def run(self, *arguments: str) -> Said:
        code, out, err = await self._ended(arguments)
        return Said(code, json.loads(out) if out.strip() else None, _error(err))

    async def text(self, *arguments: str) -> str:
        """What a command printed that knows no JSON."""
        _, out, _ = await self._ended(arguments)
        return out

    async def _ended(self, arguments: Iterable[str]) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()


def _error(text: str) -> str | None:
    """The message of the JSON error among the lines, which hold advice as well."""
    for line in text.splitlines():
        if line.startswith('{"error"'):
            return str(json.loads(line)["error"]["message"])
    return None


class Wire:
    """Passes bytes on between a client and the server, and keeps those that the client sent and got."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self.url = ""
        self.sent = b""
        self.got = b""

    async def task_id(self) -> str:
        """The id of the first task that was made, as soon as there is one."""
        while (found := _TASK_ID.search(self.got)) is None:
            await asyncio.sleep(0.05)
        return found[0].decode()

    def declared(self) -> list[dict[str, Any]]:
        """The capabilities that the client declared, in each message that tells them."""
        messages = [json.loads(body) for body in _bodies(self.sent)]
        return [capabilities for message in messages if (capabilities := _capabilities(message)) is not None]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_server = await asyncio.open_connection(self._target.hostname, self._target.port)
        await asyncio.gather(
            self._pass_on(reader, to_server[1], "sent"), self._pass_on(to_server[0], writer, "got")
        )

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: str) -> None:
        try:
            while data := await reader.read(65536):
                setattr(self, kept, getattr(self, kept) + data)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


def _bodies(sent: bytes) -> Iterable[bytes]:
    """The JSON bodies among the requests of the connections."""
    for match in re.finditer(rb"content-length: (\d+)\r\n(?:[^\r\n]+\r\n)*\r\n", sent, re.IGNORECASE):
        yield sent[match.end() : match.end() + int(match[1])]


def _capabilities(message: dict[str, Any]) -> dict[str, Any] | None:
    params = message.get("params", {})
    modern = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities")
    return params.get("capabilities") if message.get("method") == "initialize" else modern


@asynccontextmanager
async def wire(url: str) -> AsyncIterator[Wire]:
    relay = Wire(url)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{relay._target.path}"
    try:
        yield relay
    finally:
        server.close()
