"""Checks each answer of the API against its OpenAPI document.

:class:`Checked` wraps the application of the functional tests. An answer whose status, code, header or field is not in
the document fails the test that got it. The document allows further fields in an answer, so that clients survive
a new one. Here they are refused: each field of an answer must be documented.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

#: The document as a file, for the tests of the client where the server is not installed.
DOCUMENT = os.environ.get("CLEANUP_OPENAPI", "")
if not DOCUMENT:
    import webob

    from cleanup_orchestrator.api import errors, openapi

ROOT = "urn:openapi"
#: Answers to requests that no operation of the document receives, because the path or the method is unknown.
UNROUTED = {401: "unauthorized", 404: "not_found", 405: "method_not_allowed", 503: "keystone_unavailable"}
UNROUTED |= {400: "invalid_version", 406: "version_not_supported", 413: "body_too_large"}


def closed(schema):
    """Return a schema that allows no other field than those that it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    if schema.get("type") == "object" and "required" in schema:
        made.setdefault("additionalProperties", False)
    return made


@functools.cache
def document():
    if DOCUMENT:
        return json.loads(pathlib.Path(DOCUMENT).read_text())
    return openapi.document("http://cleanup.example.com")


@functools.cache
def registry():
    whole = {**document(), "components": {**document()["components"]}}
    whole["components"]["schemas"] = closed(whole["components"]["schemas"])
    return Registry().with_resource(ROOT, Resource(whole, DRAFT202012))


