"""`adapter check`: whether the server would find all that it needs, and what to do where it would not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from adapter.aws import Aws, machine_name, open_aws, open_client
from adapter.errors import ConfigurationError
from adapter.main import check_catalog
from adapter.settings import Settings
from adapter.stores.table import check_table
from adapter.tools.catalog import Catalog
from adapter.tools.file import load_catalog

from .configuration import load_settings
from .exits import ExitCode
from .findings import Finding
from .output import console
from .probes import engine_permissions, is_denial, store_permissions
from .workflow_callbacks import callback_advice
from .workflow_role import workflow_permissions

if TYPE_CHECKING:
    from rich.table import Table
    from types_aiobotocore_stepfunctions.type_defs import DescribeStateMachineOutputTypeDef

_STYLES = {"ok": None, "advice": "yellow", "problem": "red", "unknown": "yellow"}


def run(tools: Path | None) -> ExitCode:
    """Print one line per thing that was checked. Raises ConfigurationError where the settings are wrong."""
    settings = load_settings(Settings, tools)
    findings = asyncio.run(examine(settings))
    screen = console()
    if screen.is_terminal:
        screen.print(_table(findings))
    else:  # whole lines, to search in
        for finding in findings:
            typer.echo(f"{finding.mark}  {finding.subject}  {finding.text}")
    problems = sum(finding.problem for finding in findings)
    console().print(
        f"{problems or 'no'} problem{'' if problems == 1 else 's'} found",
        style="bold red" if problems else "bold green",
    )
    return ExitCode.FAILED if problems else ExitCode.OK


async def examine(settings: Settings) -> list[Finding]:
    """Everything that can be checked without changing or starting anything."""
    catalog, findings = _tools_file(settings)
    try:
        async with open_aws() as aws:
            who = await _credentials(aws)
            findings.append(who)
            if who.problem:
                return findings
            findings += await table_findings(aws, settings.table)
            targets = await _targets(aws, catalog, findings)
            async with open_client("iam") as iam:
                for target, names in targets.items():
                    findings += await _machine_findings(aws, iam, target, names, settings.table)
    except ConfigurationError as error:
        findings.append(Finding.bad("AWS", str(error)))
    return findings


def _tools_file(settings: Settings) -> tuple[Catalog, list[Finding]]:
    try:
        catalog = load_catalog(settings.tools)
        check_catalog(catalog, settings)
    except ConfigurationError as error:
        return Catalog([]), [Finding.bad("tools file", str(error))]
    return catalog, [Finding.good("tools file", f"{settings.tools}: {len(catalog)} tools")]


async def _credentials(aws: Aws) -> Finding:
    try:
        account = await aws.account()
    except ConfigurationError as error:
        return Finding.bad("credentials", f"{error}: {error.__cause__}")
    return Finding.good("credentials", f"account {account.number}, region {account.region}")


async def table_findings(aws: Aws, name: str) -> list[Finding]:
    """What is to say of the table and of the permissions on it."""
    problems = await check_table(aws.dynamodb, name)
    if problems:
        needs = "; allow dynamodb:DescribeTable and dynamodb:DescribeTimeToLive"
        return [Finding.bad("table", p + (needs if "AccessDenied" in p else "")) for p in problems]
    fit = Finding.good("table", f"{name}: keys, index and time to live are as they should be")
    return [fit, *await store_permissions(aws.dynamodb, name)]


async def _machine_findings(
    aws: Aws, iam: Any, target: str, tools: Iterable[str], table: str
) -> list[Finding]:
    finding, machine = await state_machine(aws, target, tools)
    if machine is None:
        return [finding]
    return [
        finding,
        *await engine_permissions(aws.stepfunctions, target),
        *await workflow_permissions(iam, machine, table),
        *callback_advice(machine),
    ]


async def _targets(aws: Aws, catalog: Catalog, findings: list[Finding]) -> dict[str, list[str]]:
    """The tools of each state machine; what cannot be resolved becomes a finding."""
    targets: dict[str, list[str]] = {}
    for tool in catalog:
        try:
            targets.setdefault(await aws.resolve_target(tool.state_machine), []).append(tool.name)
        except ConfigurationError as error:
            findings.append(Finding.bad(f"tool {tool.name}", str(error)))
    return targets


async def state_machine(
    aws: Aws, target: str, tools: Iterable[str]
) -> tuple[Finding, DescribeStateMachineOutputTypeDef | None]:
    """Whether a target exists and can run tasks, and if so what AWS tells of it.

    An alias is described together with its state machine.
    """
    subject = f"state machine of {', '.join(tools)}"
    qualifier = target.split(":")[7:]
    arn = target if qualifier and qualifier[0].isdecimal() else ":".join(target.split(":")[:7])
    try:
        if arn != target:
            await aws.stepfunctions.describe_state_machine_alias(stateMachineAliasArn=target)
        machine = await aws.stepfunctions.describe_state_machine(stateMachineArn=arn)
    except (ClientError, BotoCoreError) as error:
        return Finding.bad(subject, f"{target}: {_machine_problem(error)}"), None
    if machine["type"] != "STANDARD":
        text = f"{target} is {machine['type']}; only STANDARD can run as a task"
        return Finding.bad(subject, text), None
    if machine.get("status") == "DELETING":
        return Finding.bad(subject, f"{target} is being deleted"), None
    return Finding.good(subject, f"{machine_name(target)} is STANDARD and active"), machine


def _machine_problem(error: Exception) -> str:
    if not isinstance(error, ClientError):
        return str(error)
    code = error.response["Error"]["Code"]
    if code in ("StateMachineDoesNotExist", "ResourceNotFound"):
        return "does not exist; deploy it, or correct `state_machine` in the tools file"
    if is_denial(error):
        return "may not be looked at; allow states:DescribeStateMachine (only this check needs it)"
    return code


def _table(findings: Iterable[Finding]) -> Table:
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    table.add_column(overflow="fold", ratio=3)
    for finding in findings:
        table.add_row(finding.mark, finding.subject, finding.text, style=_STYLES[finding.mark])
    return table
