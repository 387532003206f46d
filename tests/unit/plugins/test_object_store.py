"""Swift: which account is reached by which token, also where a name is not Latin-1."""

from __future__ import annotations

import dataclasses
import types
from urllib.parse import unquote

import pytest
from keystoneauth1.exceptions import ConnectFailure, ConnectTimeout
from openstack import exceptions

from cleanup_orchestrator.cloud.session import unreadable_names
from cleanup_orchestrator.core.reasons import ONLY_A_PERSON, Reason
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.errors import BadAnswer, Stopped, UnreadableName, classify
from cleanup_orchestrator.plugins import object_store
from cleanup_orchestrator.plugins.base import ProjectDefinition, Refused, Resource
from cleanup_orchestrator.plugins.object_store import common, containers
from tests.support.sweeps import inventory
from tests.unit.answers import connection, project
from tests.unit.plugins.test_orchestration import of_gone

OUTSIDE = dataclasses.replace(project("p"), uses_own_token=True)
GONE = dataclasses.replace(project("p"), gone=True)
TYPES = {type_.name: type_ for type_ in object_store.SERVICE.types}
URL = "http://swift/v1/AUTH_p"


def swift(own, answer):
    cloud = connection(own, object_store=answer)
    cloud.object_store.get_endpoint = lambda: f"http://swift/v1/AUTH_{own}"
    return cloud


@pytest.mark.parametrize(
    ("names", "unreadable"),
    [
        (("demo", "Default", "user", "Default"), []),
        (("ünïcödé ÿ", "Default", "user", "Default"), []),
        (("プロジェクト", "Default", "user", "Default"), ["プロジェクト"]),
        (("Łódź", "Default", "user", "Default"), ["Łódź"]),
        (("demo", "ドメイン", "user", "ドメイン"), ["ドメイン", "ドメイン"]),
        (("demo", "Default", "ユーザ", "Default"), ["ユーザ"]),
        ((None, None, "user", "Default"), []),
    ],
    ids=str,
)
def test_the_names_of_a_token_that_no_header_can_have(names, unreadable):
    token = dict(zip(("project_name", "project_domain_name", "username", "user_domain_name"), names, strict=True))
    session = types.SimpleNamespace(auth=types.SimpleNamespace(get_access=lambda _: types.SimpleNamespace(**token)))
    assert unreadable_names(session) == unreadable


@pytest.mark.parametrize(("status", "unreadable"), [(503, True), (204, False), (403, False), (500, False)])
def test_swift_is_asked_with_the_projects_token(status, unreadable):
    cloud = swift("p", lambda *_: (status, {}))
    assert common.cannot_read_token(cloud, project("p")) is unreadable
    assert cloud.object_store.asked == [("HEAD", URL, None)]


def test_only_what_a_reseller_admin_can_reach_says_so():
    """Each of these types names the account in its URL; the account itself is always reached by its id."""
    assert {name for name, type_ in TYPES.items() if type_.fallback.unreadable} == {"container", "account_metadata"}
    assert all(type_.token is Token.PROJECT for type_ in TYPES.values() if type_.fallback.unreadable)


def test_the_account_is_reached_by_the_projects_id():
    cloud = swift("own", lambda *_: (200, []))
    assert inventory(TYPES["container"], cloud, OUTSIDE).outcome is Outcome.CLEAR
    assert {path for _, path, _ in cloud.object_store.asked} == {URL}


HELD = {"X-Container-Object-Count": "230", "X-Container-Bytes-Used": "9000"}


