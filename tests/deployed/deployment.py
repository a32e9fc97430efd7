"""`sam deploy` of the template to the emulator, and what the emulator's CloudFormation leaves out."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import boto3
import yaml

from tests.package.stack import Stack

from .emulator import ACCOUNT, REGION, ROOT, ROOT_USER

SAM = ROOT / ".venv-package" / "bin" / "sam"
BUILT = ROOT / ".aws-sam" / "e2e"
"""`make e2e` builds it: for this machine, on which the emulator runs functions."""
STACK = "mcp-workflow-adapter"
"""As samconfig.toml says."""
OWN = "own-approval"
OWN_ARN = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{OWN}"
BUCKET = "e2e-tools"
PARAMETERS = {
    "SamplePipelines": "true",
    "DeletionProtection": "false",
    "StateMachineArns": OWN_ARN,
    "ToolsObject": f"{BUCKET}/tools.yaml",
}
QUESTION = "Go on?"
"""Of the stack's AskSnippet."""

OWN_TOOL = {
    "name": "own_approval",
    "description": "Asks, and tells the answer.",
    "state_machine": OWN_ARN,
    "timeout": "2h",
    "poll_interval": "1s",
}


@dataclass(frozen=True)
class Account:
    """An AWS account, seen by who holds these credentials."""

    endpoint: str
    key: str
    secret: str
    token: str | None = None

    def client(self, service: str) -> Any:
        return _client(self, service)

    @property
    def environment(self) -> dict[str, str]:
        """Of a process that acts as this one."""
        keys = {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}
        token = {"AWS_SESSION_TOKEN": self.token} if self.token else {}
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": REGION, **keys, **token}


@cache
def _client(account: Account, service: str) -> Any:
    """Of one session for all, which reads the models of services once."""
    session: Any = _session()
    return session.client(
        service,
        region_name=REGION,
        endpoint_url=account.endpoint,
        aws_access_key_id=account.key,
        aws_secret_access_key=account.secret,
        aws_session_token=account.token,
    )


@cache
def _session() -> boto3.Session:
    return boto3.Session()


@dataclass(frozen=True)
class Deployment:
    """A deployed stack."""

    endpoint: str
    """Of the emulator."""
    stack: str
    parameters: Mapping[str, str]

    @cached_property
    def administrator(self) -> Account:
        return Account(self.endpoint, ROOT_USER["AWS_ACCESS_KEY_ID"], ROOT_USER["AWS_SECRET_ACCESS_KEY"])

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        (stack,) = self.administrator.client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    @cached_property
    def resources(self) -> Mapping[str, str]:
        """Physical ids by logical ones."""
        reply = self.administrator.client("cloudformation").describe_stack_resources(StackName=self.stack)
        return {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in reply["StackResources"]}

    @property
    def table(self) -> str:
        return self.outputs["TaskTableName"]

    @property
    def url(self) -> str:
        """Of the MCP endpoint, by the path at which the emulator serves APIs: no name has to be resolved."""
        return f"{self.base}/mcp"

    @property
    def base(self) -> str:
        return f"{self.endpoint}/_aws/execute-api/{self.resources['Api']}/live"

    @property
    def template(self) -> Stack:
        """The template for these parameters."""
        return Stack("template.yaml", **self.parameters)

    def caller(self, name: str, session: str = "e2e") -> Account:
        """A session of a role that may invoke the API, as the output InvokeArn says."""
        return self.assumed(name, session, allow("execute-api:Invoke", self.outputs["InvokeArn"]))

    def assumed(self, name: str, session: str = "e2e", *statements: Mapping[str, Any]) -> Account:
        """A session of a role with these permissions, made on first use."""
        iam = self.administrator.client("iam")
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=_document(_MAY_ASSUME))
        if statements:
            iam.put_role_policy(RoleName=name, PolicyName="e2e", PolicyDocument=_document(*statements))
        return self._session(name, session)

    def role(self, logical_id: str) -> Account:
        """A session of a role of the stack. Its permissions stay as deployed; it only may be assumed by us too."""
        iam, name = self.administrator.client("iam"), self.resources.get(logical_id, logical_id)
        trusted = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
        if _MAY_ASSUME not in trusted["Statement"]:
            trusted["Statement"].append(_MAY_ASSUME)
            iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(trusted))
        return self._session(name, "e2e")

    def _session(self, role: str, session: str) -> Account:
        sts = self.administrator.client("sts")
        given = sts.assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT}:role/{role}", RoleSessionName=session)
        keys = given["Credentials"]
        return Account(self.endpoint, keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])

    def status(self, machine: str, task_id: str) -> str:
        """Of a task's execution, as Step Functions tells it past the adapter; `machine` is its ARN."""
        arn = f"{machine.replace(':stateMachine:', ':execution:')}:{task_id}"
        client = self.administrator.client("stepfunctions")
        return str(client.describe_execution(executionArn=arn)["status"])


