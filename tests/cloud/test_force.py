"""Force against the real services, asked for with the `openstack` command: what goes, what stays, and who says no."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openstack.connection import Connection

from tests.cloud import demo, filler, rows
from tests.cloud.conftest import Sweeper
from tests.cloud.fillings import block_storage, compute, dns
from tests.cloud.fillings import shared_file_system as shares
from tests.cloud.fillings.base import Filled, Filling, Rest
from tests.cloud.fillings.image import make_image
from tests.cloud.job import CONFIGURATION as WHOLE
from tests.cloud.job import Job
from tests.cloud.launcher import Cloud
from tests.support.timing import wait

#: It restarts Heat's engine, and runs the orchestrator at the cloud's own port.
ALONE = True
#: Seconds. In the light cloud only what is held for good is left when force begins. In the whole cloud the services
#: have to work on what they are told to force, and what is merely slow must not be abandoned.
PATIENCE, WHOLE_PATIENCE = 4, 20
FORCE = """
[force]
attempts = 2
patience = {}
"""
WAIT = "900"


class Forcing(demo.Demo):
    """The orchestrator as it is shipped, and the commands of an admin."""

    def command(self, *arguments: str) -> tuple[int, str]:
        """Run `openstack`; its exit code and what it said."""
        code, out, err = self._run(arguments, stdout=-1, stderr=-1)
        return code, out + err

    def under_way(self, project: str) -> dict[str, Any]:
        """The project's one live deletion."""
        (found,) = self.ask("project", "deletion", "list", "--status", "live", "--project", project)
        return self.ask("project", "deletion", "show", found["ID"])

    def beyond(self, patience: float, deletion_id: str) -> None:
        """Wait for longer than the patience of force, until workers have begun steps of the deletion again."""

        def begun() -> int:
            with sqlite3.connect(self.home / "cleanup-orchestrator.sqlite", timeout=30) as database:
                rows = database.execute("SELECT sum(fence) FROM steps WHERE deletion_id = ?", (deletion_id,))
                ((number,),) = rows.fetchall()
            database.close()
            return int(number)

        before = begun()
        time.sleep(patience + 1)
        wait("steps are tried again", lambda: begun() >= before + 2, 300, 0.2)

    def stuck(self, project: str, until: Callable[[dict[str, Any]], bool], seconds: float = 600) -> dict[str, Any]:
        """The project's deletion once it has got to where it does not come any further."""
        deadline = time.monotonic() + seconds
        while not until(shown := self.under_way(project)):
            assert time.monotonic() < deadline, json.dumps(shown, indent=1)
            time.sleep(2)
        return shown


