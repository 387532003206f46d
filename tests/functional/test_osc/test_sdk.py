"""The client for programs: ``conn.project_cleanup`` of openstacksdk, and the script of the manual."""

import itertools
import json
import pathlib
import runpy
import subprocess
import sys
import types

import openstack as openstacksdk
import pytest
from keystoneauth1.exceptions import EndpointNotFound
from openstack import exceptions

from cleanup_orchestrator import sdk
from cleanup_orchestrator.sdk import proxy
from tests.functional.test_osc import stub

SCRIPT = pathlib.Path(__file__).parents[3] / "doc" / "source" / "user" / "end_projects.py"
DELETIONS = "/cleanup/v1/deletions"


@pytest.fixture
def conn(env):
    with openstacksdk.connect(load_yaml_config=False) as connection:
        connection.add_service(sdk.DESCRIPTION)
        yield connection


@pytest.fixture
def cleanup(conn):
    return conn.project_cleanup


def test_a_deletion_is_a_typed_resource(stub_cloud, conn, cleanup):
    demo = stub_cloud.add_project("demo")
    count = stub.count("network", "port", found=2)
    stub_cloud.is_newer = True
    states = [{"status": "accepted"}, {"status": "deleting", "progress": {"found": 2}, "counts": [count], "newer": 1}]
    stub_cloud.script(demo, *states)
    project = conn.identity.find_project("demo", ignore_missing=False)
    made = cleanup.create_deletion(project, mode="cascade")
    assert isinstance(made, sdk.Deletion) and (made.status, made.dry_run) == ("accepted", False)
    assert stub_cloud.requests[-1]["body"] == {"project_id": demo["id"], "mode": "cascade", "dry_run": False}
    found = cleanup.get_deletion(made)
    assert (found.id, found.progress.found, found.counts[0].type, found.newer) == (made.id, 2, "port", 1)
    assert isinstance(found.counts[0], sdk.Count)


def test_lists_are_generators_of_resources(stub_cloud, cleanup):
    demo = stub_cloud.add_project("demo")
    ids = [stub_cloud.add_deletion(demo, "deleted") for _ in range(5)]
    rows = [{"id": str(n), "type": "port", "name": "p"} for n in range(5)]
    stub_cloud.leftovers[ids[0]], stub_cloud.events[ids[0]] = rows, [{"id": n, "type": "t"} for n in range(3)]
    stub_cloud.services = [{"service_type": "network", "types": ["port"]}]
    listed = cleanup.deletions(project_id=demo["id"])
    before = len(stub_cloud.made("GET", DELETIONS))
    assert iter(listed) is listed
    assert {type(each) for each in [next(listed)]} == {sdk.Deletion}
    assert len(stub_cloud.made("GET", DELETIONS)) == before + 1, "only the first page"
    assert len(list(listed)) == 4
    assert [(type(each), each.id) for each in cleanup.leftovers(ids[0], limit=3)] == [
        (sdk.Leftover, "0"),
        (sdk.Leftover, "1"),
        (sdk.Leftover, "2"),
    ]
    assert [(type(each), each.id) for each in cleanup.events(ids[0])] == [
        (sdk.Event, 0),
        (sdk.Event, 1),
        (sdk.Event, 2),
    ]
    assert {type(each) for each in cleanup.all_leftovers()} == {sdk.ProjectLeftover}
    assert [(type(each), each.types) for each in cleanup.services()] == [(sdk.Service, ["port"])]


def test_filters_take_resources_lists_and_truth_values(stub_cloud, conn, cleanup):
    stub_cloud.add_project("demo")
    project = conn.identity.find_project("demo", ignore_missing=False)
    list(cleanup.deletions(project_id=project, status=["failed", "leftovers"], attention=True, mode=None, marker=""))
    assert stub_cloud.requests[-1]["query"] == {
        "project_id": [project.id],
        "status": ["failed", "leftovers"],
        "attention": ["True"],
    }


