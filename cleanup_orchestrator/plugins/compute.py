"""Nova: servers in every state, server groups, and what points at the project.

Nova refuses almost no delete, but several of its answers are not what they seem: lists that leave out what is hidden,
soft-deleted or out of reach, and deletes that are accepted and ignored. Each of them is looked behind here.

What has no type of its own: the ports that Nova made for a server, its shelved image, its allocations in
Placement, its share attachments and its tags go with the server. Migrations, actions, faults and usage are history that
``nova-manage db archive_deleted_rows`` and ``purge`` remove. A server on a host that is down is deleted in the database
alone: its guest may run on until the host is back, which then removes it (``running_deleted_instance_action``).
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from openstack import exceptions
from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    NOTHING,
    SCOPED,
    BadAnswer,
    Halt,
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
    Service,
    Token,
    Verdict,
    knows_microversion,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

OPTIONS = (
    cfg.BoolOpt(
        "sweep_flavor_access",
        default=True,
        help="Remove the project from the access lists of private flavors. Nova cannot be asked which flavors a "
        "project has access to: it takes one call for every private flavor of the cloud, once for each deletion. An "
        "entry that stays gives nobody access.",
    ),
)

_TAGS = "2.26"  #: the first microversion that lists a server's tags; Newton
_DOWN_CELLS = "2.69"  #: the first that lists what is in cells that do not answer; Stein
_GROUP_OWNER = "2.13"  #: the first that says whose a server group is; Mitaka
_KEYPAIR_PAGES = "2.35"  #: the first that pages keypairs, and (from 2.10) lists those of another user
_RELEASE = "2.85"  #: the first that changes whether a volume goes with its server; Ussuri
_QUOTAS = "2.57"  #: leaves out the quotas of nova-network and of injected files

_VOLUMES = "os-extended-volumes:volumes_attached"
_TASK = "OS-EXT-STS:task_state"
_DELETING = frozenset({"deleting", "soft-deleting"})
#: After so long without a change, a server that is being deleted is stuck: the message to its host was lost. Then Nova
#: ignores every further delete until its state is reset.
STUCK = datetime.timedelta(minutes=15)

PAGE = 1000  #: Nova's ``max_limit``: a larger wish is cut
#: Rows of the last page that the next one begins with, so that rows which went meanwhile leave no gap.
OVERLAP = 50

_MEMBERS = {"all_tenants": "1", "project_id": "{project_id}"}
_SERVERS = Rest("compute", "/servers/detail", key="servers", query=_MEMBERS, microversion=_TAGS, paging=Paging.LINKS)
_SOFT_DELETED = Rest(
    "compute",
    "/servers/detail",
    key="servers",
    query={**_MEMBERS, "soft_deleted": "true", "status": "SOFT_DELETED"},
    microversion=_TAGS,
    paging=Paging.LINKS,
)
_SHOW = Rest("compute", "/servers/{id}", key="server", microversion=_TAGS)


_EVERYONES = Rest("compute", "/servers", query={"all_tenants": "1"}, microversion=_DOWN_CELLS)
_UNREACHABLE = Rest("compute", "/servers/{id}", key="server", microversion=_DOWN_CELLS)


# -------------------------------------------------------------------------------------------------------- servers


def list_servers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's servers, then those that are soft-deleted.

    Not in one call: with ``soft_deleted`` Nova leaves out what is only about to be built.

    :raises BadAnswer: when Nova ignores the filters, as it does for whom policy does not let use them: then it ignores
        the one for soft-deleted servers as well
    """
    for listing in (_SERVERS, _SOFT_DELETED):
        for row in listing.rows(connection, project):
            if row.get("tenant_id") not in (None, "", project.id):
                raise BadAnswer(
                    f"Nova was asked for the servers of {project.id} and listed one of {row['tenant_id']}: "
                    "its policy (servers:allow_all_filters) keeps the orchestrator from filtering"
                )
            yield row


