"""What a function does not import, it need not wait for when it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

WEB = ["starlette", "uvicorn", "typer", "rich", "moto"]


@pytest.mark.parametrize(
    ("function", "spared"),
    [
        ("mcp", [*WEB, "boto3"]),
        ("reconcile", [*WEB, "boto3", "lambdas.mcp"]),
        ("execution_status", [*WEB, "boto3", "pydantic", "yaml", "adapter.mcp"]),
        ("request_input", [*WEB, "aiobotocore", "yaml"]),
    ],
)
def test_a_function_starts_without(function: str, spared: list[str]) -> None:
    script = f"import sys, lambdas.{function}.app; print([m for m in {spared} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
