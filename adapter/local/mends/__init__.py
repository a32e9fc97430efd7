"""Where moto's interpreter of state machines differs from AWS, mended (D14). For the child process only.

Each function that `replaces` one of moto 5.2.5 tells the reason in its docstring; `apply` changes moto.
"""

from __future__ import annotations

from . import api, endings, starts, states, tables, waits
from ._registry import apply

__all__ = ["api", "apply", "endings", "starts", "states", "tables", "waits"]
