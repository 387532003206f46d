"""Designate: zones, what the project keeps in others' zones, PTR records of floating IPs, tasks, TSIG keys, the quota.

None of Designate's lists takes an owner filter. The header ``X-Auth-Sudo-Project-ID`` makes an admin's call one of the
project; it still shows what is shared with the project and what is nobody's, so the owner is compared on each row.

A zone goes with everything in it, whosever: what other projects have in or below a zone of the project is looked for
right before its delete, and refuses it by name. What has no type of its own: recordsets of the project's own zones, and
zone attributes and masters go with their zone. Pools, TLDs, blacklists and service statuses are the operator's. Zones
offered to the project by others (transfer requests that name it as their target) are the offering project's affair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    Action,
    BadAnswer,
    Paging,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
    Verdict,
    blocker,
    blocking_verdict,
    refuse,
    to_row,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

OPTIONS = (
    cfg.BoolOpt(
        "delete_foreign_recordsets",
        default=False,
        help="Delete a project's zone also when other projects have recordsets in it: they are lost with it. Without "
        "it they are reported as blockers. Zones of other projects below it always block, in Designate itself.",
    ),
    cfg.BoolOpt(
        "sweep_zone_shares",
        default=False,
        help="Take the project off other projects' zones that are shared with it. The shares are theirs, and give "
        "nobody access once the project is gone; but a zone with one counts as shared, and its owner's delete is "
        "refused until the share is removed.",
    ),
)

PAGE = 1000  #: Designate's default is 20

_QUICK = {"OpenStack-DNS-Hide-Counts": "true"}  # it would count all rows again for every page
#: As the project, with our own roles.
SUDO = {"X-Auth-Sudo-Project-ID": "{project_id}", **_QUICK}
#: As nobody in particular, over all projects.
ALL = {"X-Auth-All-Projects": "true", **_QUICK}
#: Over all projects, and for records that Designate manages itself: PTR records of floating IPs.
MANAGED = {"X-Designate-Edit-Managed-Records": "true", **ALL}

_NO_PROJECT = "no-such-project"  # its quota is the default, which Designate tells in no other way
_REVERSE = ".in-addr.arpa."

_UNFILTERED = "no list of Designate takes an owner filter; with the project in a header, it shows a few rows of others"


def _collection(path: str, key: str, headers: Mapping[str, str] = SUDO, **query: str) -> Rest:
    # The marker and not the link: from its links Designate drops the all-projects switch.
    return Rest("dns", path, key=key, headers=headers, query=query, paging=Paging.MARKER, limit=PAGE)


ZONES = _collection("/zones", "zones")


def _own_zones(connection: Connection, project: ProjectDefinition) -> dict[str, Row]:
    return {str(zone["id"]): zone for zone in ZONES.rows(connection, project) if _owner(zone) == project.id}


def _owner(row: Row) -> str:
    return str(row.get("project_id") or "")


def _blocker(type_: str, row: Row) -> dict[str, str]:
    return blocker(f"dns.{type_}", row["id"], _owner(row))


def _verdict(project: ProjectDefinition, what: str, blockers: Iterable[Mapping[str, str]]) -> Verdict | None:
    """Return who is in the way, if somebody is; see :func:`in_the_way`."""
    whose = {True: "other projects", False: "the project itself"}
    return blocking_verdict(project, blockers, lambda foreign, _named: f"{whose[foreign]} {what}")


# ------------------------------------------------------------------------------------------------------------- zones


def _foreign_recordsets(connection: Connection, project: ProjectDefinition, zone: Resource) -> Iterator[Row]:
    """Yield what other projects have in a zone; what is nobody's, Designate or its sink has put there."""
    for row in _collection(f"/zones/{zone.id}/recordsets", "recordsets").rows(connection, project):
        if _owner(row) not in ("", project.id):
            yield row


def _zones_below(connection: Connection, project: ProjectDefinition, zone: Resource) -> Iterator[Row]:
    """Yield the zones below one, whosever."""
    suffix = f".{zone.name}"
    for row in _collection("/zones", "zones", ALL, name=f"*{suffix}").rows(connection, project):
        if str(row.get("name")).endswith(suffix):  # an underscore in the name stands for any character there
            yield row


