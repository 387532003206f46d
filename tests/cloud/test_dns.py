"""Designate: everything of the project is deleted, also in zones of others; records of others in its zones stay."""

from __future__ import annotations

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.dns import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    left,
    named,
    sweep_until,
    test_an_inventory_finds_everything_and_changes_nothing,
)
from tests.cloud.filler import fill, make_project
from tests.cloud.fillings import dns as filling
from tests.cloud.fillings.base import Filling, Rest
from tests.cloud.fillings.dns import EVERYBODY, use_share

#: Columns that daemons of Designate change: whether a zone is on the name servers, and how often it was updated.
VOLATILE = {"status", "action", "serial", "updated_at", "version", "increment_serial", "delayed_notify", "refresh"}
TENANTS = {
    "zones": ("tenant_id",),
    "recordsets": ("tenant_id",),
    "records": ("tenant_id", "managed_tenant_id"),
    "zone_tasks": ("tenant_id",),
    "zone_transfer_requests": ("tenant_id",),
    "zone_transfer_accepts": ("tenant_id",),
    "quotas": ("tenant_id",),
    "shared_zones": ("project_id",),
}


def alive(sweeper, project_id):
    """Return {table: rows} of the project; rows in a deleted zone stay until a purge."""
    found = {}
    for table, columns in TENANTS.items():
        mine = " OR ".join(f"t.{column} = ?" for column in columns)
        names = [name for (name, *_) in sweeper.rows("designate", f"SHOW COLUMNS FROM {table}")]
        wanted = [name for name in names if name not in VOLATILE]
        sql = f"SELECT {', '.join(f't.{name}' for name in wanted)} FROM {table} t WHERE ({mine})"
        if table == "zones":
            sql += " AND t.deleted = '0'"
        elif table == "records":  # a zone's own record counts its changes
            sql += " AND t.recordset_id NOT IN (SELECT id FROM recordsets WHERE type = 'SOA')"
        if table != "zones" and "zone_id" in names:
            sql += " AND (t.zone_id IS NULL OR t.zone_id IN (SELECT id FROM zones WHERE deleted = '0'))"
        found[table] = set(sweeper.rows("designate", sql, *[project_id] * len(columns)))
    return found


def quiet(swept):
    """Wait until nothing is under way any more."""
    return not {leftover.reason for leftover in left(swept).values()} & {Reason.DELETING, Reason.IN_USE, Reason.ERROR}


CASE = Case(
    SERVICE,
    found={"recordset": 1},  # the PTR record is the project's, too, in the reverse zone of Designate's own project
    kinds={
        "recordset": (),
        "zone": ("zone",),
        "zone_transfer_request": ("zone transfer request",),
        "zone_import": ("zone import",),
        "zone_export": ("zone export",),
        "tsig_key": ("tsig key",),
        "ptr": ("ptr",),
        "quota": ("dns quota",),
    },
    mine=lambda sweeper, filled: alive(sweeper, filled.project_id),
)


def floating_ip(admin, project, **more):
    rest = Rest(admin.network)
    public = rest.call("GET", "/networks", params={"name": "public", "router:external": True})["networks"][0]["id"]
    body = {"floating_network_id": public, "project_id": project.project_id, **more}
    return rest.call("POST", "/floatingips", {"floatingip": body})["floatingip"]


def name_it(project, ip, name):
    Rest(project.connection.dns).call("PATCH", f"/reverse/floatingips/RegionOne:{ip['id']}", {"ptrdname": name})


def test_everything_goes_and_the_neighbour_keeps_all(full_admin, full_sweeper, projects):
    target, neighbour = projects
    assert "secret" not in str(full_sweeper.inventory(SERVICE, target)["tsig_key"])
    neighbour.partner_id = target.project_id
    filling.share(Filling(full_admin, neighbour, 0, 0))
    theirs = alive(full_sweeper, neighbour.project_id)
    use_share(neighbour, target)
    assert alive(full_sweeper, neighbour.project_id) == theirs
    assert len(full_sweeper.inventory(SERVICE, target)["recordset"].leftovers) == 2

    said = []

    def gone(swept):
        said.extend((zone.reason, zone.message) for zone in swept["zone"].leftovers)
        return not left(swept)

    swept = sweep_until(full_sweeper, SERVICE, target, gone)
    assert swept["recordset"].outcome is Outcome.CLEAR
    assert {reason for reason, _ in said} == {Reason.DELETING}, "a zone waits for those below it, and none is refused"
    assert any("its delete follows that of sub." in message for _, message in said)
    assert not {table: rows for table, rows in alive(full_sweeper, target.project_id).items() if rows}
    key = "SELECT name FROM tsigkeys WHERE name = ?"
    assert not full_sweeper.rows("designate", key, "dns-target-key")
    assert full_sweeper.rows("designate", key, "dns-neighbour-key")
    assert alive(full_sweeper, neighbour.project_id) == theirs

    # A share of the neighbour with the project belongs to the neighbour, and is deleted only if the option is set.
    shared = "SELECT zone_id FROM shared_zones WHERE target_project_id = ?"
    of_neighbour = neighbour.first("shared zone").replace("-", "")
    assert full_sweeper.rows("designate", shared, target.project_id) == [(of_neighbour,)]
    swept = full_sweeper.delete(SERVICE, target, sweep_zone_shares=True)
    assert not left(swept) and len(swept["zone_share"].deleted) == 1
    assert full_sweeper.rows("designate", shared, target.project_id) == []
    theirs.pop("shared_zones")
    assert {
        table: rows for table, rows in alive(full_sweeper, neighbour.project_id).items() if table in theirs
    } == theirs


