from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from botocore.session import Session

from adapter.errors import ConfigurationError
from adapter.local.engine import LocalAws

EXTRA = "pip install 'mcp-workflow-adapter[local]'"
OWN_PYTHON = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)}


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalAws]:
    """One that was started by a user with AWS settings of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_PROFILE", "nobody")
        patch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        aws = LocalAws.start()
    with aws:
        yield aws


def serves(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def await_that(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def table_names(aws: LocalAws) -> list[str]:
    session = Session()
    client = session.create_client(
        "dynamodb",
        region_name=aws.environment["AWS_DEFAULT_REGION"],
        endpoint_url=aws.environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=aws.environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=aws.environment["AWS_SECRET_ACCESS_KEY"],
    )
    try:
        return list(client.list_tables()["TableNames"])
    finally:
        client.close()


def stub_moto(folder: Path, source: str, patch: pytest.MonkeyPatch) -> None:
    """Put another `moto` before the installed one, here and in the child."""
    (folder / "moto").mkdir()
    (folder / "moto" / "__init__.py").write_text(source)
    patch.syspath_prepend(folder)


def test_it_serves_on_loopback_until_it_is_closed() -> None:
    with LocalAws.start() as aws:
        assert aws.endpoint == f"http://127.0.0.1:{aws.port}"
        assert table_names(aws) == []
    assert not serves(aws.port)
    aws.close()


def test_it_ends_with_its_parent_even_when_that_is_killed() -> None:
    script = "from adapter.local.engine import LocalAws; print(LocalAws.start().port, flush=True); input()"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=OWN_PYTHON) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        assert serves(port)
        parent.kill()
        await_that(lambda: not serves(port))


def test_it_ends_with_a_parent_that_dies_while_it_starts() -> None:
    command = [sys.executable, "-m", "adapter.local.server", "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=OWN_PYTHON) as child:
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(60) == 0


def test_ctrl_c_in_the_terminal_does_not_reach_it(engine: LocalAws) -> None:
    assert os.getsid(engine.pid) != os.getsid(0)
    os.kill(engine.pid, signal.SIGINT)
    assert table_names(engine) == []


def test_the_users_aws_settings_do_not_reach_it(engine: LocalAws) -> None:
    variables = Path(f"/proc/{engine.pid}/environ").read_bytes().split(b"\0")
    names = {variable.partition(b"=")[0] for variable in variables}
    assert not names & {b"AWS_PROFILE", b"HTTP_PROXY"}


def test_clients_are_told_to_use_no_proxy_for_it(engine: LocalAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "example.com")
    assert engine.environment["NO_PROXY"] == "example.com,127.0.0.1"


def test_a_port_in_use_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            ConfigurationError, match=rf"^the local engine cannot use 127.0.0.1:{port}: .+in use$"
        ):
            LocalAws.start(port=port)


def test_a_missing_extra_is_told_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub_moto(tmp_path, "raise ImportError", monkeypatch)
    with pytest.raises(ConfigurationError) as caught:
        LocalAws.start()
    assert str(caught.value) == f"the local engine needs the extra: {EXTRA}"


def test_another_version_of_moto_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub_moto(tmp_path, "__version__ = '1.0'", monkeypatch)
    with pytest.raises(ConfigurationError, match=r"not 1\.0"):
        LocalAws.start()


def test_a_child_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub_moto(tmp_path, "import os; os._exit(3)", monkeypatch)
    with pytest.raises(ConfigurationError, match="ended at once"):
        LocalAws.start()


def test_a_child_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub_moto(tmp_path, "import threading; threading.Event().wait()", monkeypatch)
    with pytest.raises(ConfigurationError, match=r"did not start within 0\.5 s"):
        LocalAws.start(timeout=0.5)


def test_a_child_that_ignores_its_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapter.local.engine._EXIT_SECONDS", 0.0)
    command = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    LocalAws(child, port=1).close()
    assert child.returncode == -signal.SIGKILL


def test_importing_the_local_engine_does_not_import_moto() -> None:
    modules = "adapter.local.engine, adapter.local.deploy, adapter.local.samples"
    script = "import sys, " + modules + "; print('moto' in sys.modules)"
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, env=OWN_PYTHON, capture_output=True, check=True).stdout == b"False\n"