def test_liens_waivers_and_the_brake_are_resources(stub_cloud, cleanup):
    lien = cleanup.create_lien("p1", "billing", "open invoice")
    assert isinstance(lien, sdk.Lien) and lien.origin == "billing"
    assert cleanup.get_lien(lien).reason == "open invoice"
    waiver = cleanup.create_waiver("dns", "gone", "2027-01-31T00:00:00Z")
    assert isinstance(waiver, sdk.Waiver) and [each.id for each in cleanup.waivers()] == [waiver.id]
    cleanup.delete_lien(lien)
    assert isinstance(cleanup.get_brake(), sdk.Brake) and cleanup.get_brake().on is False
    assert cleanup.set_brake("storage").on is True


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, exceptions.BadRequestException),
        (403, exceptions.ForbiddenException),
        (404, exceptions.NotFoundException),
        (409, exceptions.ConflictException),
        (503, exceptions.HttpException),
    ],
)
def test_errors_are_those_of_openstacksdk(stub_cloud, cleanup, status, expected):
    answer = stub_cloud.error(status, "some_code", "What is wrong.", deletion_id="d1")
    stub_cloud.answers["POST", DELETIONS] = [answer]
    with pytest.raises(expected) as caught:
        cleanup.create_deletion("p1")
    error = caught.value
    assert isinstance(error, sdk.ApiError)
    assert (error.code, error.deletion_id, error.body["detail"]) == ("some_code", "d1", "What is wrong.")
    assert (error.status_code, error.request_id, error.temporary) == (status, stub.REQUEST_ID, status == 503)
    others = {exceptions.BadRequestException, exceptions.ForbiddenException, exceptions.NotFoundException}
    others |= {exceptions.ConflictException}
    assert not isinstance(error, tuple(others - {expected}))
    assert str(error) == f"What is wrong (HTTP {status}, some_code, {stub.REQUEST_ID})"


def test_an_unknown_deletion_is_not_found(cleanup):
    for call in (cleanup.get_deletion, cleanup.find_deletion, lambda id_: next(cleanup.leftovers(id_))):
        with pytest.raises(exceptions.NotFoundException):
            call("0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11")


def test_find_a_deletion_by_its_id_or_its_project(stub_cloud, conn, cleanup):
    demo, other = stub_cloud.add_project("demo"), stub_cloud.add_project("other")
    older = stub_cloud.add_deletion(demo, "deleted", created_at="2026-11-20T10:00:00Z")
    live = stub_cloud.add_deletion(demo, "deleting", created_at="2026-11-21T10:00:00Z")
    newer = stub_cloud.add_deletion(demo, "leftovers", created_at="2026-11-22T10:00:00Z")
    assert cleanup.find_deletion(older).id == older
    assert cleanup.find_deletion(demo["id"]).id == live
    assert cleanup.find_deletion(conn.identity.find_project("demo", ignore_missing=False)).id == live
    stub_cloud.deletions.pop(live)
    assert cleanup.find_deletion(demo["id"]).id == newer
    assert cleanup.find_deletion(other["id"], ignore_missing=True) is None
    for text in ("", None, "a name", "demo"):
        assert cleanup.find_deletion(text, ignore_missing=True) is None
        with pytest.raises(exceptions.NotFoundException):
            cleanup.find_deletion(text)


# ---------------------------------------------------------------------------------------------------------------- waits
def waited(cleanup, stub_cloud, *states, **options):
    id_ = stub_cloud.add_deletion(stub_cloud.add_project("demo"), *states)
    return cleanup.wait_for_deletion(id_, interval=0.01, **options)


def test_wait_for_the_end(stub_cloud, cleanup):
    told = []
    states = ("accepted", "deleting", "deleted")
    found = waited(cleanup, stub_cloud, *states, callback=lambda each: told.append(each.status))
    assert isinstance(found, sdk.Deletion) and found.status == "deleted"
    assert told == list(states)


