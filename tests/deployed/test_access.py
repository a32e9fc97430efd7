"""Who may call the deployed API, whose tasks they see, and what the roles of the stack may do.

The emulator verifies signatures and decides by the actions and resources of the deployed policies. How narrow the
policy of pipelines is, is not proven here: it knows neither `dynamodb:LeadingKeys`, `dynamodb:Attributes` and
`dynamodb:ReturnValues` nor the conditions on qualifiers and tags of state machines, and it asks no policy for what a
state machine does itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.adapter import accepted
from tests.support.legacy import LegacyClient

from .caller import Caller, SigV4, calling
from .deployment import BUCKET, OWN, Account, Deployment, allow
from .emulator import ACCOUNT, REGION

LARGE_ORDER = {"order_id": "A-1", "customer": "Ada", "amount": 250}
UNKNOWN = "mcp-AAAAAAAAAAAAAAAAAAAAAA"

# --- callers -----------------------------------------------------------------------------------------------


async def test_an_unsigned_request_is_refused_in_the_words_of_the_protocol(deployment: Deployment) -> None:
    """The gateway's own replies are JSON-RPC errors, as the template says; the emulator is told so by `deploy`."""
    async with calling(deployment.url, None) as nobody:
        answer = await nobody.call("tools/list")

    assert answer.refusal == (403, -32600)


async def test_a_wrong_signature_is_refused_in_the_words_of_the_protocol(deployment: Deployment) -> None:
    forged = replace(deployment.caller("ada"), secret="not-her-secret")
    async with calling(deployment.url, SigV4(forged)) as forger:
        answer = await forger.call("tools/list")

    assert answer.refusal == (403, -32600)
    assert "signature" in answer.error["message"]
    assert ACCOUNT not in answer.error["message"]


async def test_a_role_without_permission_to_invoke_is_refused(ada: Caller, deployment: Deployment) -> None:
    """The emulator's reply to this is not the gateway's, so only that it refuses counts."""
    eve = deployment.assumed("eve")
    async with calling(deployment.url, SigV4(eve)) as caller:
        reply = await caller.parts.endpoint.handle(ada.request("tools/list"))

    assert reply.status == 403
    assert isinstance(reply.body, bytes)
    assert "not authorized to perform: execute-api:Invoke" in reply.body.decode()


async def test_what_is_not_exposed_is_refused(ada: Caller, deployment: Deployment) -> None:
    other = f"{deployment.base}/healthz"
    async with calling(other, SigV4(deployment.caller("ada"))) as caller:
        reply = await caller.parts.endpoint.handle(ada.request("tools/list"))

    assert reply.status in (403, 404)


# --- owners ------------------------------------------------------------------------------------------------


async def test_a_task_of_another_role_looks_like_one_that_never_was(ada: Caller, bob: Caller) -> None:
    task_id = await ada.start("place_order", LARGE_ORDER)
    (key,) = await ada.questions(task_id)

    answer = {"inputResponses": {key: accepted(delivery="express")}}
    for method, members in (("tasks/get", {}), ("tasks/update", answer), ("tasks/cancel", {})):
        foreign = await bob.call(method, {"taskId": task_id, **members})
        unknown = await bob.call(method, {"taskId": UNKNOWN, **members})
        assert (foreign.status, foreign.error) == (unknown.status, unknown.error)

    assert (await ada.get(task_id))["status"] == "input_required"
    await ada.cancel(task_id)


async def test_everybody_lists_tasks_of_their_own_only(ada: Caller, bob: Caller) -> None:
    of_ada, of_bob = await ada.legacy(), await bob.legacy()
    task_id = await of_ada.start("import_ledger", {"file": "june.csv"})

    assert task_id in await _listed(of_ada)
    assert task_id not in await _listed(of_bob)


async def _listed(client: LegacyClient) -> list[str]:
    tasks = (await client.call("tasks/list")).result["tasks"]
    return [task["taskId"] for task in tasks]


async def test_a_task_belongs_to_the_role_and_not_to_the_session(ada: Caller, deployment: Deployment) -> None:
    task_id = await ada.start("import_ledger", {"file": "june.csv"})

    tomorrow = deployment.caller("ada", session="tomorrow")
    async with calling(deployment.url, SigV4(tomorrow)) as later:
        assert (await later.ended(task_id))["status"] == "completed"


# --- what is deployed --------------------------------------------------------------------------------------


