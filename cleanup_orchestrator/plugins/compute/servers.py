"""Nova: servers in every state, and how they are stopped and deleted."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    PORTS,
    SCOPED,
    BadAnswer,
    Collection,
    Fallback,
    ForcedDelete,
    Halt,
    LastChange,
    OneByOne,
    Paging,
    ProjectDefinition,
    ProjectGone,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Run,
    Token,
    Use,
    Verdict,
    blocker,
    exceptions,
    foreign_users,
    in_catalog,
    is_past,
    knows_microversion,
    state_remedies,
    verdict_naming,
)
from cleanup_orchestrator.plugins.neutron import of_others, ports_of_devices, row_blocker
from cleanup_orchestrator.plugins.port_uses import uses_of_ports

if TYPE_CHECKING:
    from openstack.connection import Connection

_TAGS = "2.26"  #: the first microversion that lists a server's tags; Newton
_DOWN_CELLS = "2.69"  #: the first that lists what is in cells that do not answer; Stein
_RELEASE = "2.85"  #: the first that changes whether a volume is deleted with its server; Ussuri
_VOLUMES = "os-extended-volumes:volumes_attached"
_TASK = "OS-EXT-STS:task_state"
_DELETING = frozenset({"deleting", "soft-deleting"})

#: A server that is being deleted is stuck after this time without a change: the message to its host was lost. Then Nova
#: ignores every further delete until the state is reset.
STUCK = datetime.timedelta(minutes=15)
OF_PROJECT = {"all_tenants": "1", "project_id": "{project_id}"}
_SERVERS = Collection(
    "compute",
    "/servers",
    one="server",
    list_path="/servers/detail",
    own_query=OF_PROJECT,
    microversion=_TAGS,
    paging=Paging.LINKS,
)
_SOFT_DELETED = _SERVERS.where(**OF_PROJECT, soft_deleted="true", status="SOFT_DELETED")
_VOLUME = Rest("block-storage", "/volumes/{id}", key="volume")
_IN_DOWN_CELLS = Collection("compute", "/servers", one="server", microversion=_DOWN_CELLS)
_EVERYONES = _IN_DOWN_CELLS.call("", query={"all_tenants": "1"})


def list_servers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's servers, then the soft-deleted ones.

    These are two calls, because with ``soft_deleted`` Nova omits servers that are about to be built.

    :raises BadAnswer: when Nova ignores the filters, because its policy does not allow them. Then it ignores the filter
        for soft-deleted servers as well
    """
    for listing in (_SERVERS.own, _SOFT_DELETED):
        for row in listing.rows(connection, project):
            if row.get("tenant_id") not in (None, "", project.id):
                raise BadAnswer(
                    f"Nova was asked for the servers of {project.id} and listed one of another project: "
                    "its policy (servers:allow_all_filters) keeps the orchestrator from filtering"
                )
            yield row


def all_servers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the servers of all projects, then the soft-deleted ones.

    Nova refuses this to callers who are not admins (403).
    """
    for listing in (_SERVERS.own, _SOFT_DELETED):
        query = {key: value for key, value in listing.query.items() if key != "project_id"}
        yield from dataclasses.replace(listing, query=query).rows(connection, project)


def list_unreachable_servers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's servers in cells that do not answer.

    Nova knows only their ids, and shows them only in a list without any filter or paging: that of the token's project.
    The list ends after ``max_limit`` servers. Then the project has other servers, and a later sweep lists these.

    If the project is gone, the list of all projects is used, which is the one exception in Nova. There these servers
    come first, but only as many as fit beside the others.

    :raises BadAnswer: when it is not the project's list
    :raises ProjectGone: when the list of all projects was cut short
    """
    if not project.gone:
        scope = connection.session.get_project_id()
        if scope != project.id:
            raise BadAnswer(f"the token is scoped into project {scope}, not into {project.id}")
        for row in _IN_DOWN_CELLS.all.rows(connection, project):
            if row.get("status") == "UNKNOWN":
                yield row
        return
    body = _EVERYONES.call(connection, project)  # Nova refuses it to callers who are not admins
    if not isinstance(body, Mapping) or not isinstance(body.get("servers"), list):
        raise BadAnswer(f"{_EVERYONES!r} answered without 'servers'")
    if body.get("servers_links"):
        raise ProjectGone(
            "the cloud has more servers than Nova lists at once, and beside a list that is cut short it does not name "
            "those in cells that do not answer: raise [api] max_limit in nova.conf above their number"
        )
    for row in body["servers"]:
        if row.get("status") == "UNKNOWN":
            server = _IN_DOWN_CELLS.show.row(connection, project, Resource(str(row["id"]), "", None))
            if server.get("tenant_id") == project.id:
                yield server


