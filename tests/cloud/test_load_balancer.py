"""Octavia: everything of the project is deleted with its load balancers; the neighbour keeps all."""

from __future__ import annotations

import dataclasses

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import Rest as DeclaredRest
from cleanup_orchestrator.plugins.load_balancer import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    sweep_until,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_everything_goes_and_the_neighbour_keeps_all,
)
from tests.cloud.filler import make_project
from tests.cloud.fillings.base import Filling, Rest
from tests.cloud.fillings.load_balancer import make, quota, subnet, wait

CASE = Case(
    SERVICE,
    database="octavia",
    kinds={
        "load_balancer": ("load balancer",),
        "listener": ("listeners",),
        "pool": ("pools",),
        "health_monitor": ("healthmonitors",),
        "l7_policy": ("l7policies",),
        "quota": ("load balancer quota",),
    },
    mine=lambda sweeper, filled: sweeper.dump_of(filled.project_id),
)


def is_clear(swept):
    return all(each.outcome is Outcome.CLEAR for each in swept.values())


def test_all_is_there_and_a_load_balancer_is_described_by_its_address(full_sweeper, neighbour):
    found = full_sweeper.inventory(SERVICE, neighbour)
    assert {leftover.reason for each in found.values() for leftover in each.leftovers} == {Reason.PRESENT}
    assert all(leftover.message.startswith("VIP ") for leftover in found["load_balancer"].leftovers)


def test_every_page_has_only_resources_of_the_project(full_sweeper, neighbour, monkeypatch):
    """The link of Octavia to the second page has no filter by project."""
    target = neighbour
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
    sql = "SELECT id FROM load_balancer WHERE project_id = ? AND provisioning_status <> 'DELETED'"
    assert full_sweeper.rows("octavia", sql, target.project_id) == [(stuck,)]


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
    sweep_until(full_sweeper, SERVICE, target, is_clear)


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
