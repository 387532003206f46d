"""The application of a service: each rule of the protocol, for a right provider and for each wrong one."""

import dataclasses
import itertools
import logging
import re

import jsonschema
import pytest

from cleanup_orchestrator import protocol
from cleanup_orchestrator.protocol import (
    Capabilities,
    InUse,
    NotFound,
    Outcome,
    Page,
    Protected,
    Provider,
    Resource,
    ResourceType,
    State,
    Unavailable,
    UnknownMarker,
    User,
    schemas,
)
from tests.support.cases import each_case
from tests.unit.protocol.caller import OTHER, PROJECT, Client

BASE = f"/projects/{PROJECT}"
CAPABILITIES = Capabilities(
    "widget-store",
    (
        ResourceType("widget"),
        ResourceType("part", deleted_with=("widget",), delete=False),
        ResourceType("note", delete_all=True),
        ResourceType("rule", acts_on="its target"),
    ),
    drain=True,
)
#: Strange texts that are ids, and how they look in a path.
ODD = {"a/b": "a%2Fb", "a b": "a%20b", "%2F": "%252F", "ü": "%C3%BC", "a?b#c": "a%3Fb%23c", "x..": "x..", "~": "~"}


class Store:
    """A right provider. It records the deletes and the drains."""

    def __init__(self, capabilities=CAPABILITIES, **wrong):
        self.rows = {(row.project_id, "widget", row.id): row for row in self.filling()}
        self.calls, self.drained, self.outcome = [], set(), Outcome.GONE
        optional = {
            "delete_all": lambda project_id, type_: self.deleted(("all", project_id, type_)),
            "delete_acting": lambda project_id, type_, id_, caller: self.deleted(
                (project_id, type_, id_, caller.token)
            ),
            "drain": self.drained.add,
            "undrain": self.drained.discard,
            "is_drained": self.drained.__contains__,
        }
        functions = {"list": self.list, "show": self.show, "delete": self.delete, **optional, **wrong}
        self.provider = Provider(capabilities, **functions)
        self.app = protocol.app(self.provider)

    @staticmethod
    def filling():
        ids = ["w", "busy", "kept", "locked", "going", "going-protected", *ODD]
        notes = {
            "kept": {"keep": "the service's own"},
            "locked": {"protected": "locked by an admin"},
            "going": {"state": State.DELETING},
        }
        rows = [Resource(id_, PROJECT, **notes.get(id_, {})) for id_ in ids]
        return [*rows, Resource("theirs", OTHER)]

    def list(self, project_id, type_, limit, marker):
        if marker not in (None, "w"):
            raise UnknownMarker
        rows = [row for (owner, kind, _), row in self.rows.items() if (owner, kind) == (project_id, type_)]
        start = 1 if marker else 0
        return Page(tuple(rows[start : start + limit]), "w" if limit == 1 and not marker else None)

    def show(self, project_id, type_, id_):
        return self.rows.get((project_id, "widget", id_)) if type_ != "part" else None

    def delete(self, project_id, type_, id_):
        if id_ == "busy":
            raise InUse("an order needs it")
        return self.deleted((project_id, type_, id_))

    def deleted(self, call):
        self.calls.append(call)
        return self.outcome


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def client(store):
    return Client(store.app)


def valid(answer, schema):
    jsonschema.Draft202012Validator(schema).validate(answer.json)
    return answer.json


# ------------------------------------------------------------------------------------------- rules 1 and 2: callers

NO_TOKEN = [
    {"keystone.token_info": None},
    {"keystone.token_info": None, "HTTP_X_ROLES": "service"},  # a client can send the headers, but not the key
    {"HTTP_X_IDENTITY_STATUS": "Invalid"},
    {"HTTP_X_IDENTITY_STATUS": None},
    {"HTTP_X_SERVICE_IDENTITY_STATUS": "Invalid"},  # a wrong X-Service-Token beside a right token
]
CALLS = [
    ("GET", ""), ("GET", f"{BASE}/widget"), ("GET", f"{BASE}/widget/w"), ("DELETE", f"{BASE}/widget/w"),
    ("DELETE", f"{BASE}/note"), ("GET", f"/drains/{PROJECT}"), ("PUT", f"/drains/{PROJECT}"),
    ("DELETE", f"/drains/{PROJECT}"), ("GET", "/nothing"), ("GET", "//"), ("GET", "/%FF"), ("POST", ""),
]  # fmt: skip


