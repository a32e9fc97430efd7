"""The child process of the local engine: `python -m adapter.local.server PORT`.

It tells its port (or why it cannot start) as one line of JSON on stdout, and ends when stdin closes.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

HOST = "127.0.0.1"
MOTO_VERSION = "5.2.5"
_EXTRA = "the local engine needs the extra: pip install 'mcp-workflow-adapter[local]'"


class _CannotStart(Exception):
    pass


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        server = _make_server(_listen(int(sys.argv[1])))
    except _CannotStart as refusal:
        _report({"error": str(refusal)})
        return
    _report({"port": server.port})
    server.serve_forever()


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


def _report(message: dict[str, object]) -> None:
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the parent has ended meanwhile
        os._exit(0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody reads the pipe after this line


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port), backlog=512)
    except OSError as error:
        raise _CannotStart(
            f"the local engine cannot use {HOST}:{port}: {os.strerror(error.errno or 0)}"
        ) from None


def _make_server(listener: socket.socket) -> BaseWSGIServer:
    logging.disable(logging.CRITICAL)
    port = listener.getsockname()[1]
    os.environ["MOTO_PORT"] = str(port)  # where the interpreter of state machines finds the other services
    _check_moto()
    from moto.core.config import default_user_config
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    from adapter.local import mends

    mends.apply()
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    default_user_config["lambda"] = {"use_docker": False}
    application = DomainDispatcherApplication(create_backend_app)
    return make_server(
        HOST, port, application, threaded=True, request_handler=MotoRequestHandler, fd=listener.fileno()
    )


def _check_moto() -> None:
    try:
        import moto

        if moto.__version__ != MOTO_VERSION:
            raise _CannotStart(
                f"the local engine is made for moto {MOTO_VERSION}, not {moto.__version__}; {_EXTRA}"
            )
        import moto.moto_server.werkzeug_app
        import moto.stepfunctions.parser.models
    except ImportError:
        raise _CannotStart(_EXTRA) from None


if __name__ == "__main__":
    main()