def test_adapter_check_finds_everything_in_place(deployment: Deployment, tmp_path: Path) -> None:
    """By a role that has the policy of a server, and what only this check needs."""
    tools = tmp_path / "tools.yaml"
    tools.write_bytes(deployment.administrator.client("s3").get_object(**_tools(deployment))["Body"].read())
    needed = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive", "states:DescribeStateMachine"]
    operator = deployment.assumed("operator", "e2e", allow(needed, "*"))
    iam = deployment.administrator.client("iam")
    iam.attach_role_policy(RoleName="operator", PolicyArn=deployment.outputs["ServerPolicyArn"])

    checked = subprocess.run(
        [sys.executable, "-m", "adapter.cli", "check", "--tools", str(tools)],
        env={"PATH": os.environ["PATH"], "ADAPTER_TABLE": deployment.table, **operator.environment},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "no problems found" in checked.stdout, checked.stdout + checked.stderr


# --- roles of the stack ------------------------------------------------------------------------------------

Arguments = Callable[[Deployment], dict[str, Any]]
KEY = {"pk": {"S": "mcp-x"}, "sk": {"S": "#task"}}


def _item(d: Deployment) -> dict[str, Any]:
    return {"TableName": d.table, "Key": KEY}


def _put(d: Deployment) -> dict[str, Any]:
    return {"TableName": d.table, "Item": KEY}


def _update(d: Deployment) -> dict[str, Any]:
    return {
        **_item(d),
        "UpdateExpression": "SET message = :m",
        "ExpressionAttributeValues": {":m": {"S": "x"}},
    }


def _table(d: Deployment) -> dict[str, Any]:
    return {"TableName": d.table}


def _index(d: Deployment) -> dict[str, Any]:
    values = {":shard": {"N": "1"}}
    expression = {"KeyConditionExpression": "openShard = :shard", "ExpressionAttributeValues": values}
    return {"TableName": d.table, "IndexName": "open-tasks", **expression}


def _start(d: Deployment) -> dict[str, Any]:
    return {"stateMachineArn": d.resources["LedgerImport"], "name": "mcp-x", "input": '{"file":"june.csv"}'}


def _start_other(_: Deployment) -> dict[str, Any]:
    return {"stateMachineArn": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:unexposed"}


def _machine(d: Deployment) -> dict[str, Any]:
    return {"stateMachineArn": d.resources["LedgerImport"]}


def _execution(d: Deployment) -> dict[str, Any]:
    return {"executionArn": d.resources["LedgerImport"].replace(":stateMachine:", ":execution:") + ":mcp-x"}


def _foreign_execution(d: Deployment) -> dict[str, Any]:
    """Of an exposed state machine, but started by somebody else."""
    return {"executionArn": d.resources["LedgerImport"].replace(":stateMachine:", ":execution:") + ":nightly"}


def _token(_: Deployment) -> dict[str, Any]:
    return {"taskToken": "no-such-token", "output": "{}"}


def _secret(d: Deployment) -> dict[str, Any]:
    return {"SecretId": d.outputs["SigningKeyArn"]}


def _function(d: Deployment) -> dict[str, Any]:
    return {"FunctionName": d.outputs["RequestInputArn"], "Payload": b"{}"}


def _tools(_: Deployment) -> dict[str, Any]:
    return {"Bucket": BUCKET, "Key": "tools.yaml"}


CALLS: dict[str, tuple[str, str, Arguments]] = {
    "get": ("dynamodb", "get_item", _item),
    "put": ("dynamodb", "put_item", _put),
    "update": ("dynamodb", "update_item", _update),
    "delete": ("dynamodb", "delete_item", _item),
    "scan": ("dynamodb", "scan", _table),
    "drop": ("dynamodb", "delete_table", _table),
    "open tasks": ("dynamodb", "query", _index),
    "start": ("stepfunctions", "start_execution", _start),
    "start another": ("stepfunctions", "start_execution", _start_other),
    "describe": ("stepfunctions", "describe_execution", _execution),
    "describe a foreign one": ("stepfunctions", "describe_execution", _foreign_execution),
    "stop": ("stepfunctions", "stop_execution", _execution),
    "stop a foreign one": ("stepfunctions", "stop_execution", _foreign_execution),
    "answer": ("stepfunctions", "send_task_success", _token),
    "running": ("stepfunctions", "list_executions", _machine),
    "signing key": ("secretsmanager", "get_secret_value", _secret),
    "ask": ("lambda", "invoke", _function),
    "tools file": ("s3", "get_object", _tools),
}
MAY = {
    "McpRole": (
        *("get", "put", "update", "delete", "start", "describe", "stop", "answer"),
        *("signing key", "tools file"),
    ),
    "ExecutionStatusRole": ("get", "put", "update"),
    "ReconcileRole": (
        *("get", "put", "update", "delete", "open tasks"),
        *("describe", "stop", "answer", "running", "tools file"),
    ),
    "RequestInputRole": ("get", "put"),
    "WritingSampleRole": ("update",),
    "PlainSampleRole": (),
    OWN: ("ask",),
}


@pytest.mark.parametrize("role", MAY)
def test_a_role_may_do_what_its_function_does_and_nothing_else(deployment: Deployment, role: str) -> None:
    account = deployment.role(role)

    allowed = {name for name, call in CALLS.items() if not _is_denied(account, deployment, *call)}

    assert allowed == set(MAY[role])


def _is_denied(
    account: Account, deployment: Deployment, service: str, operation: str, arguments: Arguments
) -> bool:
    try:
        getattr(account.client(service), operation)(**arguments(deployment))
    except ClientError as error:
        return error.response["Error"]["Code"] in ("AccessDenied", "AccessDeniedException")
    return False