@each_case("more", NO_TOKEN, "method,path", CALLS)
def test_without_a_valid_token_every_call_is_refused(store, method, path, more):
    answer = Client(store.app, more={"REMOTE_ADDR": "127.0.0.1", **more})(method, path)
    assert answer.said == "401 not-authenticated"
    assert answer.headers["WWW-Authenticate"] == "Keystone"
    assert (store.calls, store.drained) == ([], set())


@each_case(
    "roles",
    [(), ("member",), ("admin", "member", "reader"), ("Service",), ("services",)],
    "method,path",
    [call for call in CALLS if call[1] not in ("//", "/%FF")],
)
def test_without_the_role_every_call_is_forbidden(store, method, path, roles):
    assert Client(store.app, roles, PROJECT)(method, path).said == "403 forbidden"
    assert (store.calls, store.drained) == ([], set())


def test_the_role_is_configurable(store):
    application = protocol.app(store.provider, role="cleaner")
    assert Client(application)("GET", "").said == "403 forbidden"
    assert Client(application, ("cleaner",))("GET", "").said == "200"
    with pytest.raises(ValueError, match="role"):
        protocol.app(store.provider, role="")


@pytest.mark.parametrize(
    ("method", "path", "roles", "scope", "said"),
    [
        ("DELETE", f"{BASE}/rule/w", ("member",), PROJECT, "204"),
        ("DELETE", f"{BASE}/rule/x", ("member",), PROJECT, "404 not-found"),
        ("DELETE", f"{BASE}/rule/w", ("service",), OTHER, "204"),
        ("DELETE", f"{BASE}/rule/w", ("member",), OTHER, "403 forbidden"),
        ("DELETE", f"{BASE}/rule/w", ("member",), "", "403 forbidden"),
        ("DELETE", f"{BASE}/rule/w", ("reader",), PROJECT, "403 forbidden"),
        ("DELETE", f"{BASE}/widget/w", ("member",), PROJECT, "403 forbidden"),
        ("DELETE", f"{BASE}/rule", ("member",), PROJECT, "403 forbidden"),
        ("DELETE", f"/projects/{OTHER}/rule/theirs", ("member",), PROJECT, "403 forbidden"),
        ("GET", f"{BASE}/rule/w", ("member",), PROJECT, "403 forbidden"),
    ],
)
def test_a_member_of_the_project_may_only_delete_one_resource_that_the_service_acts_on(
    store, method, path, roles, scope, said
):
    assert Client(store.app, roles, scope)(method, path).said == said
    assert store.calls == ([(PROJECT, "rule", "w", "the-token")] if said == "204" else [])


# ------------------------------------------------------------------------------------------------- paths and methods


RAWS, MOUNTS = ("REQUEST_URI", "RAW_URI", ""), ("", "/project-resources/v1", "/a b/%41/ü/project-resources/v1")


