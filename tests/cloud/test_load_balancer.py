"""Octavia: everything of the project is deleted with its load balancers; the neighbour keeps all."""

from __future__ import annotations

import dataclasses
import time

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import Rest as DeclaredRest
from cleanup_orchestrator.plugins.load_balancer import SERVICE
from tests.cloud.filler import fill, make_project
from tests.cloud.fillings.base import Filling, Rest
from tests.cloud.fillings.load_balancer import SECONDS, make, quota, subnet, wait

TABLES = ("load_balancer", "listener", "pool", "member", "health_monitor", "l7policy", "l7rule")


def rows(sweeper, project_id):
    """{table: ids} of what lives in Octavia's database; a deleted load balancer's row waits there to be purged."""
    found = {}
    for table in TABLES:
        sql = f"SELECT id FROM {table} WHERE project_id = ? AND provisioning_status <> 'DELETED'"
        found[table] = {identity for (identity,) in sweeper.rows("octavia", sql, project_id)}
    return found


def everything(sweeper, project_id):
    """All that Octavia knows of a project, to the last column."""
    return {
        table: set(sweeper.rows("octavia", f"SELECT * FROM {table} WHERE project_id = ?", project_id))
        for table in (*TABLES, "quotas")
    }


def no_leftovers(swept):
    return all(each.outcome is Outcome.CLEAR for each in swept.values())


def sweep_until(sweeper, target, done):
    """Sweep as the engine does: again while a delete is under way."""
    deadline = time.monotonic() + SECONDS
    while True:
        swept = sweeper.delete(SERVICE, target)
        assert not [name for name, each in swept.items() if each.outcome is Outcome.UNKNOWN]
        if done(swept):
            return swept
        assert time.monotonic() < deadline, swept
        time.sleep(1)


def test_an_inventory_finds_all_resources_and_changes_nothing(full_admin, full_sweeper, neighbour):
    target = fill(full_admin, "lb-listed", only=["load-balancer"])
    before = everything(full_sweeper, target.project_id)
    listed = full_sweeper.inventory(SERVICE, target)
    assert everything(full_sweeper, target.project_id) == before
    there = rows(full_sweeper, target.project_id)
    for type_, table in (
        ("load_balancer", "load_balancer"),
        ("listener", "listener"),
        ("pool", "pool"),
        ("health_monitor", "health_monitor"),
        ("l7_policy", "l7policy"),
    ):
        assert {leftover.id for leftover in listed[type_].leftovers} == there[table] != set(), type_
        assert {leftover.reason for leftover in listed[type_].leftovers} == {Reason.PRESENT}
    assert [leftover.id for leftover in listed["quota"].leftovers] == [target.project_id]
    assert all(leftover.message.startswith("VIP ") for leftover in listed["load_balancer"].leftovers)


def test_every_page_has_only_resources_of_the_project(full_admin, full_sweeper, neighbour, monkeypatch):
    """The link of Octavia to the second page has no filter by project."""
    target = fill(full_admin, "lb-listed", only=["load-balancer"])
    asked = []
    request = DeclaredRest._request

    def watched(self, connection, path, query, *more):
        asked.append(dict(query))
        return request(self, connection, path, query, *more)

    monkeypatch.setattr(DeclaredRest, "_request", watched)
    type_ = next(t for t in SERVICE.types if t.name == "load_balancer")
    definition = full_sweeper.definition(SERVICE, target)
    paged = dataclasses.replace(type_.list, query={**type_.list.query, "limit": 1})
    found = list(paged.rows(full_sweeper.connection(), definition))
    assert {row["id"] for row in found} == set(target.ids["load balancer"])
    assert {row["project_id"] for row in found} == {target.project_id}
    assert len(asked) == len(found) + 1 and {query["project_id"] for query in asked} == {target.project_id}


def test_everything_goes_and_the_neighbour_keeps_all(full_admin, full_sweeper, neighbour):
    target = fill(full_admin, "lb-target", partner=neighbour.project_id, only=["load-balancer"])
    theirs = everything(full_sweeper, neighbour.project_id)
    sweep_until(full_sweeper, target, no_leftovers)
    assert not any(rows(full_sweeper, target.project_id).values())
    assert everything(full_sweeper, neighbour.project_id) == theirs


def test_one_that_is_being_worked_on_is_left_and_says_what_helps(full_admin, full_sweeper, neighbour):
    """The provider that does nothing never makes its load balancer ready."""
    target = make_project(full_admin, "lb-stuck", password=None, partner=None)
    f = Filling(full_admin, target, 0, 0)
    subnet(f)
    stuck = make(f, "stuck", provider="noop_driver")
    swept = full_sweeper.delete(SERVICE, target)
    (left,) = swept["load_balancer"].leftovers
    assert (left.id, left.reason) == (stuck, Reason.IN_USE)
    assert "PENDING_CREATE" in left.message
    assert "an operator clears" in SERVICE.types[0].remedies[left.reason]
    assert rows(full_sweeper, target.project_id)["load_balancer"] == {stuck}


def test_what_octavia_is_deleting_is_not_refused_but_under_way(full_admin, full_sweeper):
    target = make_project(full_admin, "lb-going", password=None, partner=None)
    f = Filling(full_admin, target, 0, 0)
    subnet(f)
    going = make(f, "going")
    wait(f)
    Rest(full_admin.load_balancer).call("PUT", f"/lbaas/loadbalancers/{going}", {"loadbalancer": {"name": "renamed"}})
    wait(f)
    first = full_sweeper.delete(SERVICE, target)["load_balancer"]
    second = full_sweeper.delete(SERVICE, target)["load_balancer"]
    assert {leftover.reason for each in (first, second) for leftover in each.leftovers} <= {Reason.DELETING}
    sweep_until(full_sweeper, target, no_leftovers)


def test_a_counter_without_limits_is_no_quota(full_admin, full_sweeper, neighbour):
    """Octavia keeps a row for each project that ever had a load balancer."""
    target = make_project(full_admin, "lb-quota", password=None, partner=None)
    assert full_sweeper.inventory(SERVICE, target)["quota"].outcome is Outcome.CLEAR
    quota(Filling(full_admin, target, 0, 0))
    assert [left.id for left in full_sweeper.inventory(SERVICE, target)["quota"].leftovers] == [target.project_id]
    swept = full_sweeper.delete(SERVICE, target)["quota"]
    assert swept.outcome is Outcome.CLEAR and [identity for identity, _ in swept.deleted] == [target.project_id]
    row = "SELECT load_balancer, pool FROM quotas WHERE project_id = ?"
    assert full_sweeper.rows("octavia", row, target.project_id) != [(20, 40)]
