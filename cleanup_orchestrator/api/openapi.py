"""Builds the OpenAPI 3.1 document of the API from ``operations``.

Each shape becomes a component of its name. A client that knows a component by its name can rely on it: a field is only
added, and only with a new microversion.
"""

from __future__ import annotations

import functools
import http
import importlib.resources
import json
from collections.abc import Mapping
from typing import Any

from cleanup_orchestrator.api import errors, microversions, responses
from cleanup_orchestrator.api.operations import OPERATIONS, Operation
from cleanup_orchestrator.api.responses import Form, Response
from cleanup_orchestrator.shapes import forms, schema
from cleanup_orchestrator.shapes.base import Input, Shape

Schema = dict[str, Any]

#: By this title a client can tell the API from those of other services.
TITLE = "Project Cleanup API"
_TAGS = {
    "versions": "What the API offers. These calls need no token.",
    "deletions": "Deletions of projects.",
    "plans": "What a cascade would delete and keep.",
    "projects": "Force.",
    "services": "The services of the catalog.",
    "liens": "Protections of single projects.",
    "brake": "The switch that stops all deletions.",
    "waivers": "Recorded decisions to skip a service.",
    "orphan-scans": "Resources of projects that Keystone does not know.",
}
#: By resource: what ``{id}`` in its path is.
_IDS = {"projects": "ID of the project."}


def document(url: str) -> Schema:
    """Return the document.

    :param url: the root of the API
    """
    return {**_document(), "servers": [{"url": url}]}


def tag(path: str) -> str:
    """Return the group of a path."""
    parts = path.split("/")
    return parts[2] if len(parts) > 2 and parts[2] in _TAGS else "versions"


@functools.cache
def _document() -> Schema:
    paths: dict[str, Schema] = {}
    refusals: dict[str, Schema] = {}
    for (method, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method.lower()] = _operation(path, operation, refusals)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE,
            "version": microversions.MAX,
            "summary": "Safe, asynchronous, observable deletion of OpenStack projects",
            "description": f"cleanup-orchestrator {microversions.release()}. Microversions: {microversions.MIN} to "
            f"{microversions.MAX}. ``x-errors`` explains the codes of the errors, and ``x-problems`` their problems.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {shape.__name__: schema.schema(shape, _ref) for shape in shapes()},
            "responses": refusals,
            "parameters": {"microversion": _microversion()},
            "headers": {
                "request_id": _header("ID of the request: ``req-`` and a UUID."),
                "microversion": _header("The microversion of the answer."),
                "location": _header("URL of the record."),
            },
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token", "description": "Keystone's token."}
            },
        },
        "security": [{"token": []}],
        "tags": [{"name": name, "description": about} for name, about in _TAGS.items()],
        "x-errors": {code: {"status": status, "meaning": about} for code, (status, about) in errors.CODES.items()},
        "x-problems": errors.PROBLEMS,
    }


@functools.cache
def shapes() -> tuple[type[Shape], ...]:
    """Return the shapes of all answers, by name."""
    used = [each.shape for operation in OPERATIONS.values() for each in operation.responses.values()]
    all_shapes = {inner for shape in (*used, responses.Errors) for inner in schema.nested_shapes(shape)}
    return tuple(sorted(all_shapes - {Shape}, key=lambda shape: shape.__name__))


@functools.cache
def examples() -> dict[str, Schema]:
    """Return the example of each operation: what is sent, and what the API answers. A test runs them."""
    text = importlib.resources.files(__package__).joinpath("examples.json").read_text("utf-8")
    by_operation: dict[str, Schema] = json.loads(text)
    return by_operation


def _header(about: str) -> Schema:
    return {"description": about, "schema": {"type": "string"}}


def _microversion() -> Schema:
    values = [f"{microversions.SERVICE_TYPE} {version}" for version in (*microversions.VERSIONS, "latest")]
    return {
        "name": microversions.HEADER,
        "in": "header",
        "description": "The microversion that the client wants. Without it the API answers the earliest one.",
        "schema": {"type": "string", "enum": values},
    }


