"""Cinder: everything of the project is deleted in the required order, and nothing of other projects."""

from __future__ import annotations

import secrets
import time

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import block_storage as plugin
from cleanup_orchestrator.plugins import compute
from cleanup_orchestrator.plugins.block_storage import SERVICE
from tests.cloud.common import short_collections
from tests.cloud.filler import make_project
from tests.cloud.fillings.base import Filling
from tests.cloud.fillings.block_storage import await_status, cinder, make_volume, once, settings
from tests.cloud.proof import swift_contents
from tests.support import sweeps

PATIENCE = 600.0
TYPES = {type_.name: type_ for type_ in SERVICE.types}
TABLES = (
    "volumes", "snapshots", "backups", "groups", "group_snapshots", "quotas", "volume_type_projects",
    "default_volume_types",
)  # fmt: skip


def rows(cloud, project_id):
    """Cinder's live rows of a project, with the attachments and transfers of its volumes."""
    found = {}
    for table in TABLES:
        alive = "1" if table == "default_volume_types" else "NOT deleted"
        sql = f"SELECT * FROM `{table}` WHERE {alive} AND project_id = '{project_id}'"
        found[table] = set(map(str, cloud.mariadb.sql(sql, "cinder")))
    for table in ("volume_attachment", "transfers"):
        sql = f"SELECT {table}.* FROM {table} JOIN volumes ON volumes.id = volume_id WHERE NOT {table}.deleted"
        found[table] = set(map(str, cloud.mariadb.sql(f"{sql} AND project_id = '{project_id}'", "cinder")))
    return found


def delete(sweeper, target, until=None, service=SERVICE, **options):
    """Sweep until the rows are as `until` says, by default none: Cinder deletes asynchronously."""
    deadline = time.monotonic() + PATIENCE
    while True:
        swept = sweeper.delete(service, target, **options)
        if until(swept) if until else not left(swept):
            return swept
        assert time.monotonic() < deadline, left(swept)
        time.sleep(1)


def left(swept):
    """{(type, id): leftover} of all types."""
    return {(name, leftover.id): leftover for name, each in swept.items() for leftover in each.leftovers}


def named(leftover):
    return {(blocker["type"], blocker["id"], blocker["owner"]) for blocker in leftover.blocked_by}


def once_only(name):
    """Return a name that no earlier run has used."""
    return f"{name}-{secrets.token_hex(2)}"


@pytest.fixture(scope="module")
def target(projects):
    return projects[0]


def test_an_inventory_finds_all_resources_and_changes_nothing(target, full_sweeper, full_cloud):
    before = rows(full_cloud, target.project_id)
    found = full_sweeper.inventory(SERVICE, target)
    assert rows(full_cloud, target.project_id) == before
    assert {name: each.message for name, each in found.items() if each.outcome is Outcome.UNKNOWN} == {}
    for kind, type_ in (
        ("volume", "volume"), ("backup", "backup"), ("group", "group"), ("group snapshot", "group_snapshot"),
        ("volume transfer", "transfer"), ("attachment", "attachment"), ("consistency group", "consistency_group"),
    ):  # fmt: skip
        assert {leftover.id for leftover in found[type_].leftovers} == set(target.ids[kind]), kind
    assert set(target.ids["snapshot"]) < {leftover.id for leftover in found["snapshot"].leftovers}
    for type_ in ("type_access", "default_type", "quota_set"):
        assert len(found[type_].leftovers) == 1, type_
    assert found["consistency_group_snapshot"].outcome is Outcome.CLEAR


def test_every_page_is_read(target, full_sweeper, monkeypatch):
    whole = full_sweeper.inventory(SERVICE, target)
    monkeypatch.setattr(*short_collections(2))
    monkeypatch.setattr(plugin.settings, "PAGE", 2)
    paged = full_sweeper.inventory(SERVICE, target)
    assert paged["volume"] == whole["volume"] and paged["volume"].found == len(target.ids["volume"]) > 8
    for name in ("attachment", "transfer", "type_access"):
        assert paged[name] == whole[name]