@each_case(
    "method,path,said",
    [
        ("GET", "", "200"),
        ("GET", "/", "200"),
        ("GET", f"{BASE}/widget", "200"),
        ("GET", f"{BASE}/widget/w", "200"),
        ("GET", f"{BASE}/widg%65t/%77", "200"),
        ("DELETE", f"{BASE}/note", "204"),
        # An empty id, or one that a proxy resolves, must not become the path of the whole type.
        ("DELETE", f"{BASE}/note/", "400 bad-request"),
        ("DELETE", f"{BASE}/note//", "400 bad-request"),
        ("DELETE", f"{BASE}/note/.", "400 bad-request"),
        ("DELETE", f"{BASE}/note/%2E", "400 bad-request"),
        ("DELETE", f"{BASE}/note/w/..", "400 bad-request"),
        ("DELETE", f"{BASE}/note/..", "400 bad-request"),
        ("DELETE", f"{BASE}/note/%2E%2E", "400 bad-request"),
        ("DELETE", f"{BASE}/note/%2e./w", "400 bad-request"),
        ("DELETE", f"{BASE}/note/w%2F..", "400 bad-request"),
        ("DELETE", f"{BASE}/note/%2F", "400 bad-request"),
        ("DELETE", f"{BASE}/note/w%2F", "400 bad-request"),
        ("DELETE", f"{BASE}/note?id=w", "400 bad-request"),
        ("DELETE", f"{BASE}/note?limit=1", "400 bad-request"),
        # An empty or malformed project is no project, and never all projects.
        ("GET", "/projects//widget", "400 bad-request"),
        ("GET", "/projects/%2A/widget", "400 bad-request"),
        ("GET", "/projects/%25/widget", "400 bad-request"),
        ("GET", "/projects/%20/widget", "400 bad-request"),
        ("GET", f"/projects/{PROJECT}%20/widget", "400 bad-request"),
        ("GET", f"/projects/{'1' * 65}/widget", "400 bad-request"),
        ("GET", f"/projects/{PROJECT}%00/widget", "400 bad-request"),
        ("PUT", "/drains/", "400 bad-request"),
        ("PUT", "/drains/~", "400 bad-request"),
        ("PUT", "/drains", "400 bad-request"),
        # An unknown path is never "not found", which says that a resource is gone.
        ("GET", "/projects", "400 bad-request"),
        ("GET", BASE, "400 bad-request"),
        ("GET", f"{BASE}/widget/w/x", "400 bad-request"),
        ("GET", f"/{BASE}/widget", "400 bad-request"),
        ("GET", f"{BASE}//widget", "400 bad-request"),
        ("GET", f"{BASE}/widget/", "400 bad-request"),
        ("GET", "/nothing", "400 bad-request"),
        ("GET", f"{BASE}/widget/%FF", "400 bad-request"),
        ("GET", f"{BASE}/widget/a%0Ab", "400 bad-request"),
        ("GET", f"{BASE}/widget/{'x' * 256}", "400 bad-request"),
        ("GET", f"{BASE}/gadget", "404 unknown-type"),
        ("GET", f"{BASE}/gadget/w", "404 unknown-type"),
        ("DELETE", f"{BASE}/gadget/w", "404 unknown-type"),
        ("GET", f"{BASE}/widget/x", "404 not-found"),
        # Methods.
        ("HEAD", f"{BASE}/widget", "405 not-supported"),
        ("POST", f"{BASE}/widget", "405 not-supported"),
        ("DELETE", f"{BASE}/widget", "405 not-supported"),
        ("DELETE", f"{BASE}/part/w", "405 not-supported"),
        ("DELETE", "", "405 not-supported"),
        ("POST", f"/drains/{PROJECT}", "405 not-supported"),
    ],
)
def test_paths_and_methods(method, path, said):
    """Below each prefix, and with each kind of WSGI server."""
    for raw, mount in itertools.product(RAWS, MOUNTS):
        store = Store()
        assert Client(store.app, raw=raw, mount=mount)(method, path).said == said, (raw, mount)
        assert (store.calls, store.drained) == ([("all", PROJECT, "note")] if said == "204" else [], set())


@pytest.mark.parametrize("id_", ODD)
def test_an_odd_id_is_one_segment(store, id_):
    for raw, mount in itertools.product(("REQUEST_URI", "RAW_URI"), MOUNTS):
        client = Client(store.app, raw=raw, mount=mount)
        assert client("GET", f"{BASE}/widget/{ODD[id_]}").json["id"] == id_
        assert client("DELETE", f"{BASE}/widget/{ODD[id_]}").said == "204"
        assert store.calls[-1] == (PROJECT, "widget", id_)


def test_a_slash_in_an_id_is_refused_where_the_server_hides_it(store):
    client = Client(store.app, raw="")
    assert client("DELETE", f"{BASE}/widget/a%2Fb").said == "400 bad-request"
    # The path of the client is not used if a proxy in front of the application has changed it.
    client = Client(store.app, more={"REQUEST_URI": f"/elsewhere/{OTHER}/note"})
    assert client("DELETE", f"{BASE}/widget/w").said == "204"
    assert store.calls == [(PROJECT, "widget", "w")]


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("", "GET"),
        (f"{BASE}/widget", "GET"),
        (f"{BASE}/note", "GET, DELETE"),
        (f"{BASE}/widget/w", "GET, DELETE"),
        (f"{BASE}/part/w", "GET"),
        (f"/drains/{PROJECT}", "GET, PUT, DELETE"),
    ],
)
def test_a_wrong_method_says_the_right_ones(client, path, allow):
    answer = client("PATCH", path)
    assert (answer.said, answer.headers["Allow"]) == ("405 not-supported", allow)