def _refuse_used(connection: Connection, project: ProjectDefinition, zone: Resource) -> None:
    """Refuse a zone that other projects use. It only reads."""
    below = (_blocker("zone", row) for row in _zones_below(connection, project, zone))
    verdict = _verdict(project, "have zones below it", (b for b in below if b["owner"] != project.id))
    if verdict is None and not project.options.get("delete_foreign_recordsets"):
        records = (_blocker("recordset", row) for row in _foreign_recordsets(connection, project, zone))
        verdict = _verdict(project, "have recordsets in it, which its delete would take along", records)
    refuse(verdict)


def _unshare(connection: Connection, project: ProjectDefinition, zone: Resource) -> None:
    """Take back the zone's shares: nobody adds to it any more, and Designate itself refuses where somebody has."""
    if not zone.data.get("shared") or project.options.get("delete_foreign_recordsets"):
        return
    shares = _collection(f"/zones/{zone.id}/shares", "shared_zones", ALL)
    delete = Rest(
        "dns",
        f"/zones/{zone.id}/shares/{{id}}",
        method="DELETE",
        headers=ALL,
        accept=frozenset({204, 404}),  # its owner may have been quicker
    )
    for share in list(shares.rows(connection, project)):
        delete.call(connection, project, Resource(str(share["id"]), "", None))


def _delete_zone(connection: Connection, project: ProjectDefinition, zone: Resource) -> None:
    """Delete, unless that is under way already."""
    action, status = zone.data.get("action"), zone.data.get("status")
    if (action, status) == ("DELETE", "PENDING"):
        raise Refused(Verdict(Reason.DELETING, "Designate is deleting it from its name servers"))
    headers = SUDO
    if project.options.get("delete_foreign_recordsets"):
        headers = {"X-Designate-Delete-Shares": "true", **SUDO}
    Rest("dns", "/zones/{id}", method="DELETE", headers=headers).call(connection, project, zone)
    if (action, status) == ("DELETE", "ERROR"):
        raise Refused(
            Verdict(
                Reason.ERROR,
                "Designate could not delete it from its name servers; it was asked to try again. If they are gone for "
                "good, an admin can abandon the zone (POST /v2/zones/{id}/tasks/abandon): it then stays on them",
            )
        )


def abandon_zone(connection: Connection, project: ProjectDefinition, zone: Resource) -> None:
    """Delete a zone from Designate alone: its name servers go on answering for it, as far as they still have it."""
    _refuse_used(connection, project, zone)
    _unshare(connection, project, zone)
    Rest("dns", "/zones/{id}/tasks/abandon", method="POST", headers=SUDO).call(connection, project, zone)


def explain_zone(connection: Connection, project: ProjectDefinition, zone: Resource) -> Verdict | None:
    """Name the zones below a zone, which Designate refuses to orphan, or what others put into it meanwhile."""
    below = [_blocker("zone", row) for row in _zones_below(connection, project, zone)]
    if verdict := _verdict(project, "have zones below it" if any(b["owner"] != project.id for b in below) else
                           "has zones below it", below):  # fmt: skip
        return verdict
    records = (_blocker("recordset", row) for row in _foreign_recordsets(connection, project, zone))
    return _verdict(project, "have recordsets in it", records)


def _describe_zone(zone: Resource, project: ProjectDefinition) -> str | None:
    row = zone.data
    if row.get("action") in (None, "NONE") and row.get("status") == "ACTIVE":
        return None
    return f"{row.get('action')} {row.get('status')}"


# -------------------------------------------------------------------------------------------------------- recordsets


