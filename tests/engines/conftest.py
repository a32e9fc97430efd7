from __future__ import annotations

import pytest

from adapter.aws import Aws
from adapter.engines.step_functions import StepFunctions
from tests.support.aws_fixtures import aws, faults, faulty_aws

__all__ = ["aws", "faults", "faulty_aws"]


@pytest.fixture
def engine(aws: Aws) -> StepFunctions:
    return StepFunctions(aws.stepfunctions)