def test_mounted_passes_on_all_other_paths():
    def named(name):
        def application(environ, start_response):
            start_response("200 OK", [])
            return [f"{name} {environ['SCRIPT_NAME']}|{environ['PATH_INFO']}".encode()]

        return application

    both = protocol.mounted(named("protocol"), named("service"))
    for path, body in {
        "/project-resources/v1": b"protocol /m/project-resources/v1|",
        "/project-resources/v1/x": b"protocol /m/project-resources/v1|/x",
        "/project-resources/v12": b"service /m|/project-resources/v12",
        "/project-resources": b"service /m|/project-resources",
        "//project-resources/v1": b"service /m|//project-resources/v1",
        "/x/project-resources/v1": b"service /m|/x/project-resources/v1",
    }.items():
        assert Client(both, mount="/m")("GET", path).body == body


# ------------------------------------------------------------------------------------------------------------ answers


def test_the_answers_are_documents_of_the_protocol(client):
    assert Capabilities.from_dict(valid(client("GET", ""), schemas.CAPABILITIES)) == CAPABILITIES
    page = valid(client("GET", f"{BASE}/widget"), schemas.PAGE)
    assert (page["project_id"], page["type"], page["next"]) == (PROJECT, "widget", None)
    assert [row["id"] for row in page["resources"]] == [row.id for row in Store.filling() if row.project_id == PROJECT]
    assert valid(client("GET", f"{BASE}/widget/going"), schemas.RESOURCE)["state"] == "deleting"
    assert valid(client("GET", f"/drains/{PROJECT}"), schemas.DRAIN) == {"project_id": PROJECT, "drained": False}
    empty = valid(client("GET", f"/projects/{'3' * 32}/widget"), schemas.PAGE)
    assert (empty["resources"], empty["next"]) == ([], None)


def test_a_request_has_an_id_in_header_problem_and_log(store, caplog):
    answer = Client(store.app, more={"openstack.request_id": "req-1"})("GET", f"{BASE}/gadget")
    assert valid(answer, schemas.PROBLEM)["request_id"] == answer.headers["X-Openstack-Request-Id"] == "req-1"
    assert answer.headers["Content-Type"] == "application/problem+json"
    for wrong in (None, "", "a\r\nSet-Cookie: b", 7):
        answer = Client(store.app, more={"openstack.request_id": wrong})("GET", "/x")
        assert re.fullmatch(r"req-[0-9a-f-]{36}", answer.json["request_id"])
    assert not caplog.records


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("limit=1", "200"),
        ("limit=1000", "200"),
        ("limit=1&marker=w", "200"),
        ("limit=0", "400 bad-request"),
        ("limit=1001", "400 bad-request"),
        ("limit=-1", "400 bad-request"),
        ("limit=+1", "400 bad-request"),
        ("limit=1.0", "400 bad-request"),
        ("limit=%D9%A1", "400 bad-request"),
        ("limit=", "400 bad-request"),
        ("limit", "400 bad-request"),
        ("limit=1&limit=2", "400 bad-request"),
        ("marker=", "400 bad-request"),
        ("marker=unknown", "400 bad-request"),
        ("marker=%FF", "400 bad-request"),
        ("project_id=x", "400 bad-request"),
        ("&".join(f"p{n}=" for n in range(11)), "400 bad-request"),
    ],
)
def test_limit_and_marker(client, query, said):
    assert client("GET", f"{BASE}/widget?{query}").said == said


def test_pages_follow_the_marker(client):
    page = client("GET", f"{BASE}/widget?limit=1").json
    assert ([row["id"] for row in page["resources"]], page["next"]) == (["w"], "w")
    page = client("GET", f"{BASE}/widget?marker=w").json
    assert (page["resources"][0]["id"], page["next"]) == ("busy", None)


# ------------------------------------------------------------------------------------------------------------ deletes


