"""Aodh: alarms of all users and their trusts are deleted, then the quota; the neighbour keeps all."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.alarm import SERVICE
from tests.cloud.filler import fill
from tests.cloud.fillings.alarm import aodh
from tests.support import sweeps

CLOUD = ("aodh",)
ALARM, QUOTA = SERVICE.types
#: The rows of a filled project.
ROWS = {"aodh.alarm": 4, "aodh.alarm_history": 4, "aodh.alarm_counter": 1, "aodh.quota": 1, "keystone.trust": 1}


def alive(sweeper, filled):
    return sweeper.live(filled.project_id, "aodh.", "keystone.trust")


@pytest.fixture(scope="module")
def projects(projects, further_sweeper):
    """Both have a counter, which the evaluator of Aodh would have created."""
    for filled in projects:
        values = (filled.first("alarm"), filled.first("alarm"), filled.project_id)
        sql = "INSERT INTO alarm_counter (id, alarm_id, project_id, state, value) VALUES (?, ?, ?, 'alarm', 7)"
        further_sweeper.rows("aodh", sql, *values)
    return projects


def found_by(sweeper, filled, type_=ALARM):
    return sweeps.inventory(type_, sweeper.connection(), sweeper.definition(SERVICE, filled))


def test_an_inventory_finds_all_alarms_and_changes_nothing(projects, further_sweeper):
    target, _ = projects
    before = further_sweeper.dump("aodh", "keystone")
    found = found_by(further_sweeper, target)
    assert further_sweeper.dump("aodh", "keystone") == before
    assert {left.id for left in found.leftovers} == set(target.ids["alarm"])
    assert alive(further_sweeper, target) == ROWS


def test_alarms_with_the_same_time_are_listed_on_all_pages(projects, further_sweeper):
    """In Aodh's default order a page begins after the time of the last alarm before it."""
    target, _ = projects
    mariadb = further_sweeper.cloud.mariadb
    mariadb.sql("UPDATE alarm SET timestamp = '2026-01-01 00:00:00'", "aodh")
    for call in (ALARM.list, ALARM.all_projects):
        short = dataclasses.replace(ALARM, list=dataclasses.replace(call, limit=3))
        found = found_by(further_sweeper, target, short)
        assert {left.id for left in found.leftovers} == set(target.ids["alarm"])
    assert found.facts["others_ignored"] == 4, "the neighbour's, in the list of all projects"


def without_proof():
    return dataclasses.replace(ALARM, proof=None)


@pytest.mark.parametrize("type_", [ALARM, without_proof()], ids=["with the proof", "without it"])
def test_a_caller_without_the_admin_role_never_sees_an_empty_project(projects, further_sweeper, type_):
    target, neighbour = projects
    definition = further_sweeper.definition(SERVICE, target)
    found = sweeps.inventory(type_, neighbour.connection, definition)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_a_system_scoped_token_never_sees_an_empty_project(projects, further_sweeper):
    target, _ = projects
    definition = further_sweeper.definition(SERVICE, target)
    for type_ in (ALARM, without_proof()):
        found = sweeps.inventory(type_, further_sweeper.system_scoped(), definition)
        assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_without_the_filter_an_admin_sees_no_alarm_of_the_project(projects, further_admin):
    """So the plugin must not list without it."""
    assert aodh(further_admin).call("GET", "/alarms") == []


def test_everything_is_deleted_and_the_neighbour_keeps_all(projects, further_sweeper):
    target, neighbour = projects
    theirs = further_sweeper.dump_of(neighbour.project_id)
    swept = further_sweeper.delete(SERVICE, target)
    assert {name: result.outcome for name, result in swept.items()} == {"alarm": Outcome.CLEAR, "quota": Outcome.CLEAR}
    assert (swept["alarm"].found, swept["quota"].found) == (4, 1)
    assert alive(further_sweeper, target) == {}
    assert alive(further_sweeper, neighbour) == ROWS
    assert further_sweeper.dump_of(neighbour.project_id) == theirs


def test_a_project_without_a_quota_gets_none(further_admin, further_sweeper):
    """A read of the quota would create a row, also after the delete."""
    empty = fill(further_admin, "alarm-nothing", only=[])
    swept = further_sweeper.delete(SERVICE, empty)
    assert {name: (result.outcome, result.found) for name, result in swept.items()} == {
        "alarm": (Outcome.CLEAR, 0), "quota": (Outcome.CLEAR, 0),
    }  # fmt: skip
    assert alive(further_sweeper, empty) == {}
    aodh(further_admin).call("GET", "/quotas", params={"project_id": empty.project_id})
    assert alive(further_sweeper, empty) == {"aodh.quota": 1}, "a read creates a row: the plugin must not read"
    further_sweeper.delete(SERVICE, empty)
    assert alive(further_sweeper, empty) == {}


def test_an_alarm_whose_trust_is_gone_is_deleted(further_admin, further_sweeper):
    filled = fill(further_admin, "alarm-untrusted", only=["alarm"])
    trusts = further_sweeper.rows("keystone", "SELECT id FROM trust WHERE project_id = ?", filled.project_id)
    for (trust_id,) in trusts:
        further_sweeper.cloud.admin.call("DELETE", f"/OS-TRUST/trusts/{trust_id}")
    assert further_sweeper.delete(SERVICE, filled)["alarm"].outcome is Outcome.CLEAR
    assert alive(further_sweeper, filled) == {}


def test_alarms_of_a_project_that_keystone_has_deleted_are_deleted(further_admin, further_sweeper):
    filled = fill(further_admin, "alarm-orphan", only=["alarm"])
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    definition = dataclasses.replace(further_sweeper.definition(SERVICE, filled), gone=True)
    for type_ in (ALARM, QUOTA):
        swept = sweeps.delete(type_, further_sweeper.connection(write=True), definition)
        assert (swept.outcome, swept.found) == (Outcome.CLEAR, 4 if type_ is ALARM else 1)
    assert alive(further_sweeper, filled) == {}


def test_the_orchestrator_deletes_the_project_with_everything(orchestrator, further_admin, further_sweeper):
    """The catalog has Aodh under an alias of its official type. The quota is deleted last."""
    filled = fill(further_admin, "alarm-whole", only=["alarm"])
    orchestrator.run(filled.project_id, Mode.REPORT, Status.LEFTOVERS)
    assert set(alive(further_sweeper, filled)) == set(ROWS) - {"aodh.alarm_counter"}
    deletion = orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    assert alive(further_sweeper, filled) == {}
    assert orchestrator.deleted(deletion) == ["alarm.alarm: 4 gone", "alarm.quota: 1 gone"]
