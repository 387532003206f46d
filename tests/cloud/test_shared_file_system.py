"""Manila: everything of the project is deleted in every state; what others use stays and is named."""

from __future__ import annotations

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins.shared_file_system import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    left,
    named,
    short_collections,
    sweep_until,
    test_a_caller_without_the_admin_role_never_sees_an_empty_project,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_every_page_is_read,
    test_everything_goes_and_the_neighbour_keeps_all,
)
from tests.cloud.filler import make_project
from tests.cloud.fillings.base import Filling
from tests.cloud.fillings.shared_file_system import client, make_public, share, wait

#: Manila keeps deleted rows, with their id or a number in this column.
TABLES = (
    "shares", "share_snapshots", "share_groups", "share_group_snapshots", "share_networks", "security_services",
    "share_backups", "resource_locks", "share_type_projects", "share_group_type_projects", "quotas",
    "project_share_type_quotas", "project_user_quotas",
)  # fmt: skip


def alive(sweeper, filled):
    """Return {table: rows} of the project without transfers, which expire within minutes and free their share."""
    found = {}
    for table in TABLES:
        names = [name for (name, *_) in sweeper.rows("manila", f"SHOW COLUMNS FROM {table}")]
        wanted = [name for name in names if name not in ("updated_at", "status")]
        sql = f"SELECT {', '.join(wanted)} FROM {table} WHERE project_id = ?"
        rows = sweeper.rows("manila", sql, filled.project_id)
        place = wanted.index("deleted")
        found[table] = {row for row in rows if str(row[place]) in ("0", "False")}
    return found


CASE = Case(
    SERVICE,
    database="manila",
    kinds={
        "share": ("share", "recycled share"),
        "snapshot": ("share snapshot",),
        "resource_lock": ("resource lock",),
        "transfer": ("share transfer",),
        "share_group": ("share group",),
        "group_snapshot": ("share group snapshot",),
        "share_network": ("share network",),
        "security_service": ("security service",),
        "type_access": ("private share type",),
        "group_type_access": ("private group type",),
        "quota": ("share quota",),
        "type_quota": ("share type quota",),
    },
    mine=alive,
    refused=("share", "snapshot", "security_service", "share_group"),
    limit=0,
    pages=(short_collections(2),),
)


def test_what_others_hold_or_may_have_mounted_stays_and_is_named(full_admin, full_sweeper, neighbour):
    target = make_project(full_admin, "fs-held", password=None, partner=None)
    f, everything = Filling(full_admin, target, 0, 0), client(full_admin.shared_file_system)
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
    sweep_until(full_sweeper, SERVICE, target, delete_public_shares=True)


def test_what_is_still_under_way_is_left_to_come_to_its_end(full_admin, full_sweeper):
    target = make_project(full_admin, "fs-busy", password=None, partner=None)
    f, everything = Filling(full_admin, target, 0, 0), client(full_admin.shared_file_system)
    busy, going = share(f, "busy"), share(f, "going")
    for each, status in ((busy, "creating"), (going, "deleting")):
        wait(f, f"/shares/{each}", "share")
        everything.call("POST", f"/shares/{each}/action", {"reset_status": {"status": status}})
    found = left(full_sweeper.delete(SERVICE, target))
    assert found["share", busy].reason is Reason.IN_USE and "creating" in found["share", busy].message
    assert found["share", going].reason is Reason.DELETING
    for each in (busy, going):
        everything.call("POST", f"/shares/{each}/action", {"reset_status": {"status": "error_deleting"}})
    sweep_until(full_sweeper, SERVICE, target)
