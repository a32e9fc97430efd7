"""How long and how often AWS is asked, by every client of it."""

from __future__ import annotations

CONNECT_TIMEOUT = 2.0
READ_TIMEOUT = 5.0
"""Seconds, of one attempt."""
ATTEMPTS = 3
