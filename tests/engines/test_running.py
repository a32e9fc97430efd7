"""The list of running executions, from which ends that nobody told of are found (D7)."""

from __future__ import annotations

import secrets

import pytest

from adapter.aws import Aws
from adapter.engines.step_functions import StepFunctions
from adapter.errors import EngineUnavailable
from tests.support.aws import MACHINE, counted_calls, deploy
from tests.support.faults import SERVER_ERROR, Fault, FaultyAws, error, reply

pytestmark = pytest.mark.asyncio(loop_scope="session")

WAITS = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}}


def _page(*names: str, more: str | None = None) -> Fault:
    executions = [{"name": name, "status": "RUNNING"} for name in names]
    return reply(executions=executions, **({} if more is None else {"nextToken": more}))


async def test_only_running_executions_of_ours_are_listed(engine: StepFunctions, aws: Aws) -> None:
    machine = await deploy(aws, WAITS)
    running, stopped = (f"mcp-{secrets.token_hex(8)}" for _ in range(2))
    for name in (running, stopped, "by-hand"):
        await engine.start(machine, name, b"{}", within=30)
    await engine.stop(engine.execution_of(machine, stopped), error="E", cause="C")
    with counted_calls(aws) as calls:
        assert await engine.running(machine) == {running}
    assert calls == ["ListExecutions"]


@pytest.mark.requirement("B-02")
async def test_a_long_list_is_read_page_by_page(engine: StepFunctions, faults: FaultyAws) -> None:
    faults.script("ListExecutions", _page("mcp-a", "other", more="next"), _page("mcp-b"))
    assert await engine.running(MACHINE) == {"mcp-a", "mcp-b"}
    first, second = (request for _, request in faults.requests)
    assert first == {"stateMachineArn": MACHINE, "statusFilter": "RUNNING", "maxResults": 1000}
    assert second == {**first, "nextToken": "next"}


@pytest.mark.parametrize("qualifier", [":live", ":7"])
async def test_executions_of_a_version_or_alias_are_listed_with_their_state_machine(
    engine: StepFunctions, faults: FaultyAws, qualifier: str
) -> None:
    faults.script("ListExecutions", _page("mcp-a"))
    assert await engine.running(MACHINE + qualifier) == {"mcp-a"}
    assert faults.requests[0][1]["stateMachineArn"] == MACHINE


async def test_a_state_machine_that_was_deleted_runs_nothing(
    engine: StepFunctions, faults: FaultyAws
) -> None:
    faults.script("ListExecutions", error("StateMachineDoesNotExist"))
    assert await engine.running(MACHINE) == set()


@pytest.mark.parametrize(
    ("fault", "throttled"),
    [
        (error("ThrottlingException"), True),
        (error("AccessDeniedException"), False),
        (SERVER_ERROR, False),
    ],
)
async def test_a_list_that_is_not_whole_is_none(
    engine: StepFunctions, faults: FaultyAws, fault: Fault, throttled: bool
) -> None:
    faults.script("ListExecutions", _page("mcp-a", more="next"), *[fault] * 3)
    with pytest.raises(EngineUnavailable) as unavailable:
        await engine.running(MACHINE)
    assert unavailable.value.throttled is throttled