@pytest.mark.parametrize(
    ("name", "listed", "held", "size", "said"),
    [
        ("c", (3, 12), HELD, 12, "3 objects, 12 bytes"),
        ("c", (0, 0), HELD, 9000, "230 objects, 9000 bytes"),
        ("c", (2, 0), {**HELD, "X-Container-Bytes-Used": "0"}, 0, "230 objects, 0 bytes"),
        ("c", (0, 0), {}, None, "not known"),
        ("c", (0, 0), {**HELD, "X-Container-Object-Count": "-1"}, None, "not known"),
        ("c", (0, 0), {**HELD, "X-Container-Bytes-Used": "-1"}, None, "not known"),
        ("c", (0, 0), {**HELD, "X-Container-Bytes-Used": "9" * 5000}, None, "not known"),
        ("c", (231, 0), HELD, None, "not known"),  # the container has fewer objects than the account's listing
        ("c", (-3, 12), HELD, 12, "not known"),
        ("c", ("many", 12), HELD, 12, "not known"),
        ("c", (3, -12), HELD, None, "3 objects, their size is not known"),
        ("c", (3, "x" * 99), HELD, None, "3 objects, their size is not known"),
        ("c", (0, 0), {**HELD, "X-Container-Bytes-Used": "many"}, None, "not known"),
        ("../AUTH_victim/c", (0, 0), HELD, None, "not known"),  # a proxy could resolve it to another account
        ("..", (0, 0), HELD, None, "not known"),
    ],
)
def test_a_container_that_looks_empty_in_the_accounts_listing_is_asked_itself(name, listed, held, size, said):
    """The listing is behind: ten containers with 230 objects were shown with 0 bytes."""
    row = {"name": name, "count": listed[0], "bytes": listed[1]}

    def answer(method, _url, query, _body):
        return (204, "", held) if method == "HEAD" else (200, [] if query.get("marker") else [row])

    cloud = swift("p", answer)
    (left,) = inventory(TYPES["container"], cloud, OUTSIDE).leftovers
    assert (left.size, said in left.message) == (size, True)
    number = said.split()[0]
    assert left.objects == (int(number) if number.isdigit() else None)
    assert not any(".." in path for _, path, _ in cloud.object_store.asked)


def test_only_the_first_hundred_containers_are_asked():
    rows = [{"name": f"c{n:03}", "count": 0, "bytes": 0} for n in range(120)]

    def answer(method, _url, query, _body):
        return (204, "", HELD) if method == "HEAD" else (200, [] if query.get("marker") else rows)

    cloud = swift("p", answer)
    sizes = [left.size for left in inventory(TYPES["container"], cloud, OUTSIDE).leftovers]
    assert sizes == [9000] * 100 + [None] * 20
    assert sum(method == "HEAD" for method, *_ in cloud.object_store.asked) == 100


@pytest.mark.parametrize("failure", [ConnectTimeout("late"), ConnectFailure("away"), 503, 404])
def test_a_container_that_does_not_answer_makes_no_list_unknown(failure):
    """Its numbers are for people alone. Each further question could wait for as long."""
    rows = [{"name": f"c{n}", "count": 0, "bytes": 0} for n in range(9)]

    def answer(method, _url, query, _body):
        if method == "HEAD" and isinstance(failure, Exception):
            raise failure
        return (failure, "") if method == "HEAD" else (200, [] if query.get("marker") else rows)

    cloud = swift("p", answer)
    found = inventory(TYPES["container"], cloud, OUTSIDE)
    assert (found.outcome, [left.size for left in found.leftovers]) == (Outcome.LEFTOVERS, [None] * 9)
    assert sum(method == "HEAD" for method, *_ in cloud.object_store.asked) == 1


def test_a_lost_lease_ends_the_list_of_containers():
    def answer(method, _url, query, _body):
        if method == "HEAD":
            raise Stopped("another worker holds the step")
        return 200, [] if query.get("marker") else [{"name": "c", "count": 0, "bytes": 0}]

    assert inventory(TYPES["container"], swift("p", answer), OUTSIDE).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("url", ["http://swift/v1/AUTH_other", "http://swift/v1", ""])
def test_an_endpoint_that_is_not_the_own_is_not_used(url):
    cloud = swift("own", lambda *_: (200, []))
    cloud.object_store.get_endpoint = lambda: url
    with pytest.raises(BadAnswer):
        common.account_url(cloud, OUTSIDE)
    assert cloud.object_store.asked == []


@pytest.mark.parametrize("name", ["container", "account_metadata"])
def test_without_the_role_of_a_reseller_admin_a_person_has_to_act(name):
    found = inventory(TYPES[name], swift("own", lambda *_: (403, {})), OUTSIDE)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.UNREADABLE_NAME)
    assert "ResellerAdmin" in found.message and Reason.UNREADABLE_NAME in ONLY_A_PERSON
    assert classify(UnreadableName("x")).reason is Reason.UNREADABLE_NAME


@pytest.mark.parametrize(
    ("container", "name", "deleted"),
    [
        ("c", "o", True),
        ("c", "a/b", True),
        ("c", "..a/b..", True),
        ("c", "...", True),
        ("c", "../../AUTH_victim/c/o", False),
        ("c", "a/../../../AUTH_victim/c/o", False),
        ("c", "a/./b", False),
        ("c", "%2e%2e/AUTH_victim/c/o", False),
        ("c", "%252e%252e/AUTH_victim/c/o", False),
        ("c", "..\\AUTH_victim", False),
        ("%2e%2e", "AUTH_victim/c/o", False),
        ("%252e%252e", "AUTH_victim/c/o", False),
    ],
)
def test_no_path_that_a_proxy_could_resolve_to_another_account_is_deleted(container, name, deleted):
    """The token of the project has no power over another account; that of a reseller admin has."""
    for reseller in (True, False):
        cloud = swift("own", lambda *_: (204, {}))
        emptying = containers._Emptying(cloud, URL, container, reseller)
        emptying.single(name, {})
        assert bool(cloud.object_store.writes()) is (deleted or not reseller)
        assert bool(emptying.failures) is not (deleted or not reseller)


