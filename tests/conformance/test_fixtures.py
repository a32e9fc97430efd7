"""Every fixture of the conformance suite, run by the engine itself: what each of its ends puts out."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import boto3
import pytest
from mcp_types import CallToolResult

from adapter.local.engine import LocalAws
from adapter.mcp.inputs import answer_problem, request_problem
from adapter.tools.catalog import Catalog
from adapter.tools.file import load_catalog
from adapter.tools.tool import Tool

FOLDER = Path(__file__).parent
TABLE = "fixtures"
NOBODY = {"content": [{"type": "text", "text": "Nobody answered in time"}], "isError": True}
DECLINED = {"action": "decline"}
_T = TypeVar("_T")


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def sampled(value: str) -> dict[str, Any]:
    return {"role": "assistant", "content": {"type": "text", "text": value}, "model": "test-model"}


@dataclass(frozen=True, slots=True)
class Case:
    """One way through a fixture. `answers` are by the question's message, or by its method if it has none."""

    tool: str
    result: Mapping[str, Any]
    input: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, Any] = field(default_factory=dict)
    in_time: bool = True

    def __str__(self) -> str:
        first = next(iter(self.answers.values()), {})
        how = first.get("action", "answered") if first else "" if self.in_time else "late"
        return "-".join(filter(None, [self.tool, how, *map(str, self.input.values())]))[:60]


CAPITAL = {"capital_question": sampled("Paris")}
NAMED = {"user_name": accepted(name="Alice")}
ROOTS = {"roots": [{"uri": "file:///test/root", "name": "Test Root"}]}
QUESTION = "Delete a.txt?"
FILE = {"filename": "a.txt"}
DEFAULTS = accepted(name="Jane Smith", age=25, score=88, status="inactive", verified=False)
CHOICES = accepted(
    untitledSingle="option1",
    titledSingle="value1",
    legacyEnum="opt1",
    untitledMulti=["option1", "option2"],
    titledMulti=["value1", "value2"],
)
PERSON = accepted(username="testuser", email="test@example.com")


def as_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


