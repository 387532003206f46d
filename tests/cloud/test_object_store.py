"""Swift: every container of the project is deleted with hidden contents; the neighbour's account is never changed."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit

import pytest
import requests
from openstack import exceptions

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.plans import EMPTY_DIGEST
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import object_store as plugin
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource
from cleanup_orchestrator.plugins.object_store import SERVICE
from tests.cloud.filler import connect_as, fill, make_project
from tests.cloud.fillings.base import Rest
from tests.cloud.fillings.object_store import path
from tests.cloud.orchestrator import Orchestrator
from tests.cloud.proof import proof, swift_contents
from tests.support import sweeps
from tests.support.timing import wait

OBJECTS = 1050  # more than one page of a listing
TYPES = {type_.name: type_ for type_ in SERVICE.types}
#: Names that client libraries change, and names that are too long for a bulk delete when they are encoded.
AWKWARD = (
    ".",
    "..",
    "...",
    "a/../../b",
    "../../..",
    "/",
    "//",
    "%2e%2e",
    "日" * 341,
    "%" * 1024,
    " " * 1024,
    "\n\n",
    "\r",
    "?a=b#c",
    "\x7f",
)


def raw(filled, method, container, name=None, **headers):
    """A request by the standard library, which sends the path as it is."""
    endpoint = urlsplit(filled.connection.object_store.get_endpoint())
    connection = http.client.HTTPConnection(endpoint.netloc)
    target = f"{endpoint.path}/{quote(container, safe='')}" + ("" if name is None else f"/{quote(name)}")
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    connection.request(
        method, target, headers={"X-Auth-Token": filled.connection.auth_token, "Content-Length": "0", **sent}
    )
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status < 300, (answer.status, target[:100])


@pytest.fixture(scope="module")
def projects(projects):
    """The target has versions, history, links into the neighbour's account and awkward names, too."""
    target, neighbour = projects
    store = Rest(target.connection.object_store)
    with ThreadPoolExecutor(4) as pool:  # old versions without end, and one current object
        store.raw("PUT", path("versions"), headers={"X-Versions-Enabled": "true"})
        list(pool.map(lambda n: store.raw("PUT", path("versions", f"o{n % 7}"), data=str(n)), range(60)))
        list(pool.map(lambda n: store.raw("DELETE", path("versions", f"o{n}")), range(6)))
    # An object from before versioning was on, and versioning off again: its old versions stay.
    store.raw("PUT", path("suspended"))
    store.raw("PUT", path("suspended", "null version"), data="0")
    for value, name in (("true", "null version"), ("true", "other"), ("false", "third")):
        store.raw("POST", path("suspended"), headers={"X-Versions-Enabled": value})
        store.raw("PUT", path("suspended", name), data="1")
        store.raw("PUT", path("suspended", name), data="2")
    # History mode: a delete is a copy and a marker in the other container.
    store.raw("PUT", path("attic"))
    store.raw("PUT", path("kept for ever"), headers={"X-History-Location": "attic"})
    for number in range(3):
        store.raw("PUT", path("kept for ever", "note"), data=str(number))
    store.raw("DELETE", path("kept for ever", "note"))
    store.raw("PUT", path("kept for ever", "note"), data="again")
    # A link into the neighbour's account, and one that is no more than a name.
    account = f"AUTH_{neighbour.project_id}"
    store.raw("PUT", path("links out"))
    link = {"X-Symlink-Target": f"{quote(neighbour.project_name)}-plain/hello.txt", "X-Symlink-Target-Account": account}
    store.raw("PUT", path("links out", "to the neighbour"), headers=link)
    store.raw("PUT", path("awkward"))
    store.raw("PUT", path("awkward versions"), headers={"X-Versions-Enabled": "true"})
    for name in AWKWARD:
        raw(target, "PUT", "awkward", name)
        # A version's link has the encoded name in an extended attribute, of which ext4 takes 4 KiB only.
        if name not in plugin.common.DOTS and len(name.encode()) < 500:
            raw(target, "PUT", "awkward versions", name)
            raw(target, "DELETE", "awkward versions", name)
    return target, neighbour


def everything(filled):
    """Return all contents of an account, with former versions."""
    return swift_contents(filled.connection, filled.project_id)


def on_disk(sweeper, filled):
    """How many containers and objects, hidden ones included, the backends' databases have."""
    lines = proof(sweeper.cloud, filled.project_id)
    return [line[-1] for line in lines if line[0] == "swift" and "disk" in line[1]]


