"""Neutron: trunks, and the stale binding of a parent port that keeps one from its delete."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    LastChange,
    Parts,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    Row,
    Verdict,
    exceptions,
    in_catalog,
    state_remedies,
    to_row,
    verdict_naming,
)
from cleanup_orchestrator.plugins.network.common import SERVERS, behind_ports_of_servers, extension, simple_type
from cleanup_orchestrator.plugins.neutron import owner_of, row_blocker
from cleanup_orchestrator.plugins.nova import server_blocker
from cleanup_orchestrator.plugins.port_uses import serves_ports

if TYPE_CHECKING:
    from openstack.connection import Connection


def ports_of_trunk(trunk: Resource) -> list[object]:
    """Return the ids of the parent and the subports of a trunk."""
    return [trunk.data.get("port_id"), *(port.get("port_id") for port in trunk.data.get("sub_ports") or ())]


def enable_trunk(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Enable a trunk: Neutron refuses to delete a disabled one."""
    if resource.data.get("is_admin_state_up") is False:
        connection.network.update_trunk(resource.id, admin_state_up=True)


def _bound_parent(connection: Connection, trunk: Resource) -> Row | None:
    """Return the parent port of a trunk; ``None`` if it is gone, or bound to no host."""
    try:
        port = to_row(connection.network.get_port(trunk.data["port_id"]))
    except exceptions.NotFoundException:
        return None
    return port if port.get("binding_host_id") else None


def _is_stale(connection: Connection, project: ProjectDefinition, port: Row) -> bool:
    """Return whether no device has a bound port of the project: it has none, or a server that Nova does not know."""
    if owner_of(port) != project.id:
        return False
    if not port.get("device_id"):
        return True
    of_server = str(port.get("device_owner") or "").startswith("compute:")
    return of_server and in_catalog(connection, "compute") and server_blocker(connection, port["device_id"]) is None


def clear_stale_binding(
    connection: Connection, deleting: Connection, project: ProjectDefinition, trunk: Resource, error: Exception
) -> bool:
    """Clear the binding of the parent port to a host if no device has the port; return whether to delete again.

    Neutron refuses to delete a trunk whose parent is bound to a host, unless the driver on that host allows it. A host
    that is gone has no driver (409 TrunkInUse).
    """
    if not isinstance(error, exceptions.ConflictException):
        return False
    port = _bound_parent(connection, trunk)
    if port is None or not _is_stale(connection, project, port):
        return False
    connection.network.update_port(port["id"], binding_host_id="")
    return True


def explain_trunk(connection: Connection, project: ProjectDefinition, trunk: Resource) -> Verdict | None:
    """Name what the parent port of a trunk is bound for: a server, or a host."""
    port = _bound_parent(connection, trunk)
    if port is None:
        return None
    of_server = str(port.get("device_owner") or "").startswith("compute:")
    if of_server and (server := server_blocker(connection, port["device_id"])):
        return verdict_naming(project, "its parent port is bound for", [server])
    text = f"its parent port {port['id']} is bound to the host {port['binding_host_id']}"
    reason = Reason.IN_USE if owner_of(port) == project.id else Reason.FOREIGN
    return Verdict(reason, text, (row_blocker("port", port),))


_IN_TRUNK = re.compile(r"\btrunk ([0-9a-f-]{32,36})\b")


def refuse_in_trunk(connection: Connection, project: ProjectDefinition, error: exceptions.ConflictException) -> None:
    """Name the trunk for which Neutron refuses the delete of a port; return if it is not for a trunk.

    The trunk of a subport is only in Neutron's refusal: the port does not show it, and no list of trunks can be
    filtered by a subport.

    :raises Refused: naming the trunk
    """
    if not (match := _IN_TRUNK.search(str(error))):
        return
    try:
        trunk = to_row(connection.network.get_trunk(match[1]))
    except exceptions.NotFoundException:  # the caller would take this 404 for one of the port
        return
    if verdict := verdict_naming(project, "it is in", [row_blocker("trunk", trunk)]):
        raise Refused(verdict) from error


TRUNK = simple_type(
    "trunk",
    "trunks",
    available=extension("trunk"),
    after=SERVERS,
    needed_by=tuple((name, behind_ports_of_servers("port_id")) for name in SERVERS),
    prepare=(enable_trunk,),
    used_by=(serves_ports(ports_of_trunk, "takes the port out of the trunk"),),
    unblock=clear_stale_binding,
    explain=explain_trunk,
    remedies=state_remedies(
        "openstack network trunk show {id} names the parent port, and openstack port show the host and the device that "
        "it is bound for",
        "openstack port unset --host PORT, where PORT is the parent of trunk {id}, and no server and no node has it",
    ),
    note="Neutron answers 409 TrunkDisabled while it is administratively down. Its parent and subports stay "
    "as ordinary ports. If its parent is bound to a host, and no server has the parent, the binding is cleared: "
    "otherwise Neutron answers 409 TrunkInUse for a host that is gone.",
    tags="tags",
    created="created_at",
    updated=LastChange("updated_at"),
    parts=(Parts("subport", "sub_ports", changed="updated_at"),),
    source="DELETE /v2.0/trunks/T; neutron services/trunk/rules.py, trunk_can_be_managed, can_be_trunked_or_untrunked",
)
