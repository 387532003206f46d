"""Every operation's bad input, as tables: its status, its code, the field's name, and no effect."""

import dataclasses
import sys

import jsonschema
import pytest
import webob

from cleanup_orchestrator.api import operations
from cleanup_orchestrator.api.root import Root
from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Force, RoundPurpose, Status
from cleanup_orchestrator.shapes import schema
from tests.functional.test_api.site import Site
from tests.support.cases import each_case
from tests.support.stores import save

UUID = "aaaaaaaa-2222-3333-4444-555555555555"


@pytest.fixture(scope="module")
def asked(tmp_path_factory, keystone):
    """The application with one deletion, ``asked.id``, for many requests that have no effect."""
    site = Site(tmp_path_factory.mktemp("asked"), keystone=keystone)
    site.id = site.ask()["id"]
    yield site
    site.close()


@pytest.fixture
def unchanged(asked):
    """The same; fails a test whose requests have an effect."""

    def seen():
        return asked.store.load(asked.id)[:2], asked.count(), len(asked.bus.casts)

    before = seen()
    yield asked
    assert seen() == before


BODIES = [
    (b"", "invalid_json", None),
    (b"   ", "invalid_json", None),
    (b"{", "invalid_json", None),
    (b"\xff\xfe{}", "invalid_json", None),
    ("{}".encode("utf-16"), "invalid_json", None),
    (b'{"project_id": "p1", "project_id": "p2"}', "invalid_json", None),
    (b'{"project_id": NaN}', "invalid_json", None),
    (b"[" * 5000, "invalid_json", None),
    (b'{"project_id":' * 1000, "invalid_json", None),
    (b'{"project_id": ' + b"9" * 5000 + b"}", "invalid_json", None),
    (b"null", "invalid_body", None),
    (b"[]", "invalid_body", None),
    (b'"p1"', "invalid_body", None),
    (b"{}", "invalid_body", "project_id"),
    (b'{"project_id": null}', "invalid_body", "project_id"),
    (b'{"project_id": 1}', "invalid_body", "project_id"),
    (b'{"project_id": ["p1"]}', "invalid_body", "project_id"),
    (b'{"project_id": ""}', "invalid_body", "project_id"),
    (b'{"project_id": "' + b"a" * 65 + b'"}', "invalid_body", "project_id"),
    (b'{"project_id": "p1\\n"}', "invalid_body", "project_id"),
    (b'{"project_id": "p1\\u0000"}', "invalid_body", "project_id"),
    (b'{"project_id": "../p1"}', "invalid_body", "project_id"),
    (b'{"project_id": "p1?x"}', "invalid_body", "project_id"),
    (b'{"project_id": "p 1"}', "invalid_body", "project_id"),
    (b'{"project_id": "\\ud800"}', "invalid_body", "project_id"),
    (b'{"project_id": "p1", "mode": "empty"}', "invalid_body", "mode"),
    (b'{"project_id": "p1", "mode": "CASCADE"}', "invalid_body", "mode"),
    (b'{"project_id": "p1", "mode": null}', "invalid_body", "mode"),
    (b'{"project_id": "p1", "mode": true}', "invalid_body", "mode"),
    (b'{"project_id": "p1", "dry_run": "true"}', "invalid_body", "dry_run"),
    (b'{"project_id": "p1", "dry_run": 1}', "invalid_body", "dry_run"),
    (b'{"project_id": "p1", "dry_run": null}', "invalid_body", "dry_run"),
    (b'{"project_id": "p1", "force": true}', "invalid_body", "force"),
    (b'{"project_id": "p1", "": 1}', "invalid_body", ""),
    (b'{"project_id": "p1", "Project_id": "p2"}', "invalid_body", "Project_id"),
    (b'{"deletion": {"project_id": "p1"}}', "invalid_body", "deletion"),
]


@each_case("body,code,field", BODIES)
@pytest.mark.usefixtures("no_garbage_collection")
def test_a_bad_body(site, body, code, field):
    answer = site.post("/v1/deletions", body)
    assert (answer.status, answer.error["code"]) == (400, code)
    if field:
        assert answer.error["field"] == field
        assert f"'{field}'" in answer.error["detail"]
    assert len(answer.body) < 1000, "what was sent is not repeated"
    assert site.count() == 0 and site.bus.casts == []


