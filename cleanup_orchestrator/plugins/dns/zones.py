"""Designate: zones, their transfers, imports and exports, TSIG keys, and shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    REFUSED,
    Explain,
    ForcedDelete,
    LastChange,
    OneByOne,
    Parts,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Use,
    Verdict,
    blocker,
    blocking_verdict,
    is_past,
    linked,
    state_remedies,
)
from cleanup_orchestrator.plugins.dns.common import (
    ALL,
    SUDO,
    UNFILTERED,
    WITHOUT_COUNTS,
    ZONES,
    collection,
    own_zones,
    owner_of,
)

if TYPE_CHECKING:
    from openstack.connection import Connection


def _blocker(type_: str, row: Row) -> dict[str, str]:
    return blocker(f"dns.{type_}", row["id"], owner_of(row), row.get("name"))


def _verdict(project: ProjectDefinition, what: str, blockers: Iterable[Mapping[str, str]]) -> Verdict | None:
    """Return a verdict on the projects that use a zone, ``None`` if none does."""
    whose = {True: "other projects", False: "the project itself"}
    return blocking_verdict(project, blockers, lambda foreign, _named: f"{whose[foreign]} {what}")


def _foreign_recordsets(connection: Connection, project: ProjectDefinition, zone: Resource) -> Iterator[Row]:
    """Yield the recordsets of other projects in a zone.

    A recordset without an owner belongs to Designate or its sink.
    """
    for row in _records_of(connection, project, zone):
        if owner_of(row) not in ("", project.id):
            yield row


def _records_of(connection: Connection, project: ProjectDefinition, zone: Resource) -> Iterator[Row]:
    """Yield the recordsets in a zone, of any project."""
    return collection(f"/zones/{zone.id}/recordsets").all.rows(connection, project)


def _shares_of(connection: Connection, project: ProjectDefinition, zone: Resource) -> Iterator[Row]:
    """Yield the shares of a zone with other projects."""
    if zone.data.get("shared"):
        yield from collection(f"/zones/{zone.id}/shares", ALL, "shared_zones").all.rows(connection, project)


_ALL_ZONES, _TSIG_KEYS = collection("/zones", ALL), collection("/tsigkeys", WITHOUT_COUNTS)


def _zones_below(connection: Connection, project: ProjectDefinition, zone: Resource) -> Iterator[Row]:
    """Yield the zones, of any project, below a zone."""
    suffix = f".{zone.name}"
    for row in _ALL_ZONES.where(name=f"*{suffix}").rows(connection, project):
        if str(row.get("name")).endswith(suffix):  # an underscore in the name stands for any character there
            yield row


def _of_others_below(connection: Connection, project: ProjectDefinition, zone: Resource) -> Verdict | None:
    """Name the zones of others below a zone."""
    below = (_blocker("zone", row) for row in _zones_below(connection, project, zone))
    return _verdict(project, "have zones below it", (b for b in below if b["owner"] != project.id))


def _of_others_in(connection: Connection, project: ProjectDefinition, zone: Resource) -> Verdict | None:
    """Name the recordsets of others in a zone."""
    if project.options.get("delete_foreign_recordsets"):
        return None
    blockers = (_blocker("recordset", row) for row in _foreign_recordsets(connection, project, zone))
    return _verdict(project, "have recordsets in it, which its delete would delete", blockers)


def _of_others_in_shared(connection: Connection, project: ProjectDefinition, zone: Resource) -> Verdict | None:
    """Name the recordsets of others in a zone that is shared.

    In a zone that is not shared, another project has a recordset only if an admin made it. The delete looks for these
    as well; a plan does not read the whole zone for them.
    """
    return _of_others_in(connection, project, zone) if zone.data.get("shared") else None


def _unshare(connection: Connection, project: ProjectDefinition, zone: Resource) -> None:
    """Remove the zone's shares, so that other projects can no longer add recordsets.

    Designate refuses to remove a share that its project uses.
    """
    if project.options.get("delete_foreign_recordsets"):
        return
    delete = Rest(
        "dns",
        f"/zones/{zone.id}/shares/{{id}}",
        method="DELETE",
        headers=ALL,
        accept=frozenset({204, 404}),  # its owner may have removed it meanwhile
    )
    for share in list(_shares_of(connection, project, zone)):
        delete.call(connection, project, Resource(str(share["id"]), "", None))


#: Seconds after which the delete of a zone counts as lost, and is requested again. Designate's producer itself repeats
#: what has been pending for longer than some minutes.
_LOST_AFTER = 3600


#: Labels of a name in DNS (RFC 1035, 2.3.4: 255 octets).
_MAX_LABELS = 127


def being_deleted(zone: Resource, project: ProjectDefinition) -> str | None:
    """Say that Designate deletes a zone, unless it has not changed for an hour."""
    going = (zone.data.get("action"), zone.data.get("status")) == ("DELETE", "PENDING")
    lost = is_past(zone.data.get("updated_at"), _LOST_AFTER)
    return "Designate is deleting it from its name servers" if going and not lost else None


def delete_failed(zone: Resource, project: ProjectDefinition) -> str | None:
    """Say that Designate could not delete a zone."""
    failed = (zone.data.get("action"), zone.data.get("status")) == ("DELETE", "ERROR")
    return "Designate could not delete it from its name servers (DELETE ERROR)" if failed else None


def _delete_zone(connection: Connection, project: ProjectDefinition, zone: Resource) -> None:
    """Delete a zone, unless its delete is already in progress."""
    if why := being_deleted(zone, project):
        raise Refused(Verdict(Reason.DELETING, why))
    action, status = zone.data.get("action"), zone.data.get("status")
    headers = SUDO
    if project.options.get("delete_foreign_recordsets"):
        headers = {"X-Designate-Delete-Shares": "true", **SUDO}
    Rest("dns", "/zones/{id}", method="DELETE", headers=headers).call(connection, project, zone)
    if (action, status) == ("DELETE", "ERROR"):
        raise Refused(
            Verdict(
                Reason.ERROR,
                "Designate could not delete it from its name servers; it was asked to try again. If they are gone for "
                f"good, an admin can abandon the zone (POST /v2/zones/{zone.id}/tasks/abandon): it then stays on them",
                accepted=True,
            )
        )


def abandon_zone(connection: Connection, project: ProjectDefinition, zone: Resource) -> None:
    """Delete a zone from Designate alone: its name servers continue to serve it."""
    _unshare(connection, project, zone)
    ZONES.call("/{id}/tasks/abandon", method="POST").call(connection, project, zone)


def explain_zone(connection: Connection, project: ProjectDefinition, zone: Resource) -> Verdict | None:
    """Name the zones below a zone, or recordsets of others in it.

    Designate refuses to orphan the zones below a zone.
    """
    below = [_blocker("zone", row) for row in _zones_below(connection, project, zone)]
    if verdict := _verdict(project, "have zones below it" if any(b["owner"] != project.id for b in below) else
                           "has zones below it", below):  # fmt: skip
        return verdict
    records = (_blocker("recordset", row) for row in _foreign_recordsets(connection, project, zone))
    return _verdict(project, "have recordsets in it", records)


def zones_above(zone: Resource) -> tuple[str, ...]:
    """Return the zones that a zone may be below, by name.

    A longer name than DNS allows is below those of an allowed length: all others would take the square of its length.
    """
    labels = zone.name.rstrip(".").split(".")[-_MAX_LABELS - 1 :]
    return tuple(".".join(labels[first:]) + "." for first in range(1, len(labels)))


def _describe_zone(zone: Resource, project: ProjectDefinition) -> str | None:
    row = zone.data
    if row.get("action") in (None, "NONE") and row.get("status") == "ACTIVE":
        return None
    return f"{row.get('action')} {row.get('status')}"


def _shares(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the shares of zones of others with the project.

    The project's list of zones contains those zones.
    """
    for zone in ZONES.all.rows(connection, project):
        if owner_of(zone) not in ("", project.id):
            path = f"/zones/{zone['id']}/shares"
            shares = collection(path, ALL, "shared_zones").where(target_project_id=project.id)
            for share in shares.rows(connection, project):
                yield {**share, "name": zone.get("name")}


