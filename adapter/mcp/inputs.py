"""Input requests and their answers: what may be shown to a client, and what a client may answer (R-88, M-42)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson
from pydantic import TypeAdapter, ValidationError

from adapter.errors import InvalidAnswer
from adapter.tools.schema import Schema, too_deep

from . import models
from .jsonrpc import JsonObject, RpcError, invalid_params

_LOCAL = ("localhost", "127.0.0.1", "::1")
_SECRETS = (
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesstoken",
    "privatekey",
    "clientsecret",
    "secretkey",
)
_SECRET_WORDS = {"secret", "secrets", "cvv"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


_REQUESTS: dict[str, TypeAdapter[Any]] = {
    "sampling/createMessage": TypeAdapter(models.Sampling),
    "roots/list": TypeAdapter(models.Roots),
}
_ANSWERS: dict[str, TypeAdapter[Any]] = {
    "elicitation/create": TypeAdapter(models.Elicited),
    "sampling/createMessage": TypeAdapter(models.Sampled),
    "roots/list": TypeAdapter(models.RootList),
}
_FORM = TypeAdapter(models.Form)
_URL = TypeAdapter(models.Url)


def request_problem(method: str, params: object) -> str | None:
    """None, or why an input request may not be shown to a client."""
    if method == "elicitation/create":
        return _elicitation_problem(params)
    if method not in _REQUESTS:
        return f"method {method!r} is not one of elicitation/create, sampling/createMessage, roots/list"
    return _first_problem(_REQUESTS[method], params)


def invalid_response(problem: InvalidAnswer) -> RpcError:
    """The error for a member of `params.inputResponses`."""
    return invalid_params(f"params.inputResponses[{problem.key!r}]: {problem.rule}")


def answer_problem(method: str, params: JsonObject, answer: object) -> str | None:
    """None, or which rule an answer to a valid request breaks."""
    problem = "it nests too deeply" if too_deep(answer) else _first_problem(_ANSWERS[method], answer)
    if problem is not None or method != "elicitation/create":
        return problem
    assert isinstance(answer, Mapping)
    if answer["action"] != "accept" or params.get("mode") == "url":
        return None
    content = answer.get("content")
    if content is None:
        return "an accepted form needs `content`"
    problem = _form_schema(orjson.dumps(params["requestedSchema"])).violation(content)
    return None if problem is None else f"content{'' if problem.startswith('/') else ' '}{problem}"


class QuestionPolicy:
    """The same for questions that workflows write, whose params are JSON text (adapter.tasks.questions.InputPolicy)."""

    def request_problem(self, method: str, params: str) -> str | None:
        try:
            value = orjson.loads(params)
        except orjson.JSONDecodeError:
            return "params must be the JSON text of an object"
        return "params nest too deeply" if too_deep(value) else request_problem(method, value)

    def answer_problem(self, method: str, params: str, answer: object) -> str | None:
        return answer_problem(method, orjson.loads(params), answer)


def _elicitation_problem(params: object) -> str | None:
    if not isinstance(params, dict):
        return "params must be an object"
    if "elicitationId" in params:
        return "elicitationId is given by the server and must not be set"
    if params.get("mode", "form") == "url":
        return _first_problem(_URL, params) or _url_problem(params["url"])
    problem = _first_problem(_FORM, params)
    if problem is not None:
        return problem
    schema = params["requestedSchema"]
    secret = next(
        (name for name, field in schema["properties"].items() if _asks_for_a_secret(name, field)), None
    )
    if secret is not None:
        return f"requestedSchema.properties.{secret}: secrets must not be asked for in a form; use mode url"
    try:
        _form_schema(orjson.dumps(schema))
    except ValueError as error:
        return f"requestedSchema: {error}"
    return None


def _asks_for_a_secret(name: str, field: Mapping[str, Any]) -> bool:
    """By name and title: forms are shown, kept and sent in the clear."""
    for text in (name, str(field.get("title", ""))):
        words = [word.lower() for word in _WORD.findall(text)]
        if _SECRET_WORDS.intersection(words) or any(secret in "".join(words) for secret in _SECRETS):
            return True
    return False


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "url is not a valid URL"
    if " " in url or not url.isprintable():
        return "url is not a valid URL"
    if parts.username or parts.password:
        return "url must not carry credentials"
    local = parts.scheme == "http" and parts.hostname in _LOCAL
    if not local and (parts.scheme != "https" or not parts.hostname):
        return "url must be an https URL"
    return None


@lru_cache(maxsize=256)
def _form_schema(schema: bytes) -> Schema:
    return Schema(orjson.loads(schema))


_T = TypeVar("_T")

_RULES = {"model_type": "must be an object", "model_attributes_type": "must be an object"}


def _first_problem(adapter: TypeAdapter[_T], value: object) -> str | None:
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        rule = _RULES.get(first["type"], first["msg"])
        return f"{where}: {rule}" if where else rule
    return None
