"""Creates the state machines of a tools file in the local engine, from the ASL files that AWS gets (D14)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from adapter.aws import machine_name, open_client
from adapter.errors import ConfigurationError
from adapter.tools.catalog import Catalog
from adapter.tools.tool import Tool

if TYPE_CHECKING:
    from types_aiobotocore_stepfunctions import SFNClient

ROLE_ARN = "arn:aws:iam::123456789012:role/local-state-machine"
"""Never assumed: the local engine checks no permissions. Other emulators want it to exist."""

_VARIABLE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")
_MAX_REASON = 300


@dataclass(frozen=True, slots=True)
class _StateMachine:
    name: str
    definition: str
    where: str


async def deploy(
    client: SFNClient, catalog: Catalog, tools_file: Path, substitutions: Mapping[str, str]
) -> dict[str, str]:
    """Create or update a Standard state machine for every tool that has a `definition`.

    `definition` is relative to the tools file; `substitutions` fill its `${Name}` variables, as
    DefinitionSubstitutions do in a SAM template. Returns the state machine's ARN by tool name, for the tools
    that have a definition. Raises ConfigurationError naming file, tool and rule.
    """
    machines = {
        tool.name: _state_machine(tool, tool.definition, tools_file, substitutions)
        for tool in catalog
        if tool.definition is not None
    }
    _refuse_contradictions(machines.values())
    existing = await _existing(client)
    created: dict[str, str] = {}
    for machine in machines.values():
        if machine.name not in created:
            created[machine.name] = await _put(client, machine, existing.get(machine.name))
    return {tool: created[machine.name] for tool, machine in machines.items()}


async def ensure_role() -> None:
    """Make the role that state machines are created with, where IAM is there to make it."""
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    async with open_client("iam") as iam:
        with suppress(BotoCoreError, ClientError):
            await iam.create_role(
                RoleName=ROLE_ARN.rpartition("/")[2], AssumeRolePolicyDocument=json.dumps(trust)
            )


def _state_machine(
    tool: Tool, definition: str, tools_file: Path, substitutions: Mapping[str, str]
) -> _StateMachine:
    path = tools_file.parent / definition
    where = f"{path}: tool {tool.name!r}"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{where}: definition cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{where}: definition is not UTF-8 text") from None
    text = _substituted(text, substitutions, where)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ConfigurationError(f"{where}: definition is not valid JSON at {place}: {error.msg}") from None
    except RecursionError:
        raise ConfigurationError(f"{where}: definition is refused: it nests too deeply") from None
    return _StateMachine(machine_name(tool.state_machine), text, where)


def _substituted(text: str, substitutions: Mapping[str, str], where: str) -> str:
    unknown = next((name for name in _VARIABLE.findall(text) if name not in substitutions), None)
    if unknown is not None:
        known = ", ".join(f"${{{name}}}" for name in sorted(substitutions)) or "none"
        raise ConfigurationError(f"{where}: definition uses ${{{unknown}}}; known variables: {known}")
    return _VARIABLE.sub(lambda match: json.dumps(substitutions[match[1]])[1:-1], text)


def _refuse_contradictions(machines: Iterable[_StateMachine]) -> None:
    seen: dict[str, _StateMachine] = {}
    for machine in machines:
        first = seen.setdefault(machine.name, machine)
        if first.definition != machine.definition:
            raise ConfigurationError(
                f"{machine.where}: state machine {machine.name!r} already has the definition of {first.where}"
            )


async def _existing(client: SFNClient) -> dict[str, str]:
    try:
        pages = client.get_paginator("list_state_machines").paginate()
        return {m["name"]: m["stateMachineArn"] async for page in pages for m in page["stateMachines"]}
    except (BotoCoreError, ClientError) as error:
        raise ConfigurationError(f"the state machines cannot be deployed: {error}") from error


async def _put(client: SFNClient, machine: _StateMachine, arn: str | None) -> str:
    try:
        if arn is not None:
            await client.update_state_machine(stateMachineArn=arn, definition=machine.definition)
            return arn
        created = await client.create_state_machine(
            name=machine.name, definition=machine.definition, roleArn=ROLE_ARN, type="STANDARD"
        )
    except ClientError as error:
        # Not `from error`: its text, which would be told after ours, holds the whole definition.
        raise ConfigurationError(f"{machine.where}: definition is refused: {_reason(error)}") from None
    return created["stateMachineArn"]


def _reason(error: ClientError) -> str:
    """The engine's own words without the definition that it quotes at length."""
    message = error.response["Error"].get("Message", str(error)).partition(" in definition '")[0]
    if "RecursionError" in message:
        return "it nests too deeply"
    return " ".join(message.split())[:_MAX_REASON]
