"""The pages about the protocol: their examples are answers of the example service, and their document is valid."""

import http
import json
import re
import sys

import jsonschema
import pytest

from cleanup_orchestrator import protocol
from cleanup_orchestrator.protocol import openapi, schemas
from cleanup_orchestrator.protocol.documents import ProblemType
from tests.unit.protocol import example
from tests.unit.protocol.caller import Client

sys.path.insert(0, str(example.ROOT / "doc" / "ext"))
import protocol_reference

sys.path.remove(str(example.ROOT / "doc" / "ext"))

PAGE = example.PAGE.read_text()
DOCUMENT = openapi.document()


def operation(method, path):
    """Return the object of a request in the OpenAPI document."""
    below = path.removeprefix(f"/{protocol.PATH}").partition("?")[0] or "/"
    [found] = [p for p in DOCUMENT["paths"] if re.fullmatch(re.sub(r"{\w+}", "[^/]+", p), below)]
    return DOCUMENT["paths"][found][method.lower()]


def test_the_example_service_answers_the_examples_of_the_page(tmp_path):
    client = example.service(tmp_path)
    for method, path, status, phrase, document in example.examples():
        answer = client(method, path)
        assert (answer.status, phrase) == (status, http.HTTPStatus(status).phrase), (method, path)
        assert (json.loads(answer.body) if answer.body else None) == document, (method, path)


def test_the_examples_are_valid_by_the_openapi_document():
    for method, path, status, _, document in example.examples():
        response = operation(method, path)["responses"][str(status)]
        if document is None:
            assert "content" not in response
            continue
        [content] = response["content"].values()
        schema = {**content["schema"], "components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(schema).validate(document)


def test_every_call_has_an_example():
    shown = {operation(method, path)["operationId"] for method, path, *_ in example.examples()}
    assert shown == {call.name for call in openapi.CALLS.values()}


def test_the_rules_have_their_numbers():
    assert re.findall(r"^Rule (\d+): ", PAGE, re.M) == [str(number) for number in range(1, 13)]


def test_only_a_list_has_pages():
    """A client that is made from the document reads all of them."""
    paged = {
        (method, path): {each["name"] for each in shown["parameters"] if each["in"] == "query"}
        for path, methods in DOCUMENT["paths"].items()
        for method, shown in methods.items()
    }
    assert {place: names for place, names in paged.items() if names} == {
        ("get", "/projects/{project_id}/{type}"): {"limit", "marker"}
    }


def test_it_is_an_openapi_document():
    import schemathesis  # it takes a second

    schema = schemathesis.openapi.from_dict(DOCUMENT)
    schema.validate()
    assert len(list(schema.get_all_operations())) == len(openapi.CALLS)
    text = json.dumps(DOCUMENT)
    for name in set(DOCUMENT["components"]["schemas"]) - {"Problem"}:
        assert f'"#/components/schemas/{name}"' in text


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_every_field_says_what_it_is(name):
    for field, value in DOCUMENT["components"]["schemas"][name]["properties"].items():
        assert value.get("description"), field
        assert f"   * - ``{field}``\n" in protocol_reference.page()


def test_the_reference_has_every_call_and_problem():
    page = protocol_reference.page()
    for method, path in openapi.CALLS:
        assert f"``{method} {{base}}{path}``" in page
    assert [type_ for type_ in ProblemType if f"``{type_}``" not in page] == []


def test_the_application_has_the_calls_of_the_document(tmp_path):
    """And no others: what is not in the document is refused."""
    client = example.service(tmp_path)
    names = {"project_id": example.MINE, "type": "note", "id": "x"}
    for path in {path for _, path in openapi.CALLS}:
        for method in ("GET", "PUT", "DELETE", "POST", "PATCH", "HEAD"):
            answer = client(method, f"/{protocol.PATH}" + path.format(**names))
            assert (answer.status == 405) is ((method, path) not in openapi.CALLS), (method, path)


def test_the_service_of_the_example_has_an_api_that_the_drain_locks(tmp_path):
    widgets, client = example.module(), example.service(tmp_path)
    project = ("member",), example.MINE
    assert Client(client.app, *project)("GET", "/widgets").json["widgets"][0]["id"] == example.WHEEL
    assert Client(client.app, *project)("GET", "/gadgets").status == 404
    assert Client(client.app, ("reader",), example.MINE)("GET", "/widgets").status == 403
    assert widgets.create(example.MINE, "note", {"name": "n"})[0] == "201 Created"
    assert client("PUT", f"/{protocol.PATH}/drains/{example.MINE}").status == 204
    assert widgets.create(example.MINE, "note", {"name": "n"})[0] == "403 Forbidden"
    assert widgets.create(example.OTHER, "part", {"widget_id": example.WHEEL})[0] == "400 Bad Request"
    assert widgets.create(example.OTHER, "order", {"widget_id": example.WHEEL})[0] == "201 Created"


@pytest.mark.parametrize(
    ("roles", "scope", "target", "notes"),
    [
        (("member",), example.MINE, example.MINE, 1),
        (("member",), example.MINE, example.OTHER, 0),
        (("service",), example.OTHER, example.OTHER, 0),
        (("service",), "", example.MINE, 0),
    ],
)
def test_the_service_of_the_example_does_what_a_rule_says_only_if_the_caller_may(tmp_path, roles, scope, target, notes):
    """Promise 11: a user must not use the rights of the service."""
    widgets, client = example.module(), example.service(tmp_path)
    _, made = widgets.create(example.MINE, "rule", {"name": "r", "target": target})
    before = len(widgets.list_(target, "note", 1000, None).resources)
    path = f"/{protocol.PATH}/projects/{example.MINE}/rule/{made['rule']['id']}"
    assert Client(client.app, roles, scope)("DELETE", path).status == 204
    assert client("GET", path).said == "404 not-found"
    assert len(widgets.list_(target, "note", 1000, None).resources) - before == notes


def test_a_schema_of_the_document_is_one():
    for schema in (schemas.CAPABILITIES, schemas.PAGE, schemas.DRAIN, schemas.PROBLEM, schemas.RESOURCE):
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (schemas.TYPE["properties"]["name"], "widget"),
        (schemas.TYPE["properties"]["after"]["items"], "widget-store.widget"),
        (schemas.TYPE["properties"]["deleted_with"]["items"], "widget"),
        (schemas.CAPABILITIES["properties"]["service_type"], "widget-store"),
        (schemas.CAPABILITIES["properties"]["version"], "1.0"),
        (schemas.RESOURCE["properties"]["part_of"]["propertyNames"], "widget"),
        (schemas.USER["properties"]["type"], "widget-store.widget"),
    ],
)
def test_no_pattern_accepts_a_final_newline(schema, text):
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(text)
    assert not validator.is_valid(f"{text}\n")
