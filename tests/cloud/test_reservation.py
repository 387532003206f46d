"""Blazar: leases are deleted while their trusts work, and no floating IP of another project with them."""

from __future__ import annotations

import dataclasses

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.reservation import _LEASES, SERVICE, _explain_addresses
from tests.cloud.common import (  # noqa: F401
    Case,
    reasons,
    test_a_caller_without_the_admin_role_never_sees_an_empty_project,
    test_a_list_of_all_projects_shows_what_each_has,
    test_a_token_of_the_system_never_shows_an_empty_project,
    test_an_inventory_finds_everything_and_changes_nothing,
    until,
)
from tests.cloud.filler import fill
from tests.cloud.fillings.base import Rest
from tests.cloud.fillings.reservation import active, blazar, date, lease, network
from tests.cloud.services.blazar import SHARED

CLOUD = ("neutron", "blazar")
(LEASE,) = SERVICE.types
CARELESS = dataclasses.replace(LEASE, prepare=())
CASE = Case(
    SERVICE,
    # The trusts are deleted with those of the project.
    rows={"blazar.leases": 2, "keystone.trust": 2, "neutron.floatingips": 2},
    found={"lease": 2},
    ignored={"lease": 2},
    unchanged=("neutron",),
    believed=(dataclasses.replace(LEASE, list=_LEASES.all),),
    system={"lease": Reason.ERROR},
    views=("lease",),
)
#: Tables whose rows do not name the project, and the table and the column that they belong to.
PARTS = {
    "reservations": ("leases", "lease_id"),
    "events": ("leases", "lease_id"),
    "floatingip_reservations": ("reservations", "reservation_id"),
    "floatingip_allocations": ("reservations", "reservation_id"),
}


def shown(admin, id_):
    return blazar(admin).call("GET", f"/leases/{id_}")["lease"]


def addresses_of(admin, filled):
    params = {"floating_network_id": network(admin), "project_id": filled.project_id}
    rows = Rest(admin.network).call("GET", "/floatingips", params=params)["floatingips"]
    return {row["floating_ip_address"]: row["id"] for row in rows}


def role_of(admin, filled, method):
    """Give or take the user's only role on the project, as a drain does and undoes."""
    rest = Rest(admin.identity)
    (role,) = rest.call("GET", "/roles", params={"name": "member"})["roles"]
    rest.call(method, f"/projects/{filled.project_id}/users/{filled.user_id}/roles/{role['id']}")


def test_another_version_of_the_api_is_no_empty_list(projects, further_sweeper):
    """The discovery finds the newest version, which is deprecated and lists in another form."""
    target, _ = projects
    newest = dataclasses.replace(LEASE, list=dataclasses.replace(_LEASES.all, from_root=False))
    assert CASE.found_by(further_sweeper, target, newest).outcome is Outcome.UNKNOWN


def test_an_address_that_another_project_has_now_stays_there(projects, further_admin, further_sweeper):
    """Blazar deletes the floating IP by its address, also for a lease that has not begun."""
    _, neighbour = projects
    address, given = SHARED
    later = fill(further_admin, "reservation-later", only=[])
    now = active(neighbour.connection, "now", 1, address)
    body = {"floating_network_id": network(further_admin), "floating_ip_address": given,
            "project_id": neighbour.project_id}  # fmt: skip
    Rest(further_admin.network).call("POST", "/floatingips", {"floatingip": body})  # an admin may do so
    waiting = lease(later.connection, "later", date(2), date(3), 2, *SHARED)
    theirs = further_sweeper.dump_of(neighbour.project_id)

    definition = further_sweeper.definition(SERVICE, later)
    verdict = _explain_addresses(further_sweeper.connection(), definition, LEASE.resource(waiting, definition))
    addresses = addresses_of(further_admin, neighbour)
    assert {each["id"] for each in verdict.blocked_by} >= {addresses[address], addresses[given], now["id"]}
    assert {each["owner"] for each in verdict.blocked_by} >= {neighbour.project_id}
    assert CASE.deleted_by(further_sweeper, later, LEASE).outcome is Outcome.CLEAR
    assert further_sweeper.dump_of(neighbour.project_id) == theirs

    lease(later.connection, "later", date(2), date(3), 2, *SHARED)
    CASE.deleted_by(further_sweeper, later, CARELESS)
    assert not {*SHARED} & {*addresses_of(further_admin, neighbour)}, "Blazar compares owners now"
    blazar(neighbour.connection).call("DELETE", f"/leases/{now['id']}")


