"""Signed values that a client carries for us: request states, cursors (D13). Readable, but not forgeable."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson


class BadSignature(Exception):
    """Not made by us for this purpose, or changed on the way."""


class Signer:
    """Signs with the first key and verifies with every key, so that keys can be rotated."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("a signer needs at least one key")
        self._keys = tuple(keys)

    def sign(self, purpose: str, payload: Mapping[str, Any]) -> str:
        """`payload` as an opaque URL-safe string, valid for `purpose` only."""
        body = urlsafe_b64encode(orjson.dumps(payload)).rstrip(b"=")
        return f"{body.decode()}.{_mac(self._keys[0], purpose, body)}"

    def mark(self, purpose: str, text: str) -> str:
        """A short value that stands for `text` without telling it."""
        return _marked(self._keys[0], purpose, text)

    def is_mark(self, purpose: str, text: str, mark: object) -> bool:
        """Whether `mark` was made from this text, with any of the keys."""
        return any(mark == _marked(key, purpose, text) for key in self._keys)

    def verify(self, purpose: str, text: str) -> dict[str, Any]:
        """The payload. Raises BadSignature."""
        body, _, given = text.partition(".")
        raw = body.encode()
        if not any(
            hmac.compare_digest(_mac(key, purpose, raw).encode(), given.encode()) for key in self._keys
        ):
            raise BadSignature
        try:
            payload = orjson.loads(urlsafe_b64decode(raw + b"=" * (-len(raw) % 4)))
        except (Base64Error, orjson.JSONDecodeError):
            raise BadSignature from None
        if not isinstance(payload, dict):
            raise BadSignature
        return payload


def _marked(key: bytes, purpose: str, text: str) -> str:
    return _mac(key, f"mark {purpose}", text.encode())[:16]


def _mac(key: bytes, purpose: str, body: bytes) -> str:
    digest = hmac.digest(key, purpose.encode() + b"\0" + body, sha256)
    return urlsafe_b64encode(digest[:24]).decode()