@pytest.mark.parametrize(
    ("id_", "said", "called"),
    [
        ("w", "204", True),
        ("busy", "409 in-use", False),
        ("kept", "409 protected", False),
        ("locked", "409 protected", False),
        ("going", "202", False),
        ("theirs", "404 not-found", False),
        ("gone", "404 not-found", False),
    ],
)
def test_a_delete(store, client, id_, said, called):
    assert client("DELETE", f"{BASE}/widget/{id_}").said == said
    assert store.calls == ([(PROJECT, "widget", id_)] if called else [])


def test_a_delete_may_take_longer(store, client):
    store.outcome = Outcome.ACCEPTED
    assert client("DELETE", f"{BASE}/widget/w").said == "202"
    assert client("DELETE", f"{BASE}/note").said == "202"


def test_a_refusal_says_why(client):
    assert client("DELETE", f"{BASE}/widget/busy").json["detail"] == "an order needs it"
    assert client("DELETE", f"{BASE}/widget/locked").json["detail"] == "locked by an admin"


def test_a_provider_that_looks_up_by_id_alone_deletes_nothing_of_others():
    """Promise 1: the row names its owner, and the application compares it."""
    found, deleted = Resource("theirs", OTHER), []
    store = Store(show=lambda *_: found, delete=lambda *call: deleted.append(call) or Outcome.GONE)
    for path in (f"{BASE}/widget/theirs", f"{BASE}/rule/theirs"):
        assert Client(store.app)("DELETE", path).said == "404 not-found"
        assert Client(store.app)("GET", path).said == "404 not-found"
    assert (deleted, store.calls) == ([], [])


def test_a_drain_is_idempotent(store, client):
    path = f"/drains/{PROJECT}"
    for method, drained in (("PUT", True), ("PUT", True), ("DELETE", False), ("DELETE", False)):
        assert client(method, path).said == "204"
        assert client("GET", path).json["drained"] is drained
        assert store.drained == ({PROJECT} if drained else set())


# ------------------------------------------------------------------------------------------------- a wrong provider

ROW = Resource("w", PROJECT)


def raising(error):
    def function(*_):
        raise error

    return function


def page(*rows, next_=None):
    return lambda *_: Page(rows, next_)


def row(**changes):
    return dataclasses.replace(ROW, **changes)


#: Each differs in one thing from a right list.
LISTS = {
    "None": lambda *_: None,
    "rows without a page": lambda *_: [ROW],
    "a generator": lambda *_: iter([ROW]),
    "the row of another project": page(ROW, row(id="x", project_id=OTHER)),
    "the row of no project": page(row(project_id="")),
    "a row whose owner is unknown": page(row(project_id=None)),
    "a document instead of a row": page({"id": "w", "project_id": PROJECT}),
    "a row twice": page(ROW, ROW),
    "too many rows": page(ROW, row(id="x"), row(id="y")),
    "a number as id": page(row(id=7)),
    "no id": page(row(id="")),
    "a relative id": page(row(id="..")),
    "an id with a relative part": page(row(id="a/../b")),
    "an id with an empty part": page(row(id="a/")),
    "an id of two lines": page(row(id="a\nb")),
    "an id with a control character": page(row(id="a\x7f")),
    "an id that is not text": page(row(id="\ud800")),
    "a long id": page(row(id="x" * 256)),
    "a number as name": page(row(name=7)),
    "None as name": page(row(name=None)),
    "an unknown state": page(row(state="gone")),
    "a number as tag": page(row(tags=(7,))),
    "a text as tags": page(row(tags="keep")),
    "too many tags": page(row(tags=("t",) * 1001)),
    "a long tag": page(row(tags=("t" * 1025,))),
    "a malformed parent": page(row(part_of={"Widget": "x"})),
    "a parent without an id": page(row(part_of={"widget": ""})),
    "a malformed user": page(row(used_by=(User("Order", "x", OTHER),))),
    "a user of a project with a long id": page(row(used_by=(User("order", "x", "p" * 65),))),
    "a time as a number": page(row(created_at=0)),
    "an empty marker": page(ROW, next_=""),
    "a number as marker": page(ROW, next_=1),
    "the same marker": page(ROW, next_="w"),
    "not found": raising(NotFound()),
    "in use": raising(InUse("x")),
    "a program error": raising(KeyError("secret")),
}


