"""The JSON Schemas of shapes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from cleanup_orchestrator.shapes.base import Input, JsonSchema, Shape, TypedField, item_type

#: By type of Python: the schema of its values. Numbers are never negative, unless a field says otherwise.
_SIMPLE: dict[Any, JsonSchema] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": 0},
    bool: {"type": "boolean"},
}

#: Returns the schema that stands for a nested shape.
Nested = Callable[[type[Shape]], JsonSchema]


def schema(shape: type[Shape], nested: Nested | None = None) -> JsonSchema:
    """Return the JSON Schema of a shape.

    :param nested: returns the schema that stands for a nested shape, such as a reference; ``None``: its own schema
    """
    inner = nested or schema
    return {
        "type": "object",
        "properties": {name: _of_field(each, inner) for name, each in shape.fields.items()},
        "required": [name for name, each in shape.fields.items() if not each.optional],
    }


def _of_field(each: TypedField, nested: Nested) -> JsonSchema:
    made = _of_type(each.kind, nested)
    if each.null:
        made = (
            {"anyOf": [made, {"type": "null"}]}
            if each.kind is each.nested
            else {**made, "type": [made["type"], "null"]}
        )
    about = {"description": each.about} if each.about else {}
    return {**made, **each.field.rules, **about}


def _of_type(kind: Any, nested: Nested) -> JsonSchema:
    if kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    if (item := item_type(kind)) is not None:
        return {"type": "array", "items": _of_type(item, nested)}
    return nested(kind) if isinstance(kind, type) and issubclass(kind, Shape) else {"type": "object"}


def of_body(shape: type[Input]) -> JsonSchema:
    """Return the JSON Schema of a body."""
    return {
        "type": "object",
        "properties": {name: _of_input(each) for name, each in shape.fields.items()},
        "required": [name for name, each in shape.fields.items() if not each.optional],
        "additionalProperties": False,
    }


def of_query(shape: type[Input]) -> JsonSchema:
    """Return the JSON Schema of a query.

    Its values are arrays, because a parameter can be repeated; ``maxItems`` limits that.
    """
    body = of_body(shape)
    several = {name for name, each in shape.fields.items() if item_type(each.kind) is not None}
    values = {
        name: {"type": "array", "maxItems": 20 if name in several else 1, "items": item}
        for name, item in body["properties"].items()
    }
    return {**body, "properties": values}


def _of_input(each: TypedField) -> JsonSchema:
    form = each.field.rules
    if each.nested is not None and issubclass(each.nested, Input):
        form = of_body(each.nested)
    return {**form, "description": each.field.about}


def nested_shapes(shape: type[Shape]) -> list[type[Shape]]:
    """Return a shape and all shapes inside it, each once, the inner ones first."""
    inner = (nested_shapes(each.nested) for each in shape.fields.values() if each.nested is not None)
    return [*dict.fromkeys(itertools.chain.from_iterable(inner)), shape]