@pytest.mark.parametrize(
    ("body", "line", "column"),
    [
        (b"", 1, 1),
        (b"{", 1, 2),
        (b'{"project_id":\n  "p1",\n  x}', 3, 3),
        ('{"project_id": "\u00fc\u00fc"\n, x}'.encode(), 2, 3),
        (b'{"project_id":\n "\xc3\xbc\xff"}', 2, 4),
        (b"\xff", 1, 1),
        ("\ufeff{}".encode(), 1, 1),
        (b'{"project_id": "p1", "project_id": "p2"}', None, None),
        (b'{"project_id": NaN}', None, None),
        # More than Python nests up to 3.13. Later ones read it to its end.
        (b"[" * 15000, *((1, 15001) if sys.version_info >= (3, 14) else (None, None))),
    ],
)
@pytest.mark.usefixtures("no_garbage_collection")
def test_where_a_body_stops_being_json(site, body, line, column):
    error = site.post("/v1/deletions", body).error
    assert (error["code"], error.get("line"), error.get("column")) == ("invalid_json", line, column)
    assert (f"line {line}, column {column}" in error["detail"]) is (line is not None)


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v1/deletions", b"[]", "$"),
        ("/v1/deletions", {"project_id": 1}, "$.project_id"),
        ("/v1/deletions", {}, "$.project_id"),
        ("/v1/deletions", {"project_id": "p1", "force": 1}, "$.force"),
        ("/v1/deletions", {"project_id": "p1", "a b": 1}, '$["a b"]'),
        ("/v1/projects/p1/force", {"reason": "r", "types": ["network.port", "network.port", "x"]}, "$.types[2]"),
        ("/v1/waivers", {"service_type": "dns", "reason": "r", "expires_at": "soon"}, "$.expires_at"),
    ],
)
def test_which_part_of_a_body_is_invalid(site, path, body, where):
    error = site.call("DELETE" if "force" in path else "POST", path, body=body).error
    assert (error["code"], error["path"]) == ("invalid_body", where)


PAST, NEVER = "2001-01-31T00:00:00Z", "2027-02-30T00:00:00Z"
LIEN = {"project_id": "p1", "origin": "billing", "reason": "r"}
WAIVER = {"service_type": "dns", "reason": "r"}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/deletions", {"project_id": "p1", "plan_hash": "0" * 64}, "plan_hash"),
        ("/v1/deletions", {"project_id": "p1", "plan_id": UUID}, "plan_id"),
        ("/v1/deletions", {"project_id": "p1", "plan_id": UUID, "mode": "cascade", "include_subtree": True}, "plan_id"),
        ("/v1/projects/p1/force", {"reason": "r", "types": ["network.none"]}, "types"),
        ("/v1/liens", {**LIEN, "expires_at": PAST}, "expires_at"),
        ("/v1/liens", {**LIEN, "expires_at": NEVER}, "expires_at"),
        ("/v1/waivers", {**WAIVER, "expires_at": PAST}, "expires_at"),
        ("/v1/waivers", {**WAIVER, "expires_at": "2099-01-31T00:00:00Z"}, "expires_at"),
        ("/v1/waivers", {**WAIVER, "expires_at": NEVER}, "expires_at"),
        ("/v1/brake", {"reason": "\ud800"}, "reason"),
    ],
    ids=str,
)
def test_a_field_that_no_schema_can_check_has_its_path_too(site, path, body, field):
    made = site.ask("p1", mode="cascade")
    before = site.store.get(made["id"])
    save(site.store, before, dataclasses.replace(before, status=Status.DELETING, purpose=RoundPurpose.DELETE))
    error = site.call("DELETE" if "force" in path else "POST", path, body=body).error
    assert (error["code"], error["field"], error["path"]) == ("invalid_body", field, f"$.{field}")
    assert error["detail"].startswith(f"'{field}' ")


def test_a_parameter_of_the_query_has_no_path(site):
    error = site.get(f"/v1/deletions?created_since={NEVER}").error
    assert (error["code"], error["field"]) == ("invalid_query", "created_since") and "path" not in error


LATER = "2099-01-31T00:00:00Z"


