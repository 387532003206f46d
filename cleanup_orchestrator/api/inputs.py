"""Checks the queries and bodies of requests by their shapes, before the handlers are called."""

from __future__ import annotations

import datetime
import json
import re
import urllib.parse
from collections.abc import Callable
from typing import Any

import jsonschema
import webob

from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.core import canonical
from cleanup_orchestrator.shapes import forms, schema
from cleanup_orchestrator.shapes.base import Input, JsonSchema

#: The validators of shapes, by what makes their schemas: ``of_query`` or ``of_body``.
_VALIDATORS: dict[tuple[Callable[[type[Input]], JsonSchema], type[Input]], jsonschema.Draft202012Validator] = {}


def _validator(of: Callable[[type[Input]], JsonSchema], shape: type[Input]) -> jsonschema.Draft202012Validator:
    if (of, shape) not in _VALIDATORS:
        _VALIDATORS[of, shape] = jsonschema.Draft202012Validator(of(shape))
    return _VALIDATORS[of, shape]


def _refuse(validator: jsonschema.Draft202012Validator, value: Any, code: str) -> None:
    """Raise for the first violation.

    The text never repeats a value of the request: it can be long or secret.

    :raises ApiError: 400
    """
    order = lambda e: (e.validator != "additionalProperties", [str(p) for p in e.absolute_path], e.message)  # noqa: E731
    errors = sorted(validator.iter_errors(value), key=order)
    if not errors:
        return
    error = errors[0]
    names = [part for part in error.absolute_path if isinstance(part, str)]
    field, path, problem = names[-1] if names else "", error.json_path, ""
    match error.validator:
        case "additionalProperties":
            known = error.schema["properties"]
            field = sorted(name for name in error.instance if name not in known)[0][:64]
            path = error.json_path + _path(field).removeprefix("$")
            expected, problem = f"is unknown; known are: {', '.join(known) or 'none'}", "unknown_field"
        case "required":
            field = next(name for name in error.validator_value if name not in value)
            path, expected = _path(field), "is required"
        case "type":
            kinds = error.validator_value
            expected = f"must be of type {kinds if isinstance(kinds, str) else ' or '.join(kinds)}"
        case "enum":
            expected = f"must be one of {', '.join(error.validator_value)}"
        case "maxLength":
            expected = f"may have at most {error.validator_value} characters"
        case "minLength":
            expected = "must not be empty"
        case "minItems":
            expected = "must not have an empty list: it would select everything; leave the criterion out for that"
        case "maxItems":
            expected = "may be given only once" if error.validator_value == 1 else "has too many items"
        case "minimum" | "maximum":
            expected = f"must be at {'least' if error.validator == 'minimum' else 'most'} {error.validator_value}"
        case _ if field == "sort":
            keys = ", ".join(error.schema["x-sort-keys"])
            expected = f"must be key:asc or key:desc, separated by commas; keys are {keys}"
        case _:
            expected = forms.EXPECTED.get(error.schema["pattern"], "contains characters that are not allowed")
    if not field:
        raise ApiError(400, code, "the body must be a JSON object", path=path)
    raise invalid_field(field, expected, code, path, problem)


def invalid_field(field: str, expected: str, code: str = "invalid_body", path: str = "", problem: str = "") -> ApiError:
    """Return the error for a field of the body; with ``invalid_query`` for a parameter of the query, without a path.

    :param expected: follows the name in the text
    :param path: JSON path of the invalid part of the body; empty: the field
    :param problem: one of ``errors.PROBLEMS``, if ``expected`` names a call or a field
    """
    more: dict[str, Any] = {"path": path or _path(field)} if code == "invalid_body" else {}
    more |= {"problem": problem} if problem else {"expected": expected}
    return ApiError(400, code, f"'{field}' {expected}", field=field, **more)


def _path(name: str) -> str:
    """Return the JSON path of a field of the body."""
    return f"$.{name}" if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"$[{json.dumps(name)}]"


def check_query(request: webob.Request, shape: type[Input]) -> dict[str, list[str]]:
    """Return the parameters of the query, each with its values.

    :raises ApiError: 400 ``invalid_query``
    """
    try:
        pairs = urllib.parse.parse_qsl(
            request.query_string, keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except (UnicodeDecodeError, UnicodeEncodeError):
        raise ApiError(400, "invalid_query", "the query must be percent-encoded UTF-8") from None
    except ValueError:
        raise ApiError(400, "invalid_query", "the query has too many parameters") from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    _refuse(_validator(schema.of_query, shape), values, "invalid_query")
    return values


def check_body(request: webob.Request, shape: type[Input]) -> dict[str, Any]:
    """Return the object in the body.

    An operation without required fields also accepts an empty body.

    :raises ApiError: 400 ``invalid_json``, 400 ``invalid_body``, 415 ``unsupported_media_type``
    """
    raw = request.body
    if not raw.strip() and all(each.optional for each in shape.fields.values()):
        return {}
    if request.content_type.lower() != "application/json" and (raw or request.content_type):
        raise ApiError(415, "unsupported_media_type", "send the body as application/json")
    try:
        value = canonical.parsed(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _invalid_json(raw, error) from None
    _refuse(_validator(schema.of_body, shape), value, "invalid_body")
    assert isinstance(value, dict)
    for field, given in value.items():
        if not _encodable(given):
            raise invalid_field(field, "contains an unpaired surrogate (\\ud800 to \\udfff): send the pair, or UTF-8")
    return value


def _invalid_json(raw: bytes, error: Exception) -> ApiError:
    """Return the error for a body that is not JSON, with its position if the parser gives one."""
    text = "the body must be JSON in UTF-8, without duplicate names"
    at: dict[str, Any] = {}
    if isinstance(error, UnicodeDecodeError):
        before = raw[: error.start].decode("utf-8")
        at = {"line": before.count("\n") + 1, "column": len(before) - before.rfind("\n")}
    elif isinstance(error, json.JSONDecodeError):
        at = {"line": error.lineno, "column": error.colno}
    if at:
        text += f"; the first error is at line {at['line']}, column {at['column']}"
    return ApiError(400, "invalid_json", text, **at)


def _encodable(value: Any) -> bool:
    """Return whether all text in a value can be encoded as UTF-8.

    The escapes of JSON can name surrogates, which cannot be encoded.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def moment(text: str, field: str, code: str = "invalid_body") -> datetime.datetime:
    """Return the time of a text that matches ``forms.TIME``: UTC, naive.

    :raises ApiError: 400 with the code if the date does not exist
    """
    try:
        return datetime.datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        raise invalid_field(field, "is a time that does not exist", code) from None


def is_uuid(text: str) -> bool:
    """Return whether a text has the form of an id of a deletion, waiver or lien.

    No other text is used in a query of the database.
    """
    return re.match(forms.UUID["pattern"], text) is not None
