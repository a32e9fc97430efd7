"""A client of protocol 2026-07-28 with the tasks extension, over aiohttp."""

from __future__ import annotations

import os
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
from pydantic import BaseModel

from adapter import __version__
from adapter.mcp.meta import CAPABILITIES_KEY, MODERN_VERSION, PREFIX, TASKS_EXTENSION, VERSION_KEY
from adapter.tools.schema import header_parameters

from .authorization import Anonymous, Authorization
from .exits import CommandError, ExitCode
from .replies import Message, Task, ToolsPage, kind_of_call, problem

JsonObject = dict[str, Any]
Notify = Callable[[JsonObject], None]
OnSent = Callable[[], None]

TASKS: JsonObject = {"extensions": {TASKS_EXTENSION: {}}}
FORMS: JsonObject = {"elicitation": {"form": {}, "url": {}}}

_CLIENT_INFO = {"name": "adapter-call", "version": __version__}
_CONNECT_SECONDS = 5.0
_SILENCE_SECONDS = 60.0
"""Longer than the pause between two keep-alive comments of an open stream."""
_PASSING_STATUS = (429, 500, 502, 503, 504)
_NOT_ADMITTED = (401, 403)
_REDIRECTS = range(300, 400)
_LOOK = "; its log may say why"
_INTERNAL_ERROR = -32603
_MAX_PAGES = 100
_PLAIN_TEXT = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
"""What OpenSSL calls a reply that is no TLS, depending on its version."""


class ServerUnreachable(CommandError):
    """No usable reply came. `passing`: the same request may succeed later."""

    def __init__(self, message: str, *, passing: bool = True) -> None:
        super().__init__(message, ExitCode.UNREACHABLE)
        self.passing = passing


class UnfitReply(ServerUnreachable):
    """The server, or whatever answers in its place, does not speak MCP as it is prescribed."""

    def __init__(self, method: str, problem: str) -> None:
        text = f"the server answered {method} not as MCP prescribes: {problem}"
        super().__init__(text, passing=False)


class NotAdmitted(CommandError):
    """The endpoint, or a gateway before it, does not accept who is calling."""

    def __init__(self, status: int, body: bytes, remedy: str) -> None:
        told = _loaded(body)
        error = told.get("error")
        reason = error.get("message") if isinstance(error, dict) else told.get("message") or error
        text = f"the endpoint answered HTTP {status} ({reason or 'no reason given'}); {remedy}"
        super().__init__(text, ExitCode.UNREACHABLE)


class RequestRefused(CommandError):
    """The server answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"the server refused the request: {message} ({code})", ExitCode.UNREACHABLE)
        self.rpc_code = code
        self.rpc_message = message
        self.data = data

    @property
    def passing(self) -> bool:
        return self.rpc_code == _INTERNAL_ERROR


class McpClient:
    """Requests to one endpoint. `capabilities` are declared in each."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        capabilities: JsonObject,
        authorization: Authorization,
    ) -> None:
        self._session = session
        self._url = url
        self._capabilities = capabilities
        self._authorization = authorization
        self._ids = count(1)

    async def request(
        self,
        method: str,
        params: JsonObject,
        *,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        on_notification: Notify | None = None,
        on_sent: OnSent | None = None,
    ) -> JsonObject:
        """The result; `on_notification` asks for progress, `on_sent` is called as soon as the server may have got it.

        Raises ServerUnreachable, RequestRefused.
        """
        meta = {"progressToken": "call"} if on_notification is not None else {}
        async with aclosing(self._exchange(method, params, meta, name, headers, on_sent)) as messages:
            async for message in messages:
                if "method" not in message:
                    return _result(message)
                if on_notification is not None:
                    on_notification(message)
        raise ServerUnreachable(f"{self._url} closed the connection without a reply")

    async def tools(self) -> list[JsonObject]:
        """All pages of the tool list."""
        tools: list[JsonObject] = []
        params: JsonObject = {}
        for _ in range(_MAX_PAGES):
            page = _fit("tools/list", ToolsPage, await self.request("tools/list", params))
            tools += page["tools"]
            if page.get("nextCursor") is None:
                break
            params = {"cursor": page["nextCursor"]}
        return tools

    async def call_tool(
        self,
        tool: JsonObject,
        params: JsonObject,
        *,
        on_notification: Notify | None = None,
        on_sent: OnSent | None = None,
    ) -> JsonObject:
        """`tools/call` of a listed tool; `params` hold its arguments, answers and state."""
        headers = _mirrored(tool, params.get("arguments", {}))
        params = {"name": tool["name"], **params}
        result = await self.request(
            "tools/call",
            params,
            name=tool["name"],
            headers=headers,
            on_notification=on_notification,
            on_sent=on_sent,
        )
        return _fit("tools/call", kind_of_call(result), result)

    async def on_task(self, method: str, task_id: str, **params: object) -> JsonObject:
        """`tasks/get`, `tasks/update` or `tasks/cancel`."""
        reply = await self.request(method, {"taskId": task_id, **params}, name=task_id)
        return _fit(method, Task, reply) if method == "tasks/get" else reply

    async def listen(self, task_ids: list[str]) -> AsyncGenerator[JsonObject, None]:
        """Every message of one subscription, the closing result included."""
        params = {"notifications": {"taskIds": task_ids}}
        async with aclosing(self._exchange("subscriptions/listen", params, {}, None, None)) as messages:
            async for message in messages:
                yield message

    async def _exchange(
        self,
        method: str,
        params: JsonObject,
        meta: JsonObject,
        name: str | None,
        headers: Mapping[str, str] | None,
        on_sent: OnSent | None = None,
    ) -> AsyncGenerator[JsonObject, None]:
        body = self._message(method, params, meta)
        standard = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN_VERSION,
            "Mcp-Method": method,
            **({"Mcp-Name": _header_value(name)} if name is not None else {}),
            **(headers or {}),
        }
        proof = await self._authorization.headers(self._url, standard, body)
        try:
            # A redirect would take arguments, answers and credentials to who knows whom.
            async with self._session.post(
                self._url,
                data=body,
                headers={**standard, **proof},
                allow_redirects=False,
                trace_request_ctx=on_sent,
            ) as response:
                if response.status in _NOT_ADMITTED:
                    raise NotAdmitted(response.status, await response.read(), self._authorization.remedy)
                if response.status in _REDIRECTS:
                    raise _redirected(self._url, response)
                async for reply in _replies(response):
                    yield reply
        except (aiohttp.ClientError, OSError) as error:
            raise ServerUnreachable(f"cannot reach {self._url}: {_reason(error)}") from None

    def _message(self, method: str, params: JsonObject, meta: JsonObject) -> bytes:
        envelope = {
            VERSION_KEY: MODERN_VERSION,
            CAPABILITIES_KEY: self._capabilities,
            PREFIX + "clientInfo": _CLIENT_INFO,
        }
        params = {**params, "_meta": {**meta, **envelope}}
        return orjson.dumps({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})


