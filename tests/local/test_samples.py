from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from adapter.errors import ConfigurationError
from adapter.local import samples
from adapter.local.deploy import deploy
from adapter.local.samples import sample_tools_file
from adapter.mcp.inputs import answer_problem, request_problem
from adapter.tools.catalog import Catalog
from adapter.tools.file import load_catalog
from adapter.tools.schema import Schema

from .conftest import Lab, eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")

LARGE_ORDER = {"order_id": "A-1", "customer": "Ada", "amount": 250}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog(sample_tools_file())


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def machines(lab: Lab, catalog: Catalog) -> dict[str, str]:
    return await deploy(lab.states, catalog, sample_tools_file(), {"TaskTable": lab.table})


@pytest.fixture
def bench(lab: Lab, catalog: Catalog, machines: dict[str, str]) -> Bench:
    return Bench(lab, catalog, machines)


class Bench:
    """Runs the sample tools as the adapter would: arguments checked, questions checked, output checked."""

    def __init__(self, lab: Lab, catalog: Catalog, machines: Mapping[str, str]) -> None:
        self.lab = lab
        self._catalog = catalog
        self._machines = machines

    async def start(self, tool: str, arguments: Mapping[str, Any], **answers: object) -> str:
        entry = self._catalog.get(tool)
        assert entry is not None
        assert entry.violation(arguments) is None
        assert set(answers) == set(entry.answer_names)
        return await self.lab.start(self._machines[tool], {**arguments, **answers})

    async def output(self, tool: str, execution: str) -> Any:
        """What it returned, once it has succeeded; it fits the tool's output schema."""
        ended = await self.lab.end(execution)
        assert ended["status"] == "SUCCEEDED", ended
        output = json.loads(ended["output"])
        entry = self._catalog.get(tool)
        assert entry is not None
        if entry.output_schema is not None:
            assert Schema(entry.output_schema).violation(output) is None
        return output

    async def question(self, execution: str) -> dict[str, Any]:
        """The item of the question that an execution waits on; it may be shown to a client."""

        async def look() -> dict[str, Any] | None:
            items = [i for i in await self.lab.items(execution) if i["sk"].startswith("input#")]
            return items[0] if items else None

        question = await eventually(look)
        assert request_problem(question["method"], json.loads(question["params"])) is None
        return question

    async def answer(self, question: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        assert answer_problem(question["method"], json.loads(question["params"]), answer) is None
        await self.lab.answer(question["token"], answer)

    async def events(self, execution: str, kind: str) -> list[dict[str, Any]]:
        items = await self.lab.items(execution)
        return [item for item in items if item["sk"].startswith("event#") and item["kind"] == kind]


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (
            {"action": "accept", "content": {"delivery": "express"}},
            {"status": "shipped", "delivery": "express"},
        ),
        (
            {"action": "accept", "content": {"delivery": "standard", "note": "Thanks"}},
            {"status": "shipped", "delivery": "standard"},
        ),
        ({"action": "decline"}, {"status": "declined"}),
        ({"action": "cancel"}, {"status": "cancelled"}),
    ],
)
async def test_a_large_order_ends_as_the_human_decides(
    bench: Bench, answer: Mapping[str, Any], ending: Mapping[str, str]
) -> None:
    execution = await bench.start("place_order", LARGE_ORDER)
    question = await bench.question(execution)
    assert "A-1" in json.loads(question["params"])["message"]
    await bench.answer(question, answer)
    assert await bench.output("place_order", execution) == {"order_id": "A-1", **ending}


async def test_a_small_order_asks_nobody(bench: Bench) -> None:
    execution = await bench.start("place_order", {**LARGE_ORDER, "amount": 99.5})
    output = await bench.output("place_order", execution)
    assert output == {"order_id": "A-1", "status": "shipped", "delivery": "standard"}
    assert await bench.lab.items(execution) == []


def with_time_limit(definition: str, seconds: int) -> dict[str, Any]:
    pipeline = json.loads(definition)
    pipeline["States"]["Wait for approval"]["TimeoutSeconds"] = seconds
    return dict(pipeline)


async def test_an_order_that_nobody_answers_expires(bench: Bench) -> None:
    text = sample_tools_file().with_name("order-approval.asl.json").read_text().replace("${TaskTable}", "lab")
    machine = await bench.lab.deploy(with_time_limit(text, 1))
    execution = await bench.lab.start(machine, LARGE_ORDER)
    assert await bench.output("place_order", execution) == {"order_id": "A-1", "status": "expired"}


async def test_the_question_tells_the_deadline_that_its_state_has(bench: Bench) -> None:
    execution = await bench.start("place_order", LARGE_ORDER)
    question = await bench.question(execution)
    await bench.lab.states.stop_execution(executionArn=execution)
    text = sample_tools_file().with_name("order-approval.asl.json").read_text()
    limit = json.loads(text)["States"]["Wait for approval"]["TimeoutSeconds"]
    assert question["timeoutSeconds"] == str(limit)
    assert question["enteredAt"].endswith("Z")


async def test_a_report_tells_its_progress_and_adds_up(bench: Bench) -> None:
    execution = await bench.start("sales_report", {"day": "2026-07-28"})
    output = await bench.output("sales_report", execution)
    assert output["day"] == "2026-07-28"
    assert [region["region"] for region in output["regions"]] == ["north", "east", "south", "west"]
    assert output["total"] == sum(region["revenue"] for region in output["regions"]) == 2610
    progress = await bench.events(execution, "progress")
    assert [(event["progress"], event["total"]) for event in progress] == [("1", "3"), ("2", "3"), ("3", "3")]
    assert all(event["message"] for event in progress)


