"""What a cold start pays: the import of the server, beside that of the libraries that it cannot do without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from bench.processes import SERVER_CORE, pin
from bench.registry import Figure, measure, of_rounds, ratio_of_rounds

ROUNDS = 15
OF_LIBRARIES = 1.3

SERVER = "import adapter.main, adapter.http.app"
LIBRARIES = """
import starlette.applications, aiobotocore.session, pydantic
class Model(pydantic.BaseModel):
    name: str
"""
_TIMED = """
import time
cpu, wall = time.process_time_ns(), time.perf_counter_ns()
{statements}
print((time.process_time_ns() - cpu) / 1e6, (time.perf_counter_ns() - wall) / 1e6)
"""


@measure("import")
def imports() -> Iterator[Figure]:
    """CPU and wall time in fresh interpreters, in turn; files are in the page cache, as compiled bytecode."""
    _milliseconds(SERVER), _milliseconds(LIBRARIES)
    pairs = [(_milliseconds(SERVER), _milliseconds(LIBRARIES)) for _ in range(ROUNDS)]
    for index, what in enumerate(("CPU", "time")):
        ours, libraries = [one[index] for one, _ in pairs], [other[index] for _, other in pairs]
        yield ratio_of_rounds(f"import: {what} / libraries alone", ours, libraries, OF_LIBRARIES)
        yield of_rounds(f"import: server {what}, ms", ours)
        yield of_rounds(f"import: libraries {what}, ms", libraries)


def _milliseconds(statements: str) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", _TIMED.format(statements=statements)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: pin(SERVER_CORE),
    )
    cpu, wall = done.stdout.split()
    return float(cpu), float(wall)