def _foreign_volumes(connection: Connection, project: ProjectDefinition, server: Resource) -> Verdict | None:
    """Name the volumes of others that Nova deletes with a server, because it cannot be told to keep them.

    An admin attached them with ``delete_on_termination``. Since Ussuri the plugin clears this before the delete.
    """
    volumes = _deleted_with(server.data)
    if not volumes or knows_microversion(connection.compute, _RELEASE) or not in_catalog(connection, "block-storage"):
        return None
    foreign = []
    for id_ in volumes:
        row = _VOLUME.row(connection, project, Resource(id_, "", None))
        owner = row.get("os-vol-tenant-attr:tenant_id")
        if owner != project.id:
            foreign.append(blocker("block-storage.volume", id_, owner, row.get("name")))
    return verdict_naming(project, "Nova would delete with it", foreign)


def _foreign_ports(
    connection: Connection, project: ProjectDefinition, servers: Sequence[Resource]
) -> dict[str, Verdict]:
    """Name the ports of others that name a server as their device.

    Any member may write that on a port, without any right on the server. Nova deletes each port that names a server and
    was not given to it, as far as the token reaches. Ironic makes ports of its own for a server, and leaves them to it.
    """
    named = [(id_, port) for id_, port in ports_of_devices(connection, project, servers)
             if not str(port.get("device_owner") or "").startswith("baremetal:")]  # fmt: skip
    foreign = {str(port["id"]) for port in of_others(connection, project, (port for _, port in named))}
    blockers = ((id_, row_blocker("port", port)) for id_, port in named)
    return foreign_users(project, "Nova would delete with it", (one for one in blockers if one[1]["id"] in foreign))


def refuse_unreachable(connection: Connection, project: ProjectDefinition, server: Resource) -> None:
    """Refuse a server in a cell that does not answer."""
    raise Refused(Verdict(Reason.UNREACHABLE, "its cell does not answer: Nova can neither show nor delete it now"))


def _deleted_with(row: Row) -> list[str]:
    """Return the ids of the volumes that Nova deletes with a server."""
    return [volume["id"] for volume in row.get(_VOLUMES) or () if volume.get("delete_on_termination")]


def release_volumes(connection: Connection, project: ProjectDefinition, server: Resource) -> None:
    """Prevent that volumes are deleted with their server.

    The plugin of Cinder decides which volumes stay, and whose snapshots they have. Nova before Ussuri cannot do this.
    There a volume with ``delete_on_termination`` is deleted with its server.
    """
    volumes = _deleted_with(server.data)
    if not volumes or not knows_microversion(connection.compute, _RELEASE):
        return
    for id_ in volumes:
        path, body = (
            f"/servers/{server.id}/os-volume_attachments/{id_}",
            {"volumeId": id_, "delete_on_termination": False},
        )
        response = connection.compute.put(path, json={"volumeAttachment": body}, microversion=_RELEASE)
        if response.status_code != 404:  # it was detached meanwhile
            exceptions.raise_from_response(response)


def being_deleted(server: Resource, project: ProjectDefinition) -> str | None:
    """Say that Nova deletes a server, unless that is stuck.

    A delete that another client requested may take volumes along. Such a server is not only looked at: its volumes are
    released first.
    """
    row = server.data
    return "Nova is deleting it" if _is_going(row) and not _stuck(row) and not _deleted_with(row) else None


