"""Freezer: everything of a project is deleted, and no trust of another project that one of its jobs names."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import backup
from cleanup_orchestrator.plugins.backup import SERVICE
from cleanup_orchestrator.plugins.base import NIL_UUID
from tests.cloud.common import (  # noqa: F401
    Case,
    test_a_caller_without_the_admin_role_never_sees_an_empty_project,
    test_a_list_of_all_projects_shows_what_each_has,
    test_a_token_of_the_system_never_shows_an_empty_project,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_every_page_is_read,
    test_the_orchestrator_deletes_the_project_with_everything,
    test_what_a_project_that_keystone_has_deleted_had_is_deleted,
)
from tests.cloud.filler import fill
from tests.cloud.fillings.backup import freezer, register
from tests.cloud.fillings.base import Rest as RestClient
from tests.cloud.orchestrator import JANITOR
from tests.support import sweeps

CLOUD = ("freezer",)
OPTIONS = JANITOR
JOB, SESSION, CLIENT, ACTION, BACKUP = SERVICE.types


def live_trusts(sweeper, filled):
    found = sweeper.rows(
        "keystone", "SELECT id FROM trust WHERE project_id = ? AND deleted_at IS NULL", filled.project_id
    )
    return [id_ for (id_,) in found]


def trust_of(filled):
    """Return a new trust of the user, as other services make them. No job of the project names it."""
    body = {"trustor_user_id": filled.user_id, "trustee_user_id": filled.colleague_id, "impersonation": False,
            "project_id": filled.project_id, "roles": [{"name": "member"}]}  # fmt: skip
    return RestClient(filled.connection.identity).call("POST", "/OS-TRUST/trusts", {"trust": body})["trust"]["id"]


def steal(filled, trust_id):
    """A member of a project writes a job that names a trust of another project."""
    (name, *_) = (row["client"]["client_id"] for row in clients_of(filled))
    body = {"description": "thief", "client_id": name, "job_actions": [],
            "user_credentials": {"trust_id": trust_id, "trustor_user_id": "any"}}  # fmt: skip
    return freezer(filled.connection).call("POST", f"/{filled.project_id}/jobs", body)["job_id"]


def clients_of(filled):
    rows = freezer(filled.connection).call("GET", f"/{filled.project_id}/clients")["clients"]
    return [row for row in rows if row["project_id"] == filled.project_id]


def rob(sweeper, filled, neighbour):
    """Give a project a trust, and a job that names the trust of its neighbour."""
    filled.note("trust", trust_of(filled))
    if neighbour:
        filled.note("job", steal(filled, neighbour.first("trust")))


CASE = Case(
    SERVICE,
    # Freezer made the other trust for the job of the central client.
    rows={
        "freezer.jobs": 4, "freezer.sessions": 2, "freezer.clients": 2, "freezer.actions": 4,
        "freezer.action_reports": 4, "freezer.backups": 2, "keystone.trust": 2,
    },
    found={"job": 4, "session": 2, "client": 2, "action": 4, "backup": 2},
    ignored={"job": 3, "client": 1},  # Freezer shows the neighbour's jobs, and the admin's central client
    prepare=rob,
    neighbours={"freezer.jobs": 3},
    system=dict.fromkeys((type_.name for type_ in SERVICE.types), ""),
    views=("job",),
    limit=2,
    pages=((backup, "_CLIENTS", dataclasses.replace(backup._CLIENTS, limit=2)),),
)  # fmt: skip


@pytest.mark.parametrize("type_", SERVICE.types, ids=lambda type_: type_.name)
def test_a_204_that_deleted_nothing_is_not_believed(type_, projects, further_sweeper):
    """Freezer answers so if the project in the path is a wrong one."""
    target, _ = projects
    path = type_.delete.path.replace("{project_id}", NIL_UUID)
    wrong = dataclasses.replace(type_, delete=dataclasses.replace(type_.delete, path=path), user_content="")
    definition = further_sweeper.definition(SERVICE, target)
    swept = sweeps.delete(wrong, further_sweeper.connection(write=True), definition)
    assert (swept.outcome, len(swept.leftovers)) == (Outcome.LEFTOVERS, CASE.found[type_.name])
    assert CASE.alive(further_sweeper, target) == CASE.rows


def test_with_an_admins_token_freezer_deletes_any_trust_that_a_job_names(further_admin, further_sweeper):
    """So jobs are not deleted with such a token."""
    attacker, victim = (fill(further_admin, f"backup-{name}", only=["backup"]) for name in ("attacker", "victim"))
    trust_id = trust_of(victim)
    steal(attacker, trust_id)
    assert trust_id in live_trusts(further_sweeper, victim)
    further_sweeper.enter(attacker)
    careless = dataclasses.replace(JOB, user_content="")
    definition = further_sweeper.definition(SERVICE, attacker)
    sweeps.delete(careless, further_sweeper.connection(write=True), definition)
    assert trust_id not in live_trusts(further_sweeper, victim)


def test_the_parts_of_a_job_are_deleted_with_it(projects, further_sweeper):
    """They do not name the project. Its trusts are deleted later, with those of the project."""
    target, _ = projects
    assert {result.outcome for result in further_sweeper.delete(SERVICE, target).values()} == {Outcome.CLEAR}
    assert CASE.alive(further_sweeper, target) == {"keystone.trust": 2}
    live_jobs = "SELECT id FROM jobs WHERE deleted = 0"
    for table in ("job_actions", "user_credentials"):
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
    assert CASE.alive(further_sweeper, filled) == {}