@asynccontextmanager
async def connected(
    url: str, capabilities: JsonObject, authorization: Authorization | None = None
) -> AsyncIterator[McpClient]:
    """A client of the endpoint at `url`. Each request has its own connection: answers may take days."""
    local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS)
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, trust_env=not local, trace_configs=[_tracing()]
    ) as session:
        yield McpClient(session, url, capabilities, authorization or Anonymous())


def _tracing() -> aiohttp.TraceConfig:
    """Calls what a request was given as `trace_request_ctx` once its connection stands and its head is written."""

    async def sent(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx()

    tracing = aiohttp.TraceConfig()
    tracing.on_request_headers_sent.append(sent)
    return tracing


async def _replies(response: aiohttp.ClientResponse) -> AsyncIterator[JsonObject]:
    if response.content_type == "text/event-stream":
        async for data in _events(response.content):
            yield _parsed(data, response.status)
    else:
        yield _parsed(await response.read(), response.status)


async def _events(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The data of each server-sent event; lines may be longer than aiohttp's own reader allows."""
    rest = b""
    data: list[bytes] = []
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in (line.removesuffix(b"\r") for line in lines):
            if line.startswith(b"data:"):
                data.append(line.removeprefix(b"data:").removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data)
                data = []


def _redirected(url: str, response: aiohttp.ClientResponse) -> ServerUnreachable:
    to = response.headers.get("Location", "nowhere")
    return ServerUnreachable(f"{url} redirects to {to}; if that is right, give it as --url", passing=False)


def _reason(error: Exception) -> str:
    """Why there is no connection, in words: aiohttp hides the cause, and the codes of TLS are no error numbers."""
    hidden = (getattr(error, name, None) for name in ("certificate_error", "os_error", "__cause__"))
    cause = next((one for one in hidden if isinstance(one, OSError)), error)
    if isinstance(error, aiohttp.ClientConnectorDNSError) or isinstance(cause, socket.gaierror):
        return "there is no host of that name"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {_tls_reason(cause)}"
    if isinstance(cause, TimeoutError) and not cause.errno:
        return "no answer in time"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno)
    return str(error) or type(error).__name__


def _tls_reason(error: ssl.SSLError) -> str:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if error.reason in _PLAIN_TEXT:
        return f"{reason}; the server speaks no TLS here, perhaps the URL begins with http://"
    return reason


def _parsed(body: bytes, status: int) -> JsonObject:
    message = _loaded(body)
    if problem(Message, message) is None:
        return message
    raise ServerUnreachable(
        f"the server answered HTTP {status} without an MCP message{_LOOK if status >= 500 else ''}",
        passing=status in _PASSING_STATUS,
    )


def _fit(method: str, kind: type[BaseModel], reply: JsonObject) -> JsonObject:
    """The reply as it came, if it can be relied on."""
    unfit = problem(kind, reply)
    if unfit is not None:
        raise UnfitReply(method, unfit)
    return reply


def _loaded(body: bytes) -> JsonObject:
    """The JSON object that a body is; empty where it is none."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return message if isinstance(message, dict) else {}


def _result(message: JsonObject) -> JsonObject:
    if "error" in message:
        error = message["error"]
        raise RequestRefused(error.get("code", 0), error.get("message", ""), error.get("data"))
    result: JsonObject = message["result"]
    return result


def _mirrored(tool: JsonObject, arguments: JsonObject) -> dict[str, str]:
    """The `Mcp-Param-*` headers that the tool's schema asks for (R-71)."""
    try:
        parameters = header_parameters(tool["inputSchema"])
    except ValueError as error:
        raise CommandError(f"tool {tool['name']!r} cannot be called: {error}", ExitCode.UNREACHABLE) from None
    headers = {}
    for parameter in parameters:
        value: Any = arguments
        for step in parameter.path:
            value = value.get(step) if isinstance(value, dict) else None
        if value is not None:
            headers[parameter.name] = _header_value(_spelt(value))
    return headers


def _spelt(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _header_value(text: str) -> str:
    """As it is, or base64 in the sentinel where a header could not carry it (R-38)."""
    safe = text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?")
    return text if safe else f"=?base64?{b64encode(text.encode()).decode()}?="
