"""`adapter call`: calls a tool as a task and follows it."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import typer
from yarl import URL

from . import defaults
from .answers import Answers, NoAnswer
from .arguments import GivenArguments, json_object, sendable
from .authorization import authorization
from .client import FORMS, TASKS, JsonObject, McpClient, RequestRefused, connected
from .display import Display, Lines, Live
from .exits import CommandError, ExitCode
from .following import CallOnItsWay, Follower
from .output import console, plain
from .prompts import Terminal
from .wishes import Interrupted, Wishes, unless

_REPLY_SECONDS = 30.0
"""How long the reply to a call is waited for that is to be cancelled: functions start cold, gateways give up sooner."""
_WAITING = "Waiting for the server's reply, to cancel; Ctrl-C again leaves at once."


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The command line of `call`; exactly one of `tool` and `task` is given."""

    tool: str | None = None
    task: str | None = None
    args: str | None = None
    pairs: Sequence[str] = ()
    url: str = defaults.URL
    as_json: bool = False
    answers: Sequence[str] = ()
    decline: bool = False
    patience: float = defaults.PATIENCE
    iam: bool = False
    token: str | None = None


class ConsoleTerminal:
    """The person at stdin and stderr; stdout is for the result."""

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes

    def write(self, text: str) -> None:
        typer.echo(text, err=True)

    def read(self, prompt: str) -> str:
        typer.echo(prompt, err=True, nl=False)
        line = self._wishes.prompted(sys.stdin.readline)
        if not line:
            raise EOFError
        return line.rstrip("\r\n")


def run(options: CallOptions, terminal: Terminal | None = None, wishes: Wishes | None = None) -> ExitCode:
    """Call, follow, print the result. Raises CommandError. `terminal`: who answers, in place of stdin."""
    _check(options)
    wishes = wishes or Wishes()
    if terminal is None and sys.stdin.isatty() and not options.as_json:
        terminal = ConsoleTerminal(wishes)
    given = [json_object(text, "--answer") for text in options.answers]
    answers = Answers(given, decline=options.decline, terminal=terminal)
    arguments = GivenArguments.read(options.args, options.pairs)
    return asyncio.run(_Call(options, arguments, answers, _display(options), wishes).run())


def _check(options: CallOptions) -> None:
    if (options.tool is None) == (options.task is None):
        raise CommandError("name a tool, or a task with --task (and not both)", ExitCode.USAGE)
    if options.task is not None and (options.args is not None or options.pairs):
        raise CommandError("--task takes no arguments: the task has got them already", ExitCode.USAGE)
    sendable(options.tool or "", "TOOL")
    sendable(options.task or "", "--task")
    if not _is_usable(options.url):
        raise CommandError(f"--url: {options.url!a} is not an http or https URL", ExitCode.USAGE)


def _is_usable(url: str) -> bool:
    try:
        url.encode()
        parts = urlsplit(url)
        host = URL(url).raw_host or ""
        host.encode("idna")  # as the look-up of its address will do
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and parts.port != 0


def _display(options: CallOptions) -> Display:
    if options.as_json:
        return Display()
    return Live() if sys.stderr.isatty() else Lines()