@pytest.mark.parametrize("text", ["a\ud800", "\udc00", "\udc00\ud800"], ids=ascii)
@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/liens", {"project_id": "p1", "origin": "billing"}, "reason"),
        ("POST", "/v1/liens", {"project_id": "p1", "reason": "an invoice"}, "origin"),
        ("POST", "/v1/waivers", {"service_type": "dns", "expires_at": LATER}, "reason"),
        ("POST", "/v1/waivers", {"service_type": "dns", "expires_at": LATER, "reason": "down"}, "region"),
        ("POST", "/v1/brake", {}, "reason"),
        ("POST", "/v1/deletions/{id}/approve", {}, "reason"),
        ("DELETE", "/v1/projects/p1/force", {}, "reason"),
    ],
)
def test_an_unpaired_surrogate_is_refused(site, method, path, body, field, text):
    """No database stores it. Once it caused a server error."""
    made = site.ask("p1", mode="cascade")
    before = site.store.get(made["id"])
    before = save(site.store, before, dataclasses.replace(before, status=Status.DELETING, purpose=RoundPurpose.DELETE))
    answer = site.call(method, path.format(id=made["id"]), body={**body, field: text})
    assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_body", field)
    assert "surrogate" in answer.error["detail"] and "send" in answer.error["detail"]
    assert site.store.get(made["id"]) == before
    assert site.get("/v1/liens").json["liens"] == site.get("/v1/waivers").json["waivers"] == []


def test_a_surrogate_pair_is_a_character(site):
    """Also as escapes."""
    body = b'{"project_id": "p1", "origin": "billing", "reason": "\\ud83d\\uddd1"}'
    assert site.post("/v1/liens", body).json["lien"]["reason"] == "\U0001f5d1"


def test_a_field_name_with_an_unpaired_surrogate(site):
    answer = site.post("/v1/deletions", b'{"project_id": "p1", "\\ud800": 1}')
    assert (answer.status, answer.error["code"]) == (400, "invalid_body")


def test_an_unpaired_surrogate_from_another_source_is_replaced_when_stored(any_site):
    made = any_site.ask("p1", mode="cascade")
    before, _, now = any_site.store.load(made["id"])
    forced = Force("a\ud800", (), now, 1, 1, "u", "n\ud800", "req")
    condition = Condition("stalled", True, "x", "b\ud800", now)
    after = dataclasses.replace(before, message="c\ud800\0", forced=forced, conditions=(condition,))
    save(any_site.store, before, after)
    stored = any_site.store.get(made["id"])
    assert (stored.message, stored.forced.reason, stored.forced.user_name) == ("c?\ufffd", "a?", "n?")
    assert stored.conditions == (dataclasses.replace(condition, message="b?"),)


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/xml", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""],
)
def test_another_content_type(unchanged, kind):
    headers = {"Content-Type": kind}
    answer = unchanged.post("/v1/deletions", b'{"project_id": "p1"}', headers=headers)
    assert (answer.status, answer.error["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_by_any_spelling(site, kind):
    assert site.post("/v1/deletions", b'{"project_id": "p1"}', headers={"Content-Type": kind}).status == 202


@pytest.mark.parametrize("action", ["retry", "cancel"])
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(b'{"force": true}', 400, "invalid_body"), (b"x", 400, "invalid_json"), (b"null", 400, "invalid_body")],
)
def test_an_action_takes_no_fields(unchanged, action, body, status, code):
    answer = unchanged.post(f"/v1/deletions/{unchanged.id}/{action}", body)
    assert (answer.status, answer.error["code"]) == (status, code)


def test_an_action_takes_an_empty_object(site):
    assert site.post(f"/v1/deletions/{site.ask()['id']}/cancel", {}).status == 202


