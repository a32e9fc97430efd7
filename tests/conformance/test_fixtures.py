"""Every fixture of the conformance suite, run by the engine itself, and the tools file that exposes them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from mcp_types import CallToolResult

from adapter.local.engine import LocalAws
from adapter.mcp.inputs import answer_problem, request_problem
from adapter.tools.catalog import Catalog
from adapter.tools.file import load_catalog

from .endings import BLOCKS, ENDINGS, FAILURES, Ending
from .workbench import FOLDER, Workbench, pipeline_of

ASKING = [ending for ending in ENDINGS if ending.answers]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog(FOLDER / "tools.yaml")


@pytest.fixture(scope="module")
def workbench(catalog: Catalog) -> Iterator[Workbench]:
    with LocalAws.start() as aws:
        bench = Workbench(aws, catalog)
        yield bench
        bench.close()


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_a_fixture_ends_with_the_result_that_is_expected(workbench: Workbench, ending: Ending) -> None:
    run = workbench.run(ending.tool, ending.input, ending.answers, in_time=ending.in_time)
    assert (run.status, run.error, run.cause) == ("SUCCEEDED", None, None)
    assert run.output == ending.result
    CallToolResult.model_validate(run.output)


@pytest.mark.parametrize("tool", BLOCKS)
def test_content_fixtures_reply_with_valid_blocks_of_their_kind(workbench: Workbench, tool: str) -> None:
    run = workbench.run(tool)
    assert set(run.output) == {"content"}
    assert [block["type"] for block in run.output["content"]] == BLOCKS[tool]
    CallToolResult.model_validate(run.output)


@pytest.mark.parametrize("tool", FAILURES)
def test_failing_fixtures_fail_with_their_error_and_cause(workbench: Workbench, tool: str) -> None:
    run = workbench.run(tool)
    assert (run.status, run.error, run.cause) == ("FAILED", *FAILURES[tool])


@pytest.mark.parametrize("ending", ASKING, ids=str)
def test_a_question_is_an_item_that_the_server_can_show(workbench: Workbench, ending: Ending) -> None:
    run = workbench.run(ending.tool, ending.input, ending.answers)
    assert len(run.items) == len({item["sk"]["S"] for item in run.items}) == len(ending.answers)
    for item in run.items:
        assert set(item) == {"pk", "sk", "token", "method", "params", "enteredAt", "timeoutSeconds"}
        assert request_problem(item["method"]["S"], json.loads(item["params"]["S"])) is None
        assert item["enteredAt"]["S"].startswith("20")
        assert item["timeoutSeconds"] == {"N": "60"}


def test_progress_is_three_items_in_order(workbench: Workbench) -> None:
    items = workbench.run("test_tool_with_progress").items
    assert [item["sk"]["S"] for item in items] == ["event#1", "event#2", "event#3"]
    assert [item["progress"]["N"] for item in items] == ["0", "50", "100"]
    assert {(item["kind"]["S"], item["total"]["N"]) for item in items} == {("progress", "100")}
    assert [item["message"]["S"] for item in items] == ["Started", "Half way", "Done"]


@pytest.mark.parametrize(("tool", "lines"), [("test_tool_with_logging", 3), ("test_logging_tool", 1)])
def test_log_lines_are_items_whose_data_is_json(workbench: Workbench, tool: str, lines: int) -> None:
    items = workbench.run(tool).items
    assert [item["sk"]["S"] for item in items] == [f"event#{number}" for number in range(1, lines + 1)]
    assert {(item["kind"]["S"], item["level"]["S"]) for item in items} == {("log", "info")}
    assert all(isinstance(json.loads(item["data"]["S"]), str) for item in items)


def test_every_fixture_is_run_by_a_test(catalog: Catalog) -> None:
    assert {tool.name for tool in catalog} == {e.tool for e in ENDINGS} | BLOCKS.keys() | FAILURES.keys()


def test_every_fixture_has_a_pipeline_and_every_pipeline_a_fixture(catalog: Catalog) -> None:
    assert len({tool.state_machine for tool in catalog}) == len(catalog)
    assert {pipeline_of(tool) for tool in catalog} == set((FOLDER / "pipelines").glob("*.asl.json"))


def test_the_first_tool_answers_inline_and_needs_no_arguments(catalog: Catalog) -> None:
    first = next(iter(catalog))
    assert first.task_support == "forbidden"
    assert first.before_start == ()
    assert first.violation({}) is None


def test_one_tool_mirrors_its_first_string_argument_in_a_header(catalog: Catalog) -> None:
    (tool,) = [tool for tool in catalog if tool.header_parameters]
    name, schema = next(iter(tool.input_schema["properties"].items()))
    assert (tool.header_parameters[0].path, schema["type"]) == ((name,), "string")
    assert tool.task_support == "forbidden"


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_the_input_of_an_ending_is_one_that_the_server_would_send(catalog: Catalog, ending: Ending) -> None:
    tool = catalog.get(ending.tool)
    assert tool is not None
    assert tool.violation({k: v for k, v in ending.input.items() if k not in tool.answer_names}) is None
    requests = {key: request for round_ in tool.before_start for key, request in round_.requests.items()}
    for key, request in requests.items():
        assert request_problem(request.method, request.params) is None
        if not request.when_supported or key in ending.input:
            assert answer_problem(request.method, request.params, ending.input[key]) is None
