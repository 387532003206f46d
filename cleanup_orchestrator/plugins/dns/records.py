"""Designate: recordsets in zones of others, and PTR records of floating IPs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    BadAnswer,
    Needs,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Verdict,
    to_row,
)
from cleanup_orchestrator.plugins.dns.common import ALL, SUDO, UNFILTERED, collection, own_zones, owner_of

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Over all projects, and for records that Designate manages itself: PTR records of floating IPs.
MANAGED = {"X-Designate-Edit-Managed-Records": "true", **ALL}
_REVERSE = ".in-addr.arpa."


def _recordsets(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's recordsets in zones of others.

    PTR records of floating IPs of others are marked.
    """
    own: dict[str, Row] | None = None
    for row in collection("/recordsets").all.rows(connection, project):
        if own is None:
            own = own_zones(connection, project)
        if str(row.get("zone_id")) not in own:
            yield {**row, _HOLDER: _holder(connection, row)} if owner_of(row) == project.id else row


_HOLDER = "_holder"  # added to listed rows; no attribute of Designate begins with an underscore


def _holder(connection: Connection, recordset: Row) -> str:
    """Return the project that has the floating IP of a PTR recordset, or "".

    The recordset belongs to the project that first set a PTR record for the address, also if another project has the
    address and the record now.
    """
    name = str(recordset.get("name"))
    if recordset.get("type") != "PTR" or not name.endswith(_REVERSE):
        return ""
    address = ".".join(reversed(name.removesuffix(_REVERSE).split(".")))
    return next((str(ip["project_id"]) for ip in _floating_ips(connection, floating_ip_address=address)), "")


def others_floating_ip(recordset: Resource, project: ProjectDefinition) -> str | None:
    """Keep the PTR record of an address that another project has now."""
    holder = recordset.data.get(_HOLDER)
    return (
        f"it is the PTR record of project {holder}'s floating IP by now"
        if holder not in (None, "", project.id)
        else None
    )


def zones_own(recordset: Resource, project: ProjectDefinition) -> str | None:
    """Keep SOA and NS records of a zone: they are deleted with the zone.

    Those of a reverse zone belong to the project with the first PTR record there.
    """
    row = recordset.data
    if row.get("type") in ("SOA", "NS") and row.get("name") == row.get("zone_name"):
        return "it belongs to the zone, and is deleted with it"
    return None


def _delete_recordset(connection: Connection, project: ProjectDefinition, recordset: Resource) -> None:
    """Delete a recordset.

    A PTR record of a floating IP that is gone needs a header, because Designate manages it itself.
    """
    headers = ALL
    if recordset.data.get("type") == "PTR" and str(recordset.data.get("name")).endswith(_REVERSE):
        if (holder := _holder(connection, recordset.data)) not in ("", project.id):
            raise Refused(Verdict(Reason.IN_USE, f"project {holder} has just got the floating IP that it is for"))
        headers = MANAGED
    Rest("dns", "/zones/{row[zone_id]}/recordsets/{id}", method="DELETE", headers=headers).call(
        connection, project, recordset
    )


def _network_regions(connection: Connection) -> list[str]:
    """Return the regions of the catalog that have a network service."""
    access = connection.session.auth.get_access(connection.session)
    by_type = access.service_catalog.get_endpoints_data(service_type="network")
    return sorted({str(each.region_name) for endpoints in by_type.values() for each in endpoints if each.region_name})


def _floating_ips(connection: Connection, **query: str) -> Iterator[Row]:
    """Yield Neutron's floating IPs of this region, then of the others.

    One Designate serves several regions.
    """
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
    """Whether the catalog has Neutron, whose floating IPs the PTR records belong to."""
    return bool(_network_regions(connection))


def _ptrs(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the PTR records of the project's floating IPs.

    Designate asks Neutron for the project's floating IPs, and takes a refusal for an empty list. So the plugin asks
    Neutron, too, and each floating IP of this region must be among Designate's rows. A row whose floating IP is not the
    project's in Neutron is ignored.

    :raises BadAnswer: when a floating IP of this region is missing
    """
    own_ips = {str(ip["id"]): ip for ip in _floating_ips(connection, project_id=project.id)}
    listed = Rest("dns", "/reverse/floatingips", key="floatingips", headers=SUDO)
    rows = {str(row["id"]).rpartition(":")[2]: row for row in listed.rows(connection, project)}
    if missing := [i for i, ip in own_ips.items() if i not in rows and ip["region"] == project.region]:
        still = {str(ip["id"]) for ip in _floating_ips(connection, project_id=project.id)}
        if gone := still.intersection(missing):
            raise BadAnswer(f"GET /reverse/floatingips lacks {len(gone)} floating IPs that Neutron has for the project")
    for identity, row in rows.items():
        if row.get("ptrdname") and identity in own_ips:
            yield {**row, "project_id": own_ips[identity]["project_id"]}


def pointers(_connection: Connection, _project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function by which the record of a floating IP needs each PTR recordset: it may be the record itself."""
    return lambda recordset: min(left) if recordset.data.get("type") == "PTR" else None


PTR = ResourceType(
    name="ptr",
    used_by=(),
    list=_ptrs,
    all_projects="Designate tells the PTR records of one project's floating IPs at a time",
    delete=Rest("dns", "/reverse/floatingips/{id}", method="PATCH", headers=SUDO, body={"ptrdname": None}),
    title="ptrdname",
    why_no_show="Designate itself looks for the record by the floating IP together with the project in the header",
    available=_has_network,
    source="GET /v2/reverse/floatingips, PATCH /v2/reverse/floatingips/{region}:{id}; designate "
    "central/service.py, network_api/neutron.py",
    note="Deleted before the floating IP, because Designate addresses the record by it. Designate takes a "
    "refusal by Neutron for 'no floating IPs', so the list is compared with Neutron's own. This list makes "
    "Designate remove PTR records of addresses that have another owner by now, which is harmless and cannot "
    "be avoided. A record whose floating IP is gone is a recordset in the reverse zone, see there.",
)

RECORDSET = ResourceType(
    name="recordset",
    used_by=(),
    list=_recordsets,
    all_projects="a recordset is mostly deleted with its zone, and the list has every record of the cloud",
    show=Rest("dns", "/zones/{row[zone_id]}/recordsets/{id}", headers=ALL),
    delete=_delete_recordset,
    keep=(others_floating_ip, zones_own),
    after=("ptr",),
    needed_by=(("ptr", pointers),),
    unfiltered=UNFILTERED,
    created="created_at",
    parts=(),
    source="GET /v2/recordsets, DELETE /v2/zones/{zone}/recordsets/{id}; designate central/service.py, "
    "storage/sqlalchemy/base.py",
    note="Only recordsets in zones of others, by a share: the rest are deleted with the project's own zones. The PTR "
    "record of a floating IP that the project released long ago is one, too, in a zone of Designate. Such a "
    "recordset keeps its first owner when another project gets the address and uses the record: then it stays. "
    "Neutron is asked which project has the address, right before the delete. SOA and NS records of a reverse "
    "zone, which Designate created for the first project with a PTR record there, are deleted with the zone.",
)