def _is_going(row: Row) -> bool:
    """Return whether Nova deletes a server; DELETED is the last state of one whose row is about to go."""
    return row.get(_TASK) in _DELETING or row.get("status") == "DELETED"


def delete_failed(server: Resource, project: ProjectDefinition) -> str | None:
    """Say that a server is in ERROR, with its last fault: a failed delete leaves it so."""
    row = server.data
    if row.get("status") != "ERROR" or row.get(_TASK) is not None:
        return None
    fault = row.get("fault")
    why = fault.get("message") if isinstance(fault, Mapping) else None
    return f"it is in ERROR; its last fault: {why}" if why else "it is in ERROR, and Nova shows no fault"


def delete_server(connection: Connection, project: ProjectDefinition, server: Resource) -> None:
    """Delete a server, whatever its state, and check that Nova does it.

    ``DELETE`` would only soft-delete where ``reclaim_instance_interval`` is set.

    :raises Refused: when Nova accepted the delete and ignored it, or tried and failed
    """
    if _is_going(server.data):
        if not _stuck(server.data):
            return
        _action(connection, server, {"os-resetState": {"state": "error"}})
    _action(connection, server, {"forceDelete": None})
    response = connection.compute.get(f"/servers/{server.id}", microversion=_TAGS)
    if response.status_code == 404:
        return
    exceptions.raise_from_response(response)
    row = _body(response, "server")
    if row.get(_TASK) is not None or row.get("status") == "DELETED":
        return
    # Nova confirms a resize first, and shows no task after that. The list of the server's actions shows the delete.
    actions = connection.compute.get(f"/servers/{server.id}/os-instance-actions", microversion=_TAGS)
    if actions.status_code == 404:
        return
    exceptions.raise_from_response(actions)
    if not any(action.get("action") == "delete" for action in _body(actions, "instanceActions")):
        raise Refused(
            Verdict(
                Reason.REFUSED,
                "Nova accepts the delete and does nothing: 'disable_terminate' is set, which only its database shows",
            )
        )
    if row.get("status") == "ERROR" and (fault := row.get("fault")):
        raise Refused(Verdict(Reason.ERROR, f"Nova tried and failed; its last error: {fault.get('message')}"))


def run(row: Row) -> Run:
    """Return whether a server runs.

    A paused, suspended, shelved or failed server is not running, and is not stopped.

    :raises BadAnswer: when Nova's policy hides the task state
    """
    if _TASK not in row:
        raise BadAnswer(f"server {row.get('id')} was shown without {_TASK}")
    status, task = row.get("status"), row[_TASK]
    if task in _DELETING or status in ("DELETED", "SOFT_DELETED"):
        return Run.OTHER
    if task is not None:
        return Run.BUSY
    return {"ACTIVE": Run.ON, "SHUTOFF": Run.OFF}.get(str(status), Run.OTHER)


def _power(action: str) -> Rest:
    return _SERVERS.call("/{id}/action", method="POST", body={action: None})


def force_server(connection: Connection, project: ProjectDefinition, server: Resource) -> None:
    """Reset a server's state to error and delete it again; keep its volumes."""
    release_volumes(connection, project, server)
    _action(connection, server, {"os-resetState": {"state": "error"}})
    _action(connection, server, {"forceDelete": None})


def _stuck(row: Row) -> bool:
    return is_past(row.get("updated"), STUCK.total_seconds())


def _action(connection: Connection, server: Resource, body: Row) -> None:
    response = connection.compute.post(f"/servers/{server.id}/action", json=dict(body), microversion=_TAGS)
    exceptions.raise_from_response(response)


def _body(response: Any, key: str) -> Any:
    try:
        return response.json()[key]
    except (ValueError, KeyError, TypeError) as error:
        raise BadAnswer(f"{response.request.method} {response.url} answered without {key!r}") from error