QUERIES = [
    ("/v1/deletions", "status=gone", "status"),
    ("/v1/deletions", "status=", "status"),
    ("/v1/deletions", "status=" + "&status=".join(["failed"] * 21), "status"),
    ("/v1/deletions", "mode=empty", "mode"),
    ("/v1/deletions", "mode=report&mode=report", "mode"),
    ("/v1/deletions", "dry_run=maybe", "dry_run"),
    ("/v1/deletions", "project_id=a%20b", "project_id"),
    ("/v1/deletions", "project_id=", "project_id"),
    ("/v1/deletions", "project_id=" + "a" * 65, "project_id"),
    ("/v1/deletions", "project_id=p1&project_id=p2", "project_id"),
    ("/v1/deletions", "domain_id=%00", "domain_id"),
    ("/v1/deletions", "limit=0", "limit"),
    ("/v1/deletions", "limit=-1", "limit"),
    ("/v1/deletions", "limit=x", "limit"),
    ("/v1/deletions", "limit=1.5", "limit"),
    ("/v1/deletions", "limit=", "limit"),
    ("/v1/deletions", "limit=%D9%A1", "limit"),
    ("/v1/deletions", "limit=9999999999", "limit"),
    ("/v1/deletions", "limit=1%0a", "limit"),
    ("/v1/deletions", "marker=x", "marker"),
    ("/v1/deletions", f"marker={UUID.upper()}", "marker"),
    ("/v1/deletions", "sort=finished_at:asc", "sort"),
    ("/v1/deletions", "sort=version", "sort"),
    ("/v1/deletions", "sort=created_at:up", "sort"),
    ("/v1/deletions", "sort=created_at:asc,", "sort"),
    ("/v1/deletions", "sort=created_at:asc,created_at:desc", "sort"),
    ("/v1/deletions", "sort=", "sort"),
    ("/v1/deletions", "_method=delete", "_method"),
    ("/v1/deletions", "deletion_id=x", "deletion_id"),
    ("/v1/deletions", "=x", ""),
    ("/v1/deletions", "status=%ff", None),
    ("/v1/deletions", "%ff=x", None),
    ("/v1/deletions", "&".join(f"a{n}=1" for n in range(101)), None),
    ("/v1/services", "x=1", "x"),
    ("/v1/services", "project_id=", "project_id"),
    ("/v1/waivers", "x=1", "x"),
    ("/v1/orphan-scans", "status=ended", "status"),
    ("/v1/orphan-scans", "marker=x", "marker"),
    ("/v1/orphan-scans", "sort=message", "sort"),
    ("/v1/orphan-scans/{id}", "x=1", "x"),
    ("/v1/orphan-scans/{id}/orphans", "format=xml", "format"),
    ("/v1/orphan-scans/{id}/orphans", "project_id=%20", "project_id"),
    ("/v1/orphan-scans/{id}/orphans", "marker=x", "marker"),
    ("/v1/orphan-scans/{id}/projects", "marker=a/b", "marker"),
    ("/v1", "x=1", "x"),
    ("/v1/deletions/{id}", "fields=id", "fields"),
    ("/v1/deletions/{id}/leftovers", "reason=bored", "reason"),
    ("/v1/deletions/{id}/leftovers", "region=%00", "region"),
    ("/v1/deletions/{id}/leftovers", "service=", "service"),
    ("/v1/deletions/{id}/leftovers", "type=a%0ab", "type"),
    ("/v1/deletions/{id}/leftovers", "type=" + "a" * 256, "type"),
    ("/v1/deletions/{id}/leftovers", "type=port&type=network", "type"),
    ("/v1/deletions/{id}/leftovers", "marker=x", "marker"),
    ("/v1/deletions/{id}/leftovers", "marker=-1", "marker"),
    ("/v1/deletions/{id}/leftovers", "marker=" + "9" * 19, "marker"),
    ("/v1/deletions/{id}/leftovers", "limit=0", "limit"),
    ("/v1/deletions/{id}/leftovers", "sort=id", "sort"),
    ("/v1/deletions/{id}/events", "type=%07", "type"),
    ("/v1/deletions/{id}/events", "actor=x", "actor"),
    ("/v1/deletions/{id}/events", "marker=1.0", "marker"),
    ("/v1/deletions/{id}/events", "limit=ten", "limit"),
]


@pytest.mark.parametrize(("path", "query", "field"), QUERIES, ids=[f"{p}?{q[:40]}" for p, q, _ in QUERIES])
def test_a_bad_query(unchanged, path, query, field):
    answer = unchanged.get(f"{path.format(id=unchanged.id)}?{query}")
    assert (answer.status, answer.error["code"]) == (400, "invalid_query")
    if field:
        assert answer.error["field"] == field
        assert f"'{field}'" in answer.error["detail"]


@pytest.mark.parametrize("query", ["x=1", "%ff=1"])
@pytest.mark.parametrize("path", ["/v1/deletions", "/v1/deletions/{id}/cancel", "/v1/deletions/{id}/retry"])
def test_a_query_where_none_belongs_has_no_effect(unchanged, path, query):
    answer = unchanged.post(f"{path.format(id=unchanged.id)}?{query}", {"project_id": "p2"})
    assert (answer.status, answer.error["code"]) == (400, "invalid_query")


def test_numbers_as_large_as_they_may_be(site):
    deletion = site.ask()
    path = f"/v1/deletions/{deletion['id']}"
    assert site.get(f"{path}/events?marker={'9' * 18}&limit={'9' * 9}").json == {"events": []}
    assert site.get(f"{path}/leftovers?marker={'9' * 18}").json == {"leftovers": []}


def test_a_large_limit_is_cut(site):
    answer = site.get("/v1/deletions?limit=999999999")
    assert answer.status == 200