def deploy_for_a_user(endpoint: str, log: Path) -> Deployment:
    """With the sample pipelines and a state machine of the user's own, which asks through the `request_input` function.

    The tools file lies in S3. Raises CalledProcessError.
    """
    deployment = Deployment(endpoint, STACK, PARAMETERS)
    _put_tools(deployment)
    deploy(deployment, log)
    _create_own_machine(deployment)
    return deployment


def deploy(deployment: Deployment, log: Path) -> None:
    """Raises CalledProcessError."""
    command = [str(SAM), "deploy", "--config-file", str(ROOT / "samconfig.toml"), "--no-confirm-changeset"]
    command += ["--template-file", str(BUILT / "template.yaml"), "--stack-name", deployment.stack]
    command += [
        "--parameter-overrides",
        *(f"{name}={value}" for name, value in deployment.parameters.items()),
    ]
    settings = {"SAM_CLI_TELEMETRY": "0", "SAM_CLI_POLL_DELAY": "1"}
    environment = {**os.environ, **ROOT_USER, **settings, "AWS_ENDPOINT_URL": deployment.endpoint}
    with log.open("wb") as output:
        subprocess.run(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, check=True
        )
    _complete(deployment)


def _put_tools(deployment: Deployment) -> None:
    tools = yaml.safe_load((ROOT / "infra/pipelines/tools.yaml").read_text(encoding="utf-8"))
    tools["tools"].append(OWN_TOOL)
    s3 = deployment.administrator.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="tools.yaml", Body=yaml.safe_dump(tools).encode())


def _complete(deployment: Deployment) -> None:
    """What CloudFormation would have done and the emulator's leaves out."""
    _enable_time_to_live(deployment)
    _put_gateway_responses(deployment)


def _enable_time_to_live(deployment: Deployment) -> None:
    """Of a table it ignores TimeToLiveSpecification."""
    deployment.administrator.client("dynamodb").update_time_to_live(
        TableName=deployment.table,
        TimeToLiveSpecification=deployment.template.resource("TaskTable")["TimeToLiveSpecification"],
    )


def _put_gateway_responses(deployment: Deployment) -> None:
    """Of an OpenAPI document it ignores x-amazon-apigateway-gateway-responses."""
    gateway, api = deployment.administrator.client("apigateway"), deployment.resources["Api"]
    document = deployment.template.resource("Api")["DefinitionBody"]
    for kind, response in document["x-amazon-apigateway-gateway-responses"].items():
        status = {"statusCode": response["statusCode"]} if "statusCode" in response else {}
        gateway.put_gateway_response(
            restApiId=api,
            responseType=kind,
            responseParameters=response.get("responseParameters", {}),
            responseTemplates=response["responseTemplates"],
            **status,
        )
    gateway.create_deployment(restApiId=api, stageName="live")


def _create_own_machine(deployment: Deployment) -> None:
    """The state of the stack's AskSnippet, pasted as its description says, with a role that has its policy."""
    iam = deployment.administrator.client("iam")
    trusted = {
        "Effect": "Allow",
        "Principal": {"Service": "states.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    role = iam.create_role(RoleName=OWN, AssumeRolePolicyDocument=_document(trusted))
    iam.attach_role_policy(RoleName=OWN, PolicyArn=deployment.outputs["PipelineAskPolicyArn"])
    asking = {**json.loads(deployment.outputs["AskSnippet"]), "Next": "Done"}
    states = {"Ask": asking, "Done": {"Type": "Succeed", "OutputPath": "$.answer"}}
    deployment.administrator.client("stepfunctions").create_state_machine(
        name=OWN, definition=json.dumps({"StartAt": "Ask", "States": states}), roleArn=role["Role"]["Arn"]
    )


_MAY_ASSUME = {
    "Effect": "Allow",
    "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
    "Action": "sts:AssumeRole",
}


def allow(actions: str | list[str], resources: str | list[str]) -> dict[str, Any]:
    """A statement of a policy."""
    return {"Effect": "Allow", "Action": actions, "Resource": resources}


def _document(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
