"""Removing what a function never reads."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from .stack import ROOT


@pytest.fixture
def trim() -> ModuleType:
    spec = importlib.util.spec_from_file_location("trim", ROOT / "infra/lambda/trim.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _files(site: Path) -> set[str]:
    return {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}


def _site(tmp_path: Path, *files: str) -> Path:
    for file in ("botocore/data/endpoints.json", *files):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def test_models_of_unused_services_go_and_what_all_share_stays(tmp_path: Path, trim: ModuleType) -> None:
    kept = {
        "botocore/data/endpoints.json",
        "botocore/data/partitions.json",
        "botocore/data/dynamodb/2012-08-10/service-2.json.gz",
        "botocore/data/dynamodb/2012-08-10/endpoint-rule-set-1.json.gz",
    }
    site = _site(
        tmp_path,
        *kept,
        "botocore/data/ec2/2016-11-15/service-2.json.gz",
        "botocore/data/dynamodb/2012-08-10/examples-1.json",
        "boto3/data/ec2/2016-11-15/resources-1.json",
    )
    trim.trim(site)
    assert _files(site) == kept


def test_tests_stubs_sources_and_commands_go_and_modules_stay(tmp_path: Path, trim: ModuleType) -> None:
    kept = {"botocore/data/endpoints.json", "pkg/module.py", "pkg/fast.cpython-313-aarch64-linux-gnu.so"}
    gone = ("pkg/tests/test_module.py", "pkg/module.pyi", "pkg/fast.pyx", "pkg/fast.c", "bin/command")
    site = _site(tmp_path, *kept, *gone, "pkg/__pycache__/module.cpython-311.pyc", "pkg/py.typed")
    trim.trim(site)
    assert _files(site) == kept


def test_of_metadata_what_names_version_and_licence_stays(tmp_path: Path, trim: ModuleType) -> None:
    kept = {
        "botocore/data/endpoints.json",
        *(f"a-1.dist-info/{name}" for name in ("METADATA", "licenses/LICENSE.txt", "LICENSE", "NOTICE")),
    }
    gone = (f"a-1.dist-info/{name}" for name in ("RECORD", "WHEEL", "INSTALLER", "REQUESTED", "sboms/a.json"))
    site = _site(tmp_path, *kept, *gone)
    trim.trim(site)
    assert _files(site) == kept