def all_servers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the servers of all projects, then the soft-deleted ones. Who is no admin is refused (403)."""
    for listing in (_SERVERS, _SOFT_DELETED):
        query = {key: value for key, value in listing.query.items() if key != "project_id"}
        yield from dataclasses.replace(listing, query=query).rows(connection, project)


def list_unreachable_servers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's servers in cells that do not answer.

    Nova knows no more of them than their ids, and tells these only in a list without any filter or paging: one of the
    token's own project. Beyond ``max_limit`` servers the list ends; then there are others, whose type is not clear yet.

    Of a project that is gone it is the list of all projects, the one exception that Nova makes. There they come first,
    but only as many as there is room for beside the others.

    :raises BadAnswer: when it is not the project's list
    :raises ProjectGone: when that of all projects was cut short
    """
    if not project.gone:
        scope = connection.session.get_project_id()
        if scope != project.id:
            raise BadAnswer(f"the token is scoped into project {scope}, not into {project.id}")
        for row in Rest("compute", "/servers", key="servers", microversion=_DOWN_CELLS).rows(connection, project):
            if row.get("status") == "UNKNOWN":
                yield row
        return
    body = _EVERYONES.call(connection, project)  # who is no admin is refused it
    if not isinstance(body, Mapping) or not isinstance(body.get("servers"), list):
        raise BadAnswer(f"{_EVERYONES!r} answered without 'servers'")
    if body.get("servers_links"):
        raise ProjectGone(
            "the cloud has more servers than Nova lists at once, and beside a list that is cut short it does not name "
            "those in cells that do not answer: raise [api] max_limit in nova.conf above their number"
        )
    for row in body["servers"]:
        if row.get("status") == "UNKNOWN":
            server = _UNREACHABLE.row(connection, project, Resource(str(row["id"]), "", None))
            if server.get("tenant_id") == project.id:
                yield server


def refuse_unreachable(connection: Connection, project: ProjectDefinition, server: Resource) -> None:
    """Say why a server cannot be deleted."""
    raise Refused(Verdict(Reason.UNREACHABLE, "its cell does not answer: Nova can neither show nor delete it now"))


def release_volumes(connection: Connection, project: ProjectDefinition, server: Resource) -> None:
    """See that no volume goes with its server: what must stay, and whose snapshots it has, Cinder's plugin knows.

    A Nova from before Ussuri cannot: there a volume that was made so goes with its server, whatever it bears.
    """
    volumes = [v["id"] for v in server.data.get(_VOLUMES) or () if v.get("delete_on_termination")]
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


def delete_server(connection: Connection, project: ProjectDefinition, server: Resource) -> None:
    """Delete a server for good, whatever its state, and see that Nova means it.

    ``DELETE`` would only soft-delete where ``reclaim_instance_interval`` is set.

    :raises Refused: when Nova accepted the delete and ignored it, or tried and failed
    """
    # DELETED is the last state of a server whose row is about to go.
    if server.data.get(_TASK) in _DELETING or server.data.get("status") == "DELETED":
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
    # A resize is confirmed first, after which no task shows: Nova's own journal of the server tells.
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
        raise Refused(Verdict(Reason.ERROR, f"Nova tried and failed; its last word: {fault.get('message')}"))


def run(row: Row) -> Run:
    """Return whether a server runs. What is paused, suspended, shelved or failed neither does nor is stopped by us.

    :raises BadAnswer: when Nova's policy hides from us what is being done to it
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
    return Rest("compute", "/servers/{id}/action", method="POST", body={action: None}, microversion=_TAGS)


def force_server(connection: Connection, project: ProjectDefinition, server: Resource) -> None:
    """Reset a server's state to error, whatever it is at, and delete it anew; its volumes do not go with it."""
    release_volumes(connection, project, server)
    _action(connection, server, {"os-resetState": {"state": "error"}})
    _action(connection, server, {"forceDelete": None})