def test_an_inventory_finds_all_resources_and_changes_nothing(projects, sweeper):
    target, _ = projects
    before = everything(target)
    found = sweeper.inventory(SERVICE, target)
    assert everything(target) == before
    assert {left.id for left in found["container"].leftovers} == set(before["object-store containers"])
    assert [left.name for left in found["account_metadata"].leftovers] == ["team, temp-url-key"]
    assert found["account"] == StepResult(Outcome.CLEAR, digest=EMPTY_DIGEST, absent=True)  # not asked for


def test_every_page_is_read(projects, sweeper, monkeypatch):
    target, _ = projects
    monkeypatch.setattr(plugin.common, "PAGE", 3)
    containers = swift_contents(target.connection, target.project_id)["object-store containers"]
    found = sweeper.inventory(SERVICE, target)["container"]
    assert [left.id for left in found.leftovers] == containers and len(containers) > 10


def test_the_report_says_how_much_there_is():
    row = {"name": "c", "count": 1200, "bytes": 5000}
    said = plugin.containers._describe(Resource("c", "c", "p", row), ProjectDefinition("p", "", "default", "RegionOne"))
    assert said.startswith("1200 objects, 5000 bytes")


def test_another_account_is_impossible(projects, sweeper, monkeypatch):
    """A token of another project, or an endpoint that leads elsewhere: unknown, and no call is made there."""
    target, neighbour = projects
    before = everything(neighbour)
    definition = sweeper.definition(SERVICE, target)
    for project in projects:
        sweeper.enter(project)
    for project_id in (neighbour.project_id, None):
        connection = sweeper.connection(project_id, write=True)
        for name in ("container", "account_metadata"):
            swept = sweeps.delete(TYPES[name], connection, definition)
            assert (swept.outcome, swept.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
    connection = sweeper.connection(target.project_id, write=True)
    elsewhere = neighbour.connection.object_store.get_endpoint()
    monkeypatch.setattr(connection.object_store, "get_endpoint", lambda: elsewhere)
    for options in ({}, {"account_in_url": False}):
        swept = sweeps.delete(TYPES["container"], connection, sweeper.definition(SERVICE, target, **options))
        assert (swept.outcome, swept.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
    with pytest.raises(BadAnswer):
        plugin.containers._delete_container(
            connection, definition, Resource("object-store-neighbour-plain", "", target.project_id)
        )
    assert everything(neighbour) == before


def test_without_a_role_nothing_is_known(projects, sweeper):
    """403 is no empty account."""
    target, _ = projects
    sweeper.cloud.admin.ensure_user("object-reader", "reader", target.project_name, ("reader",))
    connection = connect_as(target.connection, "object-reader", "reader", target.project_name)
    found = sweeps.inventory(TYPES["container"], connection, sweeper.definition(SERVICE, target))
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_everything_goes_and_the_neighbour_keeps_all(projects, sweeper):
    target, neighbour = projects
    theirs = everything(neighbour)
    theirs_too = f"AUTH_{neighbour.project_id}/{quote(neighbour.project_name)}-plain/hello.txt"
    for name in plugin.common.DOTS:  # HTTP clients resolve these to another URL
        raw(target, "PUT", name)
        for inside in ("inside", theirs_too, *(each for each in AWKWARD if len(quote(each)) < plugin.containers.LINE)):
            raw(target, "PUT", name, inside)
    swept = sweeper.delete(SERVICE, target)
    assert swept["container"].outcome is Outcome.CLEAR, swept["container"]
    assert swept["account_metadata"].outcome is Outcome.CLEAR
    assert sweeper.inventory(SERVICE, target)["container"].outcome is Outcome.CLEAR
    assert not any(everything(target).values())
    assert on_disk(sweeper, target) == [0, 0]
    assert everything(neighbour) == theirs


def test_what_can_be_deleted_by_its_path_alone_is_left_in_such_a_container_and_named(admin, sweeper):
    """A proxy in between may resolve the path to another account."""
    target = fill(admin, "object-dots", only=[])
    raw(target, "PUT", "..", X_Versions_Enabled="true")
    raw(target, "PUT", "..", "object")
    raw(target, "PUT", ".")
    raw(target, "PUT", ".", "%" * 1024)
    left = sweeper.delete(SERVICE, target)["container"].leftovers
    assert {(one.id, one.reason) for one in left} == {(".", Reason.REFUSED), ("..", Reason.REFUSED)}
    assert all("curl --path-as-is" in one.message for one in left)


def signed(filled, name, key):
    """Return a signed URL with which every client can write an object, by a key that a user has set."""
    endpoint = urlsplit(filled.connection.object_store.get_endpoint())
    expires = int(time.time()) + 600
    text = f"PUT\n{expires}\n{endpoint.path}/{name}"
    signature = hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
    return f"{endpoint.scheme}://{endpoint.netloc}{endpoint.path}/{name}?temp_url_sig={signature}&temp_url_expires={expires}"


def test_writes_from_another_project_do_not_delay_the_deletion(admin, sweeper, neighbour):
    """The writes use a public access list and signed URLs, which need no token of the project."""
    target = fill(admin, "object-doors", only=[])
    store = Rest(target.connection.object_store)
    store.raw("POST", "", headers={"X-Account-Meta-Temp-URL-Key-2": "account-key"})
    store.raw("PUT", path("list"), headers={"X-Container-Write": "*:*"})
    store.raw("PUT", path("own-key"), headers={"X-Container-Meta-Temp-URL-Key": "own"})
    store.raw("PUT", path("account-key"))
    raw(target, "PUT", "..", X_Container_Write="*:*")
    endpoint = urlsplit(target.connection.object_store.get_endpoint())
    token = {"X-Auth-Token": neighbour.connection.auth_token}
    ways = {
        "list": (f"{endpoint.scheme}://{endpoint.netloc}{endpoint.path}/list/x", token),
        "own-key": (signed(target, "own-key/x", "own"), {}),
        "account-key": (signed(target, "account-key/x", "account-key"), {}),
    }
    over, seen = threading.Event(), {name: [] for name in ways}

    def write(name):
        url, headers = ways[name]
        while not over.is_set():
            number = len(seen[name])
            at = url.replace("list/x", f"list/{number}") if name == "list" else url
            seen[name].append(requests.put(at, data=b"again", headers=headers, timeout=60).status_code)

    threads = [threading.Thread(target=write, args=(name,)) for name in ways]
    for thread in threads:
        thread.start()
    try:
        wait("all of them write", lambda: all(201 in found for found in seen.values()), 60)
        deadline = time.monotonic() + 60
        while (swept := sweeper.delete(SERVICE, target))["container"].outcome is not Outcome.CLEAR:
            assert time.monotonic() < deadline, (swept["container"], {name: set(s) for name, s in seen.items()})
        last = {name: len(found) for name, found in seen.items()}
        wait("each is told", lambda: all(len(found) > last[name] for name, found in seen.items()), 60)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert {found[-1] for found in seen.values()} <= {401, 403, 404}
    assert not any(everything(target).values())


def test_container_sync_is_cut_before_anything_is_deleted(admin, sweeper, monkeypatch):
    """Swift would also delete the copies, which may be in the account of another project."""
    target = fill(admin, "object-sync", only=[])
    store = Rest(target.connection.object_store)
    store.raw("PUT", path("synced"), headers={"X-Container-Sync-To": "http://127.0.0.1/v1/AUTH_x/c"})
    store.raw("PUT", path("synced", "object"))
    seen = []
    objects = plugin.containers._Emptying.objects

    def spy(self):
        seen.append(store.raw("HEAD", path("synced")).headers.get("X-Container-Sync-To"))
        objects(self)

    assert store.raw("HEAD", path("synced")).headers["X-Container-Sync-To"]
    monkeypatch.setattr(plugin.containers._Emptying, "objects", spy)
    assert sweeper.delete(SERVICE, target)["container"].outcome is Outcome.CLEAR
    assert seen == [None]


def test_without_bulk_delete(admin, sweeper, monkeypatch):
    """Some Swift deployments do not have the middleware, or do not report it."""
    target = fill(admin, "object-slow", only=["object-store"], objects=30)
    monkeypatch.setattr(plugin.containers, "_bulk_limit", lambda connection: 0)
    monkeypatch.setattr(plugin.common, "PAGE", 7)
    assert sweeper.delete(SERVICE, target)["container"].outcome is Outcome.CLEAR
    assert not any(everything(target).values())


def test_a_small_bulk_limit_is_kept(admin, sweeper, monkeypatch):
    target = fill(admin, "object-small", only=["object-store"], objects=50)
    sizes = []
    bulk = plugin.containers._Emptying.bulk
    monkeypatch.setattr(plugin.containers, "_bulk_limit", lambda connection: 4)
    monkeypatch.setattr(
        plugin.containers._Emptying, "bulk", lambda self, lines: (sizes.append(len(lines)), bulk(self, lines))[1]
    )
    assert sweeper.delete(SERVICE, target)["container"].outcome is Outcome.CLEAR
    assert max(sizes) == 4 and sum(sizes) >= 50


def test_the_account_itself(admin, sweeper):
    """Off by default; then it is gone for good, and a deleted account counts as empty."""
    target = fill(admin, "object-account", only=["object-store"], objects=5)
    assert sweeper.delete(SERVICE, target)["account"] == StepResult(Outcome.CLEAR, absent=True)
    time.sleep(2)  # an account that is younger cannot be told from one that Swift makes up
    swept = sweeper.delete(SERVICE, target, delete_account=True)["account"]
    assert (swept.outcome, len(swept.deleted)) == (Outcome.CLEAR, 1), swept
    assert target.connection.object_store.head("").status_code == 410
    again = sweeper.inventory(SERVICE, target, delete_account=True)
    assert {name: result.outcome for name, result in again.items()} == dict.fromkeys(again, Outcome.CLEAR)


def test_an_account_that_never_was(admin, sweeper):
    target = fill(admin, "object-never", only=[])
    listed = sweeper.inventory(SERVICE, target, delete_account=True)
    assert {name: result.outcome for name, result in listed.items()} == dict.fromkeys(listed, Outcome.CLEAR)


# ---------------------------------------------------------------------------- what a bulk delete's 200 may stand for


class Answer:
    def __init__(self, body):
        self.status_code, self.url, self.request, self.body = 200, "", type("R", (), {"method": "POST"}), body

    def json(self):
        return json.loads(self.body)


def emptying(body):
    connection = type("C", (), {"object_store": type("S", (), {"post": lambda self, *a, **k: Answer(body)})()})()
    return plugin.containers._Emptying(connection, "http://swift/v1/AUTH_x", "c")


def answer(status="200 OK", errors=(), deleted=0, missing=0, **more):
    counts = {"Number Deleted": deleted, "Number Not Found": missing}
    return json.dumps({"Response Status": status, "Response Body": "", "Errors": list(errors), **counts, **more})


def test_gone_already_is_gone():
    run = emptying("\r\n\r\n" + answer(deleted=1, missing=1))
    run.bulk([b"/c/1", b"/c/2"])
    run.close()


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>",
        "[]",
        "{}",
        answer(status=""),
        answer(deleted=1),  # two were asked for
        answer(errors=[["/c/1"]]),
    ],
)
def test_an_answer_that_cannot_be_trusted(body):
    with pytest.raises(BadAnswer):
        emptying(body).bulk([b"/c/1", b"/c/2"])


