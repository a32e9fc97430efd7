"""Errors as a user meets them: one line and an exit code, never a trace unless asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec

import typer

from adapter.errors import AdapterError

from .exits import CommandError, ExitCode
from .output import plain

debug: ContextVar[bool] = ContextVar("debug", default=False)
"""Set by `adapter --debug`: errors keep their trace."""

_P = ParamSpec("_P")


def guarded(command: Callable[_P, None]) -> Callable[_P, None]:
    """A command whose errors end it as described above."""

    @wraps(command)
    def guarded_command(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, BrokenPipeError):
            raise
        except Exception as error:  # whatever it is, a user gets one line and an exit code
            if debug.get():
                raise
            typer.echo(f"adapter: {plain(_told(error))}", err=True)
            raise typer.Exit(_code(error)) from None

    return guarded_command


def _code(error: Exception) -> ExitCode:
    if isinstance(error, CommandError):
        return error.code
    return ExitCode.USAGE if isinstance(error, AdapterError) else ExitCode.FAILED


def _told(error: Exception) -> str:
    if not isinstance(error, AdapterError):
        text = f"unexpected {type(error).__name__}: {error}"
        return f"{_one_line(text)} (run `adapter --debug …` to see where)"
    text, cause = str(error), error.__cause__
    if cause is not None and str(cause) not in text:
        text = f"{text}: {cause}"
    return _one_line(text)


def _one_line(text: str) -> str:
    return " ".join(text.split())
