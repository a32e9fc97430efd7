"""How a job that did not succeed is told, and what of it stays here (M-20 to M-22, M-30)."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.mcp.jsonrpc import RpcError
from adapter.mcp.results import Rendered, render
from adapter.tasks.model import Ending, Outcome
from tests.support.adapter import Mcp, tool
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
        (
            "TypeError",
            '{"errorMessage":"bad day","errorType":"TypeError","stackTrace":["x"]}',
            "TypeError: bad day",
        ),
        ("X", '{"errorMessage":5}', 'X: {"errorMessage":5}'),
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


# --- secrets --------------------------------------------------------------------------------------------

CAUSES = [
    (
        "Function arn:aws:lambda:us-east-1:123456789012:function:book failed",
        "Function lambda:function:book failed",
    ),
    (
        "User: arn:aws:sts::123456789012:assumed-role/r/s is not authorized",
        "User: sts:assumed-role/r/s is not",
    ),
    ("arn:aws-us-gov:states:us-gov-west-1:123456789012:execution:a:b", "states:execution:a:b"),
    ("arn:aws-cn:s3:::bucket/key", "s3:bucket/key"),
    ("https://sqs.eu-west-1.amazonaws.com/123456789012/jobs", "https://sqs.eu-west-1.amazonaws.com/jobs"),
    (
        "Image 123456789012.dkr.ecr.eu-west-1.amazonaws.com/app:1",
        "Image dkr.ecr.eu-west-1.amazonaws.com/app:1",
    ),
    ("Order 123456789013 is unknown", "Order 123456789013 is unknown"),
]


@pytest.mark.requirement("R-59")
@pytest.mark.parametrize(("cause", "shown"), CAUSES)
@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.TIMED_OUT, Ending.ABORTED])
async def test_no_arn_or_account_in_a_cause_reaches_a_client(cause: str, shown: str, ending: Ending) -> None:
    mcp = Mcp(tool())
    task_id = await mcp.start()
    mcp.end(task_id, ending=ending, error="States.TaskFailed", cause=cause)

    assert shown in (await mcp.get(task_id))["statusMessage"]


@pytest.mark.requirement("R-59")
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["aws", "aws-cn", "aws-us-gov"]),
            st.from_regex(r"[a-z]{2,10}", fullmatch=True),
            st.from_regex(r"([a-z]{2}-[a-z]{4,9}-\d)?", fullmatch=True),
            st.from_regex(r"[a-z][a-z/:-]{0,20}", fullmatch=True),
            st.text(max_size=5),
        ),
        min_size=1,
    )
)
def test_arns_in_any_text_lose_partition_region_and_account(parts: list[tuple[str, ...]]) -> None:
    cause = "".join(f"{more} arn:{p}:{s}:{region}:998877665544:{name}" for p, s, region, name, more in parts)

    for rendered in (failed("Boom", cause), failed("McpError", orjson.dumps({"message": cause}).decode())):
        told = text_of(rendered) if rendered.result else str(rendered.failure)
        assert "998877665544" not in told
        assert "arn:aws" not in told
