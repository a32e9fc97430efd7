from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .memory_server import MemoryServer


@pytest.fixture(scope="package")
def running_server() -> Iterator[MemoryServer]:
    memory_server = MemoryServer()
    memory_server.start()
    yield memory_server
    memory_server.close()


@pytest.fixture
def server(running_server: MemoryServer) -> MemoryServer:
    """A server that has done nothing yet."""
    running_server.reset()
    return running_server


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's own AWS or adapter settings, and a wide screen without colours."""
    for name in list(os.environ):
        if name.startswith(("ADAPTER_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
