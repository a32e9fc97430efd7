"""The runner of the real clients, without them: how it makes environments, drives, kills, judges and reports."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.node import Node, NodeError
from tests.support.served import ServerError

from . import driving, environments
from . import run as runner
from .clients import CLIENTS, FASTMCP4, INSPECTOR_LEGACY, SDK1, Client
from .driving import Told, Workshop
from .environments import EnvironmentFailed, make_environment
from .flows import FLOWS, Flow
from .matrix import Cell, dumped, judged, loaded, markdown, table

HERE = Path(__file__).resolve().parent
FLOW = {flow.name: flow for flow in FLOWS}
PLAIN, RECONNECT = FLOW["plain"], FLOW["reconnect"]
GREETED = {"text": "Hello, Ada!"}
NODE = Node("node", ("npm",))


# --- the tables -----------------------------------------------------------------------------------------


def test_every_exception_is_of_a_flow_that_there_is_and_every_n_a_has_its_proof() -> None:
    for client in CLIENTS:
        for told in (client.also, client.instead, client.notes, client.cannot, client.tools):
            assert told.keys() <= FLOW.keys(), client.name
        assert client.cannot.keys() <= client.instead.keys(), client.name


def test_every_client_has_its_pins_and_its_driver() -> None:
    assert len({client.name for client in CLIENTS}) == len(CLIENTS)
    for client in CLIENTS:
        assert list((environments.PINS / client.environment).iterdir()), client.name
        assert (environments.DRIVERS / client.driver).is_file(), client.name


def test_pins_are_exact_and_name_no_address() -> None:
    for path in environments.PINS.glob("*/*"):
        text = path.read_text(encoding="utf-8")
        assert "://" not in text, path
        if path.name == "package.json":
            pinned = json.loads(text)["dependencies"].values()
            assert all(version[0].isdigit() for version in pinned), path
        else:
            lines = [line for line in text.splitlines() if not line.startswith("#")]
            assert all(line.count("==") == 1 for line in lines), path


def test_the_tools_that_flows_use_are_served() -> None:
    served = yaml.safe_load((HERE / "tools.yaml").read_text(encoding="utf-8"))["tools"]
    names = {tool["name"] for tool in served}
    used = {flow.tool for flow in FLOWS} | {tool for client in CLIENTS for tool in client.tools.values()}
    assert used <= names
    assert list(FLOW["list"].legacy["tools"])[: len(served)] == [tool["name"] for tool in served]


# --- driving --------------------------------------------------------------------------------------------


Drive = Callable[..., Any]


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Drives a client whose driver is this script through a flow."""
    monkeypatch.setattr(driving, "DRIVERS", tmp_path)
    monkeypatch.setattr(driving, "_WHILE_FOLLOWING", 0.1)
    workshop = Workshop("http://127.0.0.1:1/mcp", NODE, tmp_path, tmp_path, tmp_path)

    async def driven(script: str, flow: Flow = PLAIN, client: Client = FASTMCP4) -> Told:
        preamble = "import json, os, sys, time\njob = json.loads(sys.argv[1])\n"
        tell = "def tell(**line): print(json.dumps(line), flush=True)\n"
        (tmp_path / "fake.py").write_text(preamble + tell + script)
        return await workshop.drive(replace(client, driver="fake.py"), flow)

    return driven


async def test_a_driver_gets_its_job_and_what_it_tells_is_taken(drive: Drive, tmp_path: Path) -> None:
    told = await drive("print('noise', flush=True)\ntell(seen=job)")
    assert told.seen == {
        "url": "http://127.0.0.1:1/mcp",
        "flow": "plain",
        "era": "auto",
        "tool": "greet",
        "seconds": 4,
        "timeout_ms": 2000,
        "environment": str(tmp_path / "fastmcp4"),
        "node": "node",
        "task": None,
    }


async def test_a_client_can_have_another_tool_for_a_flow(drive: Drive) -> None:
    told = await drive("tell(seen={'tool': job['tool']})", FLOW["task"], INSPECTOR_LEGACY)
    assert told.seen == {"tool": "compute_as_task"}


