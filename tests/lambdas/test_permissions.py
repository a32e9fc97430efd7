"""Least privilege, from a record of the calls: the code makes every call that `actions.yaml` lists, and no other.

Each test drives one function through everything for which it calls AWS, on the local engine, and compares. The template
is compared with the same list in tests/package/test_policies.py; `tests/conftest.py` looks in all tests for more.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from adapter.aws import Aws, execution_arn, open_client
from adapter.engines.step_functions import StepFunctions
from adapter.main import Parts, open_adapter
from adapter.mcp.exchange import Request
from adapter.settings import Settings, random_keys
from adapter.stores.dynamodb import DynamoTaskStore
from adapter.stores.table import create_table
from adapter.tasks.clock import system_clock
from adapter.tools.file import load_catalog
from lambdas.execution_status import app as execution_status
from lambdas.hosted import open_hosted, open_unattended
from lambdas.loop import Container
from lambdas.mcp import app as mcp
from lambdas.reconcile import app as reconcile
from lambdas.request_input import app as request_input
from lambdas.table import open_store
from tests.lambdas.hosting import Context, event, event_of
from tests.package.policies import BY_LAMBDA, SERVER, needs
from tests.support.adapter import Json, Mcp, accepted, form
from tests.support.aws import aws_at, deploy, local_engine, point_at
from tests.support.calls import Calls
from tests.support.partition import HOUR, Partition, new_record

R = TypeVar("R")
Answered = Callable[[Request], Json]

LONG = "x" * 40_000
WAIT = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": True}}}
WRITE = {"StartAt": "Write", "States": {"Write": {"Type": "Pass", "Result": LONG, "End": True}}}
SECONDS = 15.0
CLIENT = Mcp()


@dataclass(frozen=True)
class Site:
    """A table, state machines, and a tools file that names them, here, in S3 and in Systems Manager."""

    table: str
    wait: str
    write: str
    forgotten: str
    """Not in the tools file any more."""
    tools: Path
    sources: tuple[str, str]

    def aside(self, use: Callable[[Aws, Partition], Awaitable[R]]) -> R:
        """What workflows and tests do, past the product."""

        async def used() -> R:
            async with aws_at(local_engine().endpoint) as aws:
                return await use(aws, Partition(aws.dynamodb, self.table))

        return asyncio.run(used())

    def ask(self, task_id: str, name: str, **attributes: Any) -> None:
        given = {"params": {"S": json.dumps(form(sure="boolean"))}, **attributes}
        self.aside(lambda _, table: table.ask(task_id, name, **given))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    name = f"permissions-{secrets.token_hex(4)}"
    point_at(local_engine().endpoint, monkeypatch)
    monkeypatch.setenv("ADAPTER_TABLE", name)
    monkeypatch.setenv("ADAPTER_SIGNING_KEYS_SECRET", name)
    monkeypatch.setenv("ADAPTER_REFRESH_MIN", "0.01")

    async def deployed() -> tuple[str, str, str]:
        async with aws_at(local_engine().endpoint) as aws:
            await create_table(aws.dynamodb, name)
            return await deploy(aws, WAIT), await deploy(aws, WRITE), await deploy(aws, WAIT)

    wait, write, forgotten = asyncio.run(deployed())
    text = f"""tools:
      - {{name: wait, description: Waits., state_machine: '{wait}'}}
      - {{name: write, description: Writes., state_machine: '{write}'}}"""
    asyncio.run(_kept(name, text))
    tools = tmp_path / "tools.yaml"
    tools.write_text(text)
    return Site(name, wait, write, forgotten, tools, (f"s3://{name}/tools.yaml", f"ssm:/{name}"))


async def _kept(name: str, text: str) -> None:
    async with open_client("secretsmanager") as client:
        await client.create_secret(Name=name, SecretString=secrets.token_hex(32))
    async with open_client("s3") as client:
        await client.create_bucket(Bucket=name)
        await client.put_object(Bucket=name, Key="tools.yaml", Body=text.encode())
    async with open_client("ssm") as client:
        await client.put_parameter(Name=f"/{name}", Value=text, Type="String")


def _own(function: str) -> dict[str, set[str]]:
    """What its code needs."""
    return {kind: actions for kind, actions in needs()[function].items() if kind not in BY_LAMBDA}


# --- the endpoint ------------------------------------------------------------------------------------------


def test_the_mcp_function_makes_exactly_the_calls_that_it_is_allowed(
    site: Site, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in site.sources:
        monkeypatch.setenv("ADAPTER_TOOLS_SOURCE", source)
        with Container(open_hosted) as container:
            monkeypatch.setattr(mcp, "_container", container)
            _serve(site, lambda request: json.loads(mcp.handler(event_of(request), Context())["body"]))
    assert calls.of("Mcp") == _own("Mcp")


def test_a_server_in_a_container_makes_exactly_the_calls_that_it_is_allowed(site: Site, calls: Calls) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Parts]:
        async with open_adapter(Settings(signing_keys=random_keys()), load_catalog(site.tools)) as parts:
            yield parts

    with Container(opened) as container:

        def answered(request: Request) -> Json:
            reply = container.run(lambda parts: parts.endpoint.handle(request))
            assert isinstance(reply.body, bytes)
            message: Json = json.loads(reply.body)
            return message

        _serve(site, answered)
    assert calls.of(None) == _own(SERVER)


def _serve(site: Site, answered: Answered) -> None:
    """Start, follow, answer, refuse, cancel; and an output that has an item of its own."""

    def result(method: str, **params: Any) -> Json:
        message = answered(CLIENT.request(method, params))
        assert "result" in message, message
        shown: Json = message["result"]
        return shown

    def until(task_id: str, reached: Callable[[Json], bool]) -> Json:
        deadline = time.monotonic() + SECONDS
        while not reached(task := result("tasks/get", taskId=task_id)):
            assert time.monotonic() < deadline, task
        return task

    waiting, writing = (result("tools/call", name=name, arguments={})["taskId"] for name in ("wait", "write"))
    until(waiting, lambda task: "Running state" in task.get("statusMessage", ""))
    site.ask(waiting, "approval")
    questions = until(waiting, lambda task: task["status"] == "input_required")["inputRequests"]
    given = {key: accepted(sure=True) for key in questions}
    result("tasks/update", taskId=waiting, inputResponses=given)
    site.ask(waiting, "guess", method={"S": "guess"})
    until(waiting, lambda task: task["status"] == "working")
    result("tasks/cancel", taskId=waiting)
    until(writing, lambda task: task["status"] == "completed")
    assert LONG in result("tasks/get", taskId=writing)["result"]["content"][0]["text"]


# --- what no client asks for -------------------------------------------------------------------------------


def test_the_reconcile_function_makes_exactly_the_calls_that_it_is_allowed(
    site: Site, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list may show the past, so that a task is described which still runs."""
    monkeypatch.setattr("adapter.tasks.reconcile.TWICE_MS", 0)
    with Container(open_store) as store:
        forgotten, ended, cancelled = (
            _lost(site, store, machine) for machine in (site.forgotten, site.write, site.forgotten)
        )
        _leave_answer(site, store, forgotten)
        site.ask(forgotten, "guess", method={"S": "guess"})
        store.run(lambda tasks: tasks.request_cancel(cancelled, now=system_clock()))
        with monkeypatch.context() as patch:
            patch.setattr(StepFunctions, "running", _without(forgotten))
            _reconcile(monkeypatch)
        _leave_answer(site, store, ended)
        _reconcile(monkeypatch)
    assert calls.of("Reconcile") == _own("Reconcile")


