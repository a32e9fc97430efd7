"""Which questions may be shown to a client, and which answers are taken."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import _v2026_07_28 as v2026
from pydantic import TypeAdapter

from adapter.mcp.inputs import QuestionPolicy, answer_problem, request_problem
from tests.support.adapter import accepted, form
from tests.support.wire import check_message

CREATE = "elicitation/create"
SAMPLE = "sampling/createMessage"
OFFICIAL: TypeAdapter[object] = TypeAdapter(v2026.InputRequest)
TEXT = {"type": "text", "text": "Hi"}
CHOICES = [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]


def url(address: str, **members: Any) -> dict[str, Any]:
    return {"mode": "url", "message": "Go", "url": address, **members}


def sampling(*content: Any, **members: Any) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": c} for c in content or (TEXT,)],
        "maxTokens": 9,
        **members,
    }


def field(**schema: Any) -> dict[str, Any]:
    return form(properties={"x": schema})


GOOD: list[tuple[str, dict[str, Any]]] = [
    (CREATE, form()),
    (CREATE, {**form(), "mode": "form"}),
    (CREATE, form(required=["a"], a="string", b="number", c="integer", d="boolean")),
    (CREATE, field(type="string", title="T", description="D", default="x", minLength=1, maxLength=9)),
    *((CREATE, field(type="string", format=f)) for f in ("email", "uri", "date", "date-time")),
    (CREATE, field(type="string", enum=["a", "b"], enumNames=["A", "B"], default="a")),
    (CREATE, field(type="string", oneOf=CHOICES)),
    (CREATE, field(type="number", minimum=0, maximum=1.5, default=0.5)),
    (CREATE, field(type="integer", minimum=0, default=3)),
    (CREATE, field(type="boolean", default=False)),
    (
        CREATE,
        field(type="array", items={"type": "string", "enum": ["a"]}, minItems=1, maxItems=2, default=["a"]),
    ),
    (CREATE, field(type="array", items={"anyOf": CHOICES})),
    (
        CREATE,
        {
            "message": "m",
            "requestedSchema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {},
            },
        },
    ),
    (CREATE, url("https://pay.example.com/a?b=c#d")),
    (CREATE, url("HTTPS://pay.example.com:8443")),
    (CREATE, url("http://localhost/x")),
    (CREATE, url("http://127.0.0.1:8000/x")),
    (CREATE, url("http://[::1]:8000/x")),
    (SAMPLE, sampling()),
    (SAMPLE, sampling([TEXT], {"type": "image", "data": "AAAA", "mimeType": "image/png"})),
    (SAMPLE, sampling({"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1}})),
    (SAMPLE, sampling({"type": "tool_result", "toolUseId": "1", "content": [TEXT], "isError": False})),
    (
        SAMPLE,
        sampling(systemPrompt="s", temperature=1, stopSequences=["x"], includeContext="none", metadata={}),
    ),
    (SAMPLE, sampling(modelPreferences={"hints": [{"name": "m"}], "costPriority": 0.5})),
    (SAMPLE, sampling(tools=[{"name": "t", "inputSchema": {"type": "object"}}], toolChoice={"mode": "auto"})),
    ("roots/list", {}),
    ("roots/list", {"_meta": {}}),
]


@pytest.mark.requirement("R-88", "R-81")
@pytest.mark.parametrize(("method", "params"), GOOD)
def test_a_right_question_is_shown(method: str, params: dict[str, Any]) -> None:
    assert request_problem(method, params) is None
    assert QuestionPolicy().request_problem(method, orjson.dumps(params).decode()) is None


def shown(method: str, params: object) -> dict[str, Any]:
    """A result of tasks/get that shows the question."""
    moment = "2026-07-28T10:00:00Z"
    result = {
        "resultType": "complete",
        "taskId": "mcp-1",
        "status": "input_required",
        "createdAt": moment,
        "lastUpdatedAt": moment,
        "ttlMs": 1,
        "inputRequests": {"q": {"method": method, "params": params}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}},
    }
    return {"jsonrpc": "2.0", "id": 1, "result": result}


@pytest.mark.requirement("R-81")
@pytest.mark.parametrize(("method", "params"), GOOD)
def test_what_is_shown_is_what_the_official_models_know(method: str, params: dict[str, Any]) -> None:
    check_message("2026-07-28", shown(method, params), request_method="tasks/get")


BAD: list[tuple[str, object, str]] = [
    ("tools/call", {}, "method"),
    ("", {}, "method"),
    ("ping", {}, "method"),
    (CREATE, None, "object"),
    (CREATE, [], "object"),
    (CREATE, "text", "object"),
    (CREATE, {}, "message"),
    (CREATE, {"message": "m"}, "requestedSchema"),
    (CREATE, {**form(), "message": ""}, "message"),
    (CREATE, {**form(), "message": 5}, "message"),
    (CREATE, {**form(), "mode": "dialog"}, "mode"),
    (CREATE, {**form(), "mode": None}, "mode"),
    (CREATE, {**form(), "elicitationId": "1"}, "elicitationId"),
    (CREATE, {"message": "m", "requestedSchema": {"type": "array", "properties": {}}}, "type"),
    (CREATE, {"message": "m", "requestedSchema": {"type": "object"}}, "properties"),
    (CREATE, form(required=[5]), "required"),  # type: ignore[list-item]
    (CREATE, field(), "type"),
    (CREATE, form(properties={"x": "string"}), "x"),
    (CREATE, field(type="object", properties={}), "type"),
    (CREATE, field(type="null"), "type"),
    (CREATE, field(type=["string", "null"]), "type"),
    (CREATE, field(type="string", format="ipv4"), "format"),
    (CREATE, field(type="string", default=5), "default"),
    (CREATE, field(type="string", title=None), "title"),
    (CREATE, field(type="string", minLength=1.5), "minLength"),
    (CREATE, field(type="string", minLength=-1), "minLength"),
    (CREATE, field(type="string", pattern="("), "requestedSchema"),
    (CREATE, field(type="string", enum=[1, 2]), "enum"),
    (CREATE, field(type="string", oneOf=["a"]), "oneOf"),
    (CREATE, field(type="string", oneOf=[{"const": "a"}]), "title"),
    (CREATE, field(type="number", default="1"), "default"),
    (CREATE, field(type="integer", minimum=True), "minimum"),
    (CREATE, field(type="boolean", default="yes"), "default"),
    (CREATE, field(type="array"), "items"),
    (CREATE, field(type="array", items={}), "items"),
    (CREATE, field(type="array", items={"type": "number"}), "items"),
    (CREATE, field(type="array", items={"type": "string"}), "enum"),
    (CREATE, field(type="array", items={"anyOf": [{"type": "string"}]}), "const"),
    (CREATE, form(properties={"x": {"$ref": "#/$defs/y"}}), "type"),
    (CREATE, form(password="string"), "secret"),
    (CREATE, form(properties={"API-Key": {"type": "string"}}), "secret"),
    (CREATE, form(userPassword="string"), "secret"),
    (CREATE, form(properties={"Pass Word": {"type": "string"}}), "secret"),
    (CREATE, form(clientSecret="string"), "secret"),
    (CREATE, form(properties={"value": {"type": "string", "title": "Your password"}}), "secret"),
    (CREATE, {"mode": "url", "message": "m"}, "url"),
    (CREATE, {"mode": "url", "url": "https://e.org"}, "message"),
    (CREATE, url("https://e.org", elicitationId="1"), "elicitationId"),
    (CREATE, url(""), "url"),
    (CREATE, url("http://e.org"), "https"),
    (CREATE, url("http://localhost.e.org/"), "https"),
    (CREATE, url("http://"), "https"),
    (CREATE, url("https://"), "https"),
    (CREATE, url("https:e.org"), "https"),
    (CREATE, url("//e.org"), "https"),
    (CREATE, url("javascript:alert(1)"), "https"),
    (CREATE, url("file:///etc/passwd"), "https"),
    (CREATE, url("ftp://localhost/x"), "https"),
    (CREATE, url("https://[::1"), "URL"),
    (CREATE, url("https://ada@e.org"), "credentials"),
    (CREATE, url("https://:pw@e.org"), "credentials"),
    (CREATE, url("https://e.org/a b"), "URL"),
    (CREATE, url("https://e.org/\n"), "URL"),
    (CREATE, url(5), "url"),  # type: ignore[arg-type]
    (SAMPLE, {}, "messages"),
    (SAMPLE, {"messages": []}, "maxTokens"),
    (SAMPLE, sampling(maxTokens="9"), "maxTokens"),
    (SAMPLE, sampling(maxTokens=9.5), "maxTokens"),
    (SAMPLE, {"messages": {}, "maxTokens": 9}, "messages"),
    (SAMPLE, {"messages": [{"role": "system", "content": TEXT}], "maxTokens": 9}, "role"),
    (SAMPLE, {"messages": [{"role": "user"}], "maxTokens": 9}, "content"),
    (SAMPLE, sampling("text"), "content"),
    (SAMPLE, sampling({"type": "text"}), "text"),
    (SAMPLE, sampling({"type": "image", "data": "x"}), "mimeType"),
    (SAMPLE, sampling({"type": "video"}), "type"),
    (SAMPLE, sampling([{"type": "tool_use", "id": "1", "name": "t"}]), "input"),
    (SAMPLE, sampling({"type": "tool_result", "toolUseId": "1", "content": ["x"]}), "content"),
    (SAMPLE, sampling({**TEXT, "annotations": {"priority": 2}}), "priority"),
    (SAMPLE, sampling(temperature="hot"), "temperature"),
    (SAMPLE, sampling(systemPrompt=None), "systemPrompt"),
    (SAMPLE, sampling(includeContext="all"), "includeContext"),
    (SAMPLE, sampling(modelPreferences={"costPriority": 5}), "costPriority"),
    (SAMPLE, sampling(tools=[{"name": "t"}]), "inputSchema"),
    (SAMPLE, sampling(tools=[{"name": "t", "inputSchema": {}}]), "type"),
    (SAMPLE, sampling(toolChoice={"mode": "maybe"}), "mode"),
    ("roots/list", None, "object"),
    ("roots/list", [], "object"),
]


@pytest.mark.requirement("R-88", "R-81")
@pytest.mark.parametrize(("method", "params", "says"), BAD)
def test_a_question_that_breaks_a_rule_is_refused_naming_it(method: str, params: object, says: str) -> None:
    problem = request_problem(method, params)

    assert problem is not None
    assert says in problem
    assert "\n" not in problem
    assert len(problem) < 500


def test_params_that_are_no_json_are_refused() -> None:
    assert QuestionPolicy().request_problem(CREATE, "{") is not None


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-3, 3)
    | st.sampled_from(["", "a", "string", "date"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "const", "title"]), inner)
    ),
    max_leaves=4,
)
FIELD_MEMBERS = (
    "title description default format minLength maxLength enum oneOf enumNames "
    "minimum maximum items minItems maxItems"
)
BLOCK_MEMBERS = "text data mimeType id name input toolUseId content isError"
SAMPLING_MEMBERS = (
    "temperature systemPrompt stopSequences includeContext metadata modelPreferences tools toolChoice"
)
FIELDS = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "integer", "boolean", "array", "object"])},
    optional=dict.fromkeys(FIELD_MEMBERS.split(), JUNK),
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "tool_use", "tool_result"])},
    optional=dict.fromkeys(BLOCK_MEMBERS.split(), JUNK),
)
SAMPLINGS = st.fixed_dictionaries(
    {
        "messages": st.lists(
            st.fixed_dictionaries(
                {"role": st.sampled_from(["user", "x"]), "content": BLOCKS | st.lists(BLOCKS)}
            ),
            max_size=2,
        ),
        "maxTokens": st.integers() | JUNK,
    },
    optional=dict.fromkeys(SAMPLING_MEMBERS.split(), JUNK),
)


@given(FIELDS)
def test_any_form_field_that_is_shown_is_one_that_the_official_models_know(schema: dict[str, Any]) -> None:
    params = form(properties={"x": schema})
    if request_problem(CREATE, params) is None:
        OFFICIAL.validate_python(
            {"method": CREATE, "params": params}, strict=True, by_alias=True, by_name=False
        )
        TypeAdapter(v2026.PrimitiveSchemaDefinition).validate_python(
            schema, strict=True, by_alias=True, by_name=False
        )


@given(SAMPLINGS)
def test_any_sampling_request_that_is_shown_is_one_that_the_official_models_know(
    params: dict[str, Any],
) -> None:
    if request_problem(SAMPLE, params) is None:
        OFFICIAL.validate_python(
            {"method": SAMPLE, "params": params}, strict=True, by_alias=True, by_name=False
        )


@given(st.text() | st.sampled_from([CREATE, SAMPLE, "roots/list"]), JUNK | st.dictionaries(st.text(), JUNK))
def test_no_question_makes_the_check_fail(method: str, params: object) -> None:
    problem = request_problem(method, params)

    assert problem is None or isinstance(problem, str)


# --- answers --------------------------------------------------------------------------------------------

WHOLE = form(
    required=["name"],
    properties={
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 0},
        "share": {"type": "number"},
        "mail": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date"},
        "ok": {"type": "boolean"},
        "one": {"type": "string", "enum": ["a", "b"]},
        "many": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1},
    },
)


@pytest.mark.requirement("R-88")
@pytest.mark.parametrize(
    "content",
    [
        {"name": "Ada"},
        {"name": "Ada", "age": 36, "share": 1, "mail": "ada@example.com", "day": "2026-07-28", "ok": True},
        {"name": "Ada", "one": "b", "many": ["a"], "unasked": "kept"},
        {"name": "Ada", "share": 0.5, "age": 3.0},
    ],
)
def test_an_answer_that_fits_its_form_is_taken(content: dict[str, Any]) -> None:
    assert answer_problem(CREATE, WHOLE, accepted(**content)) is None
    assert QuestionPolicy().answer_problem(CREATE, orjson.dumps(WHOLE).decode(), accepted(**content)) is None


@pytest.mark.requirement("R-88")
@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({}, "name"),
        ({"name": "A"}, "/name"),
        ({"name": None}, "/name"),
        ({"name": "Ada", "age": -1}, "/age"),
        ({"name": "Ada", "age": 1.5}, "/age"),
        ({"name": "Ada", "age": True}, "/age"),
        ({"name": "Ada", "mail": "nobody"}, "/mail"),
        ({"name": "Ada", "day": "28.7.2026"}, "/day"),
        ({"name": "Ada", "ok": "true"}, "/ok"),
        ({"name": "Ada", "one": "c"}, "/one"),
        ({"name": "Ada", "many": ["a", "b"]}, "/many"),
        ({"name": "Ada", "many": [1]}, "many"),
        ({"name": {"first": "Ada"}}, "name"),
    ],
)
def test_an_answer_that_breaks_its_form_is_refused_naming_place_and_rule(
    content: dict[str, Any], says: str
) -> None:
    problem = answer_problem(CREATE, WHOLE, accepted(**content))

    assert problem is not None
    assert problem.startswith("content")
    assert says in problem
    assert "\n" not in problem


@pytest.mark.requirement("R-88")
@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel", "content": None}])
def test_declining_needs_no_content(answer: dict[str, Any]) -> None:
    assert answer_problem(CREATE, WHOLE, answer) is None
