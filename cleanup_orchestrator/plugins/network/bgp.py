"""Neutron: BGP speakers and peers, BGP VPNs and their associations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    Explain,
    NeededBy,
    OneByOne,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Row,
    Sdk,
    Use,
    Verdict,
    linked,
    refuse_foreign,
    to_row,
    verdict_naming,
)
from cleanup_orchestrator.plugins.network.common import (
    extension,
    list_rows,
    needed_by_attribute,
    rest_list,
    rest_type,
    simple_type,
)
from cleanup_orchestrator.plugins.neutron import extension_aliases, owner_of, row_blocker, rows_with

if TYPE_CHECKING:
    from openstack.connection import Connection

#: The types that a BGP VPN can be associated with, and the extension of each.
ASSOCIATIONS = {"network": "bgpvpn", "router": "bgpvpn", "port": "bgpvpn-routes-control"}


def list_associations(kind: str) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of the project's associations, also with BGP VPNs of others.

    Operators create most BGP VPNs.
    """

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        # openstacksdk does not show what a BGP VPN is associated with.
        for bgpvpn in rest_list("bgpvpns").rows(connection, project):
            if bgpvpn.get(f"{kind}s") == []:  # old releases lack it
                continue
            for row in list_rows(connection, f"bgpvpn_{kind}_associations", bgpvpn["id"]):
                yield {**row, "bgpvpn_id": bgpvpn["id"]}

    return listing


def associated(kind: str, attribute: str) -> NeededBy:
    """Return a rule by which an association needs the resource that one of its attributes names."""
    return needed_by_attribute(list_associations(kind), attribute)


def check_bgpvpn(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a BGP VPN with associations of others: they would be deleted with it."""
    blockers = [
        row_blocker(f"bgpvpn_{kind}_association", row)
        for kind, alias in ASSOCIATIONS.items()
        if alias in extension_aliases(connection)  # without it the list answers 404
        for row in list_rows(connection, f"bgpvpn_{kind}_associations", resource.id)
    ]
    refuse_foreign(project, "deleting it would delete", blockers)


_SPEAKER = Rest("network", "/bgp-speakers/{id}", key="bgp_speaker")


def check_bgp_speaker(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a speaker with networks of others: their routes would no longer be announced."""
    speaker = _SPEAKER.row(connection, project, resource)
    networks = [to_row(connection.network.get_network(network)) for network in speaker.get("networks") or ()]
    refuse_foreign(project, "it announces", [row_blocker("network", network) for network in networks])


def check_bgp_peer(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a peer of another project's speaker: Neutron would silently remove it there."""
    speakers = [s for s in rest_list("bgp_speakers").rows(connection, project) if resource.id in (s.get("peers") or ())]
    refuse_foreign(project, "it is used by", [row_blocker("bgp_speaker", speaker) for speaker in speakers])


def _associates_others(kind: str) -> Explain:
    """Return a check that names what is associated, if it is another project's: an admin associated it."""

    def check(connection: Connection, project: ProjectDefinition, association: Resource) -> Verdict | None:
        rows = rows_with(connection, project, f"/{kind}s", "id", [association.data.get(f"{kind}_id")])
        return verdict_naming(project, "it is of", [row_blocker(kind, r) for r in rows if owner_of(r) != project.id])

    return check


def _association(kind: str) -> ResourceType:
    """Return the type of associations with one type of resource."""
    name = f"bgpvpn_{kind}_association"
    return ResourceType(
        name=name,
        title=f"{kind}_id",
        list=list_associations(kind),
        all_projects=list_associations(kind),
        unfiltered="the associations hang below the BGP VPNs, which are mostly the operator's",
        show=Sdk("network", f"get_{name}", "{row[bgpvpn_id]}", "{id}"),
        delete=Sdk("network", f"delete_{name}", "{row[bgpvpn_id]}", "{id}", ignore_missing=False),
        available=extension(ASSOCIATIONS[kind]),
        used_by=(Use((f"network.{kind}",), "takes it out of the VPN", OneByOne(_associates_others(kind))),),
        source=f"/v2.0/bgpvpn/bgpvpns/B/{kind}_associations; networking_bgpvpn neutron/db/bgpvpn_db.py",
    )


BGP = (
    rest_type(
        "bgp_speaker",
        "bgp-speakers",
        available=extension("bgp"),
        used_by=(Use(("network.network",), "ends the announcement of its routes", OneByOne(check_bgp_speaker)),),
        note="Only an admin can create one. It belongs to the project of the admin's token. One that announces "
        "networks of other projects, such as an external network, is left: an admin removes these from it, or deletes "
        "it. openstacksdk has no owner filter for it, and would filter in the client.",
        source="/v2.0/bgp-speakers; neutron_dynamic_routing db/bgp_db.py",
    ),
    rest_type(
        "bgp_peer",
        "bgp-peers",
        available=extension("bgp"),
        used_by=(Use(("network.bgp_speaker",), "removes the peer from the speaker", OneByOne(check_bgp_peer)),),
        after=("bgp_speaker",),
        needed_by=(("bgp_speaker", linked(_SPEAKER)),),
        note="Only an admin can create one.",
        source="/v2.0/bgp-peers; neutron_dynamic_routing db/bgp_db.py",
    ),
    _association("network"),
    _association("router"),
    _association("port"),
    simple_type(
        "bgpvpn",
        "bgpvpns",
        available=extension("bgpvpn"),
        used_by=(
            Use(
                tuple(f"network.bgpvpn_{kind}_association" for kind in ASSOCIATIONS),
                "deletes the association",
                OneByOne(check_bgpvpn),
            ),
        ),
        after=(
            "bgpvpn_network_association",
            "bgpvpn_router_association",
            "bgpvpn_port_association",
        ),
        needed_by=tuple((f"bgpvpn_{kind}_association", associated(kind, "bgpvpn_id")) for kind in ASSOCIATIONS),
        note="Usually an operator creates it for the project. Its delete would also delete the associations of "
        "other projects. If there are any, the delete is refused.",
        source="/v2.0/bgpvpn/bgpvpns; networking_bgpvpn neutron/services/plugin.py",
    ),
)
