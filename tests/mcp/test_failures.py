"""How a job that did not succeed is told, and what of it stays here (M-20 to M-22, M-30)."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.mcp.jsonrpc import RpcError
from adapter.mcp.results import Rendered, render
from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import tool
from tests.support.wire import check_message


def failed(error: str | None = None, cause: str | None = None, ending: Ending = Ending.FAILED) -> Rendered:
    return render(Outcome(ending, error=error, cause=cause), tool().result_settings)


def text_of(rendered: Rendered) -> str:
    assert rendered.result is not None
    assert rendered.result["isError"] is True
    (block,) = rendered.result["content"]
    return str(block["text"])


@pytest.mark.requirement("R-111")
@pytest.mark.parametrize(
    ("error", "cause", "text"),
    [
        ("Boom", "it broke", "Boom: it broke"),
        ("Boom", None, "Boom"),
        ("Boom", "", "Boom"),
        (None, "it broke", "it broke"),
        (None, None, "The execution failed"),
        ("", "", "The execution failed"),
        ("X", '["a"]', 'X: ["a"]'),
    ],
)
def test_a_failed_execution_is_an_error_result_with_error_and_cause(
    error: str | None, cause: str | None, text: str
) -> None:
    rendered = failed(error, cause)

    assert text_of(rendered) == text
    assert rendered.message == text
    assert rendered.failure is None


@pytest.mark.requirement("R-111")
@pytest.mark.parametrize(
    ("error", "cause", "text"),
    [
        (None, None, "The execution timed out"),
        ("States.Timeout", "after 2 h", "The execution timed out: after 2 h"),
        ("McpError", "slow", "The execution timed out: slow"),
    ],
)
def test_a_timed_out_execution_is_an_error_result_that_says_so(
    error: str | None, cause: str | None, text: str
) -> None:
    assert text_of(failed(error, cause, Ending.TIMED_OUT)) == text


@pytest.mark.requirement("R-111")
@pytest.mark.parametrize(
    ("cause", "message"), [("Wrong day", "Wrong day"), (None, "The execution was stopped")]
)
def test_an_aborted_execution_has_neither_result_nor_error_but_a_message(
    cause: str | None, message: str
) -> None:
    assert failed(cause=cause, ending=Ending.ABORTED) == Rendered(message=message)


@pytest.mark.requirement("R-111")
def test_a_job_that_never_started_is_an_internal_error() -> None:
    failure = failed(ending=Ending.LOST).failure

    assert failure is not None
    assert failure.error() == {"code": -32603, "message": "The job could not be started"}


@pytest.mark.requirement("R-60")
def test_a_long_cause_is_cut() -> None:
    rendered = failed("Boom", "x" * 32_768)

    assert len(text_of(rendered)) <= 4001
    assert rendered.message is not None
    assert len(rendered.message) <= 301


@pytest.mark.requirement("R-111")
@pytest.mark.parametrize(
    ("cause", "code", "message"),
    [
        ('{"code":4711,"message":"No order"}', 4711, "No order"),
        ('{"code":-1,"message":"No order"}', -1, "No order"),
        ('{"code":-32602,"message":"Bad"}', -32602, "Bad"),
        ('{"code":-32600,"message":"Bad"}', -32600, "Bad"),
        ('{"message":"No code"}', -32603, "No code"),
        ('{"code":"4711","message":"x"}', -32603, "x"),
        ('{"code":1.5,"message":"x"}', -32603, "x"),
        ('{"code":true,"message":"x"}', -32603, "x"),
        ('{"code":null,"message":"x"}', -32603, "x"),
        ('{"code":99999999999,"message":"x"}', -32603, "x"),
        ('{"code":7}', 7, "The workflow failed"),
        ('{"code":7,"message":""}', 7, "The workflow failed"),
        ('{"code":7,"message":{}}', 7, "The workflow failed"),
        ("[]", -32603, "The workflow failed"),
        ('"text"', -32603, "The workflow failed"),
        ("plain words", -32603, "plain words"),
        ("", -32603, "The workflow failed"),
        (None, -32603, "The workflow failed"),
    ],
)
def test_a_workflow_can_end_in_a_json_rpc_error_of_its_own(
    cause: str | None, code: int, message: str
) -> None:
    rendered = failed("McpError", cause)

    assert rendered.failure is not None
    assert rendered.failure.error() == {"code": code, "message": message}
    assert rendered.message == message


@pytest.mark.requirement("R-13")
@pytest.mark.parametrize(
    "code",
    [
        *(-32000, -32002, -32019, -32020, -32021, -32022, -32042, -32099),
        *(-32100, -32500, -32599, -32604, -32699, -32700, -32701, -32768),
    ],
)
def test_a_workflow_cannot_speak_with_reserved_codes(code: int) -> None:
    failure = failed("McpError", orjson.dumps({"code": code, "message": "x"}).decode()).failure

    assert failure is not None
    assert failure.code == -32603


@pytest.mark.requirement("R-13")
@given(st.integers())
def test_whatever_code_a_workflow_chooses_is_one_that_may_be_sent(code: int) -> None:
    failure = failed("McpError", f'{{"code":{code},"message":"x"}}').failure

    assert failure is not None
    check_message(
        "2026-07-28",
        {"jsonrpc": "2.0", "id": 1, "error": {**failure.error(), "code": failure.code}},
        request_method="tools/call",
    )


def test_the_data_of_a_protocol_error_is_passed_on() -> None:
    failure = failed("McpError", '{"code":7,"message":"x","data":[1,{"a":null}]}').failure

    assert failure is not None
    assert failure.error() == {"code": 7, "message": "x", "data": [1, {"a": None}]}


def test_output_that_is_not_available_is_an_error_of_the_read() -> None:
    with pytest.raises(RpcError, match="cannot be read now") as caught:
        render(Outcome(Ending.SUCCEEDED), tool().result_settings)

    assert (caught.value.code, caught.value.status) == (-32603, 200)
