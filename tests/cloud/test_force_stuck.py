"""Force of stuck resources of each service, by the method of their type."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest
from openstack.connection import Connection

from tests.cloud import filler, rows
from tests.cloud.conftest import Sweeper
from tests.cloud.fillings import block_storage, compute, dns
from tests.cloud.fillings import shared_file_system as shares
from tests.cloud.fillings.base import Filled, Filling
from tests.cloud.fillings.image import make_image
from tests.cloud.forcing import WAIT, WHOLE_PATIENCE, WholeForcing, in_the_whole_cloud
from tests.cloud.launcher import Cloud

#: It runs the orchestrator at a port of the cloud.
ALONE = True


@pytest.fixture(scope="module")
def whole(full_cloud: Cloud) -> Iterator[WholeForcing]:
    yield from in_the_whole_cloud(full_cloud)


def make_stuck(admin: Connection, sweeper: Sweeper, filled: Filled) -> dict[str, set[str]]:
    """Make resources whose accepted delete never ends, because its worker has failed; return the ids by type.

    For Manila, reset_status sets this state. For the other services the test changes the database to the state that a
    failed worker leaves.
    """
    f = Filling(admin, filled, 3600, 1)
    name, stuck = f.name, {}
    volumes = block_storage.cinder(filled.connection)
    lone, parent = (block_storage.make_volume(filled, f"{name}-{suffix}") for suffix in ("lone", "parent"))
    snapshot = block_storage.once(volumes, "snapshots", f"{name}-snap", volume_id=parent)
    backup = block_storage.once(volumes, "backups", f"{name}-backup", volume_id=lone, incremental=False)
    image = make_image(f.image, f.project_id, f"{name}-image")
    server = compute.make_server(filled, f"{name}-server", imageRef=image)
    share = shares.share(f, "plain")
    shares.group(f)
    shares.wait(f, f"/shares/{share}", "share")
    body = {"name": f"{name}-share-snap", "share_id": share}
    share_snapshot = shares.ensure(shares.user(f), "/snapshots", "snapshots", "snapshot", body)
    shares.wait(f, f"/snapshots/{share_snapshot}", "snapshot")
    zone = dns.zone(f, f"{name}.example.")
    dns.settle(f)
    block_storage.await_status(volumes, "snapshots", snapshot, "available")
    block_storage.await_status(volumes, "backups", backup, "available")
    compute.await_server(compute.compute(filled.connection), server, "ACTIVE")

    group, group_snapshot = f.first("share group"), f.first("share group snapshot")
    for path in (
        f"/shares/{share}", f"/snapshots/{share_snapshot}", f"/share-groups/{group}",
        f"/share-group-snapshots/{group_snapshot}",
    ):  # fmt: skip
        shares.admin(f).call("POST", f"{path}/action", {"reset_status": {"status": "deleting"}})
    for table, identity in (("volumes", lone), ("snapshots", snapshot), ("backups", backup)):
        sweeper.rows("cinder", f"UPDATE {table} SET status = 'deleting' WHERE id = ?", identity)
    sweeper.rows("nova", "UPDATE instances SET task_state = 'deleting' WHERE uuid = ?", server)
    # Designate deletes a zone after all that has been pending for longer than it polls (93 s here), and goes by its
    # serial, the time of its last change: one that is a day ahead stays stuck.
    sql = "UPDATE zones SET action = 'DELETE', status = 'PENDING', serial = serial + 86400 WHERE id = ?"
    sweeper.rows("designate", sql, zone.replace("-", ""))
    stuck["compute.server"] = {server}
    stuck |= {"block-storage.volume": {lone}, "block-storage.snapshot": {snapshot}, "block-storage.backup": {backup}}
    stuck |= {"shared-file-system.share": {share}, "shared-file-system.snapshot": {share_snapshot}}
    stuck |= {"shared-file-system.share_group": {group}, "shared-file-system.group_snapshot": {group_snapshot}}
    return stuck | {"dns.zone": {zone}}


def test_what_each_service_is_stuck_with_goes_by_the_force_of_its_type(whole, full_cloud, full_admin, full_sweeper):
    filled = filler.fill(full_admin, f"forced-{secrets.token_hex(2)}", only=())
    stuck = make_stuck(full_admin, full_sweeper, filled)
    assert whole.command("project", "delete", "--async", "--cascade", filled.project_name)[0] == 0
    first = {"compute.server", "block-storage.snapshot", "block-storage.backup", "shared-file-system.snapshot",
             "shared-file-system.group_snapshot", "dns.zone"}  # fmt: skip

    def refused(shown: dict[str, Any]) -> set[str]:
        return {f"{b['service']}.{b['type']}" for b in shown["blockers"]}

    shown = whole.stuck(filled.project_name, lambda d: d["status"] == "deleting" and first <= refused(d))
    whole.beyond(WHOLE_PATIENCE, shown["id"])
    # Each is tried again and refused again, for the same reason, and nothing was forced.
    shown = whole.stuck(filled.project_name, lambda d: d["status"] == "deleting" and first <= refused(d))
    assert shown["forced"] is None

    began = time.monotonic()
    arguments = ("--wait", "--wait-timeout", WAIT, "--reason", "ticket 4711", filled.project_name)
    code, said = whole.command("project", "deletion", "force", *arguments)
    ended = whole.ask("project", "deletion", "show", shown["id"])
    journal = whole.ask("project", "deletion", "events", "--long", shown["id"])
    forced: dict[str, set[str]] = {}
    for row in journal:
        if row["Type"] == "resource.forcing":
            ids = {each["id"] for each in row["Data"]["resources"]}
            forced.setdefault(f"{row['Data']['service']}.{row['Data']['type']}", set()).update(ids)
    left = whole.ask("project", "deletion", "leftovers", "--long", shown["id"])
    print(f"\nforced in {time.monotonic() - began:.0f} s: {sorted(forced)}; {ended['message']}")
    assert code == 0, (said, left)
    assert (ended["status"], ended["reason"]) == ("deleted", "deleted_by_force")
    assert forced == stuck
    assert (ended["forced"]["abandoned"], left) == (0, [])
    there = rows.read(full_cloud).live(filled.project_id)
    assert not there, "\n".join(there.lines())
