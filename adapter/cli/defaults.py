"""Defaults that commands share, and that their help shows without importing the commands."""

from __future__ import annotations

HOST = "127.0.0.1"
PORT = 8000
URL = f"http://{HOST}:{PORT}/mcp"
PATIENCE = 120.0
"""Seconds that `call` goes on trying to reach a server that it has lost."""