def test_a_right_list_is_answered():
    right = page(row(id="x", tags=("t",), part_of={"widget": "w"}), ROW, next_="m")
    assert Client(Store(list=right).app)("GET", f"{BASE}/widget?limit=2&marker=w").said == "200"


@pytest.mark.parametrize("wrong", LISTS)
def test_a_wrong_list_is_an_error_and_no_shorter_list(wrong, caplog):
    answer = Client(Store(list=LISTS[wrong]).app)("GET", f"{BASE}/widget?limit=2&marker=w")
    assert answer.said == "500 internal"
    assert "secret" not in valid(answer, schemas.PROBLEM)["detail"]
    [record] = caplog.records
    assert (record.levelno, answer.json["request_id"] in record.getMessage()) == (logging.ERROR, True)
    assert record.exc_info


@pytest.mark.parametrize("function", ["list", "show", "delete", "delete_all", "delete_acting", "drain", "is_drained"])
def test_what_does_not_answer_is_unavailable(function):
    method, path = {
        "list": ("GET", f"{BASE}/widget"),
        "show": ("GET", f"{BASE}/widget/w"),
        "delete": ("DELETE", f"{BASE}/widget/w"),
        "delete_all": ("DELETE", f"{BASE}/note"),
        "delete_acting": ("DELETE", f"{BASE}/rule/w"),
        "drain": ("PUT", f"/drains/{PROJECT}"),
        "is_drained": ("GET", f"/drains/{PROJECT}"),
    }[function]
    answer = Client(Store(**{function: raising(Unavailable("the backend in cell 2"))}).app)(method, path)
    assert (answer.said, answer.json["detail"]) == ("503 unavailable", "the backend in cell 2")
    # What has no meaning for the call is a defect, and so is any other exception.
    wrong = Client(Store(**{function: raising(UnknownMarker())}).app)(method, path)
    assert wrong.said == "500 internal"
    assert Client(Store(**{function: raising(OSError())}).app)(method, path).said == "500 internal"


SHOWS = {
    "another resource": lambda *_: row(id="x"),
    "a resource of no project": lambda *_: row(project_id=""),
    "a resource of an unknown project": lambda *_: row(project_id=None),
    "a document": lambda *_: {"id": "w", "project_id": PROJECT},
    "an answer without words": lambda *_: False,
    "a protection that is not text": lambda *_: row(protected=True),
    "an unknown state": lambda *_: row(state="error"),
}


@pytest.mark.parametrize("wrong", SHOWS)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_wrong_show_is_an_error_and_deletes_nothing(wrong, method):
    store = Store(show=SHOWS[wrong])
    assert Client(store.app)(method, f"{BASE}/widget/w").said == "500 internal"
    assert store.calls == []


@pytest.mark.parametrize("outcome", [None, True, "gone", 204])
def test_a_delete_without_an_outcome_is_an_error(store, client, outcome):
    store.outcome = outcome
    for path in (f"{BASE}/widget/w", f"{BASE}/rule/w", f"{BASE}/note"):
        assert client("DELETE", path).said == "500 internal"


@pytest.mark.parametrize("drained", [None, 0, "no"])
def test_a_drain_without_an_answer_is_an_error(drained):
    assert Client(Store(is_drained=lambda _: drained).app)("GET", f"/drains/{PROJECT}").said == "500 internal"


def test_the_errors_of_a_delete():
    for error, said in ((Protected("p"), "409 protected"), (NotFound(), "404 not-found"), (InUse("u"), "409 in-use")):
        assert Client(Store(delete=raising(error)).app)("DELETE", f"{BASE}/widget/w").said == said
    assert Client(Store(delete_all=raising(NotFound())).app)("DELETE", f"{BASE}/note").said == "500 internal"


def test_long_texts_are_shortened_so_that_the_list_stays_readable():
    """Otherwise a user could make a list unreadable with a name."""
    users = tuple(User("widget-store.order", str(n), OTHER, "n" * 2000) for n in range(200))
    long = row(name="n" * 2000, description="\ud800", keep="k" * 2000, protected="p" * 2000, used_by=users)
    answer = Client(Store(list=page(long)).app)("GET", f"{BASE}/widget")
    [found] = valid(answer, schemas.PAGE)["resources"]
    assert (len(found["name"]), found["description"], len(found["used_by"])) == (1024, "?", 100)
