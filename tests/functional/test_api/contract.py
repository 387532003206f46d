"""Checks each answer of the API against its OpenAPI document.

:class:`Checked` wraps the application of the functional tests. An answer whose status, code, header or field is not in
the document fails the test that got it. The document allows further fields in an answer, so that clients survive
a new one. Here they are refused: each field of an answer must be documented.
"""

from __future__ import annotations

import functools
import json
import re

import jsonschema
import webob
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from cleanup_orchestrator.api import openapi

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
def validator(method, path, status, kind):
    """Return the validator of an answer; ``None``: the document has no such answer."""
    response = resolved(document()["paths"][path][method]["responses"].get(str(status)))
    if response is None or kind not in response.get("content", {}):
        return None
    schema = _absolute(closed(response["content"][kind]["schema"]))
    return jsonschema.Draft202012Validator(schema, registry=registry(), format_checker=jsonschema.FormatChecker())


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
    checks = validator(*found, response.status_int, response.content_type)
    assert checks is not None, f"{what} as {response.content_type} is not documented"
    value = response.json if response.content_type == "application/json" else response.text
    errors = [f"{error.json_path}: {error.message}" for error in checks.iter_errors(value)]
    assert not errors, f"{what}: {errors[:5]} in {json.dumps(value)[:2000]}"


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
        if path is not None and path != "/healthcheck":
            check(request, response)
        return response(environ, start_response)