async def test_a_driver_runs_without_what_is_set_around_it(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    told = await drive("tell(seen={n: os.environ.get(n) for n in ('HOME', 'PYTHONPATH', 'HTTP_PROXY')})")
    assert told.seen == {"HOME": str(tmp_path), "PYTHONPATH": None, "HTTP_PROXY": None}


async def test_what_a_driver_writes_to_stderr_is_kept(drive: Drive, tmp_path: Path) -> None:
    await drive("sys.stderr.write('a warning')\ntell(seen={})")
    assert (tmp_path / "fastmcp4-plain-plain.log").read_text() == "a warning"


async def test_a_driver_that_ends_without_a_word_is_told_with_its_exit_code(drive: Drive) -> None:
    told = await drive("sys.exit(3)")
    assert "exit code 3" in told.broke


async def test_a_driver_that_does_not_end_is_ended(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "_DEADLINE_SECONDS", 0.5)
    told = await drive("tell(pids=[], seen=None)\ntime.sleep(60)")
    assert told.broke == "it did not end within 0.5 s"


LEFT_AND_RESUMED = """
if job["flow"] == "leave":
    tell(task="mcp-1")
    time.sleep(60)
tell(seen={"flow": job["flow"], "task": job["task"]})
"""


async def test_a_client_is_killed_amid_its_task_and_another_goes_on_by_the_id(drive: Drive) -> None:
    told = await drive(LEFT_AND_RESUMED, RECONNECT)
    assert told.seen == {"flow": "resume", "task": "mcp-1"}


HAS_A_DAEMON = """
if job["flow"] == "leave":
    daemon = os.fork()
    if daemon == 0:
        time.sleep(60)
    tell(pids=[daemon], task="mcp-1")
    os.waitpid(daemon, 0)
    tell(killed=True)
    time.sleep(60)
tell(seen={})
"""


async def test_processes_that_a_client_has_besides_are_killed_with_it(drive: Drive) -> None:
    assert (await drive(HAS_A_DAEMON, RECONNECT)).seen == {}


async def test_a_task_that_was_over_before_the_kill_proves_nothing(drive: Drive) -> None:
    told = await drive("tell(task='mcp-1')\ntell(seen={})\ntime.sleep(60)", RECONNECT)
    assert told.broke == "the task was over before its client was killed"


async def test_a_client_that_cannot_reconnect_shows_it_in_the_first_part(drive: Drive) -> None:
    told = await drive("tell(seen={'refused': job['flow']})", RECONNECT)
    assert told.seen == {"refused": "leave"}


# --- judging --------------------------------------------------------------------------------------------


def test_a_flow_passes_if_its_driver_saw_what_it_was_to_see() -> None:
    cell = judged(SDK1, PLAIN, Told(seen=GREETED), 1.0)
    assert (cell.verdict, cell.remark) == ("pass", "")
    assert str(cell) == "pass  sdk1              plain (1.0 s)"


@pytest.mark.parametrize("seen", [{}, {"text": "Hello"}, {**GREETED, "more": 1}])
def test_anything_else_fails_it_and_is_told(seen: Any) -> None:
    cell = judged(SDK1, PLAIN, Told(seen=seen), 1.0)
    assert cell.verdict == "FAIL"
    assert f"saw {json.dumps(seen)}" in str(cell)


@pytest.mark.parametrize("told", [Told(broke="no route"), Told()])
def test_a_driver_that_broke_or_saw_nothing_fails_its_flow(told: Told) -> None:
    cell = judged(SDK1, PLAIN, told, 1.0)
    assert (cell.verdict, cell.remark) == ("FAIL", told.broke or "its driver told nothing")


def test_ids_of_tasks_are_left_out_of_the_comparison() -> None:
    seen = {**SDK1.sees(FLOW["cancel"]), "helper": f"MCP error -32603: Task mcp-{'x' * 22} was cancelled"}
    assert judged(SDK1, FLOW["cancel"], Told(seen=seen), 1.0).verdict == "pass"


def test_n_a_needs_its_proof() -> None:
    proven = judged(INSPECTOR_LEGACY, FLOW["cancel"], Told(seen=INSPECTOR_LEGACY.sees(FLOW["cancel"])), 1.0)
    able = judged(INSPECTOR_LEGACY, FLOW["cancel"], Told(seen=FLOW["cancel"].legacy), 1.0)
    assert (proven.verdict, proven.remark) == ("n/a", "has no command to cancel")
    assert able.verdict == "FAIL"


CELLS = [
    Cell("sdk1", "plain", "pass", seconds=1.0),
    Cell("sdk1", "rpc_error", "pass", "a remark"),
    Cell("fastmcp4", "plain", "FAIL", "saw nothing"),
    Cell("fastmcp4", "rpc_error", "pass", "a remark"),
    Cell("inspector-legacy", "plain", "n/a", "a reason"),
]


def test_the_table_has_a_row_per_client_and_counts() -> None:
    head, *rows, empty, total = table(CELLS).splitlines()
    assert head.split() == ["plain", "rpc_error"]
    assert [row.split() for row in rows] == [
        ["sdk1", "pass", "pass"],
        ["fastmcp4", "FAIL", "pass"],
        ["inspector-legacy", "n/a"],
    ]
    assert (empty, total) == ("", "3 pass, 1 FAIL, 1 n/a")


def test_the_markdown_table_numbers_its_remarks_once() -> None:
    assert markdown(CELLS).splitlines() == [
        "| Client | Plain call | JSON-RPC error |",
        "|---|---|---|",
        f"| {SDK1.title} | yes | yes (1) |",
        f"| {FASTMCP4.title} | **no** | yes (1) |",
        f"| {INSPECTOR_LEGACY.title} | - (2) |  |",
        "",
        "1. a remark",
        "2. a reason",
    ]


def test_a_result_can_be_read_again() -> None:
    assert loaded(dumped(CELLS)) == CELLS


# --- environments ---------------------------------------------------------------------------------------


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pins" / "it"
    folder.mkdir(parents=True)
    monkeypatch.setattr(environments, "PINS", folder.parent)
    return folder


def npm(tmp_path: Path, body: str) -> Node:
    script = tmp_path / "npm.py"
    script.write_text(
        f"import pathlib, sys\nfolder = pathlib.Path(sys.argv[sys.argv.index('--prefix') + 1])\n{body}"
    )
    return Node("node", (sys.executable, str(script)))


COUNTS = """
for path in (folder / "made", pathlib.Path(sys.argv[0]).with_name("all")):
    path.open("a").write("x")
"""


def test_an_environment_is_made_once_and_again_for_other_pins(pins: Path, tmp_path: Path) -> None:
    node = npm(tmp_path, COUNTS)
    (pins / "package.json").write_text("{}")
    for _ in range(2):
        folder = make_environment("it", tmp_path, node)
    assert (tmp_path / "all").read_text() == "x"
    assert (folder / "package.json").read_text() == "{}"
    assert (folder / "sdk1.mjs").is_file(), "scripts find their packages only there"

    (pins / "package.json").write_text('{"dependencies": {}}')
    make_environment("it", tmp_path, node)
    assert (tmp_path / "all").read_text() == "xx"
    assert (folder / "made").read_text() == "x", "nothing of the old one is left"


def test_an_environment_that_could_not_be_made_is_made_the_next_time(pins: Path, tmp_path: Path) -> None:
    (pins / "package.json").write_text("{}")
    with pytest.raises(NodeError, match="no network"):
        make_environment("it", tmp_path, npm(tmp_path, "sys.exit('no network')"))
    make_environment("it", tmp_path, npm(tmp_path, COUNTS))
    assert (tmp_path / "all").read_text() == "x"


def test_why_an_environment_could_not_be_made_is_told(
    pins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pins / "requirements.txt").write_text("mcp==1.30.0\n")
    monkeypatch.setattr("sys.executable", "false")
    with pytest.raises(EnvironmentFailed, match=r"venv .* failed"):
        make_environment("it", tmp_path, NODE)


# --- the command ----------------------------------------------------------------------------------------


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Clients that see what they are to see; the pairs that were driven."""
    driven: list[tuple[str, str]] = []

    async def drive(_self: Workshop, client: Client, flow: Flow) -> Told:
        driven.append((client.name, flow.name))
        return Told(seen=client.sees(flow))

    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(runner, "make_environment", lambda _name, _below, _node: tmp_path)
    monkeypatch.setattr(runner, "find_node", lambda: NODE)
    monkeypatch.setattr(Workshop, "drive", drive)
    return driven


URL = ["--url", "http://127.0.0.1:1/mcp"]


def test_all_clients_go_through_all_flows_and_the_table_is_printed(
    stand_in: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main(URL) == 0
    assert len(set(stand_in)) == len(stand_in) == len(CLIENTS) * len(FLOWS)
    not_able = sum(len(client.cannot) for client in CLIENTS)
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == f"{len(stand_in) - not_able} pass, 0 FAIL, {not_able} n/a"


def test_named_clients_and_flows_are_chosen(stand_in: list[tuple[str, str]]) -> None:
    runner.main([*URL, "--client", "mcp1", "--flow", "list", "--flow", "cancel"])
    assert set(stand_in) == {("mcp1", "list"), ("mcp1", "cancel")}


@pytest.mark.usefixtures("stand_in")
def test_the_last_run_can_be_printed_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    runner.main([*URL, "--client", "mcp1", "--flow", "list"])
    capsys.readouterr()
    assert runner.main(["--markdown"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "| Client | List tools |"


@pytest.mark.usefixtures("stand_in")
def test_without_a_run_there_is_nothing_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["--markdown"]) == 2
    assert "nothing was run yet" in capsys.readouterr().err


@pytest.mark.usefixtures("stand_in")
def test_the_exit_code_tells_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_self: Workshop, _client: Client, _flow: Flow) -> Told:
        return Told(broke="no route")

    monkeypatch.setattr(Workshop, "drive", broken)
    assert runner.main([*URL, "--client", "mcp1", "--flow", "list"]) == 1


@pytest.mark.usefixtures("stand_in")
def test_the_exit_code_tells_a_server_or_an_environment_that_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failed(*_: object, **__: object) -> None:
        raise ServerError("no port")

    monkeypatch.setattr(runner, "served", failed)
    assert runner.main([]) == 2
    monkeypatch.setattr(
        runner, "make_environment", lambda *_: (_ for _ in ()).throw(EnvironmentFailed("no pip"))
    )
    assert runner.main([]) == 2
    assert capsys.readouterr().err == "no port\nno pip\n"