class _Call:
    """One run of the command."""

    def __init__(
        self,
        options: CallOptions,
        arguments: GivenArguments,
        answers: Answers,
        display: Display,
        wishes: Wishes,
    ) -> None:
        self._options = options
        self._arguments = arguments
        self._answers = answers
        self._display = display
        self._wishes = wishes
        self._follower: Follower | None = None

    async def run(self) -> ExitCode:
        with self._wishes.heard(settles=True):
            return self._report(await self._final())

    async def _final(self) -> JsonObject:
        who = authorization(iam=self._options.iam, token=self._options.token)
        async with connected(self._options.url, {**TASKS, **FORMS}, who) as client:
            follower = self._follower = Follower(
                client, self._answers, self._display, patience=self._options.patience
            )
            try:
                with self._display.running():
                    return await self._to_the_end(client, follower)
            except NoAnswer as problem:
                raise self._unanswered(follower, problem) from None
            except CommandError as problem:
                raise CommandError(self._with_way_back(problem), problem.code) from None

    async def _to_the_end(self, client: McpClient, follower: Follower) -> JsonObject:
        """The last state; the wish to end cancels the task, the wish to leave does not wait for that."""
        try:
            return await unless(self._wishes.to_end, self._followed(client, follower))
        except Interrupted:
            task_id = follower.task_id
        if task_id is None:
            started = await self._started(follower.on_its_way)
            if started.get("resultType") != "task":
                return {"status": "completed", "result": started}
            task_id = follower.task_id = str(started["taskId"])
        try:
            return await unless(self._wishes.to_leave, follower.cancel(task_id))
        except Interrupted:
            raise CommandError("Left before its end was seen", ExitCode.CANCELLED) from None

    async def _started(self, call: CallOnItsWay | None) -> JsonObject:
        """What a call that is on its way has come to: a task to cancel, or a result.

        Waits for the reply, but not long. Raises CommandError where it does not come, or tells that nothing runs.
        """
        if call is None:
            raise _left("nothing was started")
        patience = 0.0
        if call.sent and not call.runs_inline and not call.reply.done():
            patience = min(_REPLY_SECONDS, self._options.patience)
            with self._display.paused():
                typer.echo(_WAITING, err=True)
        try:
            reply = await unless(self._wishes.to_leave, call.reply, within=patience)
        except Interrupted:
            raise _left(_fate(call)) from None
        if reply.get("resultType") == "input_required":
            raise _left("nothing was started")
        return reply

    async def _followed(self, client: McpClient, follower: Follower) -> JsonObject:
        if self._options.task is not None:
            return await follower.resume(self._options.task)
        tool = _named(await client.tools(), str(self._options.tool))
        return await follower.start(tool, self._arguments.fitted(tool["inputSchema"]))

    def _way_back(self, text: str) -> str:
        """`text`, and how to get back to the task if there is one."""
        if self._follower is None or self._follower.task_id is None:
            return text
        words = ["adapter", "call", "--task", self._follower.task_id]
        if self._options.url != defaults.URL:
            words += ["--url", self._options.url]
        if self._options.iam:
            words += ["--iam"]
        return f"{text.rstrip('.')}. Get back to the task with: {shlex.join(words)}"

    def _with_way_back(self, problem: CommandError) -> str:
        gone = isinstance(problem, RequestRefused) and not problem.passing
        return str(problem) if gone else self._way_back(str(problem))

    def _unanswered(self, follower: Follower, problem: NoAnswer) -> CommandError:
        if follower.task_id is None:
            return CommandError(f"{problem} (nothing was started; give --answer)", problem.code)
        if self._options.as_json and follower.open_task is not None:
            _print_json(follower.open_task)
        return CommandError(f"{self._way_back(str(problem))} --answer '{{…}}'", problem.code)

    def _report(self, final: JsonObject) -> ExitCode:
        code = exit_code(final)
        if self._options.as_json:
            _print_json(final)
            return code
        for line in result_lines(final.get("result", {})):
            typer.echo(line)
        summary, style = _summary(final, code)
        console(stderr=True).print(summary, style=style, soft_wrap=True)
        return code


def _left(fate: str) -> CommandError:
    return CommandError(f"Left before there was a task; {fate}", ExitCode.CANCELLED)


def _fate(call: CallOnItsWay) -> str:
    """What becomes of a call without a reply."""
    if not call.sent:
        return "nothing was started"
    if call.runs_inline:
        return "its connection is closed, which tells the server to stop"
    return "nothing more is known of the call"


def exit_code(final: Mapping[str, Any]) -> ExitCode:
    """What the last state of a call means."""
    if final["status"] == "cancelled":
        return ExitCode.CANCELLED
    failed = final["status"] == "failed" or final.get("result", {}).get("isError")
    return ExitCode.FAILED if failed else ExitCode.OK


def result_lines(result: JsonObject) -> list[str]:
    """A CallToolResult as text: its blocks; its structured content only where there are no blocks."""
    lines = [plain(_block(block)) for block in result.get("content", [])]
    if not lines and "structuredContent" in result:
        lines = [json.dumps(result["structuredContent"], ensure_ascii=False, indent=2)]
    return lines


def _block(block: JsonObject) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text"))
    if kind == "resource":
        resource = block.get("resource", {})
        return str(resource.get("text") or f"[resource {resource.get('uri')}]")
    if kind == "resource_link":
        return f"[{block.get('name')}: {block.get('uri')}]"
    return f"[{kind} {block.get('mimeType')}, {len(str(block.get('data', ''))) * 3 // 4} bytes]"


def _summary(final: JsonObject, code: ExitCode) -> tuple[str, str]:
    of_task = f" (task {final['taskId']})" if "taskId" in final else ""
    if final["status"] == "failed":
        error = final.get("error", {})
        return f"failed: {plain(error.get('message'))} ({error.get('code')}){of_task}", "red"
    if code is ExitCode.CANCELLED:
        return f"cancelled: {plain(final.get('statusMessage', 'by request'))}{of_task}", "yellow"
    if code is ExitCode.FAILED:
        return f"the tool reported an error{of_task}", "red"
    return f"completed{of_task}", "green"


def _print_json(value: JsonObject) -> None:
    shown = {key: member for key, member in value.items() if key not in ("_meta", "resultType")}
    typer.echo(json.dumps(shown, ensure_ascii=False))


def _named(tools: list[JsonObject], name: str) -> JsonObject:
    found = next((tool for tool in tools if tool["name"] == name), None)
    if found is None:
        names = ", ".join(plain(tool["name"]) for tool in tools)
        raise CommandError(f"there is no tool {name!r}; the server has: {names}", ExitCode.USAGE)
    return found
