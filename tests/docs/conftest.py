from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.aws import local_engine

from .reader import Reader


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Somebody in an empty directory, with credentials for an AWS that runs on this machine."""
    with Reader(tmp_path, local_engine().environment) as somebody:
        yield somebody