#: Names of containers that a proxy could resolve to another account, if it decodes them once more.
ELSEWHERE = ["..%2FAUTH_victim", "..\\AUTH_victim", "%2e%2e%2fAUTH_victim", "..%5CAUTH_victim"]


def body_of(cloud):
    """Record the bodies of bulk deletes in a list, which is returned."""
    bodies, asked = [], cloud.object_store.request

    def request(url, method, data=None, **options):
        bodies.extend([data] if data else [])
        return asked(url, method, **options)

    cloud.object_store.request = request
    return bodies


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("owner", [OUTSIDE, GONE], ids=["unreadable", "gone"])
def test_a_container_that_a_proxy_could_take_for_another_account_is_deleted_in_a_body(name, owner):
    bulk = {"Response Status": "200 OK", "Errors": [], "Number Deleted": 1, "Number Not Found": 0}
    cloud = swift("own", lambda *_: (200, bulk))
    bodies = body_of(cloud)
    TYPES["container"].delete(cloud, owner, Resource(name, name, "p", {"name": name}))
    assert [(method, path) for method, path, _ in cloud.object_store.asked] == [("POST", URL)]
    assert [unquote(body.decode()) for body in bodies] == [f"/{name}"]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_with_the_projects_token_such_a_container_is_deleted_by_its_path(name):
    cloud = swift("p", lambda *_: (204, {}))
    TYPES["container"].delete(cloud, project("p"), Resource(name, name, "p", {"name": name}))
    assert [(method, path) for method, path, _ in cloud.object_store.asked] == [
        ("DELETE", f"{URL}/{common.quote_name(name)}")
    ]


@pytest.mark.parametrize(
    ("header", "value", "said"),
    [
        ("X-Versions-Enabled", "True", "switched off"),
        ("X-Container-Write", "*:*", "switched off"),
        ("X-Container-Sync-To", "//realm/cluster/AUTH_x/c", "switched off"),
        ("X-Versions-Enabled", "False", "old versions"),
        ("X-Other", "x", "not empty yet"),
    ],
)
@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_headers_of_such_a_container_are_not_changed(name, header, value, said):
    """Without a change of these headers no object is deleted: Swift would keep versions, or delete copies elsewhere."""
    full = {"Response Status": "400 Bad Request", "Number Deleted": 0, "Number Not Found": 0}
    full["Errors"] = [[common.quote_name(name), "409 Conflict"]]
    cloud = swift("own", lambda method, path, *_: (200, full if method == "POST" else []))
    asked = cloud.object_store.request

    def request(*args, **options):
        response = asked(*args, **options)
        response.headers[header] = value
        return response

    cloud.object_store.request = request
    with pytest.raises(Refused, match=said):
        TYPES["container"].delete(cloud, OUTSIDE, Resource(name, name, "p", {"name": name}))
    assert {(method, path) for method, path, _ in cloud.object_store.writes() if method != "HEAD"} == {("POST", URL)}


@pytest.mark.parametrize("owner", [OUTSIDE, GONE], ids=["unreadable", "gone"])
def test_no_old_version_is_deleted_by_a_path_into_another_account(owner):
    """A bulk delete takes current objects only, so that a version is deleted by its path."""
    name = "../../AUTH_victim/c/o"

    def answer(method, path, query, body):
        if method == "GET" and path == f"{URL}/c":
            return 200, [] if "marker" in query else [{"name": name, "version_id": "1"}]
        if method == "DELETE" and path == f"{URL}/c":
            return 409, {}
        return (404 if path.endswith("/info") else 204), {}

    cloud = swift("own", answer)
    asked = cloud.object_store.request
    cloud.object_store.request = lambda *args, **options: _with_versions(asked(*args, **options))
    with pytest.raises(Exception, match="objects were refused"):
        TYPES["container"].delete(cloud, owner, Resource("c", "c", "p", {"name": "c"}))
    assert {path for method, path, _ in cloud.object_store.asked if method == "DELETE"} == {f"{URL}/c"}


