"""Tasks from beginning to end, through the deployed API, functions and state machines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapter.mcp.exchange import Request
from tests.support.adapter import Json, accepted
from tests.support.legacy import FORMS, RELATED, LegacyClient

from .caller import Caller
from .deployment import OWN_TOOL, QUESTION, Deployment

LARGE_ORDER = {"order_id": "A-1", "customer": "Ada", "amount": 250}
REPORT = {"day": "2026-07-28"}
OWN = str(OWN_TOOL["name"])


async def test_the_tools_are_those_of_the_file_that_the_stack_names(ada: Caller) -> None:
    """`own_approval` is only in the file in S3 that the parameter ToolsObject names."""
    tools = (await ada.call("tools/list")).result["tools"]

    assert {OWN, "place_order", "sales_report"} <= {tool["name"] for tool in tools}


# --- 2026-07-28 --------------------------------------------------------------------------------------------


async def test_a_task_goes_on_until_its_result(ada: Caller) -> None:
    task = await ada.ended(await ada.start("sales_report", REPORT))

    assert task["status"] == "completed"
    assert task["result"]["structuredContent"]["total"] == 2610


async def test_a_question_that_the_workflow_writes_itself_is_answered(ada: Caller) -> None:
    task_id = await ada.start("place_order", LARGE_ORDER)
    ((key, question),) = (await ada.questions(task_id)).items()
    assert question["params"]["message"] == "Approve order A-1 of Ada for 250 EUR?"

    await ada.update(task_id, {key: accepted(delivery="express")})

    task = await ada.ended(task_id)
    assert task["result"]["structuredContent"] == {
        "order_id": "A-1",
        "status": "shipped",
        "delivery": "express",
    }


async def test_a_question_that_goes_through_the_request_input_function_is_answered(ada: Caller) -> None:
    """The state machine's state is the stack's AskSnippet."""
    task_id = await ada.start(OWN)
    ((key, question),) = (await ada.questions(task_id)).items()
    assert question["params"]["message"] == QUESTION

    await ada.update(task_id, {key: accepted(note="yes")})

    task = await ada.ended(task_id)
    assert json.loads(task["result"]["content"][0]["text"]) == accepted(note="yes")


async def test_a_cancelled_task_ends_and_its_execution_is_stopped(
    ada: Caller, deployment: Deployment
) -> None:
    task_id = await ada.start("place_order", LARGE_ORDER)
    await ada.questions(task_id)

    await ada.cancel(task_id)

    assert (await ada.ended(task_id))["status"] == "cancelled"
    assert deployment.status(deployment.resources["OrderApproval"], task_id) == "ABORTED"


async def test_a_workflow_that_fails_says_why(ada: Caller) -> None:
    task = await ada.ended(await ada.start("import_ledger", {"file": "june.xlsx"}))

    assert (task["status"], task["result"]["isError"]) == ("completed", True)
    assert "june.xlsx is not a CSV file" in task["result"]["content"][0]["text"]


async def test_what_is_asked_before_the_start_is_confirmed_to_any_process(ada: Caller) -> None:
    """The key that signs the round trip is the one that the stack made in Secrets Manager."""
    call: Json = {"name": "purge_customer", "arguments": {"customer_id": "C-17"}}
    asked = (await ada.call("tools/call", call)).result
    assert list(asked["inputRequests"]) == ["confirm"]
    answers = {"requestState": asked["requestState"], "inputResponses": {"confirm": accepted(confirm=True)}}

    started = (await ada.call("tools/call", {**call, **answers})).result

    task = await ada.ended(started["taskId"])
    assert task["result"]["content"][0]["text"] == "All data of customer C-17 is deleted."


async def test_a_caller_without_tasks_gets_the_result_in_the_reply(ada: Caller) -> None:
    answer = await ada.call("tools/call", {"name": "sales_report", "arguments": REPORT}, caps={})

    assert answer.result["structuredContent"]["total"] == 2610


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_other_methods_are_answered_by_the_function(ada: Caller, method: str) -> None:
    request = ada.request("tools/list")

    answer = await ada.send(Request(method, request.headers, b"", request.caller))

    assert (answer.status, answer.headers["allow"]) == (405, "POST")


# --- 2025-11-25 --------------------------------------------------------------------------------------------


async def test_a_legacy_task_goes_on_until_its_result(ada: Caller) -> None:
    client = await ada.legacy()
    task_id = await client.start("sales_report", REPORT)

    result = await _result(ada, client, task_id)

    assert result["structuredContent"]["total"] == 2610
    assert result["_meta"][RELATED] == {"taskId": task_id}


@pytest.mark.parametrize(
    ("tool", "arguments", "answer", "output"),
    [
        (
            "place_order",
            LARGE_ORDER,
            accepted(delivery="express"),
            {"order_id": "A-1", "status": "shipped", "delivery": "express"},
        ),
        (OWN, {}, accepted(note="yes"), accepted(note="yes")),
    ],
)
async def test_a_legacy_client_is_asked_when_it_looks_and_answers(
    ada: Caller, tool: str, arguments: Json, answer: Json, output: Json
) -> None:
    client = await ada.legacy(FORMS)
    task_id = await client.start(tool, arguments)
    await ada.questions(task_id)
    (request,) = await client.asked(task_id)
    assert request["method"] == "elicitation/create"

    await client.answer(request, answer)

    result = await _result(ada, client, task_id)
    assert json.loads(result["content"][0]["text"]) == output


async def test_a_legacy_task_is_cancelled(ada: Caller, deployment: Deployment) -> None:
    client = await ada.legacy()
    task_id = await client.start("place_order", LARGE_ORDER)
    await ada.questions(task_id)

    await client.call("tasks/cancel", {"taskId": task_id})

    await ada.ended(task_id)
    assert await client.status(task_id) == "cancelled"
    assert deployment.status(deployment.resources["OrderApproval"], task_id) == "ABORTED"


async def _result(ada: Caller, client: LegacyClient, task_id: str) -> dict[str, Any]:
    """The task's result, once it has ended for a client of the other protocol, which reads the same task."""
    await ada.ended(task_id)
    return (await client.call("tasks/result", {"taskId": task_id})).result
