"""JSON Schema: dialects, references, formats, how violations are told, and `x-mcp-header`."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.tools.schema import Schema, header_parameters, too_deep

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


@pytest.mark.requirement("R-15")
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, 1, "x"),
        ({"$ref": "#here", "$defs": {"a": {"$anchor": "here", "const": 5}}}, 5, 6),
        (
            {"$id": "https://e.org/s", "$ref": "https://e.org/t", "$defs": {"t": {"$id": "t", "const": 1}}},
            1,
            2,
        ),
        ({"properties": {"a": True}, "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
        ({"if": {"const": 1}, "then": False, "else": True}, 2, 1),
        ({"type": "integer"}, 5.0, 5.5),
        ({"$schema": DIALECT, "prefixItems": [{"const": 1}]}, [1], [2]),
        ({"$schema": DIALECT + "#", "prefixItems": [{"const": 1}]}, [1], [2]),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"const": 1}]}, [1], [2]),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema", "items": [{"const": 1}]}, [1], [2]),
        (
            {"properties": {"next": {"$ref": "#"}}, "required": ["v"]},
            {"v": 1, "next": {"v": 2}},
            {"v": 1, "next": {}},
        ),
        ({"pattern": "^(a+)+$"}, "a" * 50, "a" * 50 + "b"),
    ],
)
def test_the_dialect_is_2020_12_unless_the_schema_names_another(
    schema: dict[str, Any], good: object, bad: object
) -> None:
    compiled = Schema(schema)

    assert compiled.violation(good) is None
    assert compiled.violation(bad) is not None


@pytest.mark.requirement("R-15")
@pytest.mark.parametrize(
    ("format_", "good", "bad"),
    [
        ("date", "2026-07-28", "28.7.2026"),
        ("date-time", "2026-07-28T10:00:00Z", "2026-07-28"),
        ("email", "a@example.com", "a"),
        ("uri", "https://e.org", "e org"),
    ],
)
def test_formats_are_checked(format_: str, good: str, bad: str) -> None:
    schema = Schema({"format": format_})

    assert schema.violation(good) is None
    assert schema.violation(bad) is not None


@pytest.mark.requirement("R-15")
@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "dialect"),
        ({"$schema": "https://example.com/own"}, "dialect"),
        ({"$schema": 5}, "dialect"),
        ({"$ref": "https://example.com/schema.json"}, "network"),
        ({"$ref": "http://127.0.0.1:1/schema.json"}, "network"),
        ({"$ref": "file:///etc/passwd"}, "network"),
        ({"properties": {"a": {"$dynamicRef": "https://example.com/x#y"}}}, "retrieving it failed"),
        ({"$ref": "#/$defs/none"}, "/$defs/none"),
        ({"$ref": "#none"}, "none"),
        ({"type": "strin"}, "/type"),
        ({"minLength": -1}, "/minLength"),
        ({"pattern": "("}, "/pattern"),
        ({"required": ["a", "a"]}, "/required"),
        (nested(64), "deeper than 64"),
        (nested(5000), "deeper than 64"),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(schema: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it says differs, and is checked below
        Schema(schema)

    assert says in str(caught.value)
    assert len(str(caught.value)) < 500


def test_nesting_within_bounds_is_fine() -> None:
    assert Schema(nested(60)).violation({}) is None
    assert Schema(nested(61)).violation({}) is not None
    assert not too_deep([[nested(61)]])
    assert too_deep([[[nested(61)]]])


def test_a_violation_names_the_place_and_is_cut() -> None:
    schema = Schema({"properties": {"a": {"items": {"properties": {"b": {"const": 1}}}}}})

    told = schema.violation({"a": [{}, {"b": "x" * 5000}]})

    assert told is not None
    assert told.startswith("/a/1/b: ")
    assert len(told) < 320


def test_a_violation_of_the_whole_has_no_place() -> None:
    assert Schema({"type": "object"}).violation([]) == '[] is not of type "object"'


# --- x-mcp-header ---------------------------------------------------------------------------------------


def annotated(suffix: object = "Region", **schema: Any) -> dict[str, Any]:
    return {"type": "string", "x-mcp-header": suffix, **schema}


@pytest.mark.requirement("R-70")
def test_annotations_are_found_along_properties() -> None:
    inner = {"type": "object", "properties": {"zone": annotated("Zone"), "plain": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"region": annotated(), "n": annotated("N", type="integer"), "in": inner},
    }

    found = {parameter.name: parameter.path for parameter in header_parameters(schema)}

    assert found == {"mcp-param-region": ("region",), "mcp-param-n": ("n",), "mcp-param-zone": ("in", "zone")}


@pytest.mark.requirement("R-70")
@pytest.mark.parametrize("schema", [{}, {"properties": {"a": True, "b": {}}}, {"properties": None}])
def test_a_schema_without_annotations_has_none(schema: dict[str, Any]) -> None:
    assert header_parameters(schema) == ()


@pytest.mark.requirement("R-70")
@pytest.mark.parametrize(
    "suffix", ["", " ", "a b", "a:b", "a\r\nb", "a\tb", "é", "a/b", "(a)", "a,b", "a\n", None, 5, ["a"], {}]
)
def test_a_suffix_that_is_no_header_token_is_refused(suffix: object) -> None:
    with pytest.raises(ValueError, match=r"^a: x-mcp-header must be a non-empty header-name token"):
        header_parameters({"properties": {"a": annotated(suffix)}})


@pytest.mark.requirement("R-70")
@pytest.mark.parametrize("suffix", ["a", "A-b_c.9", "!#$%&'*+-.^_`|~"])
def test_any_token_is_a_suffix(suffix: str) -> None:
    assert (
        header_parameters({"properties": {"a": annotated(suffix)}})[0].name == f"mcp-param-{suffix.lower()}"
    )


@pytest.mark.requirement("R-70")
@pytest.mark.parametrize("kind", ["number", "object", "array", "null", ["string", "null"], None, "strin"])
def test_only_strings_integers_and_booleans_travel_as_headers(kind: object) -> None:
    with pytest.raises(ValueError, match="needs type string, integer or boolean"):
        header_parameters({"properties": {"a": annotated(type=kind)}})


@pytest.mark.requirement("R-70")
@pytest.mark.parametrize("bound", [{"maximum": 2**53}, {"minimum": -(2**53)}])
def test_an_integer_must_stay_within_what_every_client_can_write(bound: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="9007199254740991"):
        header_parameters({"properties": {"a": annotated(type="integer", **bound)}})
    assert header_parameters({"properties": {"a": annotated(type="integer", maximum=2**53 - 1)}})


@pytest.mark.requirement("R-70")
def test_two_annotations_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(ValueError, match="used twice"):
        header_parameters({"properties": {"a": annotated("Region"), "b": annotated("REGION")}})


@pytest.mark.requirement("R-70")
@pytest.mark.parametrize(
    "schema",
    [
        annotated(),
        {"items": annotated()},
        {"properties": {"a": {"type": "array", "items": annotated()}}},
        {"properties": {"a": {"type": "array", "items": {"properties": {"b": annotated()}}}}},
        {"$defs": {"a": annotated()}},
        {"additionalProperties": annotated()},
        {"patternProperties": {"^a": annotated()}},
        *({key: [{"properties": {"a": annotated()}}]} for key in ("oneOf", "anyOf", "allOf", "prefixItems")),
        *({key: {"properties": {"a": annotated()}}} for key in ("not", "if", "then", "else", "contains")),
        {"properties": {"a": {"anyOf": [annotated()]}}},
    ],
    ids=str,
)
def test_an_annotation_that_properties_do_not_lead_to_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="reached through `properties` only"):
        header_parameters(schema)
