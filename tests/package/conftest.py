"""`make test` runs what reads files; `make package-test` also what needs the built package or installs it."""

from __future__ import annotations

import os

import pytest

from .stack import Stack

collect_ignore = [] if "PACKAGE_TEST" in os.environ else ["test_artifact.py", "test_container.py"]

ARN = "arn:aws:states:eu-central-1:123456789012:stateMachine:"
POOL = "arn:aws:cognito-idp:eu-west-1:123456789012:userpool/eu-west-1_AbCdEf"


@pytest.fixture
def listed() -> Stack:
    """Two state machines by ARN; everything else as by default."""
    return Stack("template.yaml", StateMachineArns=f"{ARN}billing,{ARN}nightly-report")


@pytest.fixture
def oauth() -> Stack:
    return Stack(
        "template.yaml",
        StateMachineArns=f"{ARN}billing",
        AuthMode="OAuth",
        CognitoUserPoolArn=POOL,
        OAuthScopes="mcp/tasks,mcp/admin",
        PublicUrl="https://mcp.example.com",
    )


@pytest.fixture
def anonymous() -> Stack:
    return Stack(
        "template.yaml", StateMachineArns=f"{ARN}billing", AuthMode="None", AllowUnauthenticated="true"
    )


@pytest.fixture
def samples() -> Stack:
    return Stack("template.yaml", SamplePipelines="true")
