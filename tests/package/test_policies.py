"""Least privilege: each function may do what it needs, and nothing else."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import ARN
from .policies import SERVER, by_kind, document_grants, grants, needs
from .stack import ROOT, Stack

EXECUTION = ARN.replace(":stateMachine:", ":execution:")
FUNCTIONS = ("Mcp", "ExecutionStatus", "Reconcile", "RequestInput")
MANAGED_POLICY_CHARACTERS = 6144
EVENT_PATTERN_CHARACTERS = 2048


TOOLS_ELSEWHERE = {
    "s3:GetObject": {"ToolsObject": "bucket/a/tools.yaml"},
    "ssm:GetParameter": {"ToolsParameter": "/mcp/tools"},
}


@pytest.mark.parametrize("source", [None, *TOOLS_ELSEWHERE])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_may_do_exactly_what_it_needs(function: str, source: str | None) -> None:
    needed = dict(needs()[function])
    if "tools file" in needed:
        assert needed.pop("tools file") == set(TOOLS_ELSEWHERE)
        if source is not None:
            needed["tools file"] = {source}
    parameters = TOOLS_ELSEWHERE.get(source or "", {})
    stack = Stack("template.yaml", StateMachineArns=f"{ARN}billing", **parameters)
    assert by_kind(grants(stack, f"{function}Role")) == needed


def test_a_server_in_a_container_may_do_exactly_what_it_needs(listed: Stack) -> None:
    document = listed.resource("ServerPolicy")["PolicyDocument"]
    assert by_kind(list(document_grants(document))) == needs()[SERVER]


def test_every_function_has_its_needs_written_down(listed: Stack) -> None:
    assert set(FUNCTIONS) == set(listed.resources("AWS::Serverless::Function"))
    assert set(needs()) == {*FUNCTIONS, SERVER}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_grant_is_wider_than_one_action_on_a_named_resource(listed: Stack, function: str) -> None:
    for grant in grants(listed, f"{function}Role"):
        assert re.fullmatch(r"[a-z0-9]+:[A-Za-z]+", grant.action)
        assert grant.resource.count("*") == (grant.kind in ("executions", "task tokens"))


def test_each_function_writes_to_its_own_log_group_only(listed: Stack) -> None:
    for function in FUNCTIONS:
        logs = {g.resource for g in grants(listed, f"{function}Role") if g.kind == "log group"}
        assert logs == {f"<{function}Logs.Arn>"}


@pytest.mark.requirement("B-03")
def test_exactly_the_listed_state_machines_can_be_started(listed: Stack) -> None:
    started = {g.resource for g in grants(listed, "McpRole") if g.action == "states:StartExecution"}
    assert started == {f"{ARN}billing", f"{ARN}nightly-report"}


def test_only_the_adapters_own_executions_can_be_followed_and_stopped(listed: Stack) -> None:
    for role in ("McpRole", "ReconcileRole"):
        stopped = {g.resource for g in grants(listed, role) if g.action == "states:StopExecution"}
        assert stopped == {f"{EXECUTION}billing:mcp-*", f"{EXECUTION}nightly-report:mcp-*"}


def test_without_qualifiers_starts_carry_no_condition(listed: Stack) -> None:
    assert all(g.condition == {} for g in grants(listed, "McpRole"))


def test_qualifiers_restrict_starts_and_nothing_else() -> None:
    stack = Stack("template.yaml", StateMachineArns=f"{ARN}billing", StateMachineQualifiers="live,7")
    conditions = {g.action: g.condition for g in grants(stack, "McpRole")}
    condition = conditions.pop("states:StartExecution")
    assert condition == {"ForAnyValue:StringEquals": {"states:StateMachineQualifier": ["live", "7"]}}
    assert all(other == {} for other in conditions.values())


def test_a_name_prefix_stands_for_every_state_machine_that_begins_with_it() -> None:
    stack = Stack("template.yaml", StateMachineNamePrefix="prod-")
    resources = {g.action: g.resource for g in grants(stack, "McpRole")}
    assert resources["states:StartExecution"] == f"{ARN}prod-*"
    assert resources["states:DescribeExecution"] == f"{EXECUTION}prod-*:mcp-*"


def test_a_tag_is_a_condition_on_what_is_started_and_listed() -> None:
    stack = Stack("template.yaml", StateMachineTag="yes", StateMachineQualifiers="live")
    for role in ("McpRole", "ReconcileRole"):
        for grant in grants(stack, role):
            if grant.kind == "state machines":
                assert grant.resource == f"{ARN}*"
                assert grant.condition["StringEquals"] == {"aws:ResourceTag/mcp-workflow-adapter": "yes"}
            elif grant.kind == "executions":
                assert grant.resource == f"{EXECUTION}*:mcp-*"
    start = next(g for g in grants(stack, "McpRole") if g.action == "states:StartExecution")
    assert start.condition["ForAnyValue:StringEquals"] == {"states:StateMachineQualifier": ["live"]}


def test_list_prefix_and_samples_add_up() -> None:
    stack = Stack(
        "template.yaml",
        StateMachineArns=f"{ARN}billing",
        StateMachineNamePrefix="prod-",
        SamplePipelines="true",
    )
    names = ["billing", "prod-*", "order-approval", "sales-report", "ledger-import", "nightly-export"]
    started = {g.resource for g in grants(stack, "McpRole") if g.action == "states:StartExecution"}
    followed = {g.resource for g in grants(stack, "McpRole") if g.action == "states:DescribeExecution"}
    assert started == {ARN + name for name in [*names, "customer-purge"]}
    assert followed == {f"{EXECUTION}{name}:mcp-*" for name in [*names, "customer-purge"]}


@pytest.mark.parametrize(
    ("parameter", "value", "action", "resource"),
    [
        ("ToolsObject", "bucket/a/tools.yaml", "s3:GetObject", "arn:aws:s3:::bucket/a/tools.yaml"),
        (
            "ToolsParameter",
            "/mcp/tools",
            "ssm:GetParameter",
            "arn:aws:ssm:eu-central-1:123456789012:parameter/mcp/tools",
        ),
    ],
)
def test_a_tools_file_elsewhere_can_be_read_and_nothing_beside_it(
    parameter: str, value: str, action: str, resource: str
) -> None:
    stack = Stack("template.yaml", StateMachineArns=f"{ARN}billing", **{parameter: value})
    for role in ("McpRole", "ReconcileRole"):
        read = [g for g in grants(stack, role) if g.kind == "tools file"]
        assert [(g.action, g.resource) for g in read] == [(action, resource)]


def test_twenty_state_machines_fit_into_policy_and_event_pattern() -> None:
    arns = ",".join(f"{ARN}state-machine-with-name-{n:02}" for n in range(20))
    stack = Stack("template.yaml", StateMachineArns=arns, StateMachineQualifiers="live")
    policy = stack.resource("ServerPolicy")["PolicyDocument"]
    pattern = stack.resource("ExecutionStatusRule")["EventPattern"]
    assert len(json.dumps(policy, separators=(",", ":"))) <= MANAGED_POLICY_CHARACTERS
    assert len(json.dumps(pattern, separators=(",", ":"))) <= EVENT_PATTERN_CHARACTERS


def test_roles_are_for_the_service_that_needs_them(samples: Stack) -> None:
    for name, role in samples.resources("AWS::IAM::Role").items():
        (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
        services = {"ApiGatewayLogRole": "apigateway"}
        expected = services.get(name, "states" if name.endswith("SampleRole") else "lambda")
        assert statement["Principal"] == {"Service": f"{expected}.amazonaws.com"}


def test_a_pipeline_may_only_write_questions_and_events_of_tasks(listed: Stack) -> None:
    (grant,) = document_grants(listed.resource("PipelineWritePolicy")["PolicyDocument"])
    assert (grant.action, grant.kind) == ("dynamodb:UpdateItem", "table")
    assert grant.condition["ForAllValues:StringLike"] == {"dynamodb:LeadingKeys": ["mcp-*"]}
    assert grant.condition["StringEqualsIfExists"] == {"dynamodb:ReturnValues": "NONE"}
    attributes = set(grant.condition["ForAllValues:StringEquals"]["dynamodb:Attributes"])
    question = {"token", "method", "params", "enteredAt", "timeoutSeconds"}
    event = {"kind", "message", "progress", "total", "level", "data"}
    assert attributes == {"pk", "sk"} | question | event


def test_the_policy_in_the_documents_is_the_one_of_the_stack(listed: Stack) -> None:
    text = (ROOT / "docs" / "workflows.md").read_text(encoding="utf-8")
    shown = next(
        block for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL) if "LeadingKeys" in block
    )
    (statement,) = json.loads(shown)["Statement"]
    (deployed,) = listed.resource("PipelineWritePolicy")["PolicyDocument"]["Statement"]
    assert statement["Condition"] == deployed["Condition"]
    assert statement["Action"] == deployed["Action"]


def test_a_pipeline_that_asks_through_the_function_may_invoke_it_and_nothing_else(listed: Stack) -> None:
    (grant,) = document_grants(listed.resource("PipelineAskPolicy")["PolicyDocument"])
    assert (grant.action, grant.resource) == ("lambda:InvokeFunction", "<RequestInput.Arn>")


def test_sample_pipelines_get_the_pipelines_policy_or_nothing(samples: Stack) -> None:
    assert samples.resource("WritingSampleRole")["ManagedPolicyArns"] == ["<PipelineWritePolicy>"]
    for role in ("WritingSampleRole", "PlainSampleRole"):
        assert "Policies" not in samples.resource(role)
    assert "ManagedPolicyArns" not in samples.resource("PlainSampleRole")
