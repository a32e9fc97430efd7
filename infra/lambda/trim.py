"""Removes from installed packages what a Lambda function never reads."""

from __future__ import annotations

import shutil
from pathlib import Path

AWS_SERVICES = frozenset({"dynamodb", "s3", "secretsmanager", "ssm", "stepfunctions", "sts"})
"""The services whose clients some function makes; `botocore` ships the models of all of AWS."""

# `endpoints.json`, `partitions.json` and the retry settings lie beside the services and stay.
_SERVICE_DATA = "botocore/data"
_UNREAD = ("boto3/data", "boto3/examples", "bin")
_UNREAD_NAMES = frozenset({"__pycache__", "tests", "test"})
_UNREAD_SUFFIXES = frozenset({".pyi", ".pyx", ".pxd", ".pxi", ".c", ".h", ".typed"})
# METADATA stays for scanners that tell which versions a package holds, and the licences for everybody.
_KEPT_METADATA = frozenset({"METADATA", "licenses", "entry_points.txt"})


def trim(site: Path) -> None:
    """Trim a directory that `pip install --target` filled."""
    for service in (site / _SERVICE_DATA).iterdir():
        if service.is_dir() and service.name not in AWS_SERVICES:
            shutil.rmtree(service)
    for path in _UNREAD:
        shutil.rmtree(site / path, ignore_errors=True)
    for examples in (site / _SERVICE_DATA).rglob("examples-1.json*"):
        examples.unlink()
    for directory in [path for path in site.rglob("*") if path.is_dir() and path.name in _UNREAD_NAMES]:
        shutil.rmtree(directory, ignore_errors=True)
    for file in [path for path in site.rglob("*") if path.suffix in _UNREAD_SUFFIXES and path.is_file()]:
        file.unlink()
    for metadata in site.glob("*.dist-info"):
        _trim_metadata(metadata)


def _trim_metadata(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.name in _KEPT_METADATA or entry.name.upper().startswith(("LICEN", "NOTICE", "COPYING")):
            continue
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