def _recordsets(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's recordsets in zones that are not its own; mark PTR records of others' floating IPs."""
    own: dict[str, Row] | None = None
    for row in _collection("/recordsets", "recordsets").rows(connection, project):
        if own is None:
            own = _own_zones(connection, project)
        if str(row.get("zone_id")) not in own:
            yield {**row, _HOLDER: _holder(connection, row)} if _owner(row) == project.id else row


_HOLDER = "_holder"  # put into listed rows; no attribute of Designate begins with an underscore


def _holder(connection: Connection, recordset: Row) -> str:
    """Return the project with the floating IP that a PTR recordset is for; empty if it is none, or nobody has it.

    The recordset belongs to the project that first set a PTR record for the address, also when another one has both
    the address and the record now.
    """
    name = str(recordset.get("name"))
    if recordset.get("type") != "PTR" or not name.endswith(_REVERSE):
        return ""
    address = ".".join(reversed(name.removesuffix(_REVERSE).split(".")))
    return next((str(ip["project_id"]) for ip in _floating_ips(connection, floating_ip_address=address)), "")


def others_floating_ip(recordset: Resource, project: ProjectDefinition) -> str | None:
    """Keep the PTR record of an address that has changed hands."""
    holder = recordset.data.get(_HOLDER)
    return (
        f"it is the PTR record of project {holder}'s floating IP by now"
        if holder not in (None, "", project.id)
        else None
    )


def zones_own(recordset: Resource, project: ProjectDefinition) -> str | None:
    """Keep what Designate made with a zone: with a reverse zone, in the name of who had the first PTR record there."""
    row = recordset.data
    if row.get("type") in ("SOA", "NS") and row.get("name") == row.get("zone_name"):
        return "it is the zone's own, and goes with the zone"
    return None


def _delete_recordset(connection: Connection, project: ProjectDefinition, recordset: Resource) -> None:
    """Delete; a PTR record of a floating IP that is gone takes a header, for Designate manages it itself."""
    headers = ALL
    if recordset.data.get("type") == "PTR" and str(recordset.data.get("name")).endswith(_REVERSE):
        if (holder := _holder(connection, recordset.data)) not in ("", project.id):
            raise Refused(Verdict(Reason.IN_USE, f"project {holder} has just got the floating IP that it is for"))
        headers = MANAGED
    Rest("dns", "/zones/{row[zone_id]}/recordsets/{id}", method="DELETE", headers=headers).call(
        connection, project, recordset
    )


# ------------------------------------------------------------------------------------------------------ floating IPs


def _network_regions(connection: Connection) -> list[str]:
    """Return the regions of the catalog that have a network service."""
    access = connection.session.auth.get_access(connection.session)
    found = access.service_catalog.get_endpoints_data(service_type="network")
    return sorted({str(each.region_name) for endpoints in found.values() for each in endpoints if each.region_name})


def _floating_ips(connection: Connection, **query: str) -> Iterator[Row]:
    """Yield floating IPs as Neutron has them, in this region and then in the others: Designate serves several."""
    from openstack.config import cloud_region
    from openstack.connection import Connection

    here = connection.config.get_region_name("network")
    for region in sorted(_network_regions(connection), key=lambda name: name != here):
        there = connection
        if region != here:
            config = cloud_region.from_session(
                connection.session, region_name=region, interface=connection.network.interface
            )
            there = Connection(config=config)
        for ip in there.network.ips(**query):
            yield {**to_row(ip), "region": region}


def _has_network(connection: Connection, project: ProjectDefinition) -> bool:
    return bool(_network_regions(connection))


def _ptrs(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the PTR records of the project's floating IPs.

    Designate asks Neutron which ones the project has, and takes a refusal for an empty list: so Neutron is asked here,
    too, and each floating IP of this region must be among the rows. What Neutron does not know as the project's is not
    touched.
    """
    ours = {str(ip["id"]): ip for ip in _floating_ips(connection, project_id=project.id)}
    listed = Rest("dns", "/reverse/floatingips", key="floatingips", headers=SUDO)
    rows = {str(row["id"]).rpartition(":")[2]: row for row in listed.rows(connection, project)}
    if missing := [i for i, ip in ours.items() if i not in rows and ip["region"] == project.region]:
        still = {str(ip["id"]) for ip in _floating_ips(connection, project_id=project.id)}
        if gone := still.intersection(missing):
            raise BadAnswer(f"GET /reverse/floatingips lacks {len(gone)} floating IPs that Neutron has for the project")
    for identity, row in rows.items():
        if row.get("ptrdname") and identity in ours:
            yield {**row, "project_id": ours[identity]["project_id"]}


# ----------------------------------------------------------------------------------------- shares, TSIG keys, quotas


def _shares(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the shares of others' zones with the project; the list of zones as the project has those zones, too."""
    for zone in ZONES.rows(connection, project):
        if _owner(zone) not in ("", project.id):
            path = f"/zones/{zone['id']}/shares"
            for share in _collection(path, "shared_zones", ALL, target_project_id=project.id).rows(connection, project):
                yield {**share, "name": zone.get("name")}


def _shares_wanted(connection: Connection, project: ProjectDefinition) -> bool:
    return bool(project.options.get("sweep_zone_shares"))


def _tsig_keys(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the keys of the project's zones, without their secrets."""
    own: dict[str, Row] | None = None
    for key in _collection("/tsigkeys", "tsigkeys", _QUICK).rows(connection, project):
        if own is None:
            own = _own_zones(connection, project)
        if key.get("scope") == "ZONE" and (zone := own.get(str(key.get("resource_id")))):
            yield _of_zone(key, zone)


def _tsig_key(connection: Connection, project: ProjectDefinition, key: Resource) -> Row:
    """Read a key and its zone again."""
    row = Rest("dns", "/tsigkeys/{id}").row(connection, project, key)
    zone = Resource(str(row.get("resource_id")), "", None)
    if row.get("scope") != "ZONE":
        return {"id": row["id"], "name": row.get("name"), "project_id": None}
    return _of_zone(row, Rest("dns", "/zones/{id}", headers=SUDO).row(connection, project, zone))


def _of_zone(key: Row, zone: Row) -> Row:
    return {
        **{name: key.get(name) for name in ("id", "name", "resource_id")},
        "project_id": zone.get("project_id"),
        "zone": zone,
    }


def _refuse_key_of_used_zone(connection: Connection, project: ProjectDefinition, key: Resource) -> None:
    """Refuse the key of a zone that cannot go: its name servers need it."""
    zone = key.data["zone"]
    _refuse_used(connection, project, Resource(str(zone["id"]), str(zone["name"]), _owner(zone), zone))


def _quota(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the quota if it differs from that of a project that does not exist."""
    mine = Rest("dns", "/quotas/{project_id}", headers=SUDO).call(connection, project)
    default = Rest("dns", f"/quotas/{_NO_PROJECT}", headers=ALL).call(connection, project)
    if not isinstance(mine, Mapping) or "zones" not in mine or not isinstance(default, Mapping):
        raise BadAnswer("GET /quotas/{project_id} answered no quotas")
    if mine != default:
        yield {"id": project.id, "name": "quota", "project_id": project.id}


def _keep_accept(accept: Resource, project: ProjectDefinition) -> str | None:
    return "Designate deletes no transfer accepts: it is the record of a zone that once came to the project"


def _task(name: str, path: str, key: str, **declared: Any) -> ResourceType:
    one = f"/zones/tasks/{path}/{{id}}"
    delete: Action | None = Rest("dns", one, method="DELETE", headers=SUDO)
    declared.setdefault("delete", delete)
    declared.setdefault("all_projects", _collection(f"/zones/tasks/{path}", key, ALL))
    return ResourceType(
        name=name,
        list=_collection(f"/zones/tasks/{path}", key),
        show=Rest("dns", one, headers=SUDO),
        unfiltered=_UNFILTERED,
        **declared,
    )


SERVICE = Service(
    service_type="dns",
    contract_version=1,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="admin; by Designate's policies use_sudo, all_tenants and edit_managed_records",
    types=(
        ResourceType(
            name="ptr",
            list=_ptrs,
            all_projects="Designate tells the PTR records of one project's floating IPs at a time",
            delete=Rest("dns", "/reverse/floatingips/{id}", method="PATCH", headers=SUDO, body={"ptrdname": None}),
            title="ptrdname",
            fresh="Designate itself looks for the record by the floating IP together with the project in the header",
            available=_has_network,
            source="GET /v2/reverse/floatingips, PATCH /v2/reverse/floatingips/{region}:{id}; designate "
            "central/service.py, network_api/neutron.py",
            note="Before the floating IP, without which it cannot be addressed. Designate reads a refusal of Neutron's "
            "as 'no floating IPs': the list is compared with Neutron's own. This list makes Designate remove PTR "
            "records of addresses that have changed hands since, which is harmless and cannot be avoided. A record "
            "whose floating IP is gone is a recordset in the reverse zone, see there.",
        ),
        ResourceType(
            name="recordset",
            list=_recordsets,
            all_projects="a record set mostly goes with its zone, and the list is that of every record of the cloud",
            show=Rest("dns", "/zones/{row[zone_id]}/recordsets/{id}", headers=ALL),
            delete=_delete_recordset,
            keep=(others_floating_ip, zones_own),
            after=("ptr",),
            unfiltered=_UNFILTERED,
            source="GET /v2/recordsets, DELETE /v2/zones/{zone}/recordsets/{id}; designate central/service.py, "
            "storage/sqlalchemy/base.py",
            note="Only those in zones of others, by a share: the rest go with the project's own zones. The PTR record "
            "of a floating IP that the project gave back long ago is one, too, in a zone of Designate's own. Such a "
            "recordset keeps its first owner when the address gets another one, who uses it: then it stays. Neutron "
            "is asked who has the address, right before the delete. The SOA and NS records of a reverse zone, which "
            "Designate made in the name of the first project with a PTR record there, go with the zone.",
        ),
        _task(
            "zone_transfer_request",
            "transfer_requests",
            "transfer_requests",
            title="zone_name",
            source="GET /v2/zones/tasks/transfer_requests, DELETE .../{id}; designate central/service.py, "
            "storage/sqlalchemy/__init__.py",
            note="Before the zones: an open one could still be accepted. Those that offer a zone to the project are "
            "listed, too, and are others'.",
        ),
        _task(
            "zone_transfer_accept",
            "transfer_accepts",
            "transfer_accepts",
            title="zone_id",
            delete=None,
            all_projects="a transfer accept is the record of a zone that once came to the project, and stays",
            keep=(_keep_accept,),
            source="GET /v2/zones/tasks/transfer_accepts; designate api/v2/controllers/zones/tasks/transfer_accepts.py "
            "has no delete",
        ),
        _task(
            "zone_import",
            "imports",
            "imports",
            title="message",
            source="GET /v2/zones/tasks/imports, DELETE .../{id}; designate central/service.py",
            note="The row of a task. One that is under way may still make a zone, which the next look finds.",
        ),
        _task(
            "zone_export",
            "exports",
            "exports",
            title="location",
            source="GET /v2/zones/tasks/exports, DELETE .../{id}; designate central/service.py",
        ),
        ResourceType(
            name="tsig_key",
            list=_tsig_keys,
            all_projects="a key has no owner: it is that of its zone",
            show=_tsig_key,
            delete=Rest("dns", "/tsigkeys/{id}", method="DELETE"),
            prepare=(_refuse_key_of_used_zone,),
            unfiltered="a key has no owner: it is the project's when it is for one of the project's zones",
            source="GET /v2/tsigkeys, DELETE /v2/tsigkeys/{id}; designate api/v2/controllers/tsigkeys.py",
            note="An admin made it for one zone, whose id is all that ties it to the project: after the zone nobody "
            "could tell whose it was. That of a zone which others use stays, as the zone does. Keys of pools are the "
            "operator's.",
        ),
        ResourceType(
            name="zone",
            list=ZONES,
            all_projects=_collection("/zones", "zones", ALL),
            show=Rest("dns", "/zones/{id}", headers=SUDO),
            delete=_delete_zone,
            force=abandon_zone,
            by_hand="as an admin: openstack zone delete --sudo-project-id {project_id} {id}; where its name servers "
            "are gone for good, openstack zone abandon --sudo-project-id {project_id} {id}",
            prepare=(_refuse_used, _unshare),
            explain=explain_zone,
            describe=_describe_zone,
            after=("zone_transfer_request", "zone_import", "zone_export", "tsig_key"),
            unfiltered=_UNFILTERED,
            source="GET /v2/zones, DELETE /v2/zones/{id}; designate api/middleware.py, central/service.py, "
            "storage/sqlalchemy/__init__.py",
            note="The list shows zones that are shared with the project, and those of nobody, too; an admin could "
            "delete them. The delete takes recordsets of other projects along: they are looked for before, and the "
            "zone's own shares are taken back, which Designate refuses while somebody uses one. A zone with zones "
            "below it is a 400, whosever they are: the deepest go first, one level with each sweep. A zone that the "
            "name servers do not let go of ends in ERROR and is deleted again; to abandon it is the admin's choice.",
        ),
        ResourceType(
            name="zone_share",
            list=_shares,
            all_projects="a share belongs to the project that gave it",
            show=Rest("dns", "/zones/{row[zone_id]}/shares/{id}", headers=ALL),
            delete=Rest("dns", "/zones/{row[zone_id]}/shares/{id}", method="DELETE", headers=ALL),
            owner="target_project_id",
            project_setting=True,
            available=_shares_wanted,
            unfiltered="there is no list of a project's shares: each zone that is shared with it is asked",
            source="GET, DELETE /v2/zones/{zone}/shares; designate central/service.py, api/v2/controllers/zones/"
            "sharedzones.py",
            note="Off by default (option sweep_zone_shares): a share belongs to the project that gave it. 400 while "
            "the project has recordsets in the zone, or zones below it. The project's own shares go with its zones.",
        ),
        ResourceType(
            name="quota",
            list=_quota,
            all_projects="Designate shows the quotas of one project at a time",
            delete=Rest("dns", "/quotas/{project_id}", method="DELETE", headers=ALL),
            fresh="it is addressed by the project's id",
            project_setting=True,
            source="GET, DELETE /v2/quotas/{project_id}; designate quota/base.py, quota/impl_storage.py",
            note="Designate answers the defaults where there is none, so a quota is what differs from the defaults; "
            "rows that say the same as those stay unseen, and mean nothing.",
        ),
    ),
)
