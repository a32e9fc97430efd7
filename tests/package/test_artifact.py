"""What `sam build` made, and that the same made for this machine works. `make package-test` builds both before."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .package import BUILT, NATIVE, REPORT, Report, handlers, isolated
from .stack import ROOT

FUNCTIONS = sorted(handlers())
SHIPPED = BUILT / FUNCTIONS[0]

# Lambda takes 50 MB zipped by direct upload and 250 MB unzipped; what is unpacked delays a cold start.
MOST_ZIPPED = 25_000_000
MOST_UNZIPPED = 70_000_000
LONGEST_IMPORT = 1.5
"""Seconds of CPU, with room for a slow machine: several times what it takes on a quick one."""

AARCH64 = 183
TARGET = {
    "python_version": "3.13",
    "python_full_version": "3.13.0",
    "implementation_version": "3.13.0",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "aarch64",
    "platform_release": "",
    "platform_version": "",
    "os_name": "posix",
    "extra": "",
}
NAMED_OTHERWISE = {"yaml": "PyYAML"}
"""Distributions by what is imported of them."""


def _report() -> Report:
    return Report(**json.loads(REPORT.read_text()))


def _installed() -> dict[str, Distribution]:
    found = distributions(path=[str(SHIPPED)])
    return {canonicalize_name(distribution.metadata["Name"]): distribution for distribution in found}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_is_built_with_its_handler(function: str) -> None:
    assert (BUILT / function / handlers()[function].replace(".", "/")).with_suffix(".py").is_file()


def test_all_functions_are_one_package_which_is_uploaded_once() -> None:
    packages = [
        {p.relative_to(BUILT / name): p.stat().st_size for p in (BUILT / name).rglob("*") if p.is_file()}
        for name in FUNCTIONS
    ]
    assert all(package == packages[0] for package in packages)


def test_the_tools_file_is_at_the_root_of_the_package() -> None:
    own = ROOT / "tools.yaml"
    source = own if own.is_file() else ROOT / "infra/pipelines/tools.yaml"
    assert (SHIPPED / "tools.yaml").read_bytes() == source.read_bytes()


def test_native_code_is_for_the_functions_processor_and_python() -> None:
    libraries = [path for path in SHIPPED.rglob("*.so*") if path.is_file()]
    assert libraries
    for library in libraries:
        assert int.from_bytes(library.read_bytes()[18:20], "little") == AARCH64, library
        if match := re.search(r"\.cpython-(\d+)", library.name):
            assert match[1] == "313", library


def test_every_requirement_of_what_is_shipped_is_shipped() -> None:
    installed = _installed()
    for name, distribution in installed.items():
        for requirement in _requirements(distribution):
            wanted = canonicalize_name(requirement.name)
            assert wanted in installed, f"{name} needs {requirement}"
            assert requirement.specifier.contains(installed[wanted].version, prereleases=True), requirement


def test_nothing_is_shipped_that_nothing_needs() -> None:
    installed = _installed()
    needed: set[str] = set()
    found = _imported() & installed.keys()
    while found:
        needed |= found
        requirements = {r.name for name in found for r in _requirements(installed[name])}
        found = {*map(canonicalize_name, requirements)} - needed
    assert installed.keys() == needed


def _requirements(distribution: Distribution) -> list[Requirement]:
    """What it needs where the functions run."""
    found = [Requirement(text) for text in distribution.requires or []]
    return [each for each in found if each.marker is None or each.marker.evaluate(TARGET)]


def _imported() -> set[str]:
    """The distributions, as far as their names tell, that our own code imports."""
    sources = [path for package in ("adapter", "lambdas") for path in (SHIPPED / package).rglob("*.py")]
    nodes = [node for path in sources for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    names = {module.partition(".")[0] for module in modules}
    return {canonicalize_name(NAMED_OTHERWISE.get(name, name)) for name in names}


def test_versions_are_those_of_the_constraints() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    versions = {canonicalize_name(name): version for name, version in pinned.items()}
    installed = {name: distribution.version for name, distribution in _installed().items()}
    assert installed.items() <= versions.items()


def test_only_the_models_of_used_services_are_shipped() -> None:
    data = SHIPPED / "botocore/data"
    services = {path.name for path in data.iterdir() if path.is_dir()}
    assert services == {"dynamodb", "s3", "secretsmanager", "ssm", "stepfunctions", "sts"}
    assert {"endpoints.json", "partitions.json", "_retry.json"} <= {path.name for path in data.iterdir()}


def test_nothing_is_shipped_that_no_function_imports() -> None:
    assert not [name for name in ("cli", "http", "local", "stdio") if (SHIPPED / "adapter" / name).exists()]
    assert not [path for path in SHIPPED.rglob("*") if path.name in ("tests", "test", "bin", "examples")]
    assert not [path for path in SHIPPED.rglob("*") if path.suffix in (".pyi", ".pyx", ".c", ".h")]
    assert not (SHIPPED / "boto3/data").exists()


def test_licences_and_versions_stay_readable() -> None:
    for metadata in SHIPPED.glob("*.dist-info"):
        assert (metadata / "METADATA").is_file()
    licences = [path for path in SHIPPED.rglob("*") if path.name.upper().startswith(("LICEN", "COPYING"))]
    assert len(licences) >= len(_installed()) // 2


def test_bytecode_is_complete_and_needs_no_matching_times() -> None:
    compiled = list(SHIPPED.rglob("*.pyc"))
    if not compiled:
        pytest.skip("no Python 3.13 was found, so the package has no bytecode")
    assert {path.name.split(".")[-2] for path in compiled} == {"cpython-313"}
    flags = {int.from_bytes(path.read_bytes()[4:8], "little") for path in compiled}
    assert flags == {0b01}, "hash-based and unchecked"
    sources = [path for path in SHIPPED.rglob("*.py") if path.is_relative_to(SHIPPED / "adapter")]
    assert len(sources) == len([path for path in compiled if path.is_relative_to(SHIPPED / "adapter")])


def test_the_package_is_small() -> None:
    report = _report()
    assert report.zipped <= MOST_ZIPPED
    assert report.unzipped <= MOST_UNZIPPED


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_handler_imports_from_the_package_alone(function: str) -> None:
    code = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
print(callable(importlib.import_module(sys.argv[2]).handler), "moto" in sys.modules)
"""
    assert isolated(code, str(NATIVE), handlers()[function]).split() == ["True", "False"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_handler_imports_quickly(function: str) -> None:
    imports = json.loads(REPORT.read_text())["imports"]
    assert imports[function]["cpu"] <= LONGEST_IMPORT


def test_clients_of_every_kept_service_can_be_made_in_every_partition() -> None:
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import boto3
for region in ("eu-central-1", "cn-north-1", "us-gov-west-1"):
    session = boto3.Session(region_name=region, aws_access_key_id="x", aws_secret_access_key="x")
    for service in ("dynamodb", "s3", "secretsmanager", "ssm", "stepfunctions", "sts"):
        print(session.client(service).meta.endpoint_url)
"""
    endpoints = isolated(code, str(NATIVE)).split()
    assert len(endpoints) == 18
    assert all(url.startswith("https://") for url in endpoints)
    assert len([url for url in endpoints if url.endswith(".amazonaws.com.cn")]) == 6


def test_a_tools_file_that_does_not_exist_stops_the_build(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "infra/lambda/build.py"), str(tmp_path / "out")]
    environment = {**os.environ, "ADAPTER_TOOLS_FILE": str(tmp_path / "missing.yaml")}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode != 0
    assert "missing.yaml does not exist" in finished.stderr
    assert not (tmp_path / "out").exists()


def test_a_tools_file_of_ones_own_is_bundled(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("tools: []\n")
    command = [sys.executable, str(ROOT / "infra/lambda/build.py"), str(tmp_path / "out")]
    subprocess.run(command, env={**os.environ, "ADAPTER_TOOLS_FILE": str(own)}, check=True)
    assert (tmp_path / "out/tools.yaml").read_text() == "tools: []\n"
