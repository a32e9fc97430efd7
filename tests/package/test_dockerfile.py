"""The Dockerfile, as far as it can be judged without a container engine."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest

from .dockerfile import exec_form, problems, stages
from .stack import ROOT, load

PATH = ROOT / "infra/container/Dockerfile"
TEXT = PATH.read_text(encoding="utf-8")


def test_the_dockerfile_has_no_problem() -> None:
    assert problems(TEXT) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (r"^FROM.*AS build$", "FROM python:latest AS build", "not pinned"),
        (r"-slim-bookworm$", "-alpine", "differ in their base"),
        (r"^USER .*$", "USER root", "other than root"),
        (r"^USER .*$", "USER adapter", "other than root"),
        (r"^USER .*$", "", "other than root"),
        (r"^HEALTHCHECK.*\n.*$", "", "HEALTHCHECK"),
        (r"^    CMD .*$", "    CMD curl localhost", "HEALTHCHECK"),
        (r"^ENTRYPOINT .*$", "ENTRYPOINT adapter serve", "exec form"),
        (r"^COPY adapter/ adapter/$", "ADD adapter/ adapter/", "ADD"),
        (r"^COPY adapter/ adapter/$", "COPY . .", "whatever lies about"),
        (r"^ARG TOOLS_FILE.*$", "ARG SIGNING_KEY=x", "secret"),
        (r"PYTHONDONTWRITEBYTECODE=1", "A=1", "read-only"),
        (r"^EXPOSE .*$", "RUN apt-get update", "RUN in the last stage"),
        (r"^EXPOSE .*$", "VOLUME /data", "writable"),
        (r"(?s)^FROM.*?(?=^FROM)", "", "one stage only"),
    ],
)
def test_a_problem_would_be_found(old: str, new: str, problem: str) -> None:
    broken, changed = re.subn(old, new, TEXT, count=1, flags=re.MULTILINE)
    assert changed == 1
    assert any(problem in found for found in problems(broken))


def test_the_image_serves_on_the_documented_port_and_checks_itself_there() -> None:
    image = stages(TEXT)[-1]
    assert exec_form(image.values("ENTRYPOINT")[0]) == [
        *("adapter", "serve", "--host", "0.0.0.0", "--port", "8000"),
    ]
    assert image.values("EXPOSE") == ["8000"]
    assert "127.0.0.1:8000/healthz" in image.values("HEALTHCHECK")[0]


def test_fargate_checks_the_container_as_the_image_does() -> None:
    (container,) = load("infra/fargate.yaml")["Resources"]["TaskDefinition"]["Properties"][
        "ContainerDefinitions"
    ]
    image = stages(TEXT)[-1]
    check = exec_form(image.values("HEALTHCHECK")[0].partition("CMD")[2])
    assert check is not None
    kind, *command = container["HealthCheck"]["Command"]
    assert kind == "CMD"
    assert [word.replace('"', "'") for word in command] == check
    assert f"{container['User']}:{container['User']}" == image.values("USER")[-1]
    assert container["PortMappings"][0]["ContainerPort"] == int(image.values("EXPOSE")[0])


def test_image_and_functions_run_the_same_python() -> None:
    runtime = load("template.yaml")["Globals"]["Function"]["Runtime"]
    assert {runtime} == {re.sub(r":(\d+\.\d+)\..*", r"\1", stage.image) for stage in stages(TEXT)}


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    ignored = PATH.with_name("Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    kept = [line.removeprefix("!").rstrip("/") for line in ignored if line.startswith("!")]
    for stage in stages(TEXT):
        for value in stage.values("COPY"):
            *sources, _target = value.split()
            if sources[0].startswith(("--from", "${")):
                continue
            for source in sources:
                assert (ROOT / source).exists(), source
                assert any(fnmatch(source.rstrip("/"), f"{pattern}*") for pattern in kept), source


def test_by_default_everything_is_ignored() -> None:
    lines = PATH.with_name("Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert next(line for line in lines if not line.startswith("#")) == "*"