def test_a_lease_that_a_user_moved_into_the_project_is_left(further_admin, further_sweeper):
    victim, mover = (fill(further_admin, f"reservation-{name}", only=[]) for name in ("victim", "mover"))
    moved = active(mover.connection, "moved")
    blazar(mover.connection).call("PUT", f"/leases/{moved['id']}", {"project_id": victim.project_id, "name": "moved"})
    (left,) = CASE.deleted_by(further_sweeper, victim, LEASE).leftovers
    assert (left.id, left.reason) == (moved["id"], Reason.FOREIGN)
    assert shown(further_admin, moved["id"])["status"] == "ACTIVE"
    assert addresses_of(further_admin, mover)
    blazar(further_admin).call("DELETE", f"/leases/{moved['id']}")


def test_everything_is_deleted_and_the_neighbour_keeps_all(projects, further_sweeper):
    target, neighbour = projects
    theirs = further_sweeper.dump_of(neighbour.project_id)
    swept = further_sweeper.delete(SERVICE, target)["lease"]
    assert (swept.outcome, swept.found) == (Outcome.CLEAR, 2)
    assert CASE.alive(further_sweeper, target) == {"keystone.trust": 2}
    assert CASE.alive(further_sweeper, neighbour) == CASE.rows | {"keystone.trust": 3}, "with that of a deleted lease"
    assert further_sweeper.dump_of(neighbour.project_id) == theirs
    for table, (whole, column) in PARTS.items():
        sql = f"SELECT id FROM {table} WHERE {column} NOT IN (SELECT id FROM {whole})"
        assert further_sweeper.rows("blazar", sql) == []


def test_a_lease_without_a_working_trust_is_not_touched(further_admin, further_sweeper):
    """After a failed delete of an active lease Blazar refuses each further one."""
    filled = fill(further_admin, "reservation-locked", only=["reservation"])
    before = further_sweeper.dump("blazar")
    role_of(further_admin, filled, "DELETE")
    assert reasons(CASE.deleted_by(further_sweeper, filled, LEASE)) == dict.fromkeys(
        filled.ids["lease"], Reason.REFUSED
    )
    assert further_sweeper.dump("blazar") == before
    found = {left.id: left.message for left in CASE.deleted_by(further_sweeper, filled, LEASE).leftovers}
    assert all("no longer has the roles" in text for text in found.values())

    CASE.deleted_by(further_sweeper, filled, CARELESS)
    role_of(further_admin, filled, "PUT")
    stuck = filled.first("active lease")
    assert shown(further_admin, stuck)["status"] == "ERROR"
    (left,) = (left for left in CASE.deleted_by(further_sweeper, filled, LEASE).leftovers if left.id == stuck)
    assert (left.reason, "event end_lease to UNDONE" in left.message) == (Reason.REFUSED, True)

    sql = "UPDATE events SET status = 'UNDONE' WHERE lease_id = ? AND event_type = 'end_lease'"
    further_sweeper.rows("blazar", sql, stuck)
    sweep = lambda: CASE.deleted_by(further_sweeper, filled, LEASE)  # noqa: E731
    until(sweep, lambda swept: swept.outcome is Outcome.CLEAR, 60)  # Keystone's cache of the roles
    assert CASE.alive(further_sweeper, filled) == {"keystone.trust": 2}


def test_leases_of_a_project_that_keystone_has_deleted_need_an_operator(further_admin, further_sweeper):
    filled = fill(further_admin, "reservation-orphan", only=["reservation"])
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    before = further_sweeper.dump("blazar")
    swept = CASE.deleted_by(further_sweeper, filled, LEASE, gone=True)
    assert reasons(swept) == dict.fromkeys(filled.ids["lease"], Reason.PROJECT_GONE)
    assert further_sweeper.dump("blazar") == before
    further_sweeper.rows("blazar", "UPDATE leases SET trust_id = NULL WHERE project_id = ?", filled.project_id)
    assert CASE.deleted_by(further_sweeper, filled, LEASE, gone=True).outcome is Outcome.CLEAR
    assert CASE.alive(further_sweeper, filled) == {}


def test_the_orchestrator_needs_the_leases_deleted_before_the_drain(orchestrator, further_admin, further_sweeper):
    """The drain takes the roles away that the trusts of the leases need; a cancel gives them back."""
    filled = fill(further_admin, "reservation-whole", only=["reservation"])
    orchestrator.run(filled.project_id, Mode.REPORT, Status.LEFTOVERS)
    assert CASE.alive(further_sweeper, filled) == CASE.rows
    deletion = orchestrator.request(filled.project_id, Mode.CASCADE)
    wanted = {"reservation.lease": Reason.REFUSED}
    orchestrator.wait(deletion, until=lambda _: orchestrator.blockers(deletion) == wanted)
    assert CASE.alive(further_sweeper, filled) == {"blazar.leases": 2, "keystone.trust": 2}
    orchestrator.cancel(deletion)
    orchestrator.wait(deletion, Status.CANCELLED)
    for id_ in filled.ids["lease"]:
        blazar(filled.connection).call("DELETE", f"/leases/{id_}")
    deletion = orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    assert CASE.alive(further_sweeper, filled) == {}
    assert orchestrator.deleted(deletion)
