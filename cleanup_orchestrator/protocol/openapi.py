"""Builds the OpenAPI 3.1 document of the project resources protocol from ``schemas``."""

from __future__ import annotations

import dataclasses
import http
from typing import Any

from cleanup_orchestrator.protocol import schemas
from cleanup_orchestrator.protocol.documents import MAX_ROWS, PATH, STATUS, VERSION, ProblemType

Schema = dict[str, Any]

_NAMED = {
    "Capabilities": schemas.CAPABILITIES,
    "ResourceType": schemas.TYPE,
    "Page": schemas.PAGE,
    "Resource": schemas.RESOURCE,
    "User": schemas.USER,
    "Drain": schemas.DRAIN,
    "Problem": schemas.PROBLEM,
}
_NAMES = {id(schema): name for name, schema in _NAMED.items()}
_GENERAL = tuple(
    ProblemType[name] for name in ("BAD_REQUEST", "NOT_AUTHENTICATED", "FORBIDDEN", "INTERNAL", "UNAVAILABLE")
)
_IDS = {
    "project_id": ("ID of the project.", schemas.PAGE["properties"]["project_id"]),
    "type": ("Name of the type.", schemas.TYPE["properties"]["name"]),
    "id": ("ID of the resource, percent-encoded, also its slashes.", schemas.RESOURCE["properties"]["id"]),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call of the protocol."""

    name: str
    summary: str
    answers: dict[int, tuple[str, str]]  #: what a status means, and the name of its document; empty: no body
    problems: tuple[ProblemType, ...]  #: besides those that every call can have
    paged: bool = False


_TYPE = (ProblemType.UNKNOWN_TYPE,)
_DELETED = {204: ("Gone: the next list does not have it.", ""), 202: ("Accepted: it is listed until it is gone.", "")}
_REFUSED = (ProblemType.NOT_SUPPORTED, ProblemType.IN_USE, ProblemType.PROTECTED)
_NO_DRAIN = (ProblemType.NOT_SUPPORTED,)
_PROJECT_TYPE = "/projects/{project_id}/{type}"
#: All calls, by method and path below the base.
CALLS: dict[tuple[str, str], Call] = {
    ("GET", ""): Call(
        "showCapabilities", "What the service declares", {200: ("The capabilities.", "Capabilities")}, ()
    ),
    ("GET", _PROJECT_TYPE): Call(
        "listResources", "What a project owns of a type", {200: ("A page.", "Page")}, _TYPE, paged=True
    ),
    ("DELETE", _PROJECT_TYPE): Call(
        "deleteAllResources",
        "Delete all resources of a type, except those with ``keep`` or ``protected``",
        _DELETED,
        (*_TYPE, *_REFUSED),
    ),
    ("GET", f"{_PROJECT_TYPE}/{{id}}"): Call(
        "showResource", "One resource", {200: ("The resource.", "Resource")}, (*_TYPE, ProblemType.NOT_FOUND)
    ),
    ("DELETE", f"{_PROJECT_TYPE}/{{id}}"): Call(
        "deleteResource", "Delete one resource", _DELETED, (*_TYPE, ProblemType.NOT_FOUND, *_REFUSED)
    ),
    ("GET", "/drains/{project_id}"): Call(
        "showDrain", "Whether a project is drained", {200: ("The state.", "Drain")}, _NO_DRAIN
    ),
    ("PUT", "/drains/{project_id}"): Call("drain", "Drain a project", {204: ("It is drained.", "")}, _NO_DRAIN),
    ("DELETE", "/drains/{project_id}"): Call("undrain", "End the drain", {204: ("It is not drained.", "")}, _NO_DRAIN),
}


def document() -> Schema:
    """Return the document. The URL of the server is an example."""
    paths: dict[str, Schema] = {}
    for (method, path), call in CALLS.items():
        paths.setdefault(path or "/", {})[method.lower()] = _operation(path, call)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Project resources protocol",
            "version": VERSION,
            "summary": "A service answers for itself what a project owns in it",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": f"https://widgets.example.com/{PATH}"}],
        "paths": paths,
        "components": {
            "schemas": {name: _inner(schema) for name, schema in _NAMED.items()},
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token", "description": "Keystone's token."}
            },
        },
        "security": [{"token": []}],
    }


def _operation(path: str, call: Call) -> Schema:
    parameters = [
        {"name": name, "in": "path", "required": True, "description": about, "schema": _bare(schema)}
        for name, (about, schema) in _IDS.items()
        if f"{{{name}}}" in path
    ]
    if call.paged:
        limit = {"type": "integer", "minimum": 1, "maximum": MAX_ROWS, "default": MAX_ROWS}
        parameters += [
            {"name": "limit", "in": "query", "description": "Most rows of the page.", "schema": limit},
            {"name": "marker", "in": "query", "description": "``next`` of the page before.", "schema": schemas.MARKER},
        ]
    return {"operationId": call.name, "summary": call.summary, "parameters": parameters, "responses": _responses(call)}


def _responses(call: Call) -> Schema:
    responses: Schema = {}
    for status, (about, name) in call.answers.items():
        content = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}
        responses[str(status)] = {"description": about, **(content if name else {})}
    kinds: dict[int, list[str]] = {}
    for kind in sorted((*_GENERAL, *call.problems), key=lambda kind: STATUS[kind]):
        kinds.setdefault(STATUS[kind], []).append(str(kind))
    for status, types in kinds.items():
        one = {"type": "object", "properties": {"type": {"enum": types}}}
        schema = {"allOf": [{"$ref": "#/components/schemas/Problem"}, one]}
        phrase = http.HTTPStatus(status).phrase
        responses[str(status)] = {"description": phrase, "content": {"application/problem+json": {"schema": schema}}}
    return responses


def _bare(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "description"}


def _inner(schema: Schema) -> Schema:
    """Return a schema with references to the named schemas inside."""
    return {name: _ref(value) for name, value in schema.items()}


def _ref(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    if id(schema) in _NAMES:
        return {"$ref": f"#/components/schemas/{_NAMES[id(schema)]}"}
    return _inner(schema)