def _stuck(row: Row) -> bool:
    try:
        changed = datetime.datetime.fromisoformat(str(row["updated"]))
    except (KeyError, ValueError):
        return False
    return datetime.datetime.now(datetime.UTC) - changed > STUCK


def _action(connection: Connection, server: Resource, body: Row) -> None:
    response = connection.compute.post(f"/servers/{server.id}/action", json=dict(body), microversion=_TAGS)
    exceptions.raise_from_response(response)


def _body(response: Any, key: str) -> Any:
    try:
        return response.json()[key]
    except (ValueError, KeyError, TypeError) as error:
        raise BadAnswer(f"{response.request.method} {response.url} answered without {key!r}") from error


# --------------------------------------------------------------------------------------------------- server groups


def list_server_groups(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the server groups of the whole cloud, for there is no filter; whose they are is compared.

    They are paged by offset alone. A group that is deleted while we page moves all others up: so each page begins
    within the one before, and a row that is known is proof that none was passed over.

    :raises BadAnswer: when there may be a gap
    """
    # Who is no admin gets the own project's groups, and no word about it. This call is refused to him.
    Rest("compute", "/servers", key="servers", query={**_MEMBERS, "limit": 1}).call(connection, project)
    seen: set[str] = set()
    offset = 0
    while True:
        query = {"all_projects": "true", "limit": PAGE, "offset": offset}
        call = Rest("compute", "/os-server-groups", query=query, microversion=_GROUP_OWNER)
        body = call.call(connection, project)
        page = body.get("server_groups") if isinstance(body, Mapping) else None
        if not isinstance(page, list):
            raise BadAnswer(f"{call!r} answered without 'server_groups'")
        if offset and (not page or page[0]["id"] not in seen):
            raise BadAnswer(f"{call!r}: too many groups went while they were paged, some may have been passed over")
        new = [row for row in page if row["id"] not in seen]
        if not new:
            return
        yield from new
        seen.update(row["id"] for row in new)
        offset += len(page) - min(OVERLAP, max(1, len(page) // 2))


# -------------------------------------------------------------------------------------- users' and operators' things


def list_keypairs(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the keypairs of the project's members, to be counted."""
    for user in project.member_ids:
        listing = Rest(
            "compute",
            "/os-keypairs",
            key="keypairs",
            query={"user_id": user},
            microversion=_KEYPAIR_PAGES,
            paging=Paging.LINKS,
        )
        for row in listing.rows(connection, project):
            name = row["keypair"]["name"]
            yield {"id": f"{user}/{name}", "name": name, "project_id": project.id}


def _keep_keypair(keypair: Resource, project: ProjectDefinition) -> str | None:
    return "it belongs to its user, who may be using it in other projects"


def list_aggregates(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the host aggregates that are set apart for the project."""
    for row in Rest("compute", "/os-aggregates", key="aggregates").rows(connection, project):
        for key, value in (row.get("metadata") or {}).items():
            if key.startswith("filter_tenant_id") and project.id in str(value).replace(" ", "").split(","):
                yield {"id": str(row["id"]), "name": row.get("name"), "project_id": project.id}


def _keep_aggregate(aggregate: Resource, project: ProjectDefinition) -> str | None:
    return "it is the operator's, and merely names the project"


def list_flavor_access(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's entries in the access lists of private flavors."""
    flavors = Rest("compute", "/flavors", key="flavors", query={"is_public": "false"}, paging=Paging.LINKS)
    for flavor in flavors.rows(connection, project):
        path = f"/flavors/{quote(flavor['id'], safe='')}/os-flavor-access"
        for row in Rest("compute", path, key="flavor_access").rows(connection, project):
            if row.get("tenant_id") == project.id:
                yield {**row, "name": flavor.get("name")}


def _flavor_access_wanted(connection: Connection, project: ProjectDefinition) -> bool:
    return bool(project.options.get("sweep_flavor_access", True))


def _limits(connection: Connection, project: ProjectDefinition) -> Row:
    call = Rest("compute", "/limits", query={"tenant_id": "{project_id}"}, microversion=_QUOTAS)
    try:
        absolute = call.call(connection, project)["limits"]["absolute"]
    except (KeyError, TypeError) as error:
        raise BadAnswer(f"{call!r} answered without absolute limits") from error
    return {name: value for name, value in absolute.items() if name.startswith("max")}


def list_quotas(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's quota set when it, or one of its members', is not the default.

    Of a project that Keystone does not know Nova shows no quotas, but its limits: those of one that never was are the
    default. Whether a user had a quota of his own there it does not show.
    """
    if project.gone:
        if _limits(connection, project) != _limits(connection, dataclasses.replace(project, id=NOTHING)):
            yield {"id": project.id, "name": "quota set", "project_id": project.id}
        return

    def quotas(path: str, **query: str) -> Row:
        call = Rest("compute", path, key="quota_set", query=query, microversion=_QUOTAS)
        body = call.call(connection, project)
        return {key: value for key, value in body["quota_set"].items() if key != "id"}

    path = f"/os-quota-sets/{project.id}"
    own = quotas(path)
    if own != quotas(f"{path}/defaults") or any(quotas(path, user_id=user) != own for user in project.member_ids):
        yield {"id": project.id, "name": "quota set", "project_id": project.id}


# ------------------------------------------------------------------------------------------------------ the types

SERVICE = Service(
    service_type="compute",
    contract_version=1,
    options=OPTIONS,
    after=("orchestration.stack",),
    roles="admin on any one project, to whom Nova shows and lets delete everything; any role on the project itself, to "
    "find servers in cells that do not answer",
    types=(
        ResourceType(
            name="server",
            list=list_servers,
            all_projects=all_servers,
            show=_SHOW,
            prepare=(release_volumes,),
            delete=delete_server,
            force=force_server,
            halt=Halt(run, stop=_power("os-stop"), start=_power("os-start")),
            by_hand="as an admin: openstack server set --state error {id}, then openstack server delete --force {id}",
            owner="tenant_id",
            tags="tags",
            properties="metadata",
            after=("container-infrastructure-management.cluster", "database.instance"),
            source="GET /servers/detail?all_tenants=1&project_id=X, the same with soft_deleted=true and "
            "status=SOFT_DELETED, POST /servers/{id}/action forceDelete and os-resetState; nova compute/api.py, "
            "api/openstack/compute/servers.py, db/main/api.py, objects/build_request.py",
            note="Locked, shelved, resized and failed servers are deleted like any other: an admin's delete passes "
            "locks, and so does its stop for the recovery window; a resize is confirmed first. It takes along the "
            "ports that Nova made for it, a shelved one its image; what the user brought along is detached. "
            "Volumes never go with it, also where they were made so (delete_on_termination, cleared before): they "
            "are Cinder's to look at. Without all_tenants Nova answers with the servers of the caller's own "
            "project, whatever the filter. Soft-deleted servers are in no ordinary list, but hold ports and "
            "volumes. Where reclaim_instance_interval is set a plain delete only soft-deletes. A server that has "
            "been deleting for 15 minutes is reset to error and deleted again. Servers of a cluster, a database "
            "or a stack are left to their service until it has nothing left.",
        ),
        ResourceType(
            name="unreachable_server",
            list=list_unreachable_servers,
            all_projects="Nova tells them for the token's own project alone",
            delete=refuse_unreachable,
            title="id",
            owner=SCOPED,
            fresh="it is never deleted: Nova cannot",
            token=Token.PROJECT,
            token_if_gone=Token.ADMIN,
            source="GET /servers with microversion 2.69, a token of the project, and no filter; of a project that is "
            "gone GET /servers?all_tenants=1, and GET /servers/{id} of those that are UNKNOWN; nova "
            "api/openstack/compute/servers.py (_is_cell_down_supported), compute/api.py "
            "(_generate_minimal_construct_for_down_cells)",
            note="Servers in a cell that does not answer vanish from every list that is filtered or paged, without a "
            "word (list_records_by_skipping_down_cells). Only this one list names them, as UNKNOWN, and of the token's "
            "own project alone. One that was soft-deleted before shows again when its cell is back. Before "
            "microversion 2.69 Nova cannot tell: then this is unknown, and an operator may waive it. For a project "
            "that is gone it takes the list of all projects, in one page: where that is too short ([api] max_limit of "
            "nova.conf), this is unknown.",
        ),
        ResourceType(
            name="server_group",
            list=list_server_groups,
            all_projects=list_server_groups,
            show=Rest("compute", "/os-server-groups/{id}", key="server_group", microversion=_GROUP_OWNER),
            delete=Rest("compute", "/os-server-groups/{id}", method="DELETE", microversion=_GROUP_OWNER),
            unfiltered="Nova lists the own project's groups or all of them; the rows are compared on this side",
            source="GET /os-server-groups?all_projects=true, DELETE /os-server-groups/{id}; nova "
            "api/openstack/compute/server_groups.py",
            note="Its members are not asked: it goes whenever its turn comes. Paged by offset, each page overlapping "
            "the one before. A caller who is no admin gets the own project's groups without a word, so he is found "
            "out first.",
        ),
        ResourceType(
            name="keypair",
            list=list_keypairs,
            all_projects="keypairs belong to users",
            delete=None,
            keep=(_keep_keypair,),
            unfiltered="keypairs belong to users; those of the project's members are counted",
            source="GET /os-keypairs?user_id=U; nova api/openstack/compute/keypairs.py",
            note="Never deleted: their users keep them, for other projects and after this one.",
        ),
        ResourceType(
            name="aggregate",
            list=list_aggregates,
            all_projects="aggregates are the operator's, and merely name projects",
            delete=None,
            keep=(_keep_aggregate,),
            project_setting=True,
            unfiltered="aggregates have no owner: their metadata is searched for the project's id",
            source="GET /os-aggregates; nova scheduler/request_filter.py, filter_tenant_id",
            note="Hosts set apart for the project by an operator (filter_tenant_id). They are counted, and stay as "
            "they are: for whom the hosts are next is for the operator to say.",
        ),
        ResourceType(
            name="flavor_access",
            list=list_flavor_access,
            all_projects="an entry in a flavor's access list gives nobody anything once its project is gone",
            delete=Rest(
                "compute",
                "/flavors/{id}/action",
                method="POST",
                body={"removeTenantAccess": {"tenant": "{project_id}"}},
            ),
            id="flavor_id",
            owner="tenant_id",
            fresh="the call names the project, and removes nobody else's entry",
            project_setting=True,
            available=_flavor_access_wanted,
            unfiltered="there is no list of a project's flavors: the access list of every private flavor is asked for",
            source="GET /flavors?is_public=false, GET /flavors/{id}/os-flavor-access, POST /flavors/{id}/action "
            "removeTenantAccess; nova api/openstack/compute/flavor_access.py",
            note="The flavor itself has no owner and stays. One call for every private flavor; see "
            "sweep_flavor_access.",
        ),
        ResourceType(
            name="quota_set",
            list=list_quotas,
            all_projects="Nova shows the quotas of one project at a time",
            delete=Rest("compute", "/os-quota-sets/{id}", method="DELETE"),
            fresh="it is addressed by the project's id",
            project_setting=True,
            source="GET /os-quota-sets/X, /os-quota-sets/X/defaults and ?user_id=U, DELETE /os-quota-sets/X; of a "
            "project that is gone GET /limits?tenant_id=X; nova api/openstack/compute/quota_sets.py, "
            "api/openstack/identity.py (verify_project_id), api/openstack/compute/limits.py",
            note="Takes the quotas of single users in the project along. Nova shows the default to whom has no row, so "
            "a row that equals it is not seen, and stays. With unified limits Keystone has the limits, and removes "
            "them with the project; Nova's delete is then without effect.",
        ),
    ),
)