def _absolute(schema):
    if isinstance(schema, list):
        return [_absolute(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: ROOT + v if k == "$ref" else _absolute(v) for k, v in schema.items()}


@functools.cache
def validator(method, path, status, kind, formats=True):
    """Return the validator of an answer; ``None``: the document has no such answer."""
    response = resolved(document()["paths"][path][method]["responses"].get(str(status)))
    if response is None or kind not in response.get("content", {}):
        return None
    schema = _absolute(closed(response["content"][kind]["schema"]))
    checker = jsonschema.FormatChecker() if formats else None
    return jsonschema.Draft202012Validator(schema, registry=registry(), format_checker=checker)


def resolved(response):
    if response and "$ref" in response:
        return document()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    return response


@functools.cache
def _patterns():
    found = []
    for path in document()["paths"]:
        pattern = re.escape(path).replace(re.escape("{id}"), "[^/]+")
        found.append((re.compile(f"{pattern.rstrip('/')}/?"), path))
    return found


def operation(method, path):
    """Return the (method, path) of the document for a request, or ``None``."""
    method = "get" if method == "HEAD" else method.lower()
    for pattern, known in _patterns():
        if pattern.fullmatch(path) and method in document()["paths"][known]:
            return method, known
    return None


def _told(validator, value):
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


@functools.cache
def _query_validator(method, path, name):
    """Return the validator of a query parameter; ``None``: the document has no such parameter."""
    for parameter in document()["paths"][path][method]["parameters"]:
        if (parameter.get("in"), parameter.get("name")) == ("query", name):
            return jsonschema.Draft202012Validator(_absolute(parameter["schema"]), registry=registry())
    return None


def check_request(method, path, query, body):
    """Check a request: its operation, its query parameters and its body.

    :param query: for each parameter, the list of its values as text
    :param body: the decoded JSON, or ``None`` without a body
    """
    what = f"{method} {path}"
    found = operation(method, path)
    assert found is not None, f"{what} is not documented"
    for name, values in query.items():
        checks = _query_validator(*found, name)
        assert checks is not None, f"{what}: the query parameter {name} is not documented"
        convert = int if checks.schema.get("type") == "integer" else str
        given = [values] if checks.schema.get("type") == "array" else map(convert, values)
        errors = [error for value in given for error in _told(checks, value)]
        assert not errors, f"{what}: {name}: {errors}"
    known = document()["paths"][found[1]][found[0]].get("requestBody")
    if body is None:
        assert not (known and known["required"]), f"{what} needs a body"
        return
    assert known, f"{what} has no documented body"
    schema = _absolute(closed(known["content"]["application/json"]["schema"]))
    errors = _told(jsonschema.Draft202012Validator(schema, registry=registry()), body)
    assert not errors, f"{what}: {errors[:5]} in {json.dumps(body)[:2000]}"


def completed(schema, value):
    """Return an example of an answer with the required fields that it lacks: null, or the least value of the type."""
    schema = _followed(schema)
    if value is None:
        return None
    for option in schema.get("anyOf", ()):
        if _followed(option).get("type") != "null":
            return completed(option, value)
    if isinstance(value, list):
        return [completed(schema.get("items", {}), each) for each in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    made = {name: completed(properties.get(name, {}), each) for name, each in value.items()}
    return {name: _least(properties[name]) for name in schema.get("required", ()) if name in properties} | made


def _followed(schema):
    while "$ref" in schema:
        schema = document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _least(schema):
    schema = _followed(schema)
    kinds = schema.get("type", "")
    if "null" in kinds or any(_followed(option).get("type") == "null" for option in schema.get("anyOf", ())):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    if kinds == "object":
        return completed(schema, {})
    if schema.get("format") == "date-time":
        return "2026-11-21T10:00:00Z"
    return {"string": "", "integer": schema.get("minimum", 0), "number": 0, "boolean": False, "array": []}[kinds]


def complete_answer(method, path, status, value):
    """Return an answer to a documented request with all required fields."""
    found = operation(method, path)
    known = found and resolved(document()["paths"][found[1]][found[0]]["responses"].get(str(status)))
    content = (known or {}).get("content", {}).get("application/json")
    return completed(content["schema"], value) if content else value


def check_answer(method, path, status, kind, value, formats=True):
    """Check the status and the body of an answer to a documented request.

    :param kind: the media type
    :param value: the decoded JSON, or the text of another type
    :param formats: whether ids have to be UUIDs, and times times
    """
    what = f"{method} {path}: {status}"
    found = operation(method, path)
    assert found is not None, f"{what} is not documented"
    known = resolved(document()["paths"][found[1]][found[0]]["responses"].get(str(status)))
    assert known is not None, f"{what} is not documented: {value!r:.500}"
    if "content" not in known:
        assert not value, f"{what} has no documented body"
        return
    checks = validator(*found, status, kind, formats)
    assert checks is not None, f"{what} as {kind} is not documented"
    errors = _told(checks, value)
    assert not errors, f"{what}: {errors[:5]} in {json.dumps(value)[:2000]}"


#: What only a program that calls the API needs: a call, a field, a parameter.
REST = re.compile(
    r"\b(GET|POST|DELETE|PATCH|PUT) /|/v1|'[a-z]+(_[a-z]+)*'|include_subtree|allow_unknown|mode (cascade|empty)"
)


def check_words(error):
    """Check that a user interface can say an error in its own words."""
    assert not REST.search(error.get("expected", "")), error
    apart = "problem" in error or "expected" in error or error["code"] in errors.SAID_BY_CODE
    assert apart or not REST.search(error["detail"]), error


def check(request, response):
    """Check one answer."""
    what = f"{request.method} {request.path_info}: {response.status_int}"
    assert "X-Openstack-Request-Id" in response.headers, what
    assert response.headers["OpenStack-API-Version"] == "project-cleanup 1.0", what
    if request.method == "OPTIONS" and response.status_int == 200:
        return  # of CORS
    found = operation(request.method, request.path_info)
    if found is None:
        codes = [error["code"] for error in response.json.get("errors", ())]
        assert codes == [UNROUTED.get(response.status_int)], what
        return
    known = resolved(document()["paths"][found[1]][found[0]]["responses"].get(str(response.status_int)))
    assert known is not None, f"{what} is not documented: {response.body[:500]!r}"
    assert [name for name in known["headers"] if name not in response.headers] == [], what
    assert ("Location" in response.headers) is ("Location" in known["headers"]), what
    if request.method == "HEAD" or "content" not in known:
        assert response.body == b"", what
        return
    value = response.json if response.content_type == "application/json" else response.text
    check_answer(request.method, request.path_info, response.status_int, response.content_type, value)
    if response.status_int >= 400:
        check_words(*value["errors"])


class Checked:
    """WSGI middleware: raises if an answer is not as the document says."""

    def __init__(self, application):
        self.application = application

    def __call__(self, environ, start_response):
        request = webob.Request(environ)
        response = request.get_response(self.application)
        try:
            path = request.path_info
        except UnicodeDecodeError:
            path = None
        gated = path is not None and path.startswith("/gate/") and response.content_type == "text/plain"
        if path is not None and path != "/healthcheck" and not gated:
            check(request, response)
        return response(environ, start_response)
