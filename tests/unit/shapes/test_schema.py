"""The JSON Schemas of shapes."""

from __future__ import annotations

import jsonschema
import pytest

from cleanup_orchestrator.shapes import bodies, forms, queries, schema
from cleanup_orchestrator.shapes.base import Input, Shape, field, given, word
from tests.support.cases import each_case

FORMS = {name: form for name, form in vars(forms).items() if isinstance(form, dict) and "pattern" in form}


class Inner(Shape):
    count: int = field("A number.")


class Whole(Shape):
    kind: str = word(["a", "b"], "A word.")
    size: int | None = field("Bytes.")
    one: Inner | None = field("One.")
    many: list[Inner] = field("Many.", optional=True)
    rows: list[list[str]] = field("Rows.")


def test_a_schema_has_the_types_of_the_annotations():
    made = schema.schema(Whole, lambda shape: {"$ref": shape.__name__})
    assert made["properties"] == {
        "kind": {"type": "string", "enum": ["a", "b"], "description": "A word."},
        "size": {"type": ["integer", "null"], "minimum": 0, "description": "Bytes."},
        "one": {"anyOf": [{"$ref": "Inner"}, {"type": "null"}], "description": "One."},
        "many": {"type": "array", "items": {"$ref": "Inner"}, "description": "Many."},
        "rows": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "string"}},
            "description": "Rows.",
        },
    }
    assert made["required"] == ["kind", "size", "one", "rows"]


def test_without_references_a_schema_is_whole():
    assert schema.schema(Whole)["properties"]["many"]["items"] == schema.schema(Inner)
    assert schema.nested_shapes(Whole) == [Inner, Whole]


class Sent(Input):
    name: str = given(forms.ID, "A name.", required=True)
    several: list[str] = given(forms.TEXT, "Several.")


def test_a_body_refuses_what_it_does_not_know():
    made = schema.of_body(Sent)
    assert (made["required"], made["additionalProperties"]) == (["name"], False)
    assert made["properties"]["name"] == forms.ID | {"description": "A name."}


def test_a_parameter_of_a_query_can_be_repeated_if_its_type_is_a_list():
    made = schema.of_query(Sent)["properties"]
    assert (made["name"]["maxItems"], made["several"]["maxItems"]) == (1, 20)


@each_case("name", FORMS)
@pytest.mark.parametrize("end", ["\n", "\nx"])
def test_no_form_accepts_a_line_break_at_its_end(name, end):
    valid = {
        "UUID": "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11", "HASH": "a" * 64, "TIME": "2026-11-21T10:00:00Z",
        "TYPE_NAME": "network.port", "USED": "network.port:1",
    }.get(name, "1")  # fmt: skip
    check = jsonschema.Draft202012Validator(FORMS[name])
    assert check.is_valid(valid), valid
    assert check.is_valid(valid + end) is (name == "RESOURCE_ID")  # a container of Swift can have such a name


@pytest.mark.parametrize("shape", [bodies.CreateBody, queries.DeletionsQuery])
def test_each_text_of_a_request_has_a_greatest_length(shape):
    for name, each in schema.of_body(shape)["properties"].items():
        if each.get("type") == "string":
            assert each["maxLength"] <= 1000, name