def _with_versions(response):
    response.headers["X-Versions-Enabled"] = "True"
    return response


def test_a_container_of_such_a_project_is_emptied_below_its_account_alone():
    left = {"c": ["o", "../../AUTH_victim/c/o"]}

    def answer(method, path, query, body):
        if method == "GET" and path == f"{URL}/c":
            return 200, [] if query.get("marker") else [{"name": name} for name in left["c"]]
        if method == "DELETE" and path == f"{URL}/c":
            return (409, {}) if left["c"] else (204, {})
        if method == "DELETE":
            left["c"].remove(path.removeprefix(f"{URL}/c/"))
            return 204, {}
        return (404 if path.endswith("/info") else 204), {}

    cloud = swift("own", answer)
    with pytest.raises(Exception, match="1 objects were refused"):
        TYPES["container"].delete(cloud, OUTSIDE, Resource("c", "c", "p", {"name": "c"}))
    assert left == {"c": ["../../AUTH_victim/c/o"]}
    assert all(path.startswith(URL) for _, path, _ in cloud.object_store.writes())


def test_a_container_with_versions_that_only_s3_shows_is_said_to_need_a_person():
    """With versioning by S3, a Ceph Object Gateway leaves a marker for each delete, and refuses that of the bucket."""
    left = ["o"]

    def answer(method, path, query, body):
        if method == "GET" and path == f"{URL}/c":
            return 200, [] if query.get("marker") else [{"name": name} for name in left]
        if method == "DELETE" and path == f"{URL}/c":
            return 409, {}
        if method == "DELETE":
            left.clear()
        return (404 if path.endswith("/info") else 204), {}

    said = []
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            TYPES["container"].delete(swift("p", answer), project("p"), Resource("c", "c", "p", {"name": "c"}))
        said.append(refused.value.verdict)
    assert [verdict.reason for verdict in said] == [Reason.IN_USE] * 2
    assert [("S3 API" in verdict.message, "list-object-versions" in verdict.remedy) for verdict in said] == [
        (False, False),  # the list was not empty: it may only be behind
        (True, True),
    ]


NAMED = ProjectDefinition("ours", "name", "default", "RegionOne")


@pytest.mark.parametrize("name", ["container", "account_metadata"])
@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
def test_an_account_that_swift_does_not_show_is_not_empty(name, status):
    made = connection("ours", object_store=lambda *_: (status, {}))
    made.object_store.get_endpoint = lambda: "http://swift/v1/AUTH_ours"
    type_ = next(t for t in object_store.SERVICE.types if t.name == name)
    with pytest.raises(exceptions.HttpException, match=str(status)):
        list(type_.list(made, NAMED))
    made.object_store.answer = lambda *_: (410, {})  # the account was deleted, and Swift's reaper deletes the rest
    assert list(type_.list(made, NAMED)) == []


DEAD = dataclasses.replace(project("dead"), gone=True)


def swift_without(own, status):
    cloud = connection(own, object_store=lambda *_: (status, []))
    cloud.object_store.get_endpoint = lambda: f"http://swift/v1/AUTH_{own}"
    return cloud


def test_an_account_is_reached_by_the_project_s_id():
    cloud = swift_without("own", 200)
    assert inventory(of_gone(object_store)["container"], cloud, DEAD).outcome is Outcome.CLEAR
    assert {path for _, path, _ in cloud.object_store.asked} == {"http://swift/v1/AUTH_dead"}


@pytest.mark.parametrize("name", ["container", "account_metadata"])
def test_without_the_reseller_admin_role_an_account_is_unknown(name):
    sweep = inventory(of_gone(object_store)[name], swift_without("own", 403), DEAD)
    assert (sweep.outcome, sweep.reason) == (Outcome.UNKNOWN, Reason.PROJECT_GONE)
    assert "ResellerAdmin" in sweep.message


OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


@pytest.mark.parametrize(
    ("scope", "account", "ours"),
    [(OURS, "AUTH_p", True), (OURS, "AUTH_them", False), (THEIRS, "AUTH_p", False), (THEIRS, "AUTH_them", False)],
)
def test_an_account_is_the_projects_by_its_token_and_by_its_name(scope, account, ours):
    cloud = connection(scope=scope)
    cloud.object_store = types.SimpleNamespace(get_endpoint=lambda: f"http://swift/v1/{account}")
    if ours:
        assert object_store.common.account_url(cloud, PROJECT) == f"http://swift/v1/{account}"
        return
    with pytest.raises(BadAnswer):
        object_store.common.account_url(cloud, PROJECT)