def test_what_others_have_in_a_zone_or_below_it_is_named_and_not_lost(full_admin, full_sweeper, neighbour):
    target = fill(full_admin, "dns-used", partner=neighbour.project_id, only=["dns"])
    shared = target.first("shared zone")
    record = use_share(target, neighbour)
    top, below = target.ids["zone"][:2]
    user, guest = Rest(target.connection.dns), Rest(neighbour.connection.dns)
    # The neighbour has accepted the offered zone: there is no other way to get a zone below that of another project.
    offer = target.first("zone transfer request")
    key = user.call("GET", f"/zones/tasks/transfer_requests/{offer}")["key"]
    guest.call("POST", "/zones/tasks/transfer_accepts", {"zone_transfer_request_id": offer, "key": key})
    assert full_sweeper.inventory(SERVICE, neighbour)["zone_transfer_accept"].kept >= 1

    key = target.first("tsig key")
    swept = sweep_until(full_sweeper, SERVICE, target, quiet)
    found = left(swept)
    assert set(found) == {("zone", shared), ("zone", top), ("tsig_key", key)}
    assert {leftover.reason for leftover in found.values()} == {Reason.FOREIGN}
    theirs = neighbour.project_id
    assert named(found["zone", shared]) == {("dns.recordset", record, theirs)}
    assert named(found["zone", top]) == {("dns.zone", below, theirs)} == named(found["tsig_key", key])
    assert guest.call("GET", f"/zones/{shared}/recordsets/{record}")["id"] == record  # the share is there, too
    assert guest.call("GET", f"/zones/{below}")["id"] == below

    # A zone below it is never deleted; a recordset is, if the option is set.
    swept = sweep_until(full_sweeper, SERVICE, target, quiet, delete_foreign_recordsets=True)
    assert set(left(swept)) == {("zone", top), ("tsig_key", key)}
    guest.call("DELETE", f"/zones/{below}")
    sweep_until(full_sweeper, SERVICE, target)
    assert not alive(full_sweeper, target.project_id)["zones"]


def test_a_ptr_record_goes_also_without_its_floating_ip_but_not_when_another_project_has_the_address(
    full_admin, full_sweeper, neighbour
):
    """In Designate the recordset belongs to the first project that set a name for the address."""
    target = make_project(full_admin, "dns-addresses", password=None, partner=None)
    network = Rest(full_admin.network)
    kept, released = floating_ip(full_admin, target), floating_ip(full_admin, target)
    for ip in (kept, released):
        name_it(target, ip, "old.example.com.")
        network.call("DELETE", f"/floatingips/{ip['id']}")
    address = kept["floating_ip_address"]
    theirs = floating_ip(full_admin, neighbour, floating_ip_address=address)
    name_it(neighbour, theirs, "new.example.com.")
    try:
        listed = full_sweeper.inventory(SERVICE, target)["recordset"]
        assert (len(listed.leftovers), listed.kept) == (1, 1)
        swept = full_sweeper.delete(SERVICE, target)
        assert not left(swept) and len(swept["recordset"].deleted) == 1
        shown = Rest(neighbour.connection.dns).call("GET", f"/reverse/floatingips/RegionOne:{theirs['id']}")
        assert shown["ptrdname"] == "new.example.com."
        (row,) = full_sweeper.rows(
            "designate", "SELECT COUNT(*) FROM records WHERE managed_tenant_id = ?", target.project_id
        )
        assert row == (0,)
    finally:
        network.call("DELETE", f"/floatingips/{theirs['id']}")


def test_the_neighbours_zones_are_not_the_projects_although_it_is_shown_them(full_admin, full_sweeper, neighbour):
    stranger = make_project(full_admin, "dns-stranger", password=None, partner=None)
    neighbour.partner_id = stranger.project_id
    filling.share(Filling(full_admin, neighbour, 0, 0))
    listed = full_sweeper.inventory(SERVICE, stranger)
    assert not left(listed)
    assert listed["zone"].others_ignored >= 1
    path = f"/zones/{neighbour.first('shared zone')}/shares"
    rest = Rest(full_admin.dns, EVERYBODY)
    for share in rest.call("GET", path)["shared_zones"]:
        if share["target_project_id"] == stranger.project_id:
            rest.call("DELETE", f"{path}/{share['id']}")