@pytest.mark.parametrize("status", ["500 Internal Error", "401 Unauthorized", "413 Request Entity Too Large"])
def test_a_failure_dressed_as_200(status):
    with pytest.raises(exceptions.HttpException) as caught:
        emptying(answer(status)).bulk([b"/c/1"])
    assert caught.value.status_code == int(status[:3])


def test_refused_objects_are_reported():
    run = emptying(answer("400 Bad Request", [["/c/%E2%98%83", "403 Forbidden"], ["/c/2", "403 Forbidden"]], deleted=1))
    run.bulk([b"/c/1", b"/c/2", b"/c/3"])
    with pytest.raises(exceptions.HttpException, match=r"2 objects were refused \(2 x 403\), such as '/c/☃'") as caught:
        run.close()
    assert caught.value.status_code == 403


@pytest.mark.parametrize("name", ["ünïcödé", "プロジェクト"])
def test_a_project_of_any_name_is_emptied_and_deleted(cloud, admin, tmp_path, name):
    """Swift answers 503 to a token with a name that is not Latin-1, and yet takes the PUT of a container."""
    filled = make_project(admin, name, password=None, partner=None)
    store = Rest(filled.connection.object_store)
    store.raw("PUT", path("c"))
    latin = name == "ünïcödé"
    assert filled.connection.object_store.head(path("c")).status_code == (204 if latin else 503)
    orchestrator = Orchestrator(cloud, tmp_path)
    try:
        cloud.admin.ensure_role(orchestrator.parts.clouds.project_id(), orchestrator.user_id, "ResellerAdmin")
        deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
        orchestrator.wait(deletion_id, Status.DELETED, seconds=180)
        [gone] = [
            row.event
            for row in orchestrator.store.events(deletion_id, 10_000)
            if row.event.type == "resource.deleted" and row.event.data["type"] == "container"
        ]
        assert [each["id"] for each in gone.data["resources"]] == ["c"]
    finally:
        orchestrator.running.close()
