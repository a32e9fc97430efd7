"""Builds the package of the Lambda functions: dependencies, `adapter`, `lambdas` and the tools file.

    python infra/lambda/build.py DIRECTORY

Wheels are fetched for the functions' platform, whatever this machine is, so no container is needed. See the Makefile
beside this file for the variables.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import trim

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".aws-sam" / "dependencies"

PYTHON_VERSION = (3, 13)
"""As `Runtime` in template.yaml."""
# The runtime is Amazon Linux 2023 with glibc 2.34, so wheels for 2.28 do as well as the older manylinux2014 ones.
PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_28_aarch64")

NOT_SHIPPED = ("cli", "http", "local", "stdio", "__main__.py")
"""Parts of `adapter` that no function imports and whose dependencies are not shipped."""


@dataclass(frozen=True, slots=True)
class Build:
    """For the functions' platform, or `native`: for this machine. `compiler` makes bytecode, if there is one."""

    native: bool
    compiler: str | None

    @property
    def cache_key(self) -> str:
        inputs = [HERE / "requirements.txt", ROOT / "constraints.txt", HERE / "trim.py", HERE / "build.py"]
        digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in inputs))
        digest.update(repr((self, sys.version_info[:2], sys.platform)).encode())
        return digest.hexdigest()[:16]


def main() -> None:
    target = Path(sys.argv[1]).resolve()
    native = os.environ.get("ADAPTER_BUILD") == "native"
    build = Build(native, sys.executable if native else _runtime_python())
    tools = _tools_file()
    shutil.copytree(_dependencies(build), target, dirs_exist_ok=True)
    _copy_own_code(target)
    _compile(build, target, target / "adapter", target / "lambdas")
    shutil.copyfile(tools, target / "tools.yaml")
    print(f"tools file: {tools}")  # noqa: T201
    if build.compiler is None:
        print(  # noqa: T201
            "No Python 3.13 was found, so there is no bytecode: cold starts take about 0.8 s longer "
            "(PYTHON=/path/to/python3.13 names one)"
        )


def _tools_file() -> Path:
    """The file to bundle; the functions read it unless the stack is told of another."""
    if chosen := os.environ.get("ADAPTER_TOOLS_FILE"):
        path = Path(chosen).resolve()
        if not path.is_file():
            sys.exit(f"ADAPTER_TOOLS_FILE: {path} does not exist")
        return path
    own = ROOT / "tools.yaml"
    return own if own.is_file() else ROOT / "infra" / "pipelines" / "tools.yaml"


def _dependencies(build: Build) -> Path:
    """Installed, trimmed and compiled once per set of versions and platform."""
    cached = CACHE / build.cache_key
    if cached.is_dir():
        return cached
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        fresh = Path(scratch) / "site"
        _install(build, fresh)
        trim.trim(fresh)
        _compile(build, fresh, fresh)
        try:
            fresh.rename(cached)
        except OSError:  # `sam build --parallel`: another function's build was quicker
            if not cached.is_dir():
                raise
    return cached


def _install(build: Build, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--root-user-action=ignore", "--target", str(target)]
    command += ["--no-deps", "--no-compile", "--only-binary=:all:"]
    if not build.native:
        command += ["--implementation=cp", f"--python-version={PYTHON_VERSION[0]}.{PYTHON_VERSION[1]}"]
        command += [f"--platform={platform}" for platform in PLATFORMS]
    command += ["-r", str(HERE / "requirements.txt"), "-c", str(ROOT / "constraints.txt")]
    if subprocess.run(command, check=False).returncode:  # noqa: S603 - our own words
        sys.exit("the dependencies could not be installed (see above)")


def _copy_own_code(target: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("adapter", "lambdas"):
        shutil.copytree(ROOT / package, target / package, ignore=ignored, dirs_exist_ok=True)
    for name in NOT_SHIPPED:
        part = target / "adapter" / name
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


def _compile(build: Build, root: Path, *directories: Path) -> None:
    """Bytecode, which the runtime cannot keep: /var/task is read-only, so every cold start would compile anew.

    Unchecked, since unpacking changes the times that checked bytecode depends on.
    """
    if build.compiler is None:
        return
    command = [build.compiler, "-m", "compileall", "-q", "-j", "0", "-s", str(root), "-p", "/var/task"]
    command += ["--invalidation-mode", "unchecked-hash", *map(str, directories)]
    subprocess.run(command, check=True)  # noqa: S603 - our own words


def _runtime_python() -> str | None:
    if sys.version_info[:2] == PYTHON_VERSION:
        return sys.executable
    found = shutil.which("python{}.{}".format(*PYTHON_VERSION))
    # A version manager's shim is found whether or not there is something behind it.
    return found if found is not None and _starts(found) else None


def _starts(python: str) -> bool:
    command = [python, "-c", "import compileall"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603 - our own words


if __name__ == "__main__":
    main()