def _shares_wanted(connection: Connection, project: ProjectDefinition) -> bool:
    """Whether the option sweep_zone_shares is set."""
    return bool(project.options.get("sweep_zone_shares"))


def _tsig_keys(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the keys of the project's zones, without their secrets."""
    own: dict[str, Row] | None = None
    for key in _TSIG_KEYS.all.rows(connection, project):
        if own is None:
            own = own_zones(connection, project)
        if key.get("scope") == "ZONE" and (zone := own.get(str(key.get("resource_id")))):
            yield _of_zone(key, zone)


def _tsig_key(connection: Connection, project: ProjectDefinition, key: Resource) -> Row:
    """Read a key and its zone again."""
    row = Rest("dns", "/tsigkeys/{id}").row(connection, project, key)
    zone = Resource(str(row.get("resource_id")), "", None)
    if row.get("scope") != "ZONE":
        return {"id": row["id"], "name": row.get("name"), "project_id": None}
    return _of_zone(row, ZONES.show.row(connection, project, zone))


def _of_zone(key: Row, zone: Row) -> Row:
    return {
        **{name: key.get(name) for name in ("id", "name", "resource_id", "created_at")},
        "project_id": zone.get("project_id"),
        "zone": zone,
    }


def _in_its_zone(check: Explain) -> OneByOne:
    """Return what finds what keeps the zone of a key: the zone's name servers need the key."""

    def find(connection: Connection, project: ProjectDefinition, key: Resource) -> Verdict | None:
        row = key.data["zone"]
        return check(connection, project, Resource(str(row["id"]), str(row["name"]), owner_of(row), row))

    return OneByOne(find)


def _keep_accept(accept: Resource, project: ProjectDefinition) -> str | None:
    return "Designate deletes no transfer accepts: it is the record of a zone that once came to the project"


def _task(name: str, path: str, **declared: Any) -> ResourceType:
    tasks = collection(f"/zones/tasks/{path}")
    declared = {"delete": tasks.delete, "all_projects": collection(tasks.path, ALL).all, **declared}
    return ResourceType(
        used_by=(),
        name=name,
        list=tasks.all,
        show=tasks.show,
        created="created_at",
        updated=LastChange("updated_at", null_until_changed=True),
        parts=(),
        unfiltered=UNFILTERED,
        **declared,
    )


ZONE_TRANSFER_REQUEST = _task(
    "zone_transfer_request",
    "transfer_requests",
    title="zone_name",
    source="GET /v2/zones/tasks/transfer_requests, DELETE .../{id}; designate central/service.py, "
    "storage/sqlalchemy/__init__.py",
    note="Deleted before the zones, because an open request could still be accepted. Requests that offer a zone "
    "to the project are listed, too, but belong to other projects.",
)

ZONE_TRANSFER_ACCEPT = _task(
    "zone_transfer_accept",
    "transfer_accepts",
    title="zone_id",
    delete=None,
    all_projects="a transfer accept is the record of a zone that once came to the project, and stays",
    keep=(_keep_accept,),
    source="GET /v2/zones/tasks/transfer_accepts; designate api/v2/controllers/zones/tasks/transfer_accepts.py "
    "has no delete",
)

ZONE_IMPORT = _task(
    "zone_import",
    "imports",
    title="message",
    source="GET /v2/zones/tasks/imports, DELETE .../{id}; designate central/service.py",
    note="The row of a task. A task in progress may still create a zone, which the next inventory finds.",
)
ZONE_EXPORT = _task(
    "zone_export",
    "exports",
    title="location",
    source="GET /v2/zones/tasks/exports, DELETE .../{id}; designate central/service.py",
)

TSIG_KEY = ResourceType(
    name="tsig_key",
    list=_tsig_keys,
    all_projects="a key has no owner: it is that of its zone",
    show=_tsig_key,
    delete=Rest("dns", "/tsigkeys/{id}", method="DELETE"),
    used_by=tuple(
        Use((by,), "ends the updates of the zone, which is left, on its name servers", _in_its_zone(check))
        for by, check in (("dns.zone", _of_others_below), ("dns.recordset", _of_others_in))
    ),
    unfiltered="a key has no owner: it is the project's when it is for one of the project's zones",
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET /v2/tsigkeys, DELETE /v2/tsigkeys/{id}; designate api/v2/controllers/tsigkeys.py",
    note="An admin created it for one zone, whose id is its only link to the project: after the zone is gone, its "
    "owner would be unknown. The key of a zone that others use stays, as the zone does. Keys of pools belong to "
    "the operator.",
)

ZONE = ResourceType(
    name="zone",
    if_abandoned="Its name servers still answer for it. Other projects cannot create a zone of this name.",
    list=ZONES.all,
    all_projects=_ALL_ZONES.all,
    show=ZONES.show,
    deleting=being_deleted,
    failed=delete_failed,
    changed="updated_at",
    remedies=state_remedies(
        "openstack dns service list shows whether designate-worker is up, and its log which name server does not "
        "answer",
        "openstack zone abandon --sudo-project-id {project_id} {id}, which leaves it on its name servers",
    ),
    delete=_delete_zone,
    force=ForcedDelete(abandon_zone),
    by_hand="as an admin: openstack zone delete --sudo-project-id {project_id} {id}; where its name servers "
    "are gone for good, openstack zone abandon --sudo-project-id {project_id} {id}",
    prepare=(_unshare,),
    explain=explain_zone,
    used_by=(
        Use(("dns.zone",), REFUSED, OneByOne(_of_others_below)),
        Use(
            ("dns.recordset",),
            "deletes the recordset",
            OneByOne(_of_others_in),
            OneByOne(_of_others_in_shared),
            option="delete_foreign_recordsets",
        ),
    ),
    describe=_describe_zone,
    refers_to=zones_above,
    after=("zone_transfer_request", "zone_import", "zone_export", "tsig_key"),
    needed_by=(
        ("zone_transfer_request", linked(collection("/zones/tasks/transfer_requests").show)),
        ("zone_import", linked(collection("/zones/tasks/imports").show)),
        ("zone_export", linked(collection("/zones/tasks/exports").show)),
        ("tsig_key", linked(Rest("dns", "/tsigkeys/{id}"))),
    ),
    unfiltered=UNFILTERED,
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(
        Parts("recordset", _records_of, created="created_at", changed="updated_at", type="dns.recordset"),
        Parts("share", _shares_of, created="created_at", updated=LastChange("updated_at", null_until_changed=True)),
    ),
    source="GET /v2/zones, DELETE /v2/zones/{id}; designate api/middleware.py, central/service.py, "
    "storage/sqlalchemy/__init__.py",
    note="The list also shows zones that are shared with the project, and zones without an owner, which an admin "
    "could delete. The delete removes recordsets of other projects. So they are looked up before, and the "
    "zone's shares are removed, which Designate refuses while a project uses one. For a zone with zones below "
    "it, of any project, Designate answers 400: the deepest are deleted first, and a zone waits until those "
    "below it are gone. If the name servers do not delete a zone, it ends in ERROR and is deleted again. Only an "
    "admin may choose to abandon it.",
)

ZONE_SHARE = ResourceType(
    name="zone_share",
    used_by=(),
    list=_shares,
    all_projects="a share belongs to the project that gave it",
    show=Rest("dns", "/zones/{row[zone_id]}/shares/{id}", headers=ALL),
    delete=Rest("dns", "/zones/{row[zone_id]}/shares/{id}", method="DELETE", headers=ALL),
    owner="target_project_id",
    project_setting=True,
    available=_shares_wanted,
    unfiltered="there is no list of a project's shares: each zone that is shared with it is asked",
    source="GET, DELETE /v2/zones/{zone}/shares; designate central/service.py, api/v2/controllers/zones/sharedzones.py",
    note="Off by default (option sweep_zone_shares): a share belongs to the project that created it. Designate "
    "answers 400 while the project has recordsets in the zone, or zones below it. The project's own shares "
    "are deleted with its zones.",
)