def _operation(path: str, operation: Operation, refusals: dict[str, Schema]) -> Schema:
    """Return the object of one operation; add its errors to ``refusals``."""
    shown: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [tag(path)],
        "parameters": [*_path_parameters(path), *_query_parameters(operation.query)],
        "responses": _responses(operation, refusals),
    }
    if operation.public:
        shown["security"] = []
    else:
        shown["parameters"].append({"$ref": "#/components/parameters/microversion"})
    if operation.body is not None:
        body = schema.of_body(operation.body)
        shown["requestBody"] = {"required": bool(body["required"]), "content": {"application/json": {"schema": body}}}
    _add_example(shown, examples().get(operation.name, {}))
    return shown


def _add_example(shown: Schema, example: Mapping[str, Any]) -> None:
    """Add the example of an operation to its object."""
    if "body" in example:
        shown["requestBody"]["content"]["application/json"]["example"] = example["body"]
    if "answer" in example:
        shown["responses"][str(example["status"])]["content"]["application/json"]["example"] = example["answer"]


def _path_parameters(path: str) -> list[Schema]:
    if "{id}" not in path:
        return []
    resource = path.split("/")[2]
    form = forms.ID if resource in _IDS else {"type": "string", "format": "uuid"}
    about = _IDS.get(resource, f"ID of the {resource.removesuffix('s').replace('-', ' ')}.")
    return [{"name": "id", "in": "path", "required": True, "description": about, "schema": form}]


def _query_parameters(shape: type[Input]) -> list[Schema]:
    query = schema.of_query(shape)
    shown = {name: _parameter(name, values) for name, values in query["properties"].items()}
    for name in query["required"]:
        shown[name]["required"] = True
    return list(shown.values())


def _parameter(name: str, values: Schema) -> Schema:
    """Return the object of a query parameter; ``values`` is the schema of all its values."""
    item = {key: value for key, value in values["items"].items() if key != "description"}
    shown: Schema = {"name": name, "in": "query", "schema": item}
    if about := values["items"].get("description"):
        shown["description"] = about
    if values["maxItems"] > 1:
        shown["schema"] = {"type": "array", "maxItems": values["maxItems"], "items": item}
        shown |= {"style": "form", "explode": True}
    return shown


def _responses(operation: Operation, refusals: dict[str, Schema]) -> Schema:
    headers: Schema = {"X-Openstack-Request-Id": {"$ref": "#/components/headers/request_id"}}
    headers[microversions.HEADER] = {"$ref": "#/components/headers/microversion"}
    by_status: Schema = {}
    for status, response in operation.responses.items():
        by_status[str(status)] = {"description": response.about, "headers": headers, **_content(response)}
        if response.location:
            location = {"Location": {"$ref": "#/components/headers/location"}}
            by_status[str(status)] |= {"headers": {**headers, **location}}
    for status, codes in operation.codes().items():
        refusal = {
            "description": f"{http.HTTPStatus(status).phrase}: {', '.join(codes)}.",
            "headers": headers,
            "content": {"application/json": {"schema": _of_codes(codes)}},
        }
        alike = [name for name, known in refusals.items() if known == refusal]
        name = alike[0] if alike else f"{status}.{sum(name.startswith(f'{status}.') for name in refusals) + 1}"
        refusals[name] = refusal
        by_status[str(status)] = {"$ref": f"#/components/responses/{name}"}
    return by_status


def _of_codes(codes: tuple[str, ...]) -> Schema:
    """Return the schema of an error with one of the codes."""
    one = {"type": "object", "properties": {"code": {"enum": list(codes)}}}
    narrowed = {"type": "object", "properties": {"errors": {"type": "array", "items": one}}}
    return {"allOf": [{"$ref": "#/components/schemas/Errors"}, narrowed]}


def _content(response: Response) -> Schema:
    if response.form is Form.NOTHING:
        return {}
    content: Schema = {"application/json": {"schema": response.schema(_ref)}}
    if response.csv:
        content["text/csv"] = {"schema": {"type": "string"}}
    return {"content": content}


def _ref(shape: type[Shape]) -> Schema:
    return {"$ref": f"#/components/schemas/{shape.__name__}"}