def test_a_dry_run_ends_as_planned(stub_cloud, cleanup):
    planned = {"status": "planned", "dry_run": True}
    assert waited(cleanup, stub_cloud, planned).status == "planned"
    with pytest.raises(exceptions.ResourceFailure):
        waited(cleanup, stub_cloud, "planned")


@pytest.mark.parametrize("status", ["leftovers", "failed", "cancelled", "a_status_of_a_newer_server"])
def test_another_end_is_a_failure(stub_cloud, cleanup, status):
    end = {"status": status, "finished_at": "2026-11-21T10:09:00Z", "message": "a port\n is in use"}
    stub_cloud.is_newer = True
    with pytest.raises(exceptions.ResourceFailure) as caught:
        waited(cleanup, stub_cloud, "accepted", end)
    assert str(caught.value).endswith(f"of project demo ended in status {status}: a port is in use")


def test_wait_for_one_of_several_statuses(stub_cloud, cleanup):
    assert waited(cleanup, stub_cloud, "accepted", "leftovers", status=("deleted", "leftovers")).status == "leftovers"
    assert waited(cleanup, stub_cloud, "accepted", "deleting", "deleted", status="deleting").status == "deleting"
    with pytest.raises(exceptions.ResourceFailure):
        waited(cleanup, stub_cloud, "cancelled", status=("deleted", "leftovers"))


def test_a_wait_times_out(stub_cloud, cleanup):
    with pytest.raises(exceptions.ResourceTimeout, match="which continues"):
        waited(cleanup, stub_cloud, "deleting", wait=0.05)


def test_a_wait_reads_the_present_state(stub_cloud, cleanup):
    """A resource that a program kept can be out of date: a retry begins after the end."""
    id_ = stub_cloud.add_deletion(stub_cloud.add_project("demo"), "leftovers")
    stub_cloud.after[id_, "retry"] = [stub.deletion(stub_cloud.admin, status) for status in ("accepted", "deleted")]
    old = cleanup.get_deletion(id_)
    cleanup.retry_deletion(old)
    assert cleanup.wait_for_deletion(old, interval=0.01).status == "deleted"


def outage(stub_cloud, *answers):
    id_ = stub_cloud.add_deletion(stub_cloud.add_project("demo"), "deleted")
    stub_cloud.answers["GET", f"{DELETIONS}/{id_}"] = [*answers]
    return id_


def test_a_wait_outlasts_an_outage_of_the_api(stub_cloud, cleanup):
    end = stub.deletion(stub_cloud.admin, "deleted", id="d1")
    answers = [(503, "down", {}), (502, "down", {}), (200, {"deletion": end}, {})]
    assert cleanup.wait_for_deletion(outage(stub_cloud, *answers), interval=0.01).status == "deleted"


def test_a_wait_gives_up_after_a_long_outage(stub_cloud, cleanup, monkeypatch):
    monkeypatch.setattr(proxy, "GIVE_UP", 0)
    with pytest.raises(sdk.ApiError, match="HTTP 503"):
        cleanup.wait_for_deletion(outage(stub_cloud, (503, "down", {})), interval=0.01)


