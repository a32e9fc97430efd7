from __future__ import annotations

import pytest

from .conftest import PASS, Lab, error_code, eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("big é", '"big é"'),
        ('{"a": 1}', '"{\\"a\\": 1}"'),
        ({"a": [1, 2.5, None, True]}, '{"a":[1,2.5,null,true]}'),
        ("", '""'),
    ],
)
async def test_output_is_compact_json_of_the_value(lab: Lab, result: object, text: str) -> None:
    assert (await lab.run({**PASS, "Result": result}))["output"] == text


async def test_times_in_a_reply_of_aws_become_text(lab: Lab) -> None:
    describe = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:dynamodb:describeTable",
        "Parameters": {"TableName": lab.table},
        "OutputPath": "$.Table.CreationDateTime",
        "End": True,
    }
    ended = await lab.run(describe)
    assert ended["output"].endswith('Z"')


async def test_input_comes_back_byte_for_byte(lab: Lab) -> None:
    machine = await lab.machine(PASS)
    started = await lab.states.start_execution(stateMachineArn=machine, name="spaces", input='{"a" :  "é" }')
    assert (await lab.describe(started["executionArn"]))["input"] == '{"a" :  "é" }'


async def test_a_definition_that_is_refused_has_an_error_code(lab: Lab) -> None:
    create = lab.states.create_state_machine(
        name="bad", definition='{"StartAt": "X"}', roleArn="arn:aws:iam::123456789012:role/any"
    )
    assert await error_code(create) == "InvalidDefinition"


async def waiting(lab: Lab) -> str:
    """An execution whose history is whole: its second state has gone as far as it can without an answer."""
    execution = await lab.start(await lab.machine({"Type": "Pass", "Next": "B"}, lab.wait()))

    async def submitted() -> bool:
        return any(event["type"] == "TaskSubmitted" for event in await lab.events(execution))

    await eventually(submitted)
    return execution


async def test_the_history_starts_with_the_newest_event_where_asked(lab: Lab) -> None:
    execution = await waiting(lab)
    ids = [event["id"] for event in await lab.events(execution)]
    assert ids == sorted(ids)
    assert [event["id"] for event in await lab.events(execution, reverseOrder=True)] == ids[::-1]


@pytest.mark.parametrize("newest_first", [False, True])
async def test_the_history_comes_in_pages(lab: Lab, newest_first: bool) -> None:
    execution = await waiting(lab)
    whole = [event["id"] for event in await lab.events(execution, reverseOrder=newest_first)]
    pages = lab.states.get_paginator("get_execution_history").paginate(
        executionArn=execution, reverseOrder=newest_first, PaginationConfig={"PageSize": 3}
    )
    read = [[event["id"] for event in page["events"]] async for page in pages]
    assert [event for page in read for event in page] == whole
    assert [len(page) for page in read[:-1]] == [3] * (len(read) - 1)


async def test_a_made_up_page_token_is_refused(lab: Lab) -> None:
    execution = await waiting(lab)
    assert await error_code(lab.events(execution, nextToken="made-up")) == "InvalidToken"


async def test_the_history_leaves_data_out_where_asked(lab: Lab) -> None:
    execution = await waiting(lab)
    entered = [e["stateEnteredEventDetails"] for e in await lab.events(execution) if "Entered" in e["type"]]
    bare = [
        e["stateEnteredEventDetails"]
        for e in await lab.events(execution, includeExecutionData=False)
        if "Entered" in e["type"]
    ]
    assert [details["name"] for details in bare] == ["A", "B"]
    assert all("input" in details for details in entered)
    assert not any("input" in details for details in bare)
