"""`before_start`: multi round-trip requests before a task exists (R-80 to R-88).

What has been answered so far travels with the client as a signed `requestState`, bound to caller, tool, its
questions and arguments. Its nonce becomes the task's, so that a confirmation used twice gives one task (D13).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from adapter.errors import InvalidAnswer
from adapter.tasks.clock import Clock
from adapter.tools.before_start import InputRequestConfig, Round
from adapter.tools.tool import Tool

from .inputs import answer_problem
from .jsonrpc import JsonObject, RpcError, invalid_params
from .signing import BadSignature, Signer

STATE_SECONDS = 3600
_PURPOSE = "request-state"


@dataclass(frozen=True, slots=True)
class Ask:
    """Input is needed first: the body of an InputRequiredResult."""

    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Declined:
    """The person said no: nothing is to be started."""

    reason: str


@dataclass(slots=True)
class Go:
    """All is answered: the arguments, what to add to the execution's input, and the confirmation's nonce."""

    arguments: dict[str, Any]
    additions: dict[str, Any]
    nonce: str | None


class CannotAsk(Exception):
    """Something has to be asked first that this client did not declare it can take."""

    def __init__(self, tool: Tool, key: str, request: InputRequestConfig) -> None:
        super().__init__(f"Tool {tool.name!r} asks for {key!r} first: {request.method}")
        self.method = request.method
        self.params = request.params


Takes = Callable[[str, JsonObject], bool]
"""Whether a client can be sent a request of this method with these params."""


@dataclass(frozen=True, slots=True)
class Said:
    """A call as far as rounds care: what was said in it, and what its client can be asked."""

    tool: Tool
    arguments: JsonObject
    owner: str
    takes: Takes
    responses: Mapping[str, Any] = field(default_factory=dict)
    """By the key of a request; None where the client answered with an error."""
    state: object = None
    """The echoed requestState, unchecked."""


@dataclass(slots=True)
class _Progress:
    answers: dict[str, Any] = field(default_factory=dict)
    nonce: str | None = None


class Rounds:
    """Decides what a `tools/call` still has to ask."""

    def __init__(self, signer: Signer, clock: Clock) -> None:
        self._signer = signer
        self._clock = clock

    def decide(self, said: Said) -> Ask | Declined | Go:
        """Raises CannotAsk, InvalidAnswer, and RpcError -32602 for a bad state."""
        tool, arguments = said.tool, said.arguments
        check_can_ask(said)
        progress = self._restore(said)
        for round_ in tool.before_start:
            asked = dict(_applicable(round_, said))
            refusal = _take_answers(asked, said.responses, progress.answers)
            if refusal is not None:
                return Declined(refusal)
            open_requests = {key: r for key, r in asked.items() if key not in progress.answers}
            if open_requests:
                return Ask(self._ask(open_requests, said, progress))
        return _merged(tool, arguments, progress)

    def _ask(
        self,
        requests: Mapping[str, InputRequestConfig],
        said: Said,
        progress: _Progress,
    ) -> dict[str, Any]:
        state = {
            "call": _digest(said),
            "answers": progress.answers,
            "nonce": progress.nonce or secrets.token_urlsafe(16),
            "expires": self._clock() // 1000 + STATE_SECONDS,
        }
        return {
            "resultType": "input_required",
            "inputRequests": {key: _on_the_wire(request) for key, request in requests.items()},
            "requestState": self._signer.sign(_PURPOSE, state),
        }

    def _restore(self, said: Said) -> _Progress:
        text = said.state
        if text is None:
            return _Progress()
        if not isinstance(text, str):
            raise invalid_params("params.requestState must be a string")
        try:
            state = self._signer.verify(_PURPOSE, text)
        except BadSignature:
            raise _bad_state("is not one that this server issued") from None
        if state["expires"] * 1000 < self._clock():
            raise _bad_state("has expired; call the tool again without it")
        if state["call"] != _digest(said):
            raise _bad_state("belongs to another call: repeat the same tool and arguments")
        return _Progress(state["answers"], state["nonce"])


def _bad_state(problem: str) -> RpcError:
    return invalid_params(f"params.requestState {problem}")


def _digest(said: Said) -> str:
    """What a state is bound to, the questions as they were included.

    Hashed: the owner may be an account id, which no client may read.
    """
    tool = said.tool
    bound = orjson.dumps([tool.name, tool.questions, said.owner, said.arguments], option=orjson.OPT_SORT_KEYS)
    return sha256(bound).hexdigest()


def _applicable(round_: Round, said: Said) -> Iterator[tuple[str, InputRequestConfig]]:
    for key, request in round_.requests.items():
        if request.answered_by(said.arguments):
            continue
        if not request.when_supported or said.takes(request.method, request.params):
            yield key, request


def check_can_ask(said: Said) -> None:
    """Raises CannotAsk where the client cannot take what the tool would ask (R-82)."""
    for round_ in said.tool.before_start:
        for key, request in _applicable(round_, said):
            if not said.takes(request.method, request.params):
                raise CannotAsk(said.tool, key, request)


def _take_answers(
    asked: Mapping[str, InputRequestConfig], responses: Mapping[str, Any], answers: dict[str, Any]
) -> str | None:
    """Move valid answers over; returns why nothing may be started, if somebody declined."""
    for key, request in asked.items():
        if key in answers or key not in responses:
            continue
        answer = responses[key]
        if answer is None:
            if request.method != "elicitation/create":
                return f"{key!r} was refused by the client"
            answer = {"action": "decline"}
        problem = answer_problem(request.method, request.params, answer)
        if problem is not None:
            raise InvalidAnswer(key, problem)
        refusal = _refusal(key, request, answer)
        if refusal is not None:
            return refusal
        answers[key] = answer
    return None


def _refusal(key: str, request: InputRequestConfig, answer: Mapping[str, Any]) -> str | None:
    if request.method != "elicitation/create":
        return None
    if answer["action"] != "accept":
        said = "declined" if answer["action"] == "decline" else "cancelled"
        return f"{key!r} was {said}" if request.on_decline == "stop" else None
    for name, expected in (request.proceed_if or {}).items():
        if answer["content"].get(name) != expected:
            return f"{key!r} was answered with {name} other than {orjson.dumps(expected).decode()}"
    return None


def _on_the_wire(request: InputRequestConfig) -> dict[str, Any]:
    params = dict(request.params)
    if request.method == "elicitation/create":
        params.setdefault("mode", "form")
    return {"method": request.method, "params": params} if params else {"method": request.method}


def _merged(tool: Tool, arguments: JsonObject, progress: _Progress) -> Go:
    merged, additions = dict(arguments), {}
    for round_ in tool.before_start:
        for key, request in round_.requests.items():
            answer = progress.answers.get(key)
            if answer is None:
                continue
            if request.fills_arguments:
                merged.update(_filled(request, answer))
            else:
                additions[request.into or key] = answer
    return Go(merged, additions, progress.nonce)


def _filled(request: InputRequestConfig, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an accepted form: what it asked for and nothing else that the answer may hold."""
    content = answer["content"] if answer["action"] == "accept" else {}
    return {name: content[name] for name in request.fields if name in content}
