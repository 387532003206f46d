"""Manila: everything of the project is deleted in every state; what others use stays and is named."""

from __future__ import annotations

import time

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import shared_file_system as plugin
from cleanup_orchestrator.plugins.shared_file_system import SERVICE
from tests.cloud.filler import fill, make_project
from tests.cloud.fillings.base import Filling, Rest
from tests.cloud.fillings.shared_file_system import HEADERS, SECONDS, make_public, share, wait

#: Manila keeps deleted rows, with their id or a number in this column.
TABLES = (
    "shares", "share_snapshots", "share_groups", "share_group_snapshots", "share_networks", "security_services",
    "share_backups", "resource_locks", "share_type_projects", "share_group_type_projects", "quotas",
    "project_share_type_quotas", "project_user_quotas",
)  # fmt: skip
KINDS = (
    ("share snapshot", "snapshot"),
    ("resource lock", "resource_lock"),
    ("share transfer", "transfer"),
    ("share group", "share_group"),
    ("share group snapshot", "group_snapshot"),
    ("share network", "share_network"),
    ("security service", "security_service"),
    ("private share type", "type_access"),
    ("private group type", "group_type_access"),
    ("share quota", "quota"),
    ("share type quota", "type_quota"),
)


def alive(sweeper, project_id):
    """Return {table: rows} of the project without transfers, which expire within minutes and free their share."""
    found = {}
    for table in TABLES:
        names = [name for (name, *_) in sweeper.rows("manila", f"SHOW COLUMNS FROM {table}")]
        wanted = [name for name in names if name not in ("updated_at", "status")]
        sql = f"SELECT {', '.join(wanted)} FROM {table} WHERE project_id = ?"
        rows = sweeper.rows("manila", sql, project_id)
        place = wanted.index("deleted")
        found[table] = {row for row in rows if str(row[place]) in ("0", "False")}
    return found


def left(swept):
    return {(name, leftover.id): leftover for name, each in swept.items() for leftover in each.leftovers}


def named(leftover):
    return {(blocker["type"], blocker["id"], blocker["owner"]) for blocker in leftover.blocked_by}


def sweep_until(sweeper, target, done, **options):
    """Sweep as the engine does: again while a delete is under way."""
    deadline = time.monotonic() + SECONDS
    while True:
        swept = sweeper.delete(SERVICE, target, **options)
        assert not {name: each.message for name, each in swept.items() if each.outcome is Outcome.UNKNOWN}
        if done(swept):
            return swept
        assert time.monotonic() < deadline, left(swept)
        time.sleep(1)


def test_inventory_and_delete_cover_all_resources_but_those_of_the_neighbour(full_admin, full_sweeper, neighbour):
    target = fill(full_admin, "fs-target", partner=neighbour.project_id, only=["shared-file-system"])
    theirs, before = (alive(full_sweeper, each.project_id) for each in (neighbour, target))
    listed = full_sweeper.inventory(SERVICE, target)
    assert alive(full_sweeper, target.project_id) == before
    assert not {name: each.message for name, each in listed.items() if each.outcome is Outcome.UNKNOWN}
    for kind, type_ in KINDS:
        assert {leftover.id for leftover in listed[type_].leftovers} == set(target.ids[kind]), kind
    there = {leftover.id for leftover in listed["share"].leftovers}
    assert there == {*target.ids["share"], target.first("recycled share")}

    sweep_until(full_sweeper, target, lambda swept: not left(swept))
    assert not {table: rows for table, rows in alive(full_sweeper, target.project_id).items() if rows}
    assert alive(full_sweeper, neighbour.project_id) == theirs


def test_what_others_hold_or_may_have_mounted_stays_and_is_named(full_admin, full_sweeper, neighbour):
    target = make_project(full_admin, "fs-held", password=None, partner=None)
    f, everything = Filling(full_admin, target, 0, 0), Rest(full_admin.shared_file_system, HEADERS)
    locked, snapped, public = (share(f, suffix) for suffix in ("locked-by-admin", "snapped", "public"))
    for each in (locked, snapped, public):
        wait(f, f"/shares/{each}", "share")
    make_public(everything, target, public)
    body = {"resource_id": locked, "resource_type": "share", "resource_action": "delete"}
    lock = everything.call("POST", "/resource-locks", {"resource_lock": body})["resource_lock"]["id"]
    body = {"name": "an admin's", "share_id": snapped}
    snapshot = everything.call("POST", "/snapshots", {"snapshot": body})["snapshot"]["id"]
    wait(f, f"/snapshots/{snapshot}", "snapshot")
    admins = full_admin.current_project_id

    found = left(full_sweeper.delete(SERVICE, target))
    assert set(found) == {("share", locked), ("share", snapped), ("share", public)}
    assert found["share", public].reason is Reason.PROTECTED
    assert found["share", locked].reason is found["share", snapped].reason is Reason.FOREIGN
    assert named(found["share", locked]) == {("shared-file-system.resource_lock", lock, admins)}
    assert named(found["share", snapped]) == {("shared-file-system.snapshot", snapshot, admins)}

    everything.call("DELETE", f"/resource-locks/{lock}")
    everything.call("DELETE", f"/snapshots/{snapshot}")
    sweep_until(full_sweeper, target, lambda swept: not left(swept), delete_public_shares=True)


def test_what_is_still_under_way_is_left_to_come_to_its_end(full_admin, full_sweeper):
    target = make_project(full_admin, "fs-busy", password=None, partner=None)
    f, everything = Filling(full_admin, target, 0, 0), Rest(full_admin.shared_file_system, HEADERS)
    busy, going = share(f, "busy"), share(f, "going")
    for each, status in ((busy, "creating"), (going, "deleting")):
        wait(f, f"/shares/{each}", "share")
        everything.call("POST", f"/shares/{each}/action", {"reset_status": {"status": status}})
    found = left(full_sweeper.delete(SERVICE, target))
    assert found["share", busy].reason is Reason.IN_USE and "creating" in found["share", busy].message
    assert found["share", going].reason is Reason.DELETING
    for each in (busy, going):
        everything.call("POST", f"/shares/{each}/action", {"reset_status": {"status": "error_deleting"}})
    sweep_until(full_sweeper, target, lambda swept: not left(swept))


def test_every_page_of_shares_is_read(full_admin, full_sweeper, neighbour, monkeypatch):
    whole = full_sweeper.inventory(SERVICE, neighbour)["share"]
    monkeypatch.setattr(plugin.common, "PAGE", 2)
    assert full_sweeper.inventory(SERVICE, neighbour)["share"] == whole and whole.found > 5


def test_an_inventory_by_a_member_of_another_project_is_unknown(full_sweeper, neighbour):
    """Manila ignores the filter of a user who is no admin, and lists the project of the token."""
    from tests.support import sweeps

    stranger = full_sweeper.definition(SERVICE, neighbour)
    stranger = type(stranger)("0123456789abcdef0123456789abcdef", "stranger", "default", "RegionOne")
    for name in ("share", "snapshot", "security_service", "share_group"):
        type_ = next(t for t in SERVICE.types if t.name == name)
        found = sweeps.inventory(type_, neighbour.connection, stranger)
        assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN), name