async def test_a_report_logs_a_line_for_each_region(bench: Bench) -> None:
    execution = await bench.start("sales_report", {"day": "2026-07-28"})
    output = await bench.output("sales_report", execution)
    lines = await bench.events(execution, "log")
    assert {line["level"] for line in lines} == {"info"}
    logged = sorted((json.loads(line["data"]) for line in lines), key=lambda line: line["region"])
    assert logged == sorted(output["regions"], key=lambda region: region["region"])


async def test_a_report_survives_a_table_that_is_missing(bench: Bench) -> None:
    text = sample_tools_file().with_name("sales-report.asl.json").read_text()
    machine = await bench.lab.deploy(json.loads(text.replace("${TaskTable}", "no-such-table")))
    execution = await bench.lab.start(machine, {"day": "2026-07-28"})
    assert (await bench.output("sales_report", execution))["total"] == 2610


async def test_a_wrong_file_fails_with_a_cause_that_helps(bench: Bench) -> None:
    ended = await bench.lab.end(await bench.start("import_ledger", {"file": "june.xlsx"}))
    assert (ended["status"], ended["error"]) == ("FAILED", "UnsupportedFile")
    assert ended["cause"] == "june.xlsx is not a CSV file. Export the ledger as CSV and try again."


async def test_a_csv_file_is_imported(bench: Bench) -> None:
    execution = await bench.start("import_ledger", {"file": "june.csv"})
    assert await bench.output("import_ledger", execution) == {"file": "june.csv", "entries": 42}


async def test_a_long_export_is_timed_out(bench: Bench) -> None:
    ended = await bench.lab.end(await bench.start("nightly_export", {"seconds": 600}))
    assert ended["status"] == "TIMED_OUT"


async def test_a_short_export_is_complete(bench: Bench) -> None:
    execution = await bench.start("nightly_export", {"seconds": 1})
    assert await bench.output("nightly_export", execution) == {"seconds": 1, "complete": True}


async def test_a_confirmed_purge_returns_a_ready_made_result(bench: Bench) -> None:
    confirmation = {"action": "accept", "content": {"confirm": True}}
    execution = await bench.start("purge_customer", {"customer_id": "C-17"}, confirmation=confirmation)
    assert await bench.output("purge_customer", execution) == {
        "content": [{"type": "text", "text": "All data of customer C-17 is deleted."}],
        "structuredContent": {"customer_id": "C-17", "deleted": True},
    }
    [line] = await bench.events(execution, "log")
    assert (line["level"], line["message"]) == ("warning", "Purging all data of customer C-17")


@pytest.mark.parametrize(
    "confirmation", [{"action": "accept", "content": {"confirm": False}}, {"action": "decline"}, {}]
)
async def test_an_unconfirmed_purge_fails(bench: Bench, confirmation: Mapping[str, Any]) -> None:
    execution = await bench.start("purge_customer", {"customer_id": "C-17"}, confirmation=confirmation)
    assert (await bench.lab.end(execution))["error"] == "NotConfirmed"


async def test_an_order_that_waits_can_be_stopped(bench: Bench) -> None:
    execution = await bench.start("place_order", LARGE_ORDER)
    await bench.question(execution)
    await bench.lab.states.stop_execution(executionArn=execution, error="McpCancelled")
    assert (await bench.lab.end(execution))["status"] == "ABORTED"


def states_of(pipeline: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each state with the states that it may go on to."""
    for state in pipeline["States"].values():
        yield state, pipeline["States"]
        if "ItemProcessor" in state:
            yield from states_of(state["ItemProcessor"])


def targets_of(state: Mapping[str, Any]) -> Iterator[str]:
    for part in (state, *state.get("Choices", ()), *state.get("Catch", ())):
        yield from (part[name] for name in ("Next", "Default") if name in part)


@pytest.fixture(params=sorted(path.name for path in sample_tools_file().parent.glob("*.asl.json")))
def pipeline(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(json.loads(sample_tools_file().with_name(request.param).read_text()))


async def test_transitions_lead_to_states_that_exist_and_leave_none_out(pipeline: dict[str, Any]) -> None:
    reached = {pipeline["StartAt"]}
    for state, neighbours in states_of(pipeline):
        assert set(targets_of(state)) <= set(neighbours)
        reached |= set(targets_of(state))
    assert set(pipeline["States"]) <= reached


async def test_calls_of_dynamodb_are_repeated_when_throttled(pipeline: dict[str, Any]) -> None:
    for state, _ in states_of(pipeline):
        if state["Type"] == "Task":
            service = "DynamoDb" if "aws-sdk" in state["Resource"] else "DynamoDB"
            assert f"{service}.ThrottlingException" in state["Retry"][0]["ErrorEquals"]


async def test_every_sample_is_a_tool(catalog: Catalog) -> None:
    files = {path.name for path in sample_tools_file().parent.glob("*.asl.json")}
    assert {tool.definition for tool in catalog} == files


async def test_samples_of_a_wheel_are_found_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tools.yaml").touch()
    monkeypatch.setattr(samples, "_PLACES", (tmp_path / "absent", tmp_path))
    assert sample_tools_file() == tmp_path / "tools.yaml"


async def test_an_installation_without_samples_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "_PLACES", (tmp_path,))
    with pytest.raises(ConfigurationError, match="sample pipelines"):
        sample_tools_file()
