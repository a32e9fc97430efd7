"""One deployment for all tests here: tasks have ids of their own, so they do not meet. Only `make e2e` runs them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from subprocess import CalledProcessError

import pytest
import pytest_asyncio

from tests.support.served import free_port

from .caller import Caller, SigV4, calling
from .deployment import Deployment, deploy_for_a_user
from .emulator import emulated

collect_ignore_glob = [] if "E2E_TEST" in os.environ else ["test_*.py"]


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("deployed")
    with (folder / "emulator.log").open("wb") as log, emulated(free_port(), log) as endpoint:
        try:
            deployment = deploy_for_a_user(endpoint, folder / "sam.log")
        except CalledProcessError:
            pytest.exit(f"sam deploy failed:\n{_tail(folder / 'sam.log')}", returncode=2)
        yield deployment


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])


@pytest_asyncio.fixture
async def ada(deployment: Deployment) -> AsyncIterator[Caller]:
    """Who may call the API."""
    async with calling(deployment.url, SigV4(deployment.caller("ada"))) as caller:
        yield caller


@pytest_asyncio.fixture
async def bob(deployment: Deployment) -> AsyncIterator[Caller]:
    """Somebody else who may."""
    async with calling(deployment.url, SigV4(deployment.caller("bob"))) as caller:
        yield caller
