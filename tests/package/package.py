"""The built package, and a build of the same for this machine: their sizes and how long the handlers take to import."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from .stack import ROOT, load

BUILT = ROOT / ".aws-sam" / "build"
NATIVE = ROOT / ".aws-sam" / "native"
REPORT = ROOT / ".aws-sam" / "package.json"
RUNS = 5
"""Imports are timed this often; the quickest counts, since nothing makes one quicker than it is."""

_TIMED = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
wall, cpu = time.perf_counter(), time.process_time()
__import__(sys.argv[2])
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall, len(sys.modules)]))
"""


@dataclass(frozen=True, slots=True)
class Import:
    """Seconds to import a handler's module in a fresh process, and how many modules it then has."""

    cpu: float
    wall: float
    modules: int


@dataclass(frozen=True, slots=True)
class Report:
    """Bytes of the package as shipped, and of its largest parts; import times on this machine."""

    unzipped: int
    zipped: int
    largest: dict[str, int]
    bytecode: bool
    python: str
    imports: dict[str, Import]


def handlers() -> dict[str, str]:
    """The module of every function's handler, by logical id."""
    resources = load("template.yaml")["Resources"]
    functions = {k: v["Properties"] for k, v in resources.items() if v["Type"] == "AWS::Serverless::Function"}
    return {name: properties["Handler"].rpartition(".")[0] for name, properties in functions.items()}


def build_native() -> None:
    """The same package for this machine's platform and the Python that runs this."""
    shutil.rmtree(NATIVE, ignore_errors=True)
    command = [sys.executable, str(ROOT / "infra/lambda/build.py"), str(NATIVE)]
    subprocess.run(
        command, env={**os.environ, "ADAPTER_BUILD": "native"}, check=True, stdout=subprocess.DEVNULL
    )


def size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def measure() -> Report:
    shipped = BUILT / "Mcp"
    parts = {path.name: size(path) if path.is_dir() else path.stat().st_size for path in shipped.iterdir()}
    return Report(
        unzipped=size(shipped),
        zipped=_zipped(shipped),
        largest=dict(sorted(parts.items(), key=lambda part: -part[1])[:6]),
        bytecode=any(shipped.rglob("*.pyc")),
        python=f"Python {platform.python_version()}",
        imports={name: _import(module) for name, module in handlers().items()},
    )


def isolated(code: str, *arguments: str) -> str:
    """What a script prints that sees the standard library and nothing that is installed."""
    environment = {"PATH": os.environ["PATH"], "ADAPTER_TABLE": "tasks", "AWS_DEFAULT_REGION": "eu-central-1"}
    command = [sys.executable, "-I", "-S", "-c", code, *arguments]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise AssertionError(finished.stderr)
    return finished.stdout


def _import(module: str) -> Import:
    timed = [json.loads(isolated(_TIMED, str(NATIVE), module)) for _ in range(RUNS)]
    return Import(min(t[0] for t in timed), min(t[1] for t in timed), timed[0][2])


def _zipped(directory: Path) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        return Path(shutil.make_archive(f"{scratch}/package", "zip", directory)).stat().st_size


def main() -> None:
    build_native()
    report = measure()
    REPORT.write_text(json.dumps(asdict(report), indent=2) + "\n")
    lines = [
        f"package: {report.unzipped / 1e6:.1f} MB, zipped {report.zipped / 1e6:.1f} MB, bytecode: {report.bytecode}",
        *(f"  {name:<16}{bytes_ / 1e6:6.1f} MB" for name, bytes_ in report.largest.items()),
        f"import on this machine, {report.python}, fresh process, quickest of {RUNS}:",
        *(
            f"  {n:<16}{i.cpu:6.2f} s CPU {i.wall:6.2f} s, {i.modules} modules"
            for n, i in report.imports.items()
        ),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
