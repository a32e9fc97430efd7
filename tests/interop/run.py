"""Drives real clients through `adapter dev`: `python -m tests.interop.run`.

Exit code 0: every cell of the table passed, or is n/a with its proof; 1: something failed; 2: an environment or the
server could not be made.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.node import Node, NodeError, find_node
from tests.support.served import ServerError, dev_server, free_port, served

from .clients import CLIENTS, Client
from .driving import Workshop
from .environments import EnvironmentFailed, make_environment
from .flows import FLOWS, Flow
from .matrix import Cell, dumped, judged, loaded, markdown, table

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".interop"
RESULTS = HERE / "results"
SETTINGS = {"ADAPTER_LEGACY_HOLD": "1"}
"""So that a blocking `tasks/result` is left off and resumed several times within one task."""

Pair = tuple[Client, Flow]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        if options.markdown:
            _say(markdown(loaded((RESULTS / "matrix.json").read_text())))
            return 0
        cells = _run(_chosen(options.client, options.flow), options.url, options.jobs)
    except FileNotFoundError:
        sys.stderr.write("nothing was run yet\n")
        return 2
    except (NodeError, EnvironmentFailed, ServerError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    _say(f"\n{table(cells)}")
    return 0 if cells and all(cell.verdict != "FAIL" for cell in cells) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.run", description=__doc__)
    parser.add_argument("--client", action="append", choices=[c.name for c in CLIENTS], help="default: all")
    parser.add_argument("--flow", action="append", choices=[f.name for f in FLOWS], help="default: all")
    parser.add_argument("--url", help="endpoint of a server that runs already and serves tools.yaml")
    parser.add_argument("--jobs", type=int, default=3, help="clients at the same time (default 3)")
    parser.add_argument(
        "--markdown", action="store_true", help="print the table of the last run as Markdown, and run nothing"
    )
    return parser.parse_args(arguments)


def _chosen(clients: Sequence[str] | None, flows: Sequence[str] | None) -> list[Pair]:
    return [
        (client, flow)
        for client in CLIENTS
        if not clients or client.name in clients
        for flow in FLOWS
        if not flows or flow.name in flows
    ]


def _run(pairs: Sequence[Pair], url: str | None, jobs: int) -> list[Cell]:
    node = find_node()
    _make_environments((client for client, _ in pairs), node, jobs)
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        if url is None:
            port = free_port()
            command = dev_server(HERE / "tools.yaml", port)
            url = stack.enter_context(served(command, port, RESULTS / "server.log", settings=SETTINGS))
        home = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="interop-", ignore_cleanup_errors=True))
        )
        workshop = Workshop(url, node, CACHE, RESULTS, home)
        cells = asyncio.run(_drive_all(workshop, pairs, jobs))
    (RESULTS / "matrix.json").write_text(dumped(cells))
    return cells


def _make_environments(clients: Iterable[Client], node: Node, jobs: int) -> None:
    names = dict.fromkeys(client.environment for client in clients)
    with ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(lambda name: make_environment(name, CACHE, node), names):
            pass


async def _drive_all(workshop: Workshop, pairs: Sequence[Pair], jobs: int) -> list[Cell]:
    slots = asyncio.Semaphore(jobs)

    async def one(client: Client, flow: Flow) -> Cell:
        async with slots:
            started = time.monotonic()
            told = await workshop.drive(client, flow)
        cell = judged(client, flow, told, time.monotonic() - started)
        _say(str(cell))
        return cell

    return await asyncio.gather(*(one(client, flow) for client, flow in pairs))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server is ended then, too
    sys.exit(main())
