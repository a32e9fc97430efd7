"""Questions sent to legacy clients as requests, and the answers that come back as separate messages (D10).

A request's id says, signed, what it asks: the answer carries nothing else, and any process may receive it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

import orjson

from adapter.errors import InvalidAnswer, StoreUnavailable, TaskNotFound
from adapter.tasks.clock import Clock
from adapter.tasks.model import Task
from adapter.tasks.questions import MAX_ANSWER_BYTES
from adapter.tasks.service import TaskService

from .jsonrpc import INTERNAL_ERROR, JsonObject, RpcError
from .legacy_shapes import V_2025_06_18, related
from .session import Session
from .signing import BadSignature, Signer
from .task_shapes import input_request

logger = logging.getLogger(__name__)

ASK_SECONDS = 3600
_TASK = "task-question"
_BEFORE = "question-before-start"


class Offers:
    """Makes requests from questions, and takes the answers."""

    def __init__(self, service: TaskService, signer: Signer, clock: Clock) -> None:
        self._service = service
        self._signer = signer
        self._clock = clock

    async def of_task(self, task: Task, session: Session, *, related_task: bool = True) -> list[bytes]:
        """The open questions that this session has not been sent, as requests. Without a session: none, since
        nobody knows what its client can take.

        `related_task`: whether they name the task. A client that made a plain call knows of none (L-44).
        """
        if session.nonce is None:
            return []
        requests = self._that_it_takes(task, session)
        offered = await self._service.offer(task, requests, session.nonce) if requests else []
        task_id = task.record.task_id
        meta = related(task_id) if related_task else {}
        about = {"task": task_id, "session": session.nonce}
        return [
            _request(self._identifier(_TASK, {**about, "key": q.key}), requests[q.key], session, meta)
            for q in offered
        ]

    async def introduce(self, task: Task, session: Session) -> bool:
        """Whether this session has now seen, for the first time, questions that are older than it is.

        Who comes back to a task asks for its status before it is ready for requests about it; a client in use answers
        `cancel` by itself to what comes that early. So they are for its next look.
        """
        if session.nonce is None:
            return False
        older = {
            question.key
            for question in task.open_questions(self._clock())
            if question.asked_at < session.begun_at and session.nonce not in question.offers
        }
        older &= self._that_it_takes(task, session).keys()
        if older:
            await self._service.offer(task, older, session.nonce, lease_ms=0)
        return bool(older)

    def _that_it_takes(self, task: Task, session: Session) -> dict[str, JsonObject]:
        requests = {q.key: input_request(q) for q in task.open_questions(self._clock())}
        return {key: r for key, r in requests.items() if session.takes(r["method"], r["params"])}

    def before_start(
        self, ask: str, requests: Mapping[str, JsonObject], session: Session, owner: str
    ) -> list[bytes]:
        """The requests of a round that is asked before a task exists; their answers go to `ask`."""
        about = {"ask": ask, "owner": self._signer.mark("owner", owner)}
        return [
            _request(self._identifier(_BEFORE, {**about, "key": key}), request, session, {})
            for key, request in requests.items()
        ]

    async def take(self, message: Mapping[str, Any], owner: str) -> None:
        """A response that a client sent. What is not an answer to one of our requests is ignored.

        Returning means that it is durable, or that its question is asked again. Raises RpcError (HTTP 503).
        """
        identifier = message.get("id")
        if not isinstance(identifier, str):
            return
        purpose, _, signed = identifier.partition(":")
        try:
            about = self._signer.verify(purpose, signed)
        except BadSignature:
            return
        answer = message.get("result") if isinstance(message.get("result"), dict) else None
        try:
            if purpose == _BEFORE:
                await self._keep(about, answer, owner)
            elif purpose == _TASK:
                await self._give(about, answer, owner)
        except TaskNotFound:
            return
        except StoreUnavailable:
            if not await self._is_asked_again(about, owner):
                text = "The answer could not be kept; send it again"
                raise RpcError(INTERNAL_ERROR, text, status=503) from None

    async def _is_asked_again(self, about: JsonObject, owner: str) -> bool:
        """Whether this session gets the question again with its next look, which spares it an HTTP error: clients
        in use give up a connection for that."""
        if "task" not in about:
            return False
        try:
            await self._service.withdraw_offer(about["task"], owner, about["key"], about["session"])
        except (StoreUnavailable, TaskNotFound):
            return False
        return True

    async def _keep(self, about: JsonObject, answer: JsonObject | None, owner: str) -> None:
        if not self._signer.is_mark("owner", owner, about["owner"]):
            return
        text = orjson.dumps(answer)  # null for an error: the client cannot, or will not
        if len(text) > MAX_ANSWER_BYTES:
            logger.warning("an answer is longer than %d bytes and counts as refused", MAX_ANSWER_BYTES)
            text = orjson.dumps(None)
        expires_at = self._clock() + ASK_SECONDS * 1000
        await self._service.write_reply(about["ask"], about["key"], text.decode(), expires_at=expires_at)

    async def _give(self, about: JsonObject, answer: JsonObject | None, owner: str) -> None:
        task_id, key = about["task"], about["key"]
        try:
            if answer is None:
                await self._service.decline(task_id, owner, key)
            else:
                await self._service.answer(task_id, owner, {key: answer})
        except InvalidAnswer:
            await self._service.withdraw_offer(task_id, owner, key, about["session"])

    def _identifier(self, purpose: str, about: dict[str, Any]) -> str:
        """New for each delivery: ids must not repeat within a session (L-49)."""
        return f"{purpose}:{self._signer.sign(purpose, {**about, 'n': secrets.token_urlsafe(6)})}"


def _request(identifier: str, request: JsonObject, session: Session, meta: JsonObject) -> bytes:
    params = dict(request.get("params", {}))
    if request["method"] == "elicitation/create":
        _adapt_elicitation(params, session.version, identifier)
    if meta:
        params["_meta"] = {**params.get("_meta", {}), **meta}
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": identifier, "method": request["method"]}
    return orjson.dumps({**message, "params": params} if params else message)


def _adapt_elicitation(params: dict[str, Any], version: str, identifier: str) -> None:
    """URL mode needs an id of its own in 2025-11-25; 2025-06-18 knows no modes and no titled choices (L-52)."""
    if params.get("mode") == "url":
        params["elicitationId"] = identifier
    elif version == V_2025_06_18:
        params.pop("mode", None)
        schema = params["requestedSchema"]
        fields = {name: _early_field(field) for name, field in schema["properties"].items()}
        params["requestedSchema"] = {**schema, "properties": fields}


def _early_field(field: JsonObject) -> JsonObject:
    choices = field.get("oneOf")
    if choices is None:
        return field
    names = {"enum": [c["const"] for c in choices], "enumNames": [c["title"] for c in choices]}
    return {**{key: value for key, value in field.items() if key != "oneOf"}, **names}
