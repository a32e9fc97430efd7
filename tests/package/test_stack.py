"""The rest of the template: functions, table, events, alarms, parameters and outputs."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import ARN
from .stack import ROOT, Stack, load

HANDLERS = {
    "Mcp": "lambdas.mcp.app.handler",
    "ExecutionStatus": "lambdas.execution_status.app.handler",
    "Reconcile": "lambdas.reconcile.app.handler",
    "RequestInput": "lambdas.request_input.app.handler",
}
OUTPUT_CHARACTERS = 1024


# --- functions ---------------------------------------------------------------------------------------------


def test_the_functions_run_on_arm_with_a_current_python(listed: Stack) -> None:
    shared = listed.template["Globals"]["Function"]
    assert (shared["Runtime"], shared["Architectures"]) == ("python3.13", ["arm64"])
    functions = listed.resources("AWS::Serverless::Function")
    assert {name: function["Handler"] for name, function in functions.items()} == HANDLERS
    assert not [name for name, function in functions.items() if {"Runtime", "Architectures"} & set(function)]


@pytest.mark.parametrize("name", HANDLERS)
def test_a_function_logs_json_to_a_group_with_retention(listed: Stack, name: str) -> None:
    assert listed.resource(name)["LoggingConfig"] == {"LogFormat": "JSON", "LogGroup": f"<{name}Logs>"}


def test_every_log_group_is_kept_as_long_as_asked() -> None:
    stack = Stack("template.yaml", StateMachineArns=f"{ARN}billing", LogRetentionDays="7")
    groups = stack.resources("AWS::Logs::LogGroup")
    assert set(groups) == {f"{name}Logs" for name in HANDLERS} | {"ApiAccessLogs"}
    assert {group["RetentionInDays"] for group in groups.values()} == {"7"}


@pytest.mark.parametrize("name", HANDLERS)
def test_a_function_is_built_by_the_makefile_from_the_root_of_the_repository(
    listed: Stack, name: str
) -> None:
    assert listed.template["Resources"][name]["Metadata"] == {
        "BuildMethod": "makefile",
        "WorkingDirectory": ".",
    }
    code = ROOT / listed.template["Globals"]["Function"]["CodeUri"]
    assert re.search(
        rf"^build-.*\bbuild-{name}\b|^build-{name}\b", (code / "Makefile").read_text(), re.MULTILINE
    )


@pytest.mark.parametrize("name", HANDLERS)
def test_a_function_is_told_only_what_it_reads(oauth: Stack, name: str) -> None:
    told = {
        variable
        for declared in (
            oauth.template["Globals"]["Function"],
            oauth.template["Resources"][name]["Properties"],
        )
        for variable in declared.get("Environment", {}).get("Variables", {})
    }
    assert "ADAPTER_TABLE" in told
    assert told <= _read_by(name)


def test_a_container_is_told_only_what_it_reads() -> None:
    task = load("infra/fargate.yaml")["Resources"]["TaskDefinition"]["Properties"]
    (container,) = task["ContainerDefinitions"]
    told = {entry["Name"] for entry in [*container["Environment"], *container["Secrets"]]}
    assert "ADAPTER_TABLE" in told
    assert told <= _variables("adapter/settings.py")


def test_no_setting_is_dead() -> None:
    sources = [path.read_text(encoding="utf-8") for path in _python("adapter", "lambdas")]
    fields = {*_fields("adapter/settings.py"), *_fields("lambdas/hosted.py")}
    assert "describe_rate" in fields
    read = {field for field in fields for text in sources if re.search(rf"\bsettings\.{field}\b", text)}
    assert read == fields


def _read_by(function: str) -> set[str]:
    """The variables that a function's code reads: with the settings, or by name."""
    folder = HANDLERS[function].split(".")[1]
    named = {"lambdas/table.py", *(str(path.relative_to(ROOT)) for path in _python(f"lambdas/{folder}"))}
    variables = {name for path in named for name in _named(path)}
    if function in ("Mcp", "Reconcile"):
        variables |= _variables("adapter/settings.py") | _variables("lambdas/hosted.py")
    # Only the endpoint has a key.
    return variables - (
        {f"ADAPTER_SIGNING_KEYS{end}" for end in ("", "_SECRET")} if function != "Mcp" else set()
    )