SERVER = ResourceType(
    name="server",
    if_abandoned="It still uses CPU, memory and disk of a host. It may still run, and answer on the network.",
    list=list_servers,
    all_projects=all_servers,
    show=_SERVERS.show,
    deleting=being_deleted,
    failed=delete_failed,
    changed="updated",
    remedies={
        **state_remedies(
            "openstack compute service list shows whether the nova-compute of its host is up, and openstack server "
            "show {id} its host and its last fault",
            "openstack server set --state error {id}",
        ),
        Reason.REFUSED: "read Nova's message. If disable_terminate keeps it: an operator runs UPDATE instances SET "
        "disable_terminate = 0 WHERE uuid = '{id}', in Nova's database of the cell. It is deleted automatically then",
    },
    prepare=(release_volumes,),
    delete=delete_server,
    force=ForcedDelete(force_server),
    halt=Halt(run, stop=_power("os-stop"), start=_power("os-start")),
    by_hand="as an admin: openstack server set --state error {id}, then openstack server delete --force {id}",
    owner="tenant_id",
    tags="tags",
    properties="metadata",
    after=("container-infrastructure-management.cluster", "database.instance"),
    created="created",
    updated=LastChange("updated"),
    parts=(PORTS,),
    used_by=(
        Use(("block-storage.volume",), "deletes the volume, by Nova before Ussuri", OneByOne(_foreign_volumes)),
        Use(("network.port",), "deletes the port, which names the server as its device", _foreign_ports),
        *uses_of_ports(ports_of_devices, "a port of it is used by"),
    ),
    source="GET /servers/detail?all_tenants=1&project_id=X, the same with soft_deleted=true and "
    "status=SOFT_DELETED, POST /servers/{id}/action forceDelete and os-resetState; nova compute/api.py, "
    "api/openstack/compute/servers.py, db/main/api.py, objects/build_request.py",
    note="Locked, shelved, resized and failed servers are deleted like any other: an admin's delete ignores locks, "
    "and so does an admin's stop for the recovery window; a resize is confirmed first. The ports that Nova "
    "created for it, and the image of a shelved one, are deleted with it. Resources that the user attached are "
    "detached. Volumes are never deleted with it, also where they were created so (delete_on_termination is "
    "cleared before): the plugin of Cinder handles them. Without all_tenants Nova answers with the servers of "
    "the caller's own project, whatever the filter. Soft-deleted servers are in no ordinary list, but use ports "
    "and volumes. Where reclaim_instance_interval is set, a plain delete only soft-deletes. A server that has "
    "been deleting for 15 minutes is reset to error and deleted again. Servers of a cluster, a database or a "
    "stack are left to their service until it has nothing left.",
)

UNREACHABLE_SERVER = ResourceType(
    name="unreachable_server",
    variant_of="server",
    if_abandoned="Its host does not answer. When the host is back, the server may run again.",
    list=list_unreachable_servers,
    all_projects="Nova shows them only for the token's project",
    delete=refuse_unreachable,
    title="id",
    owner=SCOPED,
    why_no_show="it is never deleted: Nova cannot delete it",
    remedies={
        Reason.UNREACHABLE: "bring the database and the message bus of its cell back (nova-manage cell_v2 list_cells); "
        "server {id} is deleted automatically then",
    },
    token=Token.PROJECT,
    fallback=Fallback(Token.ADMIN),
    created="created",
    parts=(),
    used_by=(),
    source="GET /servers with microversion 2.69, a token of the project, and no filter; of a project that is "
    "gone GET /servers?all_tenants=1, and GET /servers/{id} of those that are UNKNOWN; nova "
    "api/openstack/compute/servers.py (_is_cell_down_supported), compute/api.py "
    "(_generate_minimal_construct_for_down_cells)",
    note="Servers in a cell that does not answer are silently missing in every list that is filtered or paged "
    "(list_records_by_skipping_down_cells). Only this list names them, as UNKNOWN, and only for the token's "
    "project. One that was soft-deleted before is shown again when its cell is back. Nova before microversion "
    "2.69 does not show them: then this type is unknown, and an operator may waive it. If the project is gone, "
    "the list of all projects is used, in one page. If the page is too short for it ([api] max_limit of "
    "nova.conf), this type is unknown.",
)