def test_a_body_that_is_too_large(site):
    body = b'{"project_id": "' + b"a" * 17000 + b'"}'
    answer = site.post("/v1/deletions", body)
    assert (answer.status, answer.error["code"], answer.error["limit"]) == (413, "body_too_large", 16384)
    assert "16384 bytes" in answer.error["detail"]


def test_a_body_of_unknown_length_that_is_too_large(site):
    request = webob.Request.blank("/v1/deletions", method="POST")
    request.headers["X-Auth-Token"] = "admin-token"
    request.content_type = "application/json"
    request.body = b'{"project_id": "' + b"a" * 17000 + b'"}'
    request.environ["wsgi.input_terminated"] = True
    del request.environ["CONTENT_LENGTH"]
    response = request.get_response(site.app)
    assert response.status_int == 413
    assert response.json["errors"][0]["code"] == "body_too_large"
    assert response.json["errors"][0]["limit"] == 16384
    assert site.count() == 0


PATHS = [
    "//",
    "///",
    "*",
    "v1/deletions",
    "/v1//deletions",
    "//v1/deletions",
    "/v1/deletions//",
    "/v1/./deletions",
    "/v1/../v1/deletions",
    "/v1/%2e%2e/v1/deletions",
    "/V1/deletions",
    "/v1/Deletions",
    "/v1/deletions.json",
    "/v1/__class__",
    "/v1/deletions/{id}/__class__",
    "/v1/deletions/{id}/cancel/now",
    "/v1/_table",
    "/%76%31%ff",
    "/v1/%ff",
    "/v1/deletions/%C3%28",
    "/v1;x/deletions",
    "/v2/deletions",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_path_tricks_are_not_found(unchanged, path, method):
    answer = unchanged.call(method, path.format(id=unchanged.id))
    assert (answer.status, answer.error["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "path", ["/v1/deletions", "/v1/deletions/", "/v1/deletion%73", "/%76%31/deletions", "/v1%2Fdeletions"]
)
def test_however_it_is_spelled_a_token_is_needed(unchanged, path):
    assert unchanged.get(path, token=None).status == 401
    assert unchanged.get(path).status == 200


@pytest.mark.parametrize(
    "text",
    ["x", "%00", UUID.upper(), f"{UUID}%0a", f"%20{UUID}", UUID.replace("-", ""), "%27%20OR%201=1", "%F0%9F%97%91"],
)
def test_what_cannot_be_an_id_is_not_found(unchanged, text):
    answer = unchanged.get(f"/v1/deletions/{text}")
    assert (answer.status, answer.error["code"]) == (404, "deletion_not_found")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_other_methods(unchanged, method):
    answer = unchanged.call(method, "/v1/deletions")
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(("method", "path"), sorted(operations.OPERATIONS))
def test_every_operation_answers_a_client_that_accepts_only_json(site, method, path):
    """As the client of the orchestrator does. Operations that return only a status once refused it."""
    known = {"{id}": site.ask()["id"]}
    if "liens" in path:
        body = {"project_id": "px", "origin": "billing", "reason": "an invoice"}
        known["{id}"] = site.post("/v1/liens", body).json["lien"]["id"]
    request = webob.Request.blank(path.replace("{id}", known["{id}"]), method=method)
    request.headers.update({"X-Auth-Token": "admin-token", "Accept": "application/json"})
    if method == "POST":
        request.content_type, request.body = "application/json", b"{}"
    response = request.get_response(site.app)
    assert response.status_int != 406
    if (method, path) == ("DELETE", "/v1/liens/{id}"):
        assert response.status_int == 204


def test_every_operation_has_its_route():
    table = Root(None)._table
    routes = {(method, "/" + "/".join(path)) for path, methods in table.items() for method in methods}
    assert routes == set(operations.OPERATIONS)


SCHEMAS = [
    (f"{method} {path}", made)
    for (method, path), operation in operations.OPERATIONS.items()
    for made in (schema.of_query(operation.query), operation.body and schema.of_body(operation.body))
    if made is not None
]


@each_case("name,schema", SCHEMAS, ids=lambda value: value if isinstance(value, str) else "")
def test_every_field_is_described(name, schema):
    assert schema["additionalProperties"] is False
    jsonschema.Draft202012Validator.check_schema(schema)
    described = {field: values.get("items", values) | values for field, values in schema["properties"].items()}
    assert [field for field, values in described.items() if not values.get("description")] == []