def test_each_outage_is_given_its_own_time(stub_cloud, cleanup, monkeypatch):
    clock = itertools.count(step=0.7 * proxy.GIVE_UP)
    monkeypatch.setattr(proxy, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    going, end = (stub.deletion(stub_cloud.admin, status, id="d1") for status in ("deleting", "deleted"))
    answers = [(503, "down", {}), (200, {"deletion": going}, {}), (503, "down", {}), (200, {"deletion": end}, {})]
    assert cleanup.wait_for_deletion(outage(stub_cloud, *answers), interval=0.01).status == "deleted"


def test_a_wait_ends_at_an_error_that_stays(stub_cloud, cleanup):
    with pytest.raises(exceptions.ForbiddenException):
        cleanup.wait_for_deletion(outage(stub_cloud, stub_cloud.error(403, "forbidden", "no")), interval=0.01)


# ------------------------------------------------------------------------------------------------------------ endpoint
def test_a_cloud_without_the_service(stub_cloud, cleanup, env):
    stub_cloud.catalog = False
    with openstacksdk.connect(load_yaml_config=False) as connection:
        connection.add_service(sdk.DESCRIPTION)
        with pytest.raises((exceptions.SDKException, EndpointNotFound), match="project-cleanup"):
            list(connection.project_cleanup.deletions())


def test_the_endpoint_of_the_environment_and_of_clouds_yaml(stub_cloud, env, monkeypatch):
    """openstacksdk alone would not read the variable while a cloud is chosen."""
    stub_cloud.catalog = False
    id_ = stub_cloud.add_deletion(stub_cloud.add_project("demo"), "deleted")
    auth = {"auth_url": env["OS_AUTH_URL"], "username": "admin", "password": "x", "project_name": "admin"}
    cloud = {"auth": auth | {"user_domain_id": "default", "project_domain_id": "default"}, "region_name": "RegionOne"}
    url = f"{stub_cloud.url}/cleanup"
    for name in env:
        if name.startswith("OS_") and name != "OS_CLIENT_CONFIG_FILE":
            monkeypatch.delenv(name)
    for override, variable in (({"project_cleanup_endpoint_override": url}, ""), ({}, url)):
        monkeypatch.setenv("OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE", variable)
        pathlib.Path(env["OS_CLIENT_CONFIG_FILE"]).write_text(json.dumps({"clouds": {"here": cloud | override}}))
        with openstacksdk.connect(cloud="here") as connection:
            connection.add_service(sdk.DESCRIPTION)
            assert connection.project_cleanup.get_deletion(id_).id == id_


# ------------------------------------------------------------------------------------------- the script of the manual
class SameForAll(dict):
    """The leftovers of each deletion, also of one that is not requested yet."""

    def get(self, key, default=None):
        return self["rows"]


@pytest.fixture
def arguments(env, tmp_path):
    """Write rows to a file, and return the command line of the script of the manual."""

    def write(*rows, options=()):
        path = tmp_path / "projects.csv"
        path.write_text("\n".join(["project,domain", *rows, ""]))
        return [str(SCRIPT), str(path), *options]

    return write


@pytest.fixture
def end_projects(arguments, capsys, monkeypatch):
    """Run the script of the manual on rows, in this process."""

    def run(*rows, options=()):
        monkeypatch.setattr(sys, "argv", arguments(*rows, options=options))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        code, (out, err) = ended.value.code, capsys.readouterr()
        if isinstance(code, str):  # Python prints it, and ends with 1
            code, err = 1, f"{err}{code}\n"
        return subprocess.CompletedProcess(sys.argv, code, out, err)

    return run


def test_the_script_of_the_manual_lists_what_it_would_delete(stub_cloud, end_projects, monkeypatch):
    demo = stub_cloud.add_project("demo")
    planned = {"status": "planned", "dry_run": True}
    planned["progress"] = {"found": 2, "remaining": 2}
    stub_cloud.script(demo, {"status": "accepted"}, planned)
    rows = [
        {"service": "network", "type": "port", "id": "p1", "name": "web", "reason": "present"},
        {"service": "compute", "type": "server", "id": "s1", "name": "", "reason": "present"},
    ]
    monkeypatch.setattr(stub_cloud, "leftovers", SameForAll(rows=rows))
    done = end_projects("demo,default")
    assert done.stdout.splitlines() == [
        "demo: planned; found 2, deleted 0, remaining 2",
        "    network port web: present",
        "    compute server s1: present",
    ]
    assert (done.returncode, done.stderr) == (0, "")
    assert [r["body"]["dry_run"] for r in stub_cloud.requests if r["path"] == DELETIONS] == [True]


def test_the_script_of_the_manual_ends_projects(stub_cloud, arguments):
    demo, second, stuck = (
        stub_cloud.add_project("demo"),
        stub_cloud.add_project("demo", "d2"),
        stub_cloud.add_project("stuck"),
    )
    stub_cloud.script(demo, {"status": "accepted"}, {"status": "deleted", "progress": {"deleted": 7}})
    stub_cloud.script(second, {"status": "accepted"}, {"status": "deleted"})
    failed = {"status": "failed", "message": "Not everything can be deleted.", "blockers": [stub.BLOCKER]}
    stub_cloud.script(stuck, {"status": "accepted"}, failed)
    rows = ("demo,Default", "demo,Second", "gone,default", "stuck,default")
    command = [sys.executable, *arguments(*rows, options=["--delete"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    ids = {states[0]["project_id"]: id_ for id_, states in stub_cloud.deletions.items()}
    assert done.stdout.splitlines() == [
        "gone: not found: No Project found for gone",
        "demo: deleted; found 0, deleted 7, remaining 0",
        "demo: deleted; found 0, deleted 0, remaining 0",
        f"stuck: Deletion {ids[stuck['id']]} of project stuck ended in status failed: Not everything can be deleted.",
        "    volume volume: no answer from http://volume.example: start the service, or waive it",
    ]
    assert (done.returncode, done.stderr) == (1, "")
    bodies = [r["body"] for r in stub_cloud.requests if r["path"] == DELETIONS and r["method"] == "POST"]
    assert bodies == [{"project_id": each["id"], "mode": "cascade", "dry_run": False} for each in (demo, second, stuck)]


def test_the_script_of_the_manual_says_what_is_refused(stub_cloud, end_projects):
    stub_cloud.add_project("demo")
    stub_cloud.answers["POST", DELETIONS] = [stub_cloud.error(409, "project_has_liens", "a lien protects it")]
    done = end_projects("demo,default", options=["--delete"])
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == f"demo: refused: a lien protects it (HTTP 409, project_has_liens, {stub.REQUEST_ID})\n"


def test_the_script_of_the_manual_finds_a_project_only_in_its_domain(stub_cloud, end_projects):
    demo = stub_cloud.add_project("demo")
    done = end_projects(f"{demo['id']},Second", "demo,Second", options=["--delete"])
    assert done.returncode == 1 and done.stdout.count("not found") == 2
    assert not stub_cloud.made("POST", DELETIONS)


def test_the_script_of_the_manual_goes_on_after_an_error(stub_cloud, end_projects):
    """The second of three deletions cannot be read; names cannot write to the terminal."""
    names = ("one", "two\x1b[2J", "three")
    projects = [stub_cloud.add_project(name) for name in names]
    ids = [stub_cloud.add_deletion(project, "deleted") for project in projects]
    made = [(202, {"deletion": stub.deletion(p, id=i)}, {}) for p, i in zip(projects, ids)]
    stub_cloud.answers["POST", DELETIONS] = made
    stub_cloud.answers["GET", f"{DELETIONS}/{ids[1]}"] = [stub_cloud.error(403, "forbidden", "not yours")]
    done = end_projects(*(f"{name},default" for name in names), options=["--delete"])
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "one: deleted; found 0, deleted 0, remaining 0",
        f"two?[2J: not yours (HTTP 403, forbidden, {stub.REQUEST_ID})",
        "three: deleted; found 0, deleted 0, remaining 0",
    ]


@pytest.mark.parametrize("row", [",default", "demo", "demo, ", '"",""'])
def test_the_script_of_the_manual_refuses_a_file_with_a_blank_cell(stub_cloud, end_projects, row):
    stub_cloud.add_project("demo")
    done = end_projects("demo,default", row, options=["--delete"])
    assert done.returncode == 1 and done.stderr.endswith("row 3: give a project and a domain\n")
    assert not stub_cloud.made("POST", DELETIONS)
