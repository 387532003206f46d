"""The OpenAPI document: that it is one, what it has, and that the check of the answers against it can fail."""

import copy
import json

import jsonschema
import pytest
import webob

from cleanup_orchestrator.api import errors, microversions, openapi, operations
from cleanup_orchestrator.shapes import schema
from tests.functional.test_api import contract
from tests.support.cases import each_case


def test_it_is_an_openapi_document(site):
    answer = site.get("/v1/openapi.json", token=None)
    assert answer.status == 200
    assert answer.json == openapi.document("http://cleanup.example.com")
    import schemathesis  # it takes a second

    api = schemathesis.openapi.from_dict(answer.json)
    api.validate()
    assert len(list(api.get_all_operations())) == len(operations.OPERATIONS)


def test_only_discovery_needs_no_token(site):
    public = {path for (_, path), operation in operations.OPERATIONS.items() if operation.public}
    assert public == {"/", "/v1", "/v1/openapi.json"}
    paths = openapi.document("")["paths"]
    for method, path in operations.OPERATIONS:
        assert (paths[path][method.lower()].get("security") == []) is (path in public)
        status = site.call(method, path.replace("{id}", "x"), token=None).status
        assert status == (200 if path in public else 401)


def test_it_has_the_schemas_that_the_api_checks(site):
    """The limits that a request is checked for, so that a client can check its request before it sends it."""
    paths = openapi.document("")["paths"]
    for (method, path), operation in operations.OPERATIONS.items():
        shown = paths[path][method.lower()]
        given = {each["name"] for each in shown["parameters"] if each.get("in") == "query"}
        assert given == set(operation.query.fields)
        body = shown.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        assert body == (operation.body and schema.of_body(operation.body))
    [status] = [each for each in paths["/v1/deletions"]["get"]["parameters"] if each.get("name") == "status"]
    assert (status["schema"]["type"], status["schema"]["maxItems"], status["explode"]) == ("array", 20, True)
    [mode] = [each for each in paths["/v1/deletions"]["get"]["parameters"] if each.get("name") == "mode"]
    assert mode["schema"] == {"enum": ["report", "cascade", "purge"]}
    create = paths["/v1/deletions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert create["required"] == ["project_id"]
    needed = {
        (path, each["name"])
        for path, methods in paths.items()
        for shown in methods.values()
        for each in shown["parameters"]
        if each.get("in") == "query" and each.get("required")
    }
    assert needed == {("/v1/events", "resource_id")}


def test_it_refers_to_nothing_that_it_does_not_have():
    document = openapi.document("")
    text = json.dumps(document)
    for part in ("schemas", "responses", "parameters", "headers"):
        for name in document["components"][part]:
            assert f'"#/components/{part}/{name}"' in text, f"{part}/{name} is not used"
    for reference in _references(document):
        found = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


def _references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        value = list(value.values())
    for each in value if isinstance(value, list) else []:
        yield from _references(each)


@each_case("shape", openapi.shapes())
def test_every_field_of_an_answer_says_what_it_is(shape):
    jsonschema.Draft202012Validator.check_schema(schema.schema(shape))
    assert shape.__doc__
    assert [name for name, each in shape.fields.items() if not (each.about or each.nested)] == []


def test_it_explains_every_code():
    document = openapi.document("")
    assert (
        set(document["x-errors"])
        == set(errors.CODES)
        == set(document["components"]["schemas"]["Error"]["properties"]["code"]["enum"])
    )
    used = {code for each in operations.OPERATIONS.values() for codes in each.codes().values() for code in codes}
    of_server = {"request_timeout", "request_header_fields_too_large", "not_implemented"}  # before any operation
    assert set(errors.CODES) - used == {"not_found"} | of_server, "only a path without an operation is not found"


def test_the_microversions_are_in_order_and_explained():
    numbers = [tuple(map(int, version.split("."))) for version in microversions.VERSIONS]
    assert numbers == [(1, minor) for minor in range(len(numbers))]
    assert all(microversions.VERSIONS.values())


# ------------------------------------------------------------------------------------------- the check of the answers
def answer(status, body, **headers):
    made = webob.Response(status=status, content_type="application/json", json_body=body)
    made.headers.update({"X-Openstack-Request-Id": "req-1", "OpenStack-API-Version": "project-cleanup 1.0"})
    made.headers.update({name.title(): value for name, value in headers.items()})
    return made


BRAKE = {"on": True, "reason": "r", "since": None, "user_id": "u", "user_name": "n", "request_id": "r"}
ERROR = {
    "status": 403, "code": "forbidden", "title": "Forbidden", "detail": "no", "request_id": "r",
    "links": [{"rel": "help", "href": "x"}],
}  # fmt: skip


def refused(path, status, body, **headers):
    with pytest.raises(AssertionError):
        contract.check(webob.Request.blank(path), answer(status, body, **headers))


def test_an_answer_as_documented_is_accepted():
    contract.check(webob.Request.blank("/v1/brake"), answer(200, {"brake": BRAKE}))
    contract.check(webob.Request.blank("/v1/brake/"), answer(403, {"errors": [ERROR]}))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, {"brake": {**BRAKE, "colour": "red"}}),
        (200, {"brake": {**BRAKE, "on": "yes"}}),
        (200, {"brake": {name: value for name, value in BRAKE.items() if name != "on"}}),
        (200, {"brake": BRAKE, "more": 1}),
        (200, {}),
        (202, {"brake": BRAKE}),
        (403, {"errors": [{**ERROR, "code": "self_approval"}]}),
        (403, {"errors": [{**ERROR, "colour": "red"}]}),
        (403, {"errors": [ERROR, ERROR]}),
        (409, {"errors": [{**ERROR, "status": 409, "code": "conflict"}]}),
    ],
)
def test_another_answer_is_not(status, body):
    refused("/v1/brake", status, body)


def test_nor_one_without_its_headers():
    for missing in ("X-Openstack-Request-Id", "OpenStack-API-Version"):
        made = answer(200, {"brake": BRAKE})
        del made.headers[missing]
        with pytest.raises((AssertionError, KeyError)):
            contract.check(webob.Request.blank("/v1/brake"), made)
    refused("/v1/brake", 200, {"brake": BRAKE}, location="http://x")


def test_a_path_without_an_operation_has_errors_only():
    refused("/v1/nothing", 200, {})
    refused("/v1/nothing", 404, {"errors": [{**ERROR, "status": 404, "code": "lien_not_found"}]})


def test_the_document_is_not_changed_by_those_who_read_it():
    before = copy.deepcopy(openapi.document("http://x"))
    contract.registry()
    assert openapi.document("http://x") == before
