"""The container's own steps and entry point, as plain processes: no container engine is needed.

The commands come from the Dockerfile. Where this machine lets root make a mount namespace, the process sees a read-only
file system, runs as the image's user and has no capabilities; elsewhere the test does as much of that as it may.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from .dockerfile import Stage, exec_form, stages
from .stack import ROOT

BUILD, IMAGE = stages((ROOT / "infra/container/Dockerfile").read_text(encoding="utf-8"))
PREFIX = "/opt/adapter"
USER = IMAGE.values("USER")[-1].partition(":")[0]
PATIENCE = 30.0

# Bind-remounting leaves /dev/shm writable, as `docker run --read-only` does.
_READ_ONLY = 'mount --make-rprivate / && mount -o remount,bind,ro / && exec "$@"'
_CONFINED = [
    *("unshare", "--mount", "--", "sh", "-c", _READ_ONLY, "sh"),
    *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
    *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--"),
]

TOOLS = """
tools:
  - name: nightly_report
    description: Builds the report.
    state_machine: arn:aws:states:eu-central-1:123456789012:stateMachine:nightly-report
    input_schema: {type: object}
"""


@dataclass(frozen=True, slots=True)
class Root:
    """Where the image's files are: its directories lie below `path`."""

    path: Path

    def environment(self, **more: str) -> dict[str, str]:
        """The image's ENV, its paths moved below `path`, and nothing of this process."""
        environment = {"PATH": os.defpath}
        for value in IMAGE.values("ENV"):
            for assignment in value.split():
                name, _, text = assignment.partition("=")
                environment[name] = self.moved(text).replace("$PATH", environment["PATH"])
        return {**environment, "AWS_DEFAULT_REGION": "eu-central-1", **more}

    def moved(self, text: str) -> str:
        return text.replace(PREFIX, f"{self.path}{PREFIX}").replace(
            "/etc/adapter", f"{self.path}/etc/adapter"
        )

    @property
    def directory(self) -> Path:
        return Path(self.moved(IMAGE.values("WORKDIR")[-1]))


@pytest.fixture(scope="module")
def root() -> Iterator[Root]:
    """The image's files, made by the Dockerfile's RUN and COPY instructions."""
    with tempfile.TemporaryDirectory(prefix="image-") as path:
        Path(path).chmod(0o755)  # the image's user has to get in
        made = Root(Path(path))
        _build(made)
        made.directory.mkdir(parents=True)
        (made.directory / "tools.yaml").write_text(TOOLS)
        made.directory.chmod(0o555)
        yield made
        made.directory.chmod(0o755)


def _build(root: Root) -> None:
    source = root.path / "src"
    _copy_sources(BUILD, source)
    for command in BUILD.values("RUN"):
        words = root.moved(command).replace("python -m venv", f"{sys.executable} -m venv")
        subprocess.run(words, shell=True, cwd=source, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(source)


def _copy_sources(stage: Stage, target: Path) -> None:
    for value in stage.values("COPY"):
        *sources, destination = value.split()
        for name in sources:
            place = target / destination / (Path(name).name if destination == "./" else "")
            place.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(ROOT / name, place)


@pytest.fixture(scope="module")
def confinement() -> list[str]:
    """What goes before a command so that it runs as in the container; empty where this machine does not allow it."""
    able = os.geteuid() == 0 and all(map(shutil.which, ("unshare", "setpriv")))
    return _CONFINED if able and _succeeds([*_CONFINED, "true"]) else []


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@dataclass(frozen=True, slots=True)
class Served:
    """The running entry point."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    def get(self, path: str) -> tuple[int, bytes]:
        return self._fetch(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}"))

    def post(self, message: dict[str, object]) -> tuple[int, bytes]:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        url = f"http://127.0.0.1:{self.port}/mcp"
        return self._fetch(urllib.request.Request(url, json.dumps(message).encode(), headers))

    @staticmethod
    def _fetch(request: urllib.request.Request) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()


@pytest.fixture(scope="module")
def served(root: Root, confinement: list[str]) -> Iterator[Served]:
    with _running(root, confinement) as running:
        yield running


@contextmanager
def _running(root: Root, confinement: list[str]) -> Iterator[Served]:
    port = _free_port()
    keys = {"ADAPTER_SIGNING_KEYS": "k" * 40, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    log = root.path / f"log-{port}"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*confinement, *_entry_point(root, port)],
            cwd=root.directory,
            env=root.environment(**keys),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    running = Served(process, port, log)
    try:
        _wait_until_healthy(running)
        yield running
    finally:
        process.kill()
        process.wait(PATIENCE)


def _entry_point(root: Root, port: int) -> list[str]:
    """The image's, but on loopback and a free port; everything else is as in the container."""
    words = exec_form(IMAGE.values("ENTRYPOINT")[0])
    assert words is not None
    replaced = {"0.0.0.0": "127.0.0.1", "8000": str(port), "adapter": f"{root.path}{PREFIX}/bin/adapter"}
    return [replaced.get(word, word) for word in words]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_until_healthy(running: Served) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert running.process.poll() is None, running.log.read_text()
        try:
            if running.get("/healthz") == (200, b"ok"):
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"not healthy within {PATIENCE} s: {running.log.read_text()}")


def test_the_confinement_really_is_one(root: Root, confinement: list[str]) -> None:
    if not confinement:
        pytest.skip("this machine lets nobody make a read-only mount namespace")
    for place in (root.path, root.directory, Path("/"), Path(tempfile.gettempdir())):
        assert not _succeeds([*confinement, "touch", str(place / "written")])
    told = subprocess.run([*confinement, "id", "-u"], check=True, capture_output=True, text=True).stdout
    assert told.strip() == USER


def test_the_entry_point_is_installed_without_what_installs(root: Root) -> None:
    python = f"{root.path}{PREFIX}/bin/python"
    assert (root.path / PREFIX[1:] / "bin/adapter").is_file()
    assert not _succeeds([python, "-c", "import pip"])
    assert not _succeeds([python, "-c", "import moto"])


def test_the_endpoint_answers_at_the_documented_path(served: Served) -> None:
    status, body = served.post(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        }
    )
    assert status == 200
    assert json.loads(body)["result"]["serverInfo"]["name"] == "mcp-workflow-adapter"


def test_the_health_check_of_the_image_passes_where_it_runs(
    root: Root, confinement: list[str], served: Served
) -> None:
    words = exec_form(IMAGE.values("HEALTHCHECK")[0].partition("CMD")[2])
    assert words is not None
    words[0] = f"{root.path}{PREFIX}/bin/python"
    healthy = [word.replace(":8000/", f":{served.port}/") for word in words]
    broken = [word.replace(":8000/healthz", f":{served.port}/nothing") for word in words]
    assert _succeeds([*confinement, *healthy])
    assert not _succeeds([*confinement, *broken])


def test_the_server_runs_as_the_images_user(served: Served, confinement: list[str]) -> None:
    if not confinement:
        pytest.skip("this machine does not let the test change its user")
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    told = dict(line.split(":", 1) for line in status.splitlines())
    assert set(told["Uid"].split()) == {USER}
    assert int(told["CapEff"], 16) == 0


def test_sigterm_ends_the_server_quietly(root: Root, confinement: list[str]) -> None:
    with _running(root, confinement) as running:
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE) == 0
        assert "Traceback" not in running.log.read_text()
