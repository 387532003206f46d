"""States that a service leaves behind, and in which it refuses a delete: they are reset, or named with the way out."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openstack.connection import Connection

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome
from cleanup_orchestrator.plugins import block_storage, image, key_manager, load_balancer, network, shared_file_system
from cleanup_orchestrator.plugins.base import Refused, Resource, Service
from tests.cloud import filler, rows
from tests.cloud.conftest import Sweeper
from tests.cloud.fillings import block_storage as volumes
from tests.cloud.fillings import compute
from tests.cloud.fillings import load_balancer as balancers
from tests.cloud.fillings import shared_file_system as shares
from tests.cloud.fillings.base import Filled, Filling, Rest
from tests.cloud.fillings.image import make_image
from tests.cloud.forcing import WAIT, WholeForcing, in_the_whole_cloud
from tests.cloud.launcher import Cloud

#: It runs the orchestrator at a port of the cloud.
ALONE = True
PATIENCE = 300.0  #: seconds
HOST = "gone.example"


@pytest.fixture(scope="module")
def whole(full_cloud: Cloud) -> Iterator[WholeForcing]:
    yield from in_the_whole_cloud(full_cloud)


@pytest.fixture
def f(full_admin: Connection) -> Filling:
    """A new project."""
    filled = filler.make_project(full_admin, f"stale-{secrets.token_hex(3)}", password=None, partner=None)
    return Filling(full_admin, filled, 0, 0)


def types(service: Service) -> dict[str, Any]:
    return {type_.name: type_ for type_ in service.types}


def sweep(
    sweeper: Sweeper, service: Service, filled: Filled, until: Callable[[dict[tuple[str, str], Leftover]], bool]
) -> dict[tuple[str, str], Leftover]:
    """Sweep as the engine does until the leftovers, by type and id, are as wanted; return them."""
    deadline = time.monotonic() + PATIENCE
    while True:
        swept = sweeper.delete(service, filled)
        assert not {name: each.message for name, each in swept.items() if each.outcome is Outcome.UNKNOWN}
        left = {(name, one.id): one for name, each in swept.items() for one in each.leftovers}
        if until(left):
            return left
        assert time.monotonic() < deadline, left
        time.sleep(1)


def nothing(left: dict[tuple[str, str], Leftover]) -> bool:
    return not left


def remedy(service: Service, left: dict[tuple[str, str], Leftover], name: str, id_: str) -> str:
    """Return what the type says a person does about a leftover."""
    text = types(service)[name].remedies[left[name, id_].reason]
    return str(text.format(id=id_, project_id="P", row={}))


# ---------------------------------------------------------------------------------------------------- how each is made
def once(name: str) -> str:
    return f"{name}-{secrets.token_hex(2)}"


def running(filled: Filled, **attributes: Any) -> str:
    """A server that runs."""
    booted = make_image(Rest(filled.connection.image), filled.project_id, once("booted"))
    server = compute.make_server(filled, once("running"), imageRef=booted, **attributes)
    compute.await_server(compute.compute(filled.connection), server, "ACTIVE")
    return server


def trunk(f: Filling) -> tuple[str, str]:
    """A trunk with a subport; its parent is bound to a host that is gone. Return it and its parent."""
    net = f.network.ensure("networks", "network", {"name": once("trunks")}, project_id=f.project_id)
    subnet = {"name": once("trunks"), "network_id": net, "ip_version": 4, "cidr": "10.76.0.0/24"}
    f.network.ensure("subnets", "subnet", subnet, project_id=f.project_id)
    parent, child = (
        f.network.ensure("ports", "port", {"name": once(name), "network_id": net}, project_id=f.project_id)
        for name in ("parent", "child")
    )
    sub_port = {"port_id": child, "segmentation_type": "vlan", "segmentation_id": 100}
    body = {"name": once("trunk"), "port_id": parent, "sub_ports": [sub_port]}
    made = f.network.ensure("trunks", "trunk", body, project_id=f.project_id)
    f.network_admin.call("PUT", f"/ports/{parent}", {"port": {"binding:host_id": HOST}})
    return made, parent


def reset(f: Filling, volume: str, **status: str) -> None:
    """Set the state of a volume as an admin."""
    volumes.cinder(f.admin_connection).call("POST", f"/volumes/{volume}/action", {"os-reset_status": status})


def grouped(f: Filling) -> tuple[str, str]:
    """A group with a volume; return both."""
    cinder = volumes.cinder(f.filled.connection)
    volumes.settings(f)
    group = volumes.once(cinder, "groups", once("group"), group_type=volumes.GROUP_TYPE, volume_types=[volumes.TYPE])
    volumes.await_status(cinder, "groups", group, "available")
    return group, volumes.make_volume(f.filled, once("grouped"), group_id=group)


def reserve(f: Filling, volume: str) -> str:
    """Reserve a volume for a server that does not exist; return the attachment."""
    body = {"attachment": {"volume_uuid": volume, "instance_uuid": str(uuid.uuid4())}}
    return str(volumes.cinder(f.filled.connection).call("POST", "/attachments", body)["attachment"]["id"])


def encrypted(f: Filling) -> tuple[str, str]:
    """A volume with a key in Barbican; return both."""
    cinder = volumes.cinder(f.admin_connection, "3.64")
    name = "encrypted"
    known = {t["name"]: t["id"] for t in cinder.call("GET", "/types", params={"is_public": "None"})["volume_types"]}
    if name not in known:
        body = {"name": name, "extra_specs": {"volume_backend_name": "fake"}}
        known[name] = cinder.call("POST", "/types", {"volume_type": body})["volume_type"]["id"]
        how = {"provider": "luks", "cipher": "aes-xts-plain64", "key_size": 256, "control_location": "front-end"}
        cinder.call("POST", f"/types/{known[name]}/encryption", {"encryption": how})
    own = volumes.cinder(f.filled.connection)
    body = {"name": once("secret"), "size": 1, "volume_type": name}
    volume = own.call("POST", "/volumes", {"volume": body})["volume"]["id"]
    volumes.await_status(own, "volumes", volume, "available")
    return volume, cinder.call("GET", f"/volumes/{volume}")["volume"]["encryption_key_id"]


def consume(connection: Connection, key: str, volume: str) -> None:
    consumer = {"service": "block-storage", "resource_type": "volume", "resource_id": volume}
    barbican = Rest(connection.key_manager, {"OpenStack-API-Version": "key-manager 1.1"})
    barbican.call("POST", f"/secrets/{key}/consumers", consumer)


def secret(f: Filling) -> str:
    body = {"name": once("unrelated"), "payload": "x", "payload_content_type": "text/plain"}
    return str(f.secrets.call("POST", "/secrets", body)["secret_ref"]).rpartition("/")[2]


def share(f: Filling) -> str:
    made = shares.share(f, once("share"))
    shares.wait(f, f"/shares/{made}", "share")
    return made


def long_ago(sweeper: Sweeper, database: str, table: str, id_: str, **changes: str) -> None:
    """Change a row, and let its last change be three days ago."""
    values = {"updated_at": time.strftime("%F %T", time.gmtime(time.time() - 3 * 86400)), **changes}
    named = ", ".join(f"{column} = ?" for column in values)
    sweeper.rows(database, f"UPDATE {table} SET {named} WHERE id = ?", *values.values(), id_)


# --------------------------------------------------------------------------------------------------- what is cleared
def test_a_cascade_clears_what_nothing_stands_behind(whole, f, full_cloud, full_sweeper):
    trunk(f)
    _, volume = grouped(f)
    reset(f, volume, attach_status="attached")
    locked, key = encrypted(f)
    consume(f.filled.connection, key, locked)
    secret(f)
    copied, offered = share(f), share(f)
    long_ago(full_sweeper, "manila", "shares", copied, task_state="data_copying_in_progress")
    on_offer = "UPDATE share_instances SET status = 'awaiting_transfer' WHERE share_id = ?"
    full_sweeper.rows("manila", on_offer, offered)
    reserve(f, volumes.make_volume(f.filled, once("reserved")))
    moving = volumes.make_volume(f.filled, once("moving"))
    long_ago(full_sweeper, "cinder", "volumes", moving, migration_status="migrating")

    arguments = ("--async", "--cascade", "--wait", "--wait-timeout", WAIT, f.name)
    code, said = whole.command("project", "delete", *arguments)
    (found,) = whole.ask("project", "deletion", "list", "--project", f.project_id)
    shown = whole.ask("project", "deletion", "show", found["ID"])
    left = whole.ask("project", "deletion", "leftovers", "--long", found["ID"])
    assert (code, shown["status"], left) == (0, "deleted", []), (said, shown["message"], left)
    there = rows.read(full_cloud).live(f.project_id)
    assert not there, "\n".join(there.lines())


# ----------------------------------------------------------------------------------------------- what guards a reset
def test_the_binding_of_a_parent_that_a_server_has_stays(f, full_sweeper):
    made, parent = trunk(f)
    f.network_admin.call("PUT", f"/ports/{parent}", {"port": {"binding:host_id": ""}})
    server = running(f.filled, networks=[{"port": parent}])
    bound = f.network_admin.call("GET", f"/ports/{parent}")["port"]
    if not bound["binding:host_id"]:
        f.network_admin.call("PUT", f"/ports/{parent}", {"port": {"binding:host_id": HOST}})
    before = f.network_admin.call("GET", f"/ports/{parent}")["port"]["binding:host_id"]
    left = sweep(full_sweeper, network.SERVICE, f.filled, lambda left: ("trunk", made) in left)
    assert left["trunk", made].reason is Reason.IN_USE
    assert [(b["type"], b["id"]) for b in left["trunk", made].blocked_by] == [("compute.server", server)]
    assert f.network_admin.call("GET", f"/ports/{parent}")["port"]["binding:host_id"] == before
    assert "openstack port unset --host" in remedy(network.SERVICE, left, "trunk", made)


def test_a_group_with_an_attached_volume_stays_with_its_attachment(f, full_admin, full_sweeper):
    """The reset of an ``attach_status`` would remove the attachments of a server of another project."""
    other = filler.make_project(full_admin, once("stale-neighbour"), password=None, partner=None)
    server = running(other)
    group, volume = grouped(f)
    body = {"attachment": {"volume_uuid": volume, "instance_uuid": server}}
    attachment = volumes.cinder(full_admin).call("POST", "/attachments", body)["attachment"]["id"]
    reset(f, volume, attach_status="attached", status="available")
    left = sweep(full_sweeper, block_storage.SERVICE, f.filled, lambda left: ("group", group) in left)
    assert left["group", group].reason is Reason.FOREIGN
    assert [(b["type"], b["id"]) for b in left["group", group].blocked_by] == [("compute.server", server)]
    volumes.cinder(full_admin).call("GET", f"/attachments/{attachment}")


def test_the_key_of_a_volume_stays_while_another_project_may_use_it(f, full_admin, full_sweeper):
    other = filler.make_project(full_admin, once("stale-reader"), password=None, partner=None)
    volume, key = encrypted(f)
    f.secrets.call("PUT", f"/secrets/{key}/acl", {"read": {"users": [other.user_id]}})
    consume(other.connection, key, "theirs")
    sweep(full_sweeper, block_storage.SERVICE, f.filled, lambda left: ("volume", volume) in left)
    left = sweep(full_sweeper, key_manager.SERVICE, f.filled, lambda left: ("secret", key) in left)
    assert left["secret", key].reason is Reason.PROTECTED
    found = Rest(full_admin.key_manager, {"OpenStack-API-Version": "key-manager 1.1"})
    assert len(f.secrets.call("GET", f"/secrets/{key}/consumers")["consumers"]) == 1, found
    volumes.cinder(full_admin).call("GET", f"/volumes/{volume}")


def test_the_key_of_a_volume_is_left_to_it_without_its_consumer(f, full_admin, full_sweeper):
    """Without the key the data would be lost, although the volume may have to stay."""
    volume, key = encrypted(f)
    consume(f.filled.connection, key, volume)
    left = sweep(full_sweeper, block_storage.SERVICE, f.filled, lambda left: ("volume", volume) in left)
    assert "Unable to delete encryption key" in left["volume", volume].message
    left = sweep(full_sweeper, key_manager.SERVICE, f.filled, lambda left: True)
    assert left["secret", key].reason is Reason.IN_USE
    assert [(b["type"], b["id"]) for b in left["secret", key].blocked_by] == [("block-storage.volume", volume)]
    assert f.secrets.call("GET", f"/secrets/{key}/consumers")["consumers"] == []
    sweep(full_sweeper, block_storage.SERVICE, f.filled, nothing)
    sweep(full_sweeper, key_manager.SERVICE, f.filled, nothing)


def test_a_migration_that_may_be_in_progress_is_waited_for(f, full_sweeper):
    volume, moved = volumes.make_volume(f.filled, once("moving")), share(f)
    reset(f, volume, migration_status="migrating")
    sweeper = full_sweeper
    sweeper.rows("manila", "UPDATE shares SET task_state = 'data_copying_in_progress' WHERE id = ?", moved)
    sweeper.rows("manila", "UPDATE share_instances SET status = 'migrating' WHERE share_id = ?", moved)
    left = sweep(sweeper, block_storage.SERVICE, f.filled, lambda left: ("volume", volume) in left)
    assert left["volume", volume].reason is Reason.IN_USE and "migrating" in left["volume", volume].message
    left = sweep(sweeper, shared_file_system.SERVICE, f.filled, lambda left: ("share", moved) in left)
    assert left["share", moved].reason is Reason.IN_USE
    assert f"openstack share migration cancel {moved}" in left["share", moved].message
    # Three days later: both are lost.
    long_ago(sweeper, "cinder", "volumes", volume)
    ((instance,),) = sweeper.rows("manila", "SELECT id FROM share_instances WHERE share_id = ?", moved)
    long_ago(sweeper, "manila", "share_instances", instance)
    sweep(sweeper, block_storage.SERVICE, f.filled, nothing)
    sweep(sweeper, shared_file_system.SERVICE, f.filled, nothing)


# ------------------------------------------------------------------------------------- what is named with the way out
def test_a_storage_that_refuses_the_delete(f, full_sweeper):
    volume = volumes.make_volume(f.filled, once("refused"), metadata={"storage": "refuses"})
    type_ = types(block_storage.SERVICE)["volume"]

    def failed(left: dict[tuple[str, str], Leftover]) -> bool:
        row = volumes.cinder(f.admin_connection).call("GET", f"/volumes/{volume}")["volume"]
        return bool(type_.failed(Resource(volume, "", f.project_id, row), None))

    sweep(full_sweeper, block_storage.SERVICE, f.filled, failed)
    assert f"openstack volume set --state error {volume}" in str(type_.remedies[Reason.ERROR].format(id=volume))
    volumes.cinder(f.filled.connection).call("DELETE", f"/volumes/{volume}/metadata/storage")
    sweep(full_sweeper, block_storage.SERVICE, f.filled, nothing)


@pytest.mark.parametrize("status", ["available", "error_deleting"])
def test_a_backup_whose_service_is_gone(f, full_sweeper, status):
    """Cinder answers 404 to its delete, and to the reset of its state."""
    cinder = volumes.cinder(f.filled.connection)
    volume = volumes.make_volume(f.filled, once("backed-up"))
    backup = volumes.once(cinder, "backups", once("lonely"), volume_id=volume)
    volumes.await_status(cinder, "backups", backup, "available")
    sql = "UPDATE backups SET availability_zone = 'nowhere', host = 'gone', status = ? WHERE id = ?"
    full_sweeper.rows("cinder", sql, status, backup)
    left = sweep(full_sweeper, block_storage.SERVICE, f.filled, lambda left: ("backup", backup) in left)
    assert left["backup", backup].reason is Reason.UNREACHABLE
    assert "cinder-manage backup update_backup_host" in left["backup", backup].message
    full_sweeper.rows("cinder", "UPDATE backups SET availability_zone = NULL, host = NULL WHERE id = ?", backup)
    sweep(full_sweeper, block_storage.SERVICE, f.filled, nothing)


def test_a_volume_of_a_host_that_is_gone(f, full_sweeper):
    volume = volumes.make_volume(f.filled, once("hostless"))
    sweeper = full_sweeper
    ((host,),) = sweeper.rows("cinder", "SELECT host FROM volumes WHERE id = ?", volume)
    long_ago(sweeper, "cinder", "volumes", volume, host=f"{HOST}@fake#fake", status="deleting")
    left = sweep(sweeper, block_storage.SERVICE, f.filled, lambda left: ("volume", volume) in left)
    assert left["volume", volume].reason is Reason.UNREACHABLE
    assert f"--currenthost {HOST}@fake#fake" in left["volume", volume].message
    long_ago(sweeper, "cinder", "volumes", volume, host=host)
    sweep(sweeper, block_storage.SERVICE, f.filled, nothing)


def test_an_image_staged_on_a_host_that_is_gone(f, full_sweeper):
    made = make_image(f.image, f.project_id, once("staged"), data=None)
    sql = "INSERT INTO image_properties (image_id, name, value, created_at, deleted) VALUES (?, ?, ?, now(), 0)"
    full_sweeper.rows("glance", sql, made, "os_glance_stage_host", "http://127.0.0.1:9")
    full_sweeper.rows("glance", "UPDATE images SET status = 'uploading' WHERE id = ?", made)
    left = sweep(full_sweeper, image.SERVICE, f.filled, lambda left: ("image", made) in left)
    assert left["image", made].reason is Reason.ERROR and "staged" in left["image", made].message
    text = remedy(image.SERVICE, left, "image", made)
    assert f"image_id = '{made}'" in text and "worker_self_reference_url" in text
    full_sweeper.rows(
        "glance", "DELETE FROM image_properties WHERE image_id = ? AND name = ?", made, "os_glance_stage_host"
    )
    sweep(full_sweeper, image.SERVICE, f.filled, nothing)


def test_load_balancers_that_no_call_deletes(f, full_sweeper):
    balancers.subnet(f)
    foreign, stuck = balancers.make(f, "provider"), balancers.make(f, "stuck")
    balancers.wait(f)
    ((provider,),) = full_sweeper.rows("octavia", "SELECT provider FROM load_balancer WHERE id = ?", foreign)
    full_sweeper.rows("octavia", "UPDATE load_balancer SET provider = 'removed' WHERE id = ?", foreign)
    long_ago(full_sweeper, "octavia", "load_balancer", stuck, provisioning_status="PENDING_DELETE")
    left = sweep(full_sweeper, load_balancer.SERVICE, f.filled, lambda left: len(left) == 2)
    assert left["load_balancer", foreign].reason is Reason.NOT_SUPPORTED
    assert "provider removed is not enabled" in left["load_balancer", foreign].message
    assert left["load_balancer", stuck].reason is Reason.DELETING  # the core counts its age, by this attribute
    type_ = types(load_balancer.SERVICE)["load_balancer"]
    row = Rest(f.admin_connection.load_balancer).call("GET", f"/lbaas/loadbalancers/{stuck}")["loadbalancer"]
    assert type_.deleting(Resource(stuck, "", f.project_id, row), None) and row[type_.changed] < time.strftime("%F")
    assert f"WHERE id = '{stuck}'" in str(type_.remedies[Reason.STUCK].format(id=stuck))
    full_sweeper.rows("octavia", "UPDATE load_balancer SET provider = ? WHERE id = ?", provider, foreign)
    long_ago(full_sweeper, "octavia", "load_balancer", stuck, provisioning_status="ERROR")
    sweep(full_sweeper, load_balancer.SERVICE, f.filled, nothing)


def test_a_share_that_has_been_deleting_for_three_days_shows_since_when(f, full_sweeper):
    """A share shows no time of its own change. The core counts its age by this attribute."""
    going = share(f)
    ((instance,),) = full_sweeper.rows("manila", "SELECT id FROM share_instances WHERE share_id = ?", going)
    long_ago(full_sweeper, "manila", "share_instances", instance, status="deleting")
    type_ = types(shared_file_system.SERVICE)["share"]
    definition = full_sweeper.definition(shared_file_system.SERVICE, f.filled)
    (row,) = type_.list(full_sweeper.connection(), definition)
    assert type_.deleting(Resource(going, "", f.project_id, row), definition)
    assert row[type_.changed] < time.strftime("%F")
    full_sweeper.rows("manila", "UPDATE share_instances SET status = 'error_deleting' WHERE id = ?", instance)
    sweep(full_sweeper, shared_file_system.SERVICE, f.filled, nothing)


def test_a_share_that_is_really_on_offer_is_left_to_its_transfer(f, full_sweeper):
    offered = share(f)
    transfer = {"share_id": offered, "name": once("offer")}
    shares.user(f).call("POST", "/share-transfers", {"transfer": transfer})
    type_ = types(shared_file_system.SERVICE)["share"]
    row = shares.admin(f).call("GET", f"/shares/{offered}")["share"]
    assert row["status"] == "awaiting_transfer"
    connection = full_sweeper.connection(write=True)
    definition = full_sweeper.definition(shared_file_system.SERVICE, f.filled)
    with pytest.raises(Refused, match="transfer"):
        type_.prepare[-1](connection, definition, Resource(offered, "", f.project_id, row))
    sweep(full_sweeper, shared_file_system.SERVICE, f.filled, nothing)
