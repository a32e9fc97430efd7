"""Runs the official conformance suite against `adapter dev`: `python -m tests.conformance.run`.

Exit code 0: everything passed; 1: something failed; 2: the suite or the server could not be started.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.node import NodeError
from tests.support.served import ServerError, dev_server, free_port, served

from .results import Verdict, summary
from .scenarios import SCENARIOS, SERVED, Run, chosen, unaccounted
from .suite import Suite, SuiteError

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".node"
RESULTS = HERE / "results"
SETTINGS = {"ADAPTER_LEGACY_HOLD": "2.2"}
"""`server-sse-polling` wants a stream closed within its three seconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    runs = chosen(options.version or SERVED, options.scenario)
    try:
        verdicts = _run(runs, options.url, options.jobs)
    except (NodeError, SuiteError, ServerError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    _say(summary(verdicts))
    return 0 if verdicts and all(verdict.passed for verdict in verdicts) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    versions = sorted({version for scenario in SCENARIOS for version in scenario.versions})
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description=__doc__)
    parser.add_argument("scenario", nargs="*", help="default: all")
    parser.add_argument("--version", action="append", choices=versions, help=f"default: {', '.join(SERVED)}")
    parser.add_argument("--url", help="endpoint of a server that runs already and serves tools.yaml")
    parser.add_argument("--jobs", type=int, default=3, help="scenarios at the same time (default 3)")
    options = parser.parse_args(arguments)
    unknown = set(options.scenario) - {scenario.name for scenario in SCENARIOS}
    if unknown:
        parser.error(f"not in the table of scenarios: {', '.join(sorted(unknown))}")
    return options


def _run(runs: Sequence[Run], url: str | None, jobs: int) -> list[Verdict]:
    suite = Suite.install(CACHE)
    differences = unaccounted(suite.listing())
    if differences:
        raise SuiteError("the table of scenarios does not fit the suite:\n" + "\n".join(differences))
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        if url is None:
            port = free_port()
            command = dev_server(HERE / "tools.yaml", port)
            url = stack.enter_context(served(command, port, RESULTS / "server.log", settings=SETTINGS))
        return asyncio.run(_run_all(suite, url, runs, jobs))


async def _run_all(suite: Suite, url: str, runs: Sequence[Run], jobs: int) -> list[Verdict]:
    slots = asyncio.Semaphore(jobs)

    async def one(run: Run) -> Verdict:
        async with slots:
            verdict = await suite.run(url, run, RESULTS / run.version / run.scenario.name)
        _say(str(verdict))
        return verdict

    together = [run for run in runs if not run.scenario.alone]
    verdicts = await asyncio.gather(*(one(run) for run in together))
    return verdicts + [await one(run) for run in runs if run.scenario.alone]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server is ended then, too
    sys.exit(main())
