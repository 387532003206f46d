"""Aodh: alarms of all users and their trusts are deleted, then the quota; the neighbour keeps all."""

from __future__ import annotations

import dataclasses

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.alarm import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    ids,
    test_a_caller_without_the_admin_role_never_sees_an_empty_project,
    test_a_token_of_the_system_never_shows_an_empty_project,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_the_orchestrator_deletes_the_project_with_everything,
    test_what_a_project_that_keystone_has_deleted_had_is_deleted,
)
from tests.cloud.filler import fill
from tests.cloud.fillings.alarm import aodh

CLOUD = ("aodh",)
ALARM, QUOTA = SERVICE.types


def count(sweeper, filled, neighbour):
    """Write a counter, which the evaluator of Aodh would have created."""
    values = (filled.first("alarm"), filled.first("alarm"), filled.project_id)
    sql = "INSERT INTO alarm_counter (id, alarm_id, project_id, state, value) VALUES (?, ?, ?, 'alarm', 7)"
    sweeper.rows("aodh", sql, *values)


CASE = Case(
    SERVICE,
    rows={"aodh.alarm": 4, "aodh.alarm_history": 4, "aodh.alarm_counter": 1, "aodh.quota": 1, "keystone.trust": 1},
    found={"alarm": 4, "quota": 1},
    unlisted=("quota",),
    kinds={"quota": ()},
    prepare=count,
    refused=("alarm",),
    system={"alarm": Reason.FORBIDDEN},
    in_order=True,
)


def test_alarms_with_the_same_time_are_listed_on_all_pages(projects, further_sweeper):
    """In Aodh's default order a page begins after the time of the last alarm before it."""
    target, _ = projects
    mariadb = further_sweeper.cloud.mariadb
    mariadb.sql("UPDATE alarm SET timestamp = '2026-01-01 00:00:00'", "aodh")
    for call in (ALARM.list, ALARM.all_projects):
        short = dataclasses.replace(ALARM, list=dataclasses.replace(call, limit=3))
        found = CASE.found_by(further_sweeper, target, short)
        assert ids(found) == set(target.ids["alarm"])
    assert found.others_ignored == 4, "the neighbour's, in the list of all projects"


def test_without_the_proof_such_a_list_is_unknown_as_well(projects, further_sweeper):
    target, neighbour = projects
    careless = dataclasses.replace(ALARM, proof=None)
    for connection in (neighbour.connection, further_sweeper.system_scoped()):
        found = CASE.found_by(further_sweeper, target, careless, connection)
        assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_without_the_filter_an_admin_sees_no_alarm_of_the_project(projects, further_admin):
    """So the plugin must not list without it."""
    assert aodh(further_admin).call("GET", "/alarms") == []


def test_a_project_without_a_quota_gets_none(further_admin, further_sweeper):
    """A read of the quota would create a row, also after the delete."""
    empty = fill(further_admin, "alarm-nothing", only=[])
    swept = further_sweeper.delete(SERVICE, empty)
    assert {name: (result.outcome, result.found) for name, result in swept.items()} == {
        "alarm": (Outcome.CLEAR, 0), "quota": (Outcome.CLEAR, 0),
    }  # fmt: skip
    assert CASE.alive(further_sweeper, empty) == {}
    aodh(further_admin).call("GET", "/quotas", params={"project_id": empty.project_id})
    assert CASE.alive(further_sweeper, empty) == {"aodh.quota": 1}, "a read creates a row: the plugin must not read"
    further_sweeper.delete(SERVICE, empty)
    assert CASE.alive(further_sweeper, empty) == {}


def test_an_alarm_whose_trust_is_gone_is_deleted(further_admin, further_sweeper):
    filled = fill(further_admin, "alarm-untrusted", only=["alarm"])
    trusts = further_sweeper.rows("keystone", "SELECT id FROM trust WHERE project_id = ?", filled.project_id)
    for (trust_id,) in trusts:
        further_sweeper.cloud.admin.call("DELETE", f"/OS-TRUST/trusts/{trust_id}")
    assert further_sweeper.delete(SERVICE, filled)["alarm"].outcome is Outcome.CLEAR
    assert CASE.alive(further_sweeper, filled) == {}
