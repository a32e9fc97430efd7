"""DynamoDB: each call is atomic."""

from __future__ import annotations

import threading

from moto.core.common_types import TYPE_RESPONSE
from moto.dynamodb.responses import DynamoHandler

from ._registry import replaces

_calling = threading.Lock()
_call_action = DynamoHandler.call_action


@replaces(DynamoHandler, "call_action")
def call_action(handler: DynamoHandler) -> TYPE_RESPONSE:
    """Two updates of one item at the same time could both read before either wrote: one was lost."""
    with _calling:
        reply: TYPE_RESPONSE = _call_action(handler)
    return reply
