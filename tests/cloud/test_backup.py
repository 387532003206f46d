"""Freezer: everything of a project is deleted, and no trust of another project that one of its jobs names."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import backup
from cleanup_orchestrator.plugins.backup import SERVICE
from cleanup_orchestrator.plugins.base import NOTHING, Rest
from tests.cloud.filler import fill
from tests.cloud.fillings.backup import freezer, register
from tests.cloud.fillings.base import Rest as RestClient
from tests.cloud.orchestrator import JANITOR, Orchestrator
from tests.support import sweeps

CLOUD = ("freezer",)
JOB, SESSION, CLIENT, ACTION, BACKUP = SERVICE.types
FOUND = {"job": 3, "session": 2, "client": 2, "action": 4, "backup": 2}
#: The rows of a filled project. Freezer made the trust for the job of the central client.
ROWS = {
    "freezer.jobs": 3, "freezer.sessions": 2, "freezer.clients": 2, "freezer.actions": 4, "freezer.action_reports": 4,
    "freezer.backups": 2, "keystone.trust": 1,
}  # fmt: skip
TRUST = {"keystone.trust": 1}  # deleted with the trusts of the project


def alive(sweeper, filled):
    return sweeper.live(filled.project_id, "freezer.", "keystone.trust")


def found_by(sweeper, filled, type_):
    return sweeps.inventory(type_, sweeper.connection(), sweeper.definition(SERVICE, filled))


def ids(found):
    return {left.id for left in found.leftovers}


def trust_of(filled):
    """Return a new trust of the user, as other services make them. No job of the project names it."""
    body = {"trustor_user_id": filled.user_id, "trustee_user_id": filled.colleague_id, "impersonation": False,
            "project_id": filled.project_id, "roles": [{"name": "member"}]}  # fmt: skip
    return RestClient(filled.connection.identity).call("POST", "/OS-TRUST/trusts", {"trust": body})["trust"]["id"]


def is_there(sweeper, trust_id):
    return bool(sweeper.rows("keystone", "SELECT id FROM trust WHERE id = ? AND deleted_at IS NULL", trust_id))


def steal(filled, trust_id):
    """A member of a project writes a job that names a trust of another project."""
    (name, *_) = (row["client"]["client_id"] for row in clients_of(filled))
    body = {"description": "thief", "client_id": name, "job_actions": [],
            "user_credentials": {"trust_id": trust_id, "trustor_user_id": "any"}}  # fmt: skip
    return freezer(filled.connection).call("POST", f"/{filled.project_id}/jobs", body)["job_id"]


def clients_of(filled):
    rows = freezer(filled.connection).call("GET", f"/{filled.project_id}/clients")["clients"]
    return [row for row in rows if row["project_id"] == filled.project_id]


def test_an_inventory_finds_everything_and_changes_nothing(projects, further_sweeper):
    target, _ = projects
    before = further_sweeper.dump("freezer", "keystone")
    found = {type_.name: found_by(further_sweeper, target, type_) for type_ in SERVICE.types}
    assert further_sweeper.dump("freezer", "keystone") == before
    assert {name: ids(result) for name, result in found.items()} == {name: set(target.ids[name]) for name in FOUND}
    assert {name: len(ids(result)) for name, result in found.items()} == FOUND
    assert found["job"].facts["others_ignored"] == 3, "Freezer shows the neighbour's jobs in the target's path"
    assert found["client"].facts["others_ignored"] == 1, "and the central client of the admin's project"
    assert alive(further_sweeper, target) == ROWS


@pytest.mark.parametrize("type_", SERVICE.types, ids=lambda type_: type_.name)
def test_all_pages_are_read(type_, projects, further_sweeper, monkeypatch):
    target, _ = projects
    monkeypatch.setattr(backup, "_CLIENTS", dataclasses.replace(backup._CLIENTS, limit=2))
    if isinstance(type_.list, Rest):
        type_ = dataclasses.replace(type_, list=dataclasses.replace(type_.list, limit=2))
    assert ids(found_by(further_sweeper, target, type_)) == set(target.ids[type_.name])


def test_the_list_of_all_projects_shows_the_jobs_of_each(projects, further_sweeper):
    for filled in projects:
        assert ids(found_by(further_sweeper, filled, JOB.all_projects_view())) == set(filled.ids["job"])


@pytest.mark.parametrize("type_", SERVICE.types, ids=lambda type_: type_.name)
def test_a_caller_without_the_admin_role_never_sees_an_empty_project(type_, projects, further_sweeper):
    target, neighbour = projects
    found = sweeps.inventory(type_, neighbour.connection, further_sweeper.definition(SERVICE, target))
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


@pytest.mark.parametrize("type_", SERVICE.types, ids=lambda type_: type_.name)
def test_a_system_scoped_token_sees_everything(type_, projects, further_sweeper):
    target, _ = projects
    found = sweeps.inventory(type_, further_sweeper.system_scoped(), further_sweeper.definition(SERVICE, target))
    assert ids(found) == set(target.ids[type_.name])


@pytest.mark.parametrize("type_", SERVICE.types, ids=lambda type_: type_.name)
def test_a_204_that_deleted_nothing_is_not_believed(type_, projects, further_sweeper):
    """Freezer answers so if the project in the path is a wrong one."""
    target, _ = projects
    path = type_.delete.path.replace("{project_id}", NOTHING)
    wrong = dataclasses.replace(type_, delete=dataclasses.replace(type_.delete, path=path), acts_on="")
    definition = further_sweeper.definition(SERVICE, target)
    swept = sweeps.delete(wrong, further_sweeper.connection(write=True), definition)
    assert (swept.outcome, len(swept.leftovers)) == (Outcome.LEFTOVERS, FOUND[type_.name])
    assert alive(further_sweeper, target) == ROWS


def test_with_an_admins_token_freezer_deletes_any_trust_that_a_job_names(further_admin, further_sweeper):
    """So jobs are not deleted with such a token."""
    attacker, victim = (fill(further_admin, f"backup-{name}", only=["backup"]) for name in ("attacker", "victim"))
    trust_id = trust_of(victim)
    steal(attacker, trust_id)
    further_sweeper.enter(attacker)
    careless = dataclasses.replace(JOB, acts_on="")
    definition = further_sweeper.definition(SERVICE, attacker)
    sweeps.delete(careless, further_sweeper.connection(write=True), definition)
    assert not is_there(further_sweeper, trust_id)


def test_everything_is_deleted_and_the_neighbour_keeps_all(projects, further_sweeper):
    target, neighbour = projects
    stolen = trust_of(neighbour)
    steal(target, stolen)
    theirs = further_sweeper.dump_of(neighbour.project_id)
    swept = further_sweeper.delete(SERVICE, target)
    assert {name: (result.outcome, result.found) for name, result in swept.items()} == {
        name: (Outcome.CLEAR, number + (name == "job")) for name, number in FOUND.items()
    }
    assert alive(further_sweeper, target) == TRUST
    assert further_sweeper.dump_of(neighbour.project_id) == theirs
    assert is_there(further_sweeper, stolen)
    live_jobs = "SELECT id FROM jobs WHERE deleted = 0"
    for table in ("job_actions", "user_credentials"):  # they do not name the project
        sql = f"SELECT id FROM {table} WHERE deleted = 0 AND job_id NOT IN ({live_jobs})"
        assert further_sweeper.rows("freezer", sql) == []


def test_a_central_client_is_left_to_an_admin(further_admin, further_sweeper):
    filled = fill(further_admin, "backup-central", only=[])
    path, name = f"/{filled.project_id}/clients", "other-scheduler"
    register(freezer(further_admin), filled.project_id, name, is_central=True)
    swept = further_sweeper.delete(SERVICE, filled)["client"]
    assert [(left.name, left.reason) for left in swept.leftovers] == [(name, Reason.PROTECTED)]
    freezer(further_admin).call("DELETE", f"{path}/{name}")
    assert further_sweeper.delete(SERVICE, filled)["client"].outcome is Outcome.CLEAR
    assert alive(further_sweeper, filled) == {}


def test_the_rows_of_a_project_that_keystone_has_deleted_are_deleted(projects, further_admin, further_sweeper):
    """Freezer then gets no token for the project, and deletes no trust that a job names."""
    _, neighbour = projects
    filled = fill(further_admin, "backup-orphan", only=["backup"])
    stolen = trust_of(neighbour)
    steal(filled, stolen)
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    definition = dataclasses.replace(further_sweeper.definition(SERVICE, filled), gone=True)
    for type_ in SERVICE.types:
        swept = sweeps.delete(type_, further_sweeper.connection(write=True), definition)
        assert (swept.outcome, swept.found) == (Outcome.CLEAR, FOUND[type_.name] + (type_ is JOB))
    assert alive(further_sweeper, filled) == {}
    assert is_there(further_sweeper, stolen)


@pytest.fixture(scope="module")
def orchestrator(further_cloud, tmp_path_factory):
    made = Orchestrator(further_cloud, tmp_path_factory.mktemp("orchestrator"), JANITOR)
    yield made
    made.running.close()


def test_the_orchestrator_deletes_the_project_with_everything(projects, orchestrator, further_admin, further_sweeper):
    _, neighbour = projects
    filled = fill(further_admin, "backup-whole", only=["backup"])
    stolen = trust_of(neighbour)
    steal(filled, stolen)
    orchestrator.run(filled.project_id, Mode.REPORT, Status.LEFTOVERS)
    assert alive(further_sweeper, filled) == ROWS | {"freezer.jobs": 4}
    deletion = orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    assert alive(further_sweeper, filled) == {}
    assert is_there(further_sweeper, stolen)
    deleted = {*orchestrator.deleted(deletion)}
    assert {f"backup.{name}: {number + (name == 'job')} gone" for name, number in FOUND.items()} <= deleted