CASES = (
    Case("test_simple_text", text("This is a simple text response for testing.")),
    Case("test_error_handling", {**text("This tool intentionally returns an error for testing"), "isError": True}),
    Case("test_tool_with_progress", text("Tool with progress completed")),
    Case("test_tool_with_logging", text("Tool with logging executed successfully")),
    Case("test_logging_tool", text("Logged one line")),
    Case("test_reconnection", text("Reconnected and completed")),
    Case("json_schema_2020_12_tool", text('{"email":"a@example.com"}'), {"email": "a@example.com"}),
    Case("test_header_parameter", text("Region: =?base64?SGVsbG8="), {"region": "=?base64?SGVsbG8="}),
    Case("test_header_parameter", text("Region: {} \"'\\ é"), {"region": "{} \"'\\ é"}),
    Case("greet", text("Hello, sep-2243!"), {"name": "sep-2243"}),
    Case("slow_compute", text("Computed a in 0 s"), {"seconds": 0, "label": "a"}),
    Case("slow_compute", text("Computed b in 1 s"), {"seconds": 1, "label": "b"}),
    Case("slow_compute", text("Computed c in 0 s"), {"seconds": 0.25, "label": "c"}),
    Case("confirm_delete", text("Deleted a.txt"), FILE, {QUESTION: accepted(confirm=True)}),
    Case("confirm_delete", text("Kept a.txt"), FILE, {QUESTION: accepted(confirm=False)}),
    Case("confirm_delete", text("Kept a.txt"), FILE, {QUESTION: DECLINED}),
    Case(
        "confirm_delete",
        {**text("Nobody answered in time; a.txt was kept"), "isError": True},
        FILE,
        in_time=False,
    ),
    Case(
        "multi_input",
        text("Name: partial-1, go on: true"),
        answers={
            "What is your name?": accepted(name="partial-1", confirm=True),
            "Go on?": accepted(name="partial-2", confirm=True),
        },
    ),
    Case(
        "multi_input",
        text("Not every question was accepted"),
        answers={"What is your name?": accepted(name="Alice"), "Go on?": DECLINED},
    ),
    Case("multi_input", text("Not every question was accepted"), in_time=False),
    Case("test_tool_with_task", text("Hello, Alice!"), NAMED),
    Case("test_missing_capability", text('{"type":"text","text":"Paris"}'), CAPITAL),
    Case("test_streaming_elicitation", text("Hello, Alice!"), NAMED),
    Case("test_input_required_result_capabilities", text(as_text(NAMED)), NAMED),
    Case("test_input_required_result_capabilities", text("{}")),
    Case("test_input_required_result_elicitation", text("Hello, Alice!"), NAMED),
    Case("test_input_required_result_sampling", text('{"type":"text","text":"Paris"}'), CAPITAL),
    Case("test_input_required_result_list_roots", text(as_text(ROOTS["roots"])), {"client_roots": ROOTS}),
    Case("test_input_required_result_request_state", text("state-ok"), {"confirm": accepted(ok=True)}),
    Case("test_input_required_result_tampered_state", text("state-ok"), {"confirm": accepted(ok=True)}),
    Case("test_input_required_result_multiple_inputs", text(as_text(NAMED | CAPITAL)), NAMED | CAPITAL),
    Case(
        "test_input_required_result_multi_round",
        text("Alice likes blue"),
        {"step1": accepted(name="Alice"), "step2": accepted(color="blue")},
    ),
    Case(
        "test_sampling",
        text('LLM response: {"type":"text","text":"Fine"}'),
        {"prompt": "How are you?"},
        {"sampling/createMessage": sampled("Fine")},
    ),
    Case("test_sampling", NOBODY, {"prompt": "How are you?"}, in_time=False),
    Case("test_elicitation", text(f"User response: {as_text(PERSON)}"), {"message": "Who?"}, {"Who?": PERSON}),
    Case("test_elicitation", text('User response: {"action":"decline"}'), {"message": "Who?"}, {"Who?": DECLINED}),
    Case("test_elicitation", NOBODY, {"message": "Who?"}, in_time=False),
    Case(
        "test_elicitation_sep1034_defaults",
        text(f"Elicitation completed: {as_text(DEFAULTS)}"),
        answers={"Please check your data": DEFAULTS},
    ),
    Case("test_elicitation_sep1034_defaults", NOBODY, in_time=False),
    Case(
        "test_elicitation_sep1330_enums",
        text(f"Elicitation completed: {as_text(CHOICES)}"),
        answers={"Please choose": CHOICES},
    ),
    Case("test_elicitation_sep1330_enums", NOBODY, in_time=False),
)

BLOCKS = {
    "test_image_content": ["image"],
    "test_audio_content": ["audio"],
    "test_embedded_resource": ["resource"],
    "test_multiple_content_types": ["text", "image", "resource"],
}
FAILURES = {
    "failing_job": ("JobFailed", "The job fails on purpose"),
    "protocol_error_job": (
        "McpError",
        '{"code": -32000, "message": "The job was refused on purpose", "data": {"stage": "refuse"}}',
    ),
}


@dataclass(frozen=True, slots=True)
class Run:
    """An execution that has ended, with the items that it wrote, in the order of their keys."""

    status: str
    output: Any
    error: str | None
    cause: str | None
    items: list[dict[str, Any]]