def _named(path: str) -> set[str]:
    return set(re.findall(r'"(ADAPTER_[A-Z_]+)"', (ROOT / path).read_text(encoding="utf-8")))


def _variables(path: str) -> set[str]:
    return {f"ADAPTER_{field.upper()}" for field in _fields(path)}


def _fields(path: str) -> Iterator[str]:
    """The fields of the settings classes, read from the source: this environment need not have pydantic."""
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name.endswith("Settings"):
            fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
            yield from (field.target.id for field in fields if isinstance(field.target, ast.Name))


def _python(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_the_tools_file_is_the_bundled_one_unless_another_is_named(listed: Stack) -> None:
    def source(**parameters: str) -> str | None:
        stack = Stack("template.yaml", StateMachineArns=f"{ARN}billing", **parameters)
        value: str | None = stack.resource("Mcp")["Environment"]["Variables"].get("ADAPTER_TOOLS_SOURCE")
        return value

    assert source() is None
    assert source(ToolsObject="bucket/tools.yaml") == "s3://bucket/tools.yaml"
    assert source(ToolsParameter="/mcp/tools") == "ssm:/mcp/tools"
    with pytest.raises(ValueError, match="not both"):
        source(ToolsObject="bucket/tools.yaml", ToolsParameter="/mcp/tools")


def test_the_signing_key_is_generated_and_only_named_to_the_function(listed: Stack) -> None:
    generated = listed.resource("SigningKey")["GenerateSecretString"]
    assert generated["PasswordLength"] >= 32
    assert generated["ExcludePunctuation"] is True
    assert "," in generated["ExcludeCharacters"], "a comma separates keys"
    assert (
        listed.resource("Mcp")["Environment"]["Variables"]["ADAPTER_SIGNING_KEYS_SECRET"] == "<SigningKey.Id>"
    )


# --- table -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("B-50")
def test_the_table_expires_items_and_indexes_open_tasks(listed: Stack) -> None:
    table = listed.resource("TaskTable")
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert [key["AttributeName"] for key in table["KeySchema"]] == ["pk", "sk"]
    (index,) = table["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "open-tasks"
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["openShard", "createdAt"]
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    types = {item["AttributeName"]: item["AttributeType"] for item in table["AttributeDefinitions"]}
    assert types == {"pk": "S", "sk": "S", "openShard": "N", "createdAt": "N"}


def test_the_table_is_encrypted_and_outlives_the_stack(listed: Stack) -> None:
    assert listed.resource("TaskTable")["SSESpecification"] == {"SSEEnabled": True}
    declared = listed.template["Resources"]["TaskTable"]
    assert (declared["DeletionPolicy"], declared["UpdateReplacePolicy"]) == ("Retain", "Retain")


@pytest.mark.parametrize("chosen", ["true", "false"])
def test_backups_and_deletion_protection_are_chosen(chosen: str) -> None:
    stack = Stack(
        "template.yaml",
        StateMachineArns=f"{ARN}billing",
        PointInTimeRecovery=chosen,
        DeletionProtection=chosen,
    )
    table = stack.resource("TaskTable")
    assert table["DeletionProtectionEnabled"] is (chosen == "true")
    assert table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is (chosen == "true")


# --- events ------------------------------------------------------------------------------------------------


def _pattern(stack: Stack) -> dict[str, Any]:
    pattern: dict[str, Any] = stack.resource("ExecutionStatusRule")["EventPattern"]
    return pattern


def test_only_ends_of_our_executions_of_exposed_state_machines_are_events(listed: Stack) -> None:
    pattern = _pattern(listed)
    assert pattern["source"] == ["aws.states"]
    assert pattern["detail-type"] == ["Step Functions Execution Status Change"]
    assert pattern["detail"] == {
        "status": ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"],
        "name": [{"prefix": "mcp-"}],
        "stateMachineArn": [f"{ARN}billing", f"{ARN}nightly-report"],
    }


@pytest.mark.parametrize(
    ("parameters", "prefix"),
    [
        ({"StateMachineNamePrefix": "prod-"}, "prod-"),
        ({"StateMachineTag": "yes"}, ""),
        ({"StateMachineNamePrefix": "prod-", "StateMachineTag": "yes"}, ""),
        ({"StateMachineNamePrefix": "prod-", "StateMachineArns": f"{ARN}billing"}, ""),
        ({"StateMachineTag": "yes", "SamplePipelines": "true"}, ""),
    ],
)
def test_state_machines_without_a_list_are_matched_by_prefix(parameters: dict[str, str], prefix: str) -> None:
    """Every exposed one is matched; where no prefix covers all of them, the execution's name has to do."""
    stack = Stack("template.yaml", **parameters)
    assert _pattern(stack)["detail"]["stateMachineArn"] == [{"prefix": ARN + prefix}]


def test_events_are_retried_and_kept_when_given_up(listed: Stack) -> None:
    (target,) = listed.resource("ExecutionStatusRule")["Targets"]
    assert target["Arn"] == "<ExecutionStatus.Arn>"
    assert target["RetryPolicy"]["MaximumRetryAttempts"] > 0
    assert target["DeadLetterConfig"] == {"Arn": "<StatusDeadLetters.Arn>"}
    retries = listed.resource("ExecutionStatusRetries")
    assert retries["MaximumRetryAttempts"] == 2
    assert retries["DestinationConfig"]["OnFailure"]["Destination"] == "<StatusDeadLetters.Arn>"


def test_only_this_rule_may_fill_the_dead_letter_queue_from_outside(listed: Stack) -> None:
    allow, deny = listed.resource("StatusDeadLettersPolicy")["PolicyDocument"]["Statement"]
    assert allow["Principal"] == {"Service": "events.amazonaws.com"}
    assert allow["Condition"] == {"ArnEquals": {"aws:SourceArn": "<ExecutionStatusRule.Arn>"}}
    assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert listed.resource("StatusDeadLetters")["SqsManagedSseEnabled"] is True


def test_reconciliation_runs_on_a_schedule_and_ends_before_the_next_run(listed: Stack) -> None:
    assert listed.resource("ReconcileRule")["ScheduleExpression"] == "rate(1 minute)"
    assert listed.resource("Reconcile")["Timeout"] < 60
    assert listed.resource("ReconcileRetries")["MaximumRetryAttempts"] == 0


@pytest.mark.parametrize("name", ["ExecutionStatus", "Reconcile"])
def test_a_rule_may_invoke_its_function_and_no_other_may(listed: Stack, name: str) -> None:
    permission = listed.resource(f"{name}Permission")
    assert permission["FunctionName"] == f"<{name}>"
    assert permission["Principal"] == "events.amazonaws.com"
    assert permission["SourceArn"] == f"<{name}Rule.Arn>"


# --- sample pipelines --------------------------------------------------------------------------------------


def test_sample_pipelines_are_off_by_default(listed: Stack) -> None:
    assert listed.resources("AWS::Serverless::StateMachine") == {}
    assert "SamplePipelines" not in _deploy_overrides("prod")
    assert "SamplePipelines=true" in _deploy_overrides("default")


def _deploy_overrides(environment: str) -> str:
    text = (ROOT / "samconfig.toml").read_text(encoding="utf-8")
    section = text.split(f"[{environment}.deploy.parameters]")[1].split("[")[0]
    match = re.search(r'^parameter_overrides = "(.*)"$', section, re.MULTILINE)
    assert match is not None
    return match[1]


def test_every_sample_is_deployed_under_the_name_that_the_tools_file_gives_it(samples: Stack) -> None:
    machines = samples.resources("AWS::Serverless::StateMachine").values()
    deployed = {machine["Name"]: machine["DefinitionUri"] for machine in machines}
    tools = (ROOT / "infra/pipelines/tools.yaml").read_text(encoding="utf-8")
    named = re.findall(r"^    state_machine: (\S+)\n    definition: (\S+)$", tools, re.MULTILINE)
    assert deployed == {name: f"infra/pipelines/{definition}" for name, definition in named}


def test_the_samples_get_the_substitutions_that_their_definitions_use(samples: Stack) -> None:
    for machine in samples.resources("AWS::Serverless::StateMachine").values():
        used = set(re.findall(r"\$\{(\w+)\}", (ROOT / machine["DefinitionUri"]).read_text(encoding="utf-8")))
        assert set(machine.get("DefinitionSubstitutions", {})) == used
        assert machine["Role"] == ("<WritingSampleRole.Arn>" if used else "<PlainSampleRole.Arn>")


# --- alarms ------------------------------------------------------------------------------------------------


def test_what_goes_wrong_raises_an_alarm(listed: Stack) -> None:
    alarms = listed.resources("AWS::CloudWatch::Alarm").values()
    watched = {(alarm["Namespace"], alarm["MetricName"], alarm["Dimensions"][0]["Value"]) for alarm in alarms}
    functions = {
        ("AWS/Lambda", metric, f"<{name}>") for name in HANDLERS for metric in ("Errors", "Throttles")
    }
    assert watched == functions | {
        ("AWS/Lambda", "Duration", "<Mcp>"),
        ("AWS/ApiGateway", "5XXError", "stack"),
        ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "<StatusDeadLetters.QueueName>"),
        ("McpWorkflowAdapter", "RefreshBacklog", "<TaskTable>"),
        ("McpWorkflowAdapter", "UnlistedStateMachines", "<TaskTable>"),
    }
    assert listed.resource("LatencyAlarm")["ExtendedStatistic"] == "p99"


def test_a_state_machine_that_no_run_can_list_raises_its_alarm_whatever_the_schedule(listed: Stack) -> None:
    """A single run may be the only one of its period."""
    alarm = listed.resource("UnlistedStateMachinesAlarm")
    assert (alarm["Statistic"], alarm["Threshold"], alarm["EvaluationPeriods"]) == ("Minimum", 0, 1)


def test_alarms_notify_the_topic_if_there_is_one(listed: Stack) -> None:
    topic = "arn:aws:sns:eu-central-1:123456789012:operators"
    notified = Stack("template.yaml", StateMachineArns=f"{ARN}billing", AlarmTopicArn=topic)
    for name, alarm in listed.resources("AWS::CloudWatch::Alarm").items():
        assert "AlarmActions" not in alarm
        assert notified.resource(name)["AlarmActions"] == [topic]
        assert alarm["AlarmDescription"]
        assert alarm["TreatMissingData"] == "notBreaching"


def test_the_dashboard_is_json_and_shows_every_function_and_every_metric_of_ours(listed: Stack) -> None:
    body = listed.resource("Dashboard")["DashboardBody"]
    assert json.loads(body)["widgets"]
    assert [name for name in HANDLERS if f'"<{name}>"' not in body] == []
    own = {
        alarm["MetricName"]
        for alarm in listed.resources("AWS::CloudWatch::Alarm").values()
        if alarm["Namespace"] == "McpWorkflowAdapter"
    }
    assert {name for name in own if f'"{name}"' in body} == own


# --- parameters and outputs --------------------------------------------------------------------------------


def test_something_has_to_be_exposed() -> None:
    with pytest.raises(ValueError, match="Name state machines"):
        Stack("template.yaml")


@pytest.mark.parametrize(
    "value",
    [
        f"{ARN}a:live",
        f"{ARN}a,",
        f"{ARN}a, {ARN}b",
        f"{ARN}*",
        ARN.replace("stateMachine", "execution") + "a:b",
    ],
)
def test_only_unqualified_arns_of_state_machines_are_listed(value: str) -> None:
    with pytest.raises(ValueError, match="StateMachineArns"):
        Stack("template.yaml", StateMachineArns=value)


@pytest.mark.parametrize("path", ["template.yaml", "infra/fargate.yaml"])
def test_every_parameter_is_in_a_group_once_and_explained(path: str) -> None:
    template = Stack(path, **({"SamplePipelines": "true"} if path == "template.yaml" else _FARGATE)).template
    interface = template["Metadata"]["AWS::CloudFormation::Interface"]
    grouped = [name for group in interface["ParameterGroups"] for name in group["Parameters"]]
    assert sorted(grouped) == sorted(template["Parameters"])
    assert set(interface.get("ParameterLabels", {})) <= set(template["Parameters"])
    unexplained = {name for name, p in template["Parameters"].items() if "Description" not in p}
    assert unexplained <= _PLAIN


_FARGATE = {"JwtIssuer": "https://login.example.com", "JwksEndpoint": "https://login.example.com/keys"}
_PLAIN = {
    *("RequestBurst", "LogRetentionDays", "CpuArchitecture", "Cpu", "Memory", "MinCount", "MaxCount"),
    *("VpcId", "Scheme"),
}
"""Parameters whose name says it all."""


def test_the_endpoint_is_told_with_and_without_a_public_url(listed: Stack, oauth: Stack) -> None:
    assert listed.output("Endpoint") == "https://<Api>.execute-api.eu-central-1.amazonaws.com/live/mcp"
    assert oauth.output("Endpoint") == "https://mcp.example.com/mcp"
    assert oauth.output("MetadataUrl") == "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
    with pytest.raises(KeyError):
        listed.output("MetadataUrl")


def test_what_others_build_on_is_an_output(listed: Stack) -> None:
    expected = {
        "TaskTableName": "<TaskTable>",
        "SigningKeyArn": "<SigningKey.Id>",
        "ServerPolicyArn": "<ServerPolicy>",
        "RequestInputArn": "<RequestInput.Arn>",
        "PipelineAskPolicyArn": "<PipelineAskPolicy>",
        "PipelineWritePolicyArn": "<PipelineWritePolicy>",
    }
    assert {name: listed.output(name) for name in expected} == expected


@pytest.mark.parametrize("name", ["AskSnippet", "ProgressSnippet"])
def test_a_snippet_is_a_state_to_paste_within_the_size_of_an_output(listed: Stack, name: str) -> None:
    snippet = listed.output(name)
    state = json.loads(snippet)
    assert state["Type"] == "Task"
    assert state["Next"] == ""
    longest_name = 170
    assert len(snippet) + longest_name <= OUTPUT_CHARACTERS


def test_the_asking_snippet_sends_what_the_function_takes(listed: Stack) -> None:
    state = json.loads(listed.output("AskSnippet"))
    assert state["Resource"] == "arn:aws:states:::lambda:invoke.waitForTaskToken"
    payload = state["Parameters"]["Payload"]
    assert {key.removesuffix(".$") for key in payload} <= {
        *("taskId", "token", "method", "params", "enteredAt", "timeoutSeconds")
    }
    assert payload["timeoutSeconds"] == state["TimeoutSeconds"]


def test_the_progress_snippet_writes_what_the_pipelines_policy_allows(listed: Stack) -> None:
    parameters = json.loads(listed.output("ProgressSnippet"))["Parameters"]
    policy = listed.resource("PipelineWritePolicy")["PolicyDocument"]["Statement"][0]
    allowed = policy["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
    assert set(parameters["ExpressionAttributeNames"].values()) | set(parameters["Key"]) <= set(allowed)
