"""Builds the JSON Schemas of answers: each of these functions returns the schema of one kind of value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]


def text(about: str, null: bool = False) -> Schema:
    """Return the schema of a text."""
    return {"type": ["string", "null"] if null else "string", "description": about}


def time(about: str, null: bool = False) -> Schema:
    """Return the schema of a time in UTC."""
    return {**text(about, null), "format": "date-time"}


def uuid(about: str, null: bool = False) -> Schema:
    """Return the schema of a UUID."""
    return {**text(about, null), "format": "uuid"}


def word(values: Iterable[str], about: str) -> Schema:
    """Return the schema of a text that is one of a closed set."""
    return {"type": "string", "enum": [str(value) for value in values], "description": about}


def number(about: str, null: bool = False) -> Schema:
    """Return the schema of a number that is not negative."""
    return {"type": ["integer", "null"] if null else "integer", "minimum": 0, "description": about}


def truth(about: str) -> Schema:
    """Return the schema of ``true`` or ``false``."""
    return {"type": "boolean", "description": about}


def list_of(items: Schema, about: str, null: bool = False) -> Schema:
    """Return the schema of a list."""
    return {"type": ["array", "null"] if null else "array", "items": items, "description": about}


def record(optional: Iterable[str] = (), **properties: Schema) -> Schema:
    """Return the schema of an object.

    :param optional: the properties that may be absent
    """
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def null_or(schema: Schema, about: str) -> Schema:
    """Return a schema that also allows ``null``."""
    return {"anyOf": [schema, {"type": "null"}], "description": about}
