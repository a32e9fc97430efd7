"""`adapter tour`: starts `adapter dev` and drives every kind of flow through it, telling what happens."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .client import FORMS, TASKS, connected
from .exits import CommandError, ExitCode
from .output import console, plain
from .tour_guide import Guide, Surprise
from .tour_steps import STEPS, Step

if TYPE_CHECKING:
    from rich.console import Console

_STEP_SECONDS = 30
_END_SECONDS = 10
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+\S*")


def run() -> ExitCode:
    """All steps in turn; OK only if each went as expected. Raises CommandError where `dev` does not start."""
    screen = console()
    screen.print("Starting `adapter dev` with the sample pipelines …", style="dim")
    started = time.monotonic()
    with _dev() as url:
        screen.print(f"It serves MCP at {url}\n")
        surprises = asyncio.run(_all_steps(url, screen))
    told = f"{surprises} of {len(STEPS)} steps went otherwise" if surprises else "All went as expected"
    screen.print(
        f"{told} ({time.monotonic() - started:.0f} s)", style="bold red" if surprises else "bold green"
    )
    return ExitCode.FAILED if surprises else ExitCode.OK


async def _all_steps(url: str, screen: Console) -> int:
    """How many steps had a surprise."""
    async with connected(url, {**TASKS, **FORMS}) as client, connected(url, FORMS) as simple:
        guide = Guide(client, simple, lambda text: _say(screen, text))
        outcomes = [await _one_step(number, step, guide, screen) for number, step in enumerate(STEPS, 1)]
    return outcomes.count(False)


async def _one_step(number: int, step: Step, guide: Guide, screen: Console) -> bool:
    screen.print(f"{number}. {step.title}", style="bold")
    try:
        async with asyncio.timeout(_STEP_SECONDS):
            await step.run(guide)
    except (Surprise, CommandError, KeyError) as surprise:
        _say(screen, f"not as expected: {surprise}\n", "red")
        return False
    except TimeoutError:
        _say(screen, f"not as expected: it took longer than {_STEP_SECONDS} s\n", "red")
        return False
    _say(screen, "as expected\n", "green")
    return True


def _say(screen: Console, text: str, style: str = "") -> None:
    from rich.padding import Padding
    from rich.text import Text

    screen.print(Padding(Text(plain(text), style), (0, 0, 0, 3), expand=False))


@contextmanager
def _dev() -> Iterator[str]:
    """`adapter dev` in a child that ends with this process; the URL of its endpoint."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "adapter.cli", "dev", "--port", "0", "--end-with-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = _ADDRESS.search(process.stdout.readline())
            if address is None:
                raise CommandError("`adapter dev` did not start", ExitCode(process.wait(_END_SECONDS)))
            yield address[0]
        finally:
            process.stdin.close()
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _environment() -> dict[str, str]:
    """Ours without what would lead `dev` to other tools, settings or AWS; it imports from where we do."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ADAPTER_", "AWS_"))}
    return {**kept, "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)}
