"""The commands and their options; each command's code is imported when it runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from adapter import __version__

from . import defaults
from .exits import CALL_EXIT_CODES
from .guard import debug as debugging
from .guard import guarded

app = typer.Typer(
    name="adapter",
    help="AWS Step Functions state machines as MCP tools that run as tasks.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Tools = Annotated[
    Path | None, typer.Option("--tools", metavar="FILE", help="The tools file. [ADAPTER_TOOLS]")
]
Stdio = Annotated[bool, typer.Option("--stdio", help="Speak MCP over standard input and output; no port.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="TCP port; 0 takes a free one.")]
Args = Annotated[
    str | None, typer.Option("--args", metavar="JSON", help="Arguments: a JSON object, or @FILE.")
]
Pairs = Annotated[list[str] | None, typer.Option("--arg", "-a", metavar="KEY=VALUE", help="One argument.")]
TaskId = Annotated[
    str | None, typer.Option("--task", metavar="ID", help="Get back to a task in place of a new call.")
]
_ANSWER = "Accept the next question with this content, such as '{\"approved\": true}'. Repeatable."
GivenAnswers = Annotated[list[str] | None, typer.Option("--answer", metavar="JSON", help=_ANSWER)]
Decline = Annotated[
    bool, typer.Option("--decline", help="Decline every question that no --answer is left for.")
]
Url = Annotated[str, typer.Option("--url", help="The MCP endpoint.", envvar="ADAPTER_URL")]
Iam = Annotated[
    bool,
    typer.Option("--iam", help="Sign requests with AWS credentials, for an endpoint that asks for them."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the last state as one JSON object; never prompt.")
]
Patience = Annotated[
    float, typer.Option("--patience", min=0, help="Seconds to go on trying to reach a lost server.")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def common(
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    debugging.set(debug)


@app.command(short_help="Serve sample pipelines, or yours, from an embedded AWS.")
@guarded
def dev(
    tools: Tools = None,
    port: Port = defaults.PORT,
    stdio: Stdio = False,
    end_with_stdin: Annotated[bool, typer.Option("--end-with-stdin", hidden=True)] = False,
) -> None:
    """Serve the sample pipelines, or yours, from an embedded AWS on this machine.

    With AWS_ENDPOINT_URL set, that endpoint is used in place of the embedded one.
    """
    from . import dev as command

    command.run(tools, port, stdio=stdio, end_with_stdin=end_with_stdin)


@app.command(short_help="Serve your state machines from real AWS.")
@guarded
def serve(
    tools: Tools = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = defaults.HOST,
    port: Port = defaults.PORT,
    stdio: Stdio = False,
) -> None:
    """Serve your state machines: production server, AWS from the environment.

    Beyond loopback it needs ADAPTER_SIGNING_KEYS.
    """
    from . import serve as command

    command.run(tools, host, port, stdio=stdio)


@app.command(short_help="Call a tool as a task and follow it.", epilog=CALL_EXIT_CODES)
@guarded
def call(
    tool: Annotated[str | None, typer.Argument(metavar="TOOL", show_default=False)] = None,
    args: Args = None,
    pair: Pairs = None,
    task: TaskId = None,
    answer: GivenAnswers = None,
    decline: Decline = False,
    url: Url = defaults.URL,
    iam: Iam = False,
    as_json: AsJson = False,
    patience: Patience = defaults.PATIENCE,
) -> None:
    """Call a tool as a task and follow it; questions are asked in the terminal.

    An access token for the endpoint is read from the variable ADAPTER_TOKEN.
    Ctrl-C or SIGTERM cancels the task and waits for its end; a second Ctrl-C leaves at once.
    The result goes to stdout, everything else to stderr.
    """
    from . import call as command

    options = command.CallOptions(
        tool=tool,
        task=task,
        args=args,
        pairs=pair or (),
        url=url,
        as_json=as_json,
        answers=answer or (),
        decline=decline,
        patience=patience,
        iam=iam,
        token=os.environ.get("ADAPTER_TOKEN"),
    )
    raise typer.Exit(command.run(options))


@app.command(short_help="Check configuration, AWS access and table.")
@guarded
def check(tools: Tools = None) -> None:
    """Check tools file, credentials, table, state machines and permissions; 1 if there are problems."""
    from . import check as command

    raise typer.Exit(command.run(tools))


@app.command(short_help="Show every kind of flow on an embedded AWS.")
@guarded
def tour() -> None:
    """Start `dev`, drive every kind of flow through it, and say what happened; 0 if all went as it should."""
    from . import tour as command

    raise typer.Exit(command.run())
