"""Runs pipelines of the tools file on the local engine, answers their questions, collects their items."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from botocore.config import Config
from botocore.session import Session

from adapter.local.engine import LocalAws
from adapter.mcp.inputs import answer_problem
from adapter.tools.catalog import Catalog
from adapter.tools.tool import Tool

FOLDER = Path(__file__).parent
TABLE = "fixtures"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Run:
    """An execution that has ended, with the items that it wrote, in the order of their keys."""

    status: str
    output: Any
    error: str | None
    cause: str | None
    items: list[dict[str, Any]]


class Workbench:
    """One table and the two services, on the engine that it is given."""

    def __init__(self, aws: LocalAws, catalog: Catalog) -> None:
        self._states = _client("stepfunctions", aws)
        self._table = _client("dynamodb", aws)
        self._catalog = catalog
        self._create_table()

    def _create_table(self) -> None:
        keys = {"pk": "HASH", "sk": "RANGE"}
        self._table.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        )

    def close(self) -> None:
        self._states.close()
        self._table.close()

    def run(
        self,
        tool_name: str,
        input_: Mapping[str, Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        *,
        in_time: bool = True,
    ) -> Run:
        """Run a tool's pipeline to its end.

        `answers` are by the question's message, or by its method if it has none. With `in_time` false a
        question waits for one second only.
        """
        name = f"mcp-{secrets.token_hex(16)}"
        started = self._states.start_execution(
            stateMachineArn=self._deploy(tool_name, in_time=in_time),
            name=name,
            input=json.dumps(input_ or {}),
        )
        for question in eventually(lambda: self._questions(name, len(answers or ()))):
            self._answer(question, answers or {})
        end = eventually(lambda: self._ended(started["executionArn"]))
        output = json.loads(end["output"]) if "output" in end else None
        return Run(end["status"], output, end.get("error"), end.get("cause"), self._items(name))

    def _deploy(self, tool_name: str, *, in_time: bool) -> str:
        tool = self._catalog.get(tool_name)
        assert tool is not None, f"{tool_name} is not in the tools file"
        definition = pipeline_of(tool).read_text(encoding="utf-8").replace("${TaskTable}", TABLE)
        if not in_time:
            definition = definition.replace('"TimeoutSeconds": 60', '"TimeoutSeconds": 1')
        made = self._states.create_state_machine(
            name=f"{tool.state_machine}-{secrets.token_hex(4)}",
            definition=definition,
            roleArn="arn:aws:iam::123456789012:role/states",
        )
        return str(made["stateMachineArn"])

    def _items(self, name: str) -> list[dict[str, Any]]:
        found = self._table.query(
            TableName=TABLE,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": name}},
            ConsistentRead=True,
        )
        return list(found["Items"])

    def _questions(self, name: str, count: int) -> list[dict[str, Any]] | None:
        questions = [item for item in self._items(name) if item["sk"]["S"].startswith("input#")]
        return questions if len(questions) >= count else None

    def _answer(self, question: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
        params, method = json.loads(question["params"]["S"]), question["method"]["S"]
        answer = answers.get(params.get("message", method))
        if answer is not None:
            assert answer_problem(method, params, answer) is None
            self._states.send_task_success(taskToken=question["token"]["S"], output=json.dumps(answer))

    def _ended(self, arn: str) -> Mapping[str, Any] | None:
        description: Mapping[str, Any] = self._states.describe_execution(executionArn=arn)
        return None if description["status"] == "RUNNING" else description


def _client(service: str, aws: LocalAws) -> Any:
    return Session().create_client(
        service,
        region_name="us-east-1",
        endpoint_url=aws.endpoint,
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(proxies={}),
    )


def pipeline_of(tool: Tool) -> Path:
    assert tool.definition is not None
    return FOLDER / tool.definition


def eventually(look: Callable[[], _T | None], within: float = 60.0) -> _T:
    deadline = time.monotonic() + within
    while (seen := look()) is None:
        assert time.monotonic() < deadline, f"not within {within:g} s"
        time.sleep(0.02)
    return seen