class Workbench:
    """Runs the pipelines of the tools file on the local engine and answers their questions."""

    def __init__(self, aws: LocalAws, catalog: Catalog) -> None:
        session = boto3.Session(
            aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1"
        )
        self._states = session.client("stepfunctions", endpoint_url=aws.endpoint)
        self._table = session.client("dynamodb", endpoint_url=aws.endpoint)
        self._catalog = catalog
        self._create_table()

    def _create_table(self) -> None:
        names = ("pk", "sk")
        self._table.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
        )

    def close(self) -> None:
        self._states.close()
        self._table.close()

    def run(self, tool_name: str, input_: Mapping[str, Any], answers: Mapping[str, Any], *, in_time: bool) -> Run:
        tool = self._catalog.get(tool_name)
        assert tool is not None, f"{tool_name} is not in the tools file"
        name = f"mcp-{secrets.token_hex(16)}"
        started = self._states.start_execution(
            stateMachineArn=self._deploy(tool, in_time=in_time), name=name, input=json.dumps(input_)
        )
        for question in eventually(lambda: self._questions(name, len(answers))):
            self._answer(question, answers)
        end = eventually(lambda: self._ended(started["executionArn"]))
        output = json.loads(end["output"]) if "output" in end else None
        return Run(end["status"], output, end.get("error"), end.get("cause"), self._items(name))

    def _deploy(self, tool: Tool, *, in_time: bool) -> str:
        assert tool.definition is not None
        definition = (FOLDER / tool.definition).read_text(encoding="utf-8").replace("${TaskTable}", TABLE)
        if not in_time:
            definition = definition.replace('"TimeoutSeconds": 60', '"TimeoutSeconds": 1')
        made = self._states.create_state_machine(
            name=f"{tool.state_machine}-{secrets.token_hex(4)}",
            definition=definition,
            roleArn="arn:aws:iam::123456789012:role/states",
        )
        arn: str = made["stateMachineArn"]
        return arn

    def _items(self, name: str) -> list[dict[str, Any]]:
        found = self._table.query(
            TableName=TABLE,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": name}},
            ConsistentRead=True,
        )
        items: list[dict[str, Any]] = found["Items"]
        return items

    def _questions(self, name: str, count: int) -> list[dict[str, Any]] | None:
        questions = [item for item in self._items(name) if item["sk"]["S"].startswith("input#")]
        return questions if len(questions) >= count else None

    def _answer(self, question: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
        params = json.loads(question["params"]["S"])
        method = question["method"]["S"]
        answer = answers.get(params.get("message", method))
        if answer is not None:
            assert answer_problem(method, params, answer) is None
            self._states.send_task_success(taskToken=question["token"]["S"], output=json.dumps(answer))

    def _ended(self, arn: str) -> Mapping[str, Any] | None:
        description: Mapping[str, Any] = self._states.describe_execution(executionArn=arn)
        return None if description["status"] == "RUNNING" else description


def eventually(look: Callable[[], _T | None], within: float = 20.0) -> _T:
    deadline = time.monotonic() + within
    while (seen := look()) is None:
        assert time.monotonic() < deadline, f"not within {within:g} s"
        time.sleep(0.02)
    return seen


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog(FOLDER / "tools.yaml")


@pytest.fixture(scope="module")
def workbench(catalog: Catalog) -> Iterator[Workbench]:
    with LocalAws.start() as aws:
        bench = Workbench(aws, catalog)
        yield bench
        bench.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fixture_ends_with_the_result_that_the_suite_expects(workbench: Workbench, case: Case) -> None:
    run = workbench.run(case.tool, case.input, case.answers, in_time=case.in_time)
    assert (run.status, run.error, run.cause) == ("SUCCEEDED", None, None)
    assert run.output == case.result
    CallToolResult.model_validate(run.output)


@pytest.mark.parametrize("tool", BLOCKS)
def test_content_fixtures_reply_with_valid_blocks_of_their_kind(workbench: Workbench, tool: str) -> None:
    run = workbench.run(tool, {}, {}, in_time=True)
    assert set(run.output) == {"content"}
    assert [block["type"] for block in run.output["content"]] == BLOCKS[tool]
    CallToolResult.model_validate(run.output)


@pytest.mark.parametrize("tool", FAILURES)
def test_failing_fixtures_fail_with_their_error_and_cause(workbench: Workbench, tool: str) -> None:
    run = workbench.run(tool, {}, {}, in_time=True)
    assert (run.status, run.error, run.cause) == ("FAILED", *FAILURES[tool])


@pytest.mark.parametrize("case", [case for case in CASES if case.answers], ids=str)
def test_a_question_is_an_item_that_the_server_can_show(workbench: Workbench, case: Case) -> None:
    run = workbench.run(case.tool, case.input, case.answers, in_time=True)
    assert len(run.items) == len(case.answers)
    assert len({item["sk"]["S"] for item in run.items}) == len(case.answers)
    for item in run.items:
        assert set(item) == {"pk", "sk", "token", "method", "params", "enteredAt", "timeoutSeconds"}
        assert request_problem(item["method"]["S"], json.loads(item["params"]["S"])) is None
        assert item["enteredAt"]["S"].startswith("20")
        assert item["timeoutSeconds"] == {"N": "60"}


def test_progress_is_three_items_in_order(workbench: Workbench) -> None:
    run = workbench.run("test_tool_with_progress", {}, {}, in_time=True)
    assert [item["sk"]["S"] for item in run.items] == ["event#1", "event#2", "event#3"]
    assert [item["progress"]["N"] for item in run.items] == ["0", "50", "100"]
    assert {item["kind"]["S"] for item in run.items} == {"progress"}
    assert {item["total"]["N"] for item in run.items} == {"100"}


@pytest.mark.parametrize(("tool", "lines"), [("test_tool_with_logging", 3), ("test_logging_tool", 1)])
def test_log_lines_are_items_whose_data_is_json(workbench: Workbench, tool: str, lines: int) -> None:
    run = workbench.run(tool, {}, {}, in_time=True)
    assert [item["sk"]["S"] for item in run.items] == [f"event#{number}" for number in range(1, lines + 1)]
    assert {(item["kind"]["S"], item["level"]["S"]) for item in run.items} == {("log", "info")}
    assert all(isinstance(json.loads(item["data"]["S"]), str) for item in run.items)


def test_every_fixture_is_run_by_a_test(catalog: Catalog) -> None:
    assert {tool.name for tool in catalog} == {case.tool for case in CASES} | BLOCKS.keys() | FAILURES.keys()


def test_every_fixture_has_a_pipeline_and_every_pipeline_a_fixture(catalog: Catalog) -> None:
    used = {FOLDER / tool.definition for tool in catalog if tool.definition is not None}
    assert len({tool.state_machine for tool in catalog}) == len(catalog)
    assert used == set((FOLDER / "pipelines").glob("*.asl.json"))


def test_the_first_tool_answers_inline_and_needs_no_arguments(catalog: Catalog) -> None:
    first = next(iter(catalog))
    assert first.task_support == "forbidden"
    assert first.before_start == ()
    assert first.violation({}) is None


def test_one_tool_mirrors_its_first_string_argument_in_a_header(catalog: Catalog) -> None:
    (tool,) = [tool for tool in catalog if tool.header_parameters]
    name, schema = next(iter(tool.input_schema["properties"].items()))
    assert (name, schema["type"]) == ("region", "string")
    assert tool.task_support == "forbidden"


def test_cases_give_a_tool_what_its_input_schema_and_questions_allow(catalog: Catalog) -> None:
    for case in CASES:
        tool = catalog.get(case.tool)
        assert tool is not None
        own = {name: value for name, value in case.input.items() if name not in tool.answer_names}
        asked_elsewhere = {"capital_question"} if case.tool == "test_input_required_result_multiple_inputs" else set()
        assert tool.violation({k: v for k, v in own.items() if k not in asked_elsewhere}) is None


def test_questions_before_the_start_can_be_shown(catalog: Catalog) -> None:
    requests = [(k, r) for tool in catalog for round_ in tool.before_start for k, r in round_.requests.items()]
    assert len(requests) > 10
    assert {key: problem for key, r in requests if (problem := request_problem(r.method, r.params))} == {}