def blocked_by(*types: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a deletion is at its deletes, and these types are left, and no others."""

    def left(shown: dict[str, Any]) -> bool:
        there = {c["type"] for c in shown["counts"] if c["remaining"]}
        return shown["status"] == "deleting" and there == set(types)

    return left


def make_network(api: Rest, name: str, project_id: str) -> str:
    body = {"network": {"name": name, "project_id": project_id}}
    return str(api.call("POST", "/networks", body)["network"]["id"])


def of_project(row: dict[str, Any]) -> str:
    return str(row["project_id"])


# ------------------------------------------------------------------------------------------------------ the light cloud
def shipped(cloud: Cloud, more: str) -> Iterator[Forcing]:
    """The orchestrator in the light cloud, with more configuration, until nobody needs it any more."""
    made = Forcing(cloud, demo.CONFIGURATION.replace("driver = fence", "driver = revoke") + more)
    made.start_orchestrator()
    yield made
    made.stop()
    cloud.children.end("orchestrator-out")
    for entry in cloud.admin.call("GET", "/services?type=project-cleanup")["services"]:
        cloud.admin.call("DELETE", f"/services/{entry['id']}")


@pytest.fixture(scope="module")
def light(cloud: Cloud) -> Iterator[Forcing]:
    yield from shipped(cloud, FORCE.format(PATIENCE))


def test_what_another_project_holds_is_let_go_of_by_name_and_the_project_goes(light, cloud, admin):
    """A port of the neighbour on the project's network: nobody may delete it, and so nobody can delete the network."""
    tag = secrets.token_hex(2)
    filled = filler.fill(admin, f"forced-{tag}", only=("image", "key-manager"))
    neighbour = filler.fill(admin, f"neighbour-{tag}", only=())
    project, api = filled.project_id, Rest(admin.network)
    network = make_network(api, "held", project)
    wanted = {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24", "project_id": project}
    subnet = api.call("POST", "/subnets", {"subnet": wanted})["subnet"]["id"]
    body = {"port": {"network_id": network, "project_id": neighbour.project_id}}
    port = api.call("POST", "/ports", body)["port"]
    spare = make_network(api, "spare", project)
    reason = "the neighbour does not answer, ticket 4711"

    code, said = light.command("project", "deletion", "force", filled.project_name, "--reason", reason)
    assert (code, "no_deletion_under_way" in said) == (1, True), said
    assert light.command("project", "delete", "--async", "--cascade", filled.project_name)[0] == 0
    shown = light.stuck(filled.project_name, blocked_by("network", "subnet"))
    assert shown["forced"] is None
    # However long it goes on trying, nothing is let go of by itself.
    light.beyond(PATIENCE, shown["id"])
    assert light.under_way(filled.project_name)["status"] == "deleting"

    arguments = ("--wait", "--wait-timeout", WAIT, "--reason", reason, filled.project_name)
    code, said = light.command("project", "deletion", "force", *arguments)
    assert code == 0, said
    ended = light.ask("project", "deletion", "show", shown["id"])
    assert (ended["status"], ended["reason"]) == ("deleted", "deleted_by_force")
    assert (
        f"by force of admin ({reason}): 2 abandoned: 1 network.network in RegionOne, 1 network.subnet"
        in ended["message"]
    )
    assert (ended["forced"]["abandoned"], ended["forced"]["unseen"]) == (2, [])

    assert cloud.admin.call("GET", "/projects?name=" + filled.project_name)["projects"] == []
    assert of_project(api.call("GET", f"/networks/{network}")["network"]) == project, (
        "abandoned: there, with no project"
    )
    assert api.call("GET", f"/ports/{port['id']}")["port"]["fixed_ips"] == port["fixed_ips"]
    assert api.raw("GET", f"/networks/{spare}", ok=(404,)).status_code == 404, "all else is gone"
    listed = light.ask("project", "deletion", "leftovers", "--abandoned", "--long", shown["id"])
    assert {row["ID"] for row in listed} == {network, subnet}
    assert {(row["Region"], row["Owner"], row["Abandoned"]) for row in listed} == {("RegionOne", project, True)}
    assert all(row["Remedy"].startswith("as an admin") and row["ID"] in row["Remedy"] for row in listed)
    journal = light.ask("project", "deletion", "events", "--long", shown["id"])
    kinds = [row["Type"] for row in journal]
    assert kinds.index("deletion.forced") < kinds.index("force.let_go") < kinds.index("resource.abandoned")
    after = kinds[kinds.index("resource.abandoned") :]
    assert after.count("inventory.empty") >= 2 and after[-1] == "deletion.deleted"
    named = [each["id"] for row in journal if row["Type"] == "resource.abandoned" for each in row["Data"]["resources"]]
    assert sorted(named) == sorted([network, subnet])
    for path in (f"/ports/{port['id']}", f"/networks/{network}"):
        api.call("DELETE", path)


# ------------------------------------------------------------------------------------------------------ the whole cloud
class WholeForcing(Job, Forcing):
    """The same in the cloud of thirteen services."""


@pytest.fixture(scope="module")
def whole(full_cloud: Cloud) -> Iterator[WholeForcing]:
    made = WholeForcing(full_cloud)
    made.configuration = WHOLE.replace("{owns_nothing}", "placement, project-cleanup") + FORCE.format(WHOLE_PATIENCE)
    made.start_orchestrator()
    yield made
    made.stop()


@pytest.fixture
def heat(full_cloud: Cloud) -> Iterator[Callable[[bool], None]]:
    """Switch Heat's option to abandon stacks."""
    path = full_cloud.site.home("heat") / "heat.conf"
    before = path.read_text()
    assert "enable_stack_abandon = true" in before

    def switch(on: bool) -> None:
        path.write_text(before if on else before.replace("enable_stack_abandon = true", "enable_stack_abandon = false"))
        full_cloud.restart("heat", "heat-engine")

    yield switch
    switch(True)


def test_heat_says_no_on_purpose_and_then_abandons(whole, full_cloud, full_admin, full_sweeper, heat):
    tag = secrets.token_hex(2)
    filled = filler.fill(full_admin, f"forced-heat-{tag}", only=("orchestration",))
    stacks = Rest(filled.connection.orchestration)
    (squatter,) = filled.ids["squatting port"]
    # Its owner is the neighbour: it keeps the occupied stack's network, and so the stack, for good.
    neighbour = filler.fill(full_admin, f"forced-heat-neighbour-{tag}", only=())
    sql = "UPDATE ports SET project_id = ? WHERE id = ?"
    full_sweeper.rows("neutron", sql, neighbour.project_id, squatter)
    assert len(stacks.call("GET", "/stacks")["stacks"]) > 1

    heat(False)
    assert whole.command("project", "delete", "--async", "--cascade", filled.project_name)[0] == 0
    shown = whole.stuck(
        filled.project_name,
        lambda d: (
            any(c["type"] == "failed_stack" and c["remaining"] for c in d["counts"]) and d["status"] == "deleting"
        ),
        seconds=900,
    )
    before = whole.ask("project", "deletion", "show", shown["id"])["forced"]
    code, said = whole.command("project", "deletion", "force", filled.project_name, "--reason", "ticket 4711")
    assert code == 1
    assert "force_unavailable" in said and "enable_stack_abandon" in said and "Nothing was changed" in said
    after = whole.ask("project", "deletion", "show", shown["id"])
    assert after["forced"] is before is None
    kinds = {row["Type"] for row in whole.ask("project", "deletion", "events", shown["id"])}
    assert not kinds & {"deletion.forced", "force.used", "resource.forcing"}

    heat(True)
    arguments = ("--wait", "--wait-timeout", WAIT, "--reason", "ticket 4711", filled.project_name)
    code, said = whole.command("project", "deletion", "force", *arguments)
    assert code == 0, said
    ended = whole.ask("project", "deletion", "show", shown["id"])
    assert (ended["status"], ended["reason"]) == ("deleted", "deleted_by_force")
    forced = whole.ask("project", "deletion", "events", "--long", shown["id"])
    by_force = {row["Data"]["type"] for row in forced if row["Type"] == "resource.forcing"}
    assert by_force & {"stack", "failed_stack"}, (
        "whichever it was when force had its turn: its delete is asked for again"
    )
    living = "SELECT id FROM stack WHERE tenant = ? AND deleted_at IS NULL"
    assert full_sweeper.rows("heat", living, filled.project_id) == [], "abandoned through Heat's own API"
    listed = whole.ask("project", "deletion", "leftovers", "--abandoned", shown["id"])
    assert {row["Type"] for row in listed} <= {"network", "subnet"}, "what the neighbour's port is on"
    assert full_cloud.admin.call("GET", "/projects?name=" + filled.project_name)["projects"] == []
    Rest(full_admin.network).call("DELETE", f"/ports/{squatter}")
    for row in sorted(listed, key=lambda row: row["Type"], reverse=True):
        Rest(full_admin.network).call("DELETE", f"/{row['Type']}s/{row['ID']}")


def make_stuck(admin: Connection, sweeper: Sweeper, filled: Filled) -> dict[str, set[str]]:
    """Things whose delete was accepted, and lost with who was at it, so that each service waits for ever; ids by type.

    Manila's own reset_status gets things there; the other services' databases are told, as they are left when a worker
    dies.
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
    sql = "UPDATE zones SET action = 'DELETE', status = 'PENDING' WHERE id = ?"
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
    # Each is tried again and again, and refused again: it is the same that is in the way, and nothing was forced.
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
