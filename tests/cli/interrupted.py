"""`adapter …` that sends itself one signal: `python -m tests.cli.interrupted NUMBER MOMENT …`.

The moment is the first audit event whose name and first argument have these words in them, or one of the interpreter's
end: `atexit`, or `teardown` when modules are taken down and Python handles signals no more. The signal comes inside a
destructor, where Python prints and forgets whatever is raised.
"""

from __future__ import annotations

import atexit
import signal
import sys
from functools import partial
from typing import Any

from adapter.cli import main


class _Destroyed:
    def __init__(self, number: int) -> None:
        self._raise = partial(signal.raise_signal, number)

    def __del__(self) -> None:
        self._raise()


def _send(number: int, moment: str) -> None:
    ahead = [moment]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if ahead and ahead[0] in f"{event} {arguments[0] if arguments else ''}":
            ahead.clear()
            _Destroyed(number)

    sys.addaudithook(watch)


if __name__ == "__main__":
    if sys.argv[2] == "atexit":
        atexit.register(_Destroyed, int(sys.argv[1]))
    elif sys.argv[2] == "teardown":
        kept = _Destroyed(int(sys.argv[1]))
    else:
        _send(int(sys.argv[1]), sys.argv[2])
    del sys.argv[1:3]
    main()