def test_what_a_server_has_is_left_to_the_server(target, full_sweeper):
    """So it is found as long as the server is not deleted."""
    swept = full_sweeper.delete(SERVICE, target)
    used = target.first("volume", 8)
    server = ("compute.server", target.first("server with a volume"), target.project_id)
    by_type = {name for name, _ in left(swept)}
    assert "attachment" in by_type
    (attachment,) = swept["attachment"].leftovers
    assert attachment.reason is Reason.IN_USE and named(attachment) == {server}
    assert left(swept)["volume", used].reason is Reason.IN_USE
    assert named(left(swept)["volume", used]) == {server}


def test_everything_goes(target, neighbour, full_sweeper, full_cloud):
    theirs = rows(full_cloud, neighbour.project_id)
    in_swift = swift_contents(neighbour.connection, neighbour.project_id)
    delete(full_sweeper, target, lambda swept: not swept["server"].leftovers, service=compute.SERVICE)
    # It would be deleted with the server, but the types of Cinder decide whether it may be deleted.
    assert any(target.first("volume", 8) in row for row in rows(full_cloud, target.project_id)["volumes"])
    swept = delete(full_sweeper, target)
    assert {each.outcome for each in swept.values()} == {Outcome.CLEAR}
    assert not any(rows(full_cloud, target.project_id).values())
    assert rows(full_cloud, neighbour.project_id) == theirs
    assert swift_contents(neighbour.connection, neighbour.project_id) == in_swift
    # Read with a token of the project: data and row are gone.
    assert not swift_contents(target.connection, target.project_id)["object-store objects"]


def test_what_others_have_to_do_with_it_stays_and_is_named(full_admin, neighbour, full_sweeper, full_cloud):
    """A cascade of an admin would also delete the snapshot of the neighbour."""
    target = make_project(full_admin, once_only("volumes-blocked"), password=None, partner=neighbour.project_id)
    ours, theirs = cinder(target.connection), cinder(neighbour.connection)
    # A snapshot of the neighbour on a volume of the target: the neighbour gave the volume away, and kept the snapshot.
    given = make_volume(neighbour, once_only("given away"))
    snapshot = once(theirs, "snapshots", once_only("kept back"), volume_id=given)
    await_status(theirs, "snapshots", snapshot, "available")
    body = {"transfer": {"volume_id": given, "name": "gift", "no_snapshots": True}}
    gift = theirs.call("POST", "/volume-transfers", body)["transfer"]
    accept = {"accept": {"auth_key": gift["auth_key"]}}
    ours.call("POST", f"/volume-transfers/{gift['id']}/accept", accept)
    # And the other way round.
    own = make_volume(target, "given back")
    own_snapshot = once(ours, "snapshots", "kept too", volume_id=own)
    await_status(ours, "snapshots", own_snapshot, "available")
    body = {"transfer": {"volume_id": own, "name": "gift", "no_snapshots": True}}
    gift = ours.call("POST", "/volume-transfers", body)["transfer"]
    accept = {"accept": {"auth_key": gift["auth_key"]}}
    theirs.call("POST", f"/volume-transfers/{gift['id']}/accept", accept)
    # An operator attached a volume of the target to a server of the neighbour.
    lent = make_volume(target, "lent")
    server = neighbour.first("server with a volume")
    attachment = {"attachment": {"volume_uuid": lent, "instance_uuid": server}}
    attachment_id = cinder(full_admin).call("POST", "/attachments", attachment)["attachment"]["id"]
    before = rows(full_cloud, neighbour.project_id)

    swept = delete(full_sweeper, target, lambda swept: not swept["snapshot"].leftovers)
    found = left(swept)
    assert set(found) == {("volume", given), ("volume", lent), ("attachment", attachment_id)}
    assert found["volume", given].reason is Reason.FOREIGN
    assert named(found["volume", given]) == {("block-storage.snapshot", snapshot, neighbour.project_id)}
    for each in (("volume", lent), ("attachment", attachment_id)):
        assert found[each].reason is Reason.FOREIGN
        assert named(found[each]) == {("compute.server", server, neighbour.project_id)}
    assert rows(full_cloud, neighbour.project_id) == before

    # Only an admin can delete it: its owner cannot find a snapshot of a volume that belongs to another project.
    assert theirs.raw("DELETE", f"/snapshots/{snapshot}", ok=(404,)).status_code == 404
    cinder(full_admin).call("DELETE", f"/snapshots/{snapshot}")
    cinder(full_admin).call("DELETE", f"/attachments/{attachment_id}")
    delete(full_sweeper, target)
    assert not any(rows(full_cloud, target.project_id).values())


