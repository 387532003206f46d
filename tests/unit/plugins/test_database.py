"""Trove: no admin's token for its guest agents, no list whose owners are not known, and what counts as stuck."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.plugins.base import Resource, exceptions
from cleanup_orchestrator.plugins.database import SERVICE
from tests.support import sweeps
from tests.unit.answers import connection, project

STRATEGY, BACKUP, CLUSTER, INSTANCE, CONFIGURATION, MODULE = SERVICE.types
REFUSED = 422, {"unprocessableEntity": {"message": "not ready"}}


def ago(hours):
    changed = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours)
    return changed.replace(tzinfo=None).isoformat()


def instance(id_, owner="p", hours=0.0, **more):
    row = {"id": id_, "name": id_, "tenant_id": owner, "status": "ACTIVE", "server_id": None, "updated": ago(hours)}
    return row | {"task_description": "No tasks for the instance.", "flavor": {"id": "f"}} | more


class Trove:
    """Answers as Trove does, to an admin or to a member of the project."""

    def __init__(self, admin=True, **rows):
        self.admin, self.rows, self.made, self.servers = admin, rows, [], set()
        self.missing = 404, {"itemNotFound": {"code": 404, "message": "Instance could not be found."}}
        self.refusals = {}

    def database(self, method, path, query, body):
        if path == "/backup_strategies" and method == "GET":
            return (200, {"backup_strategies": self.rows.get("backup_strategies", [])}) if self.admin else (403, {})
        if method != "GET":
            self.made.append(f"{method} {path}")
            if path in self.refusals:
                return self.refusals[path]
            if path.endswith("/action"):
                self.refusals.pop(f"/{path.split('/')[2]}/{path.split('/')[3]}", None)
                return 202, ""
            _, collection, id_ = path.split("/")
            self.rows[collection] = [row for row in self.rows[collection] if row["id"] != id_]
            return 202, ""
        collection = path.rpartition("/")[2]
        if collection in self.rows:
            return 200, {collection: self.rows[collection]}
        found = next((row for row in self.rows.get("backups", ()) if path == f"/backups/{row['id']}"), None)
        return (200, {"backup": found}) if found else (404, {})

    def compute(self, method, path, query, body):
        kind, id_ = path.strip("/").split("/")
        return (200, {}) if (kind == "flavors" and id_ == "f") or id_ in self.servers else self.missing

    def connection(self):
        return connection(database=self.database, compute=self.compute)


@pytest.mark.parametrize("type_", [BACKUP, CLUSTER, INSTANCE, STRATEGY], ids=lambda type_: type_.name)
def test_a_caller_who_is_no_admin_sees_no_empty_project(type_):
    trove = Trove(admin=False, backups=[], clusters=[], instances=[])
    found = sweeps.inventory(type_, trove.connection(), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


@pytest.mark.parametrize(("type_", "key"), [(BACKUP, "backups"), (INSTANCE, "instances")], ids=["backup", "instance"])
@pytest.mark.parametrize("body", [{"links": [{"rel": "next", "href": "x"}]}, None], ids=["page", "nothing"])
def test_a_part_of_a_list_is_unknown(type_, key, body):
    trove = Trove()
    trove.database = lambda method, path, query, _: (
        (200, {"backup_strategies": []}) if "strategies" in path else (200, (body and {key: [], **body}) or {})
    )
    found = sweeps.inventory(type_, trove.connection(), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_configuration_groups_of_all_projects_are_nobodys():
    row = {"id": "c", "name": "c"}
    seen = {
        (admin, bool(rows)): sweeps.inventory(
            CONFIGURATION, Trove(admin, configurations=rows).connection(), project()
        ).outcome
        for admin in (True, False)
        for rows in ([], [row])
    }
    assert seen == {
        (True, True): Outcome.UNKNOWN,
        (True, False): Outcome.CLEAR,
        (False, True): Outcome.LEFTOVERS,
        (False, False): Outcome.CLEAR,
    }


def test_modules_are_listed_to_a_member_and_those_of_the_cloud_are_left_out():
    rows = [{"id": "m", "name": "m", "tenant_id": "p"}, {"id": "all", "name": "all", "tenant_id": None}]
    assert sweeps.inventory(MODULE, Trove(modules=[]).connection(), project()).outcome is Outcome.UNKNOWN
    found = sweeps.inventory(MODULE, Trove(admin=False, modules=rows).connection(), project())
    assert [left.id for left in found.leftovers] == ["m"]


def test_what_an_admin_is_not_shown_is_listed_with_the_janitors_token():
    assert [type_.name for type_ in SERVICE.types if type_.token is Token.MEMBER] == ["configuration", "module"]
    found = sweeps.inventory(MODULE, Trove(modules=[]).connection(), project())
    assert "[janitor]" in found.message and "list_modules = false" in found.message


def test_no_instance_is_shown():
    """Trove would send the token of the request to its guest agent."""
    trove = Trove(instances=[instance("i")])
    asked = []
    answer = trove.database
    trove.database = lambda *request: (asked.append(request[1]), answer(*request))[1]
    swept = sweeps.delete(INSTANCE, trove.connection(), project(), janitor=trove.connection)
    assert (swept.outcome, trove.made) == (Outcome.CLEAR, ["DELETE /instances/i"])
    assert set(asked) == {"/backup_strategies", "/mgmt/instances", "/instances/i"}


@pytest.mark.parametrize("type_", [INSTANCE, CLUSTER], ids=lambda type_: type_.name)
def test_if_the_project_is_gone_an_instance_is_deleted_only_without_its_server(type_):
    gone = dataclasses.replace(project(), gone=True)
    cluster = {"id": "c", "name": "c", "tenant_id": "p", "task": {"name": "NONE"}, "updated": ago(0)}
    of = {"cluster_id": "c"} if type_ is CLUSTER else {}
    trove = Trove(instances=[instance("i", server_id="s", **of)], clusters=[cluster])
    trove.servers.add("s")
    (left,) = sweeps.delete(type_, trove.connection(), gone).leftovers
    assert (left.reason, [each["id"] for each in left.blocked_by]) == (Reason.PROJECT_GONE, ["s"])
    assert trove.made == []
    trove.servers.clear()
    trove.missing, missing = (404, "no backend"), trove.missing  # a proxy does not know whether it runs
    (left,) = sweeps.delete(type_, trove.connection(), gone).leftovers
    assert (left.reason, trove.made) == (Reason.BAD_ANSWER, [])
    trove.missing = missing
    assert sweeps.delete(type_, trove.connection(), gone).outcome is Outcome.CLEAR


def test_if_the_project_is_gone_no_instance_of_another_project_is_deleted():
    """The janitor is gone with the project: Trove compares the owner with nothing."""
    gone, trove = dataclasses.replace(project(), gone=True), Trove(instances=[instance("i", owner="them")])
    with pytest.raises(exceptions.NotFoundException):
        INSTANCE.delete(trove.connection(), gone, Resource("i", "i", "p", instance("i")))
    assert trove.made == []


def test_if_the_project_is_gone_no_backup_is_deleted():
    trove = Trove(backups=[{"id": "b", "name": "b", "project_id": "p", "status": "COMPLETED"}])
    (left,) = sweeps.delete(BACKUP, trove.connection(), dataclasses.replace(project(), gone=True)).leftovers
    assert (left.reason, trove.made) == (Reason.PROJECT_GONE, [])


@pytest.mark.parametrize(("hours", "said"), [(1, "Trove is deleting it"), (5, None)])
def test_a_delete_without_an_end_is_requested_again(hours, said):
    row = instance("i", hours=hours, task_description="Deleting the instance.", status="SHUTDOWN")
    assert INSTANCE.deleting(Resource("i", "i", "p", row), project()) == said
    row = {"task": {"name": "DELETING"}, "updated": ago(hours)}
    assert CLUSTER.deleting(Resource("c", "c", "p", row), project()) == said
    assert INSTANCE.deleting(Resource("i", "i", "p", instance("i", status="SHUTDOWN")), project()) is None


@pytest.mark.parametrize("hours", [1, 5])
def test_an_instance_that_is_built_for_too_long_is_reset(hours):
    trove = Trove(instances=[instance("i", hours=hours, status="BUILD")])
    trove.refusals["/instances/i"] = REFUSED
    swept = sweeps.delete(INSTANCE, trove.connection(), project(), janitor=trove.connection)
    if hours == 1:
        (left,) = swept.leftovers
        assert (left.reason, "is building it" in left.message) == (Reason.IN_USE, True)
        assert trove.made == ["DELETE /instances/i"]
    else:
        assert swept.outcome is Outcome.CLEAR
        assert "POST /mgmt/instances/i/action" in trove.made


@pytest.mark.parametrize(("status", "reset"), [("BUILD", False), ("ERROR", True)])
def test_the_task_of_a_cluster_is_reset_if_no_instance_is_built(status, reset):
    cluster = {"id": "c", "name": "c", "tenant_id": "p", "task": {"name": "BUILDING"}, "updated": ago(0)}
    trove = Trove(clusters=[cluster], instances=[instance("i", status=status, cluster_id="c")])
    trove.refusals["/clusters/c"] = REFUSED
    swept = sweeps.delete(CLUSTER, trove.connection(), project(), janitor=trove.connection)
    assert (swept.outcome is Outcome.CLEAR, "POST /mgmt/clusters/c/action" in trove.made) == (reset, reset)


@pytest.mark.parametrize("owner", ["p", "q"])
def test_a_stuck_backup_resets_no_instance_of_another_project(owner):
    backup = {"id": "b", "name": "b", "project_id": "p", "status": "BUILDING", "instance_id": "i", "updated": ago(5)}
    trove = Trove(backups=[backup], instances=[instance("i", owner)])
    trove.refusals["/backups/b"] = (500, {})
    swept = sweeps.delete(BACKUP, trove.connection(), project(), janitor=trove.connection)
    assert ("POST /mgmt/instances/i/action" in trove.made) == (owner == "p")
    assert [left.reason for left in swept.leftovers] == [Reason.IN_USE]


@pytest.mark.parametrize(
    ("more", "blockers"),
    [
        ({"replicas": [{"id": "j"}]}, [("database.instance", "j", "p")]),
        ({"replicas": [{"id": "foreign"}]}, [("database.instance", "foreign", "")]),
        ({"cluster_id": "c"}, [("database.cluster", "c", "p")]),
        ({"flavor": {"id": "lost"}}, []),
    ],
)
def test_a_refused_instance_names_what_it_waits_for(more, blockers):
    trove = Trove(instances=[instance("i", **more), instance("j")])
    verdict = INSTANCE.explain(trove.connection(), project(), Resource("i", "i", "p", {}))
    assert [(each["type"], each["id"], each["owner"]) for each in verdict.blocked_by] == blockers
    assert blockers or "flavor lost" in verdict.message


@pytest.mark.parametrize(("status", "needing"), [("BUILDING", ["i", "c"]), ("FAILED", [])])
def test_only_an_instance_whose_backup_is_made_waits_for_it(status, needing):
    row = {"id": "b", "project_id": "p", "status": status, "instance_id": "i"}
    trove = Trove(backups=[row])
    (_, rule), *_ = INSTANCE.needed_by
    needs = rule(trove.connection(), project(), {"b"})
    rows = {"i": {}, "j": {}, "c": {"instances": [{"id": "i"}]}}
    assert [id_ for id_, data in rows.items() if needs(Resource(id_, "", "p", data))] == needing


def test_strategies_are_addressed_by_project_and_instance():
    rows = [{"project_id": "p", "instance_id": of, "swift_container": "c"} for of in ("", "i")]
    asked = []
    made = connection(
        database=lambda method, path, query, _: (asked.append((method, query)), (200, {"backup_strategies": rows}))[1]
    )
    sweeps.delete(STRATEGY, made, project())
    deletes = [query for method, query in asked if method == "DELETE"]
    assert len(deletes) == 2
    assert all("p" in str(query) for query in deletes)
