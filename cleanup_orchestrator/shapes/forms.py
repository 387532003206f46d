"""The forms of the values that clients send, as JSON Schemas.

The patterns end with :data:`END` and not with ``$``, which also matches before a final newline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cleanup_orchestrator.core import ids
from cleanup_orchestrator.shapes.base import JsonSchema

#: The end of the text. ``$`` also matches before a final newline. The lookahead prevents that.
END = r"$(?!\n)"

_LINE = r"[^\x00-\x1f\x7f]*"


def _text(pattern: str, longest: int, shortest: int = 0) -> JsonSchema:
    """Return the form of texts that match a pattern as a whole.

    :param longest: in characters; so is ``shortest``
    """
    least = {"minLength": shortest} if shortest else {}
    return {"type": "string", **least, "maxLength": longest, "pattern": f"^{pattern}{END}"}


ID = _text(f"{ids.CHARACTERS}+", ids.LONGEST, 1)
UUID = _text("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", 36)
NUMBER = _text("[0-9]+", 18)
LIMIT = _text("0*[1-9][0-9]*", 9)
TEXT = _text(_LINE, 255, 1)
HASH = _text("[0-9a-f]{64}", 64)
#: One line that is not blank.
REASON = _text(rf"(?=.*\S){_LINE}", 1000, 1)
TICKET = _text(rf"(?=.*\S){_LINE}", 128, 1)
ORIGIN = _text(rf"(?=.*\S){_LINE}", 128, 1)
SERVICE_TYPE = _text("[A-Za-z0-9][A-Za-z0-9_.-]*", 128, 1)
REGION = {**_text(_LINE, 128, 1), "type": ["string", "null"]}
TIME = _text(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?Z", 27
)
#: A resource type of a service: ``block-storage.volume``.
TYPE_NAME = _text(r"[a-z0-9-]+\.[a-z0-9_]+", 255)
#: A service, by any of its names, or a resource type of it.
SERVICE_OR_TYPE = _text(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[a-z0-9_]+)?", 255, 1)
#: A resource of a type.
USED = _text(r"[a-z0-9-]+\.[a-z0-9_]+:[^\x00-\x1f]+", 800)
#: An id as services have it: for Swift the name of a container.
RESOURCE_ID = _text(r"[^\x00]*", 512, 1)
#: A boolean in a query.
BOOLEAN: JsonSchema = {"enum": ["true", "false", "True", "False"]}
#: A boolean in a body, ``false`` without it.
FLAG: JsonSchema = {"type": "boolean", "default": False}

#: By pattern: how a text of this form is described to the client.
EXPECTED: Mapping[str, str] = {
    **dict.fromkeys((ID["pattern"], UUID["pattern"]), "is not an id"),
    HASH["pattern"]: "is not the hash of a plan: 64 digits, 0 to f",
    LIMIT["pattern"]: "must be a whole number, at least 1",
    NUMBER["pattern"]: "is not a marker of this API",
    TIME["pattern"]: "must be a time in UTC such as 2027-01-31T00:00:00Z",
    TYPE_NAME["pattern"]: "must be a list of resource types such as orchestration.stack",
    SERVICE_OR_TYPE["pattern"]: "must be a list of services such as dns and resource types such as orchestration.stack",
    SERVICE_TYPE["pattern"]: "is not a service type such as dns, or an alias such as volumev3",
}


def or_null(form: JsonSchema) -> JsonSchema:
    """Return a form that also allows ``null``."""
    return {**form, "type": [form["type"], "null"]}


def one_of(values: Iterable[str], **more: Any) -> JsonSchema:
    """Return the form of a text of a closed set."""
    return {"enum": [str(value) for value in values], **more}


def list_of(item: JsonSchema, most: int) -> JsonSchema:
    """Return the form of a list that is not empty."""
    return {"type": "array", "minItems": 1, "maxItems": most, "items": item}


def sort(keys: Iterable[str]) -> JsonSchema:
    """Return the form of the keys by which a list is sorted."""
    key = rf"({'|'.join(keys)})(:(asc|desc))?"
    return {**_text(f"{key}(,{key})*", 255), "x-sort-keys": list(keys)}
