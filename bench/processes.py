"""Processes of a measurement: pinned to cores, measured from outside, gone when the measurement is."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE = _CORES[0]
LOAD_CORE = _CORES[-1]

_STOP_SECONDS = 10.0
_PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Child:
    """A server process that listens on a port of 127.0.0.1."""

    pid: int
    port: int

    def cpu_seconds(self) -> float:
        """CPU time that all its threads have used, in user and kernel mode."""
        return time.clock_gettime_ns(_cpu_clock_of(self.pid)) / 1e9

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE


@contextmanager
def server(module: str, *arguments: str, core: int = SERVER_CORE) -> Iterator[Child]:
    """Runs `module`, which writes the port it listens on as its first line and ends when its stdin does."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: pin(core),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{module} {' '.join(arguments)} did not start")
        yield Child(process.pid, int(line))
    finally:
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def pinned(core: int) -> Iterator[Executor]:
    """One worker process on one core; what it runs must be importable."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=pin, initargs=(core,)) as executor:
        yield executor


def pin(core: int) -> None:
    os.sched_setaffinity(0, {core})


def allow_open_files(count: int) -> None:
    """Raises the soft limit of file descriptors as far as the hard limit allows. Raises RuntimeError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise RuntimeError(f"{count} open files are needed, and the hard limit is {hard} (ulimit -Hn)")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _cpu_clock_of(pid: int) -> int:
    """The Linux clock id of a process's CPU time, as clock_getcpuclockid(3) makes it."""
    return (~pid << 3) | 2