def test_busy_resources_are_waited_for_and_stuck_ones_are_reset(full_admin, full_sweeper, full_cloud):
    target = make_project(full_admin, once_only("volumes-busy"), password=None, partner=None)
    settings(Filling(full_admin, target, 0, 0))
    everything = cinder(full_admin)
    volumes = {}
    for status in ("creating", "downloading", "maintenance", "awaiting-transfer", "in-use"):
        volumes[status] = make_volume(target, status)
    migrating, copy, orphan = (make_volume(target, name) for name in ("migrating", "copy", "orphaned copy"))
    for status, volume in volumes.items():
        change = f"UPDATE volumes SET status = '{status}' WHERE id = '{volume}'"
        full_cloud.mariadb.sql(change, "cinder")
    for volume, migration in (
        (migrating, "migrating"),
        (copy, f"target:{migrating}"),
        (orphan, f"target:{copy[::-1]}"),
    ):
        change = f"UPDATE volumes SET migration_status = '{migration}' WHERE id = '{volume}'"
        full_cloud.mariadb.sql(change, "cinder")
    busy = {volumes["creating"], volumes["downloading"], migrating}

    swept = delete(full_sweeper, target, lambda swept: {leftover.id for leftover in swept["volume"].leftovers} == busy)
    assert {leftover.reason for leftover in swept["volume"].leftovers} == {Reason.IN_USE}
    assert swept["volume"].kept == 1  # the copy, while what it is a copy of is there
    for volume in busy:
        change = f"UPDATE volumes SET updated_at = '2020-01-01' WHERE id = '{volume}'"
        full_cloud.mariadb.sql(change, "cinder")
    delete(full_sweeper, target)
    assert not any(rows(full_cloud, target.project_id).values())
    everything.call("GET", "/volumes/detail")  # it answers still


def test_without_a_backup_service_nothing_is_called_deleted(full_admin, full_sweeper, full_cloud):
    """Cinder answers 404 to the delete. If that counted as gone, the backup would stay unnoticed."""
    target = make_project(full_admin, once_only("volumes-backup"), password=None, partner=None)
    rest = cinder(target.connection)
    backup = once(rest, "backups", "lonely", volume_id=make_volume(target, "backed up"))
    await_status(rest, "backups", backup, "available")
    change = f"UPDATE backups SET availability_zone = 'nowhere', host = 'nobody' WHERE id = '{backup}'"
    full_cloud.mariadb.sql(change, "cinder")
    swept = full_sweeper.delete(SERVICE, target)
    (leftover,) = swept["backup"].leftovers
    assert (leftover.id, leftover.reason) == (backup, Reason.UNREACHABLE)
    sql = f"UPDATE backups SET availability_zone = NULL, host = NULL WHERE id = '{backup}'"
    full_cloud.mariadb.sql(sql, "cinder")
    delete(full_sweeper, target)


@pytest.mark.parametrize("name", ["volume", "snapshot", "group", "attachment"])
def test_an_inventory_without_admin_rights_is_unknown(target, neighbour, full_sweeper, name):
    """Cinder ignores the filter of such a user and lists the project of the token, which could be empty."""
    found = sweeps.inventory(TYPES[name], neighbour.connection, full_sweeper.definition(SERVICE, target))
    assert found.outcome is Outcome.UNKNOWN