def _lost(site: Site, store: Container[DynamoTaskStore], machine: str) -> str:
    """The id of a task of which no event told."""
    task_id, now = f"mcp-{secrets.token_urlsafe(16)}", system_clock()
    record = new_record(
        task_id=task_id, target=machine, execution=execution_arn(machine, task_id), created_at=now - HOUR
    )

    async def start(aws: Aws, _: Partition) -> None:
        await aws.stepfunctions.start_execution(stateMachineArn=machine, name=task_id, input="{}")
        reached = "SUCCEEDED" if machine == site.write else "RUNNING"
        async with asyncio.timeout(SECONDS):
            while True:
                reply = await aws.stepfunctions.describe_execution(executionArn=record.execution)
                if reply["status"] == reached:
                    return

    site.aside(start)
    store.run(lambda tasks: tasks.create(record, refresh_at=now + HOUR))
    return task_id


def _leave_answer(site: Site, store: Container[DynamoTaskStore], task_id: str) -> None:
    """One that was accepted, by a process that went away before it delivered it."""
    site.ask(task_id, "approval")

    async def accept(tasks: DynamoTaskStore) -> None:
        task, now = await tasks.read(task_id), system_clock()
        assert task is not None
        (question,) = task.questions
        assert await tasks.record_answer(task_id, question, "{}", now=now, delivery_until=now)

    store.run(accept)


def _without(name: str) -> Callable[[StepFunctions, str], Awaitable[set[str]]]:
    """A list of what runs, made before this did."""
    running = StepFunctions.running

    async def listed(engine: StepFunctions, target: str) -> set[str]:
        return await running(engine, target) - {name}

    return listed


def _reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    with Container(open_unattended) as container:
        monkeypatch.setattr(reconcile, "_container", container)
        assert reconcile.handler({}, Context(60))["backlog"] == 0


# --- what is told and what is asked ------------------------------------------------------------------------


def test_the_execution_status_function_makes_exactly_the_calls_that_it_is_allowed(
    site: Site, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Container(open_store) as container:
        monkeypatch.setattr(execution_status, "_container", container)
        for name, output, result in (
            ("states_succeeded", f'"{LONG}"', "written"),
            ("states_failed_with_error", None, "written"),
            ("states_failed", None, "due"),
        ):
            record = new_record()
            container.run(lambda tasks, record=record: tasks.create(record, refresh_at=0))
            payload = event(name)
            detail = {"name": record.task_id, "executionArn": record.execution, "output": output}
            payload["detail"] |= detail
            assert execution_status.handler(payload, None) == {"result": result}
    assert calls.of("ExecutionStatus") == _own("ExecutionStatus")


def test_the_request_input_function_makes_exactly_the_calls_that_it_is_allowed(
    site: Site, calls: Calls
) -> None:
    record = new_record(created_at=system_clock())
    with Container(open_store) as container:
        container.run(lambda tasks: tasks.create(record, refresh_at=0))
    payload = {"taskId": record.task_id, "token": "any", "params": form("Go on?", sure="boolean")}
    request_input._dynamodb.cache_clear()
    assert request_input.handler(payload, None) == {"status": "registered"}
    request_input._dynamodb().close()
    request_input._dynamodb.cache_clear()
    assert calls.of("RequestInput") == _own("RequestInput")
