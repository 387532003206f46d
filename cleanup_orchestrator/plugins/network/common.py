"""What all parts of the Neutron plugin use: extensions, rows, owners, types."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    BadAnswer,
    Collection,
    NeededBy,
    Needs,
    Paging,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Row,
    Sdk,
    Verdict,
    to_row,
    verdict_naming,
)
from cleanup_orchestrator.plugins.neutron import collection, extension_aliases, row_blocker

if TYPE_CHECKING:
    from openstack.connection import Connection

SERVERS = ("compute.server", "compute.unreachable_server")  #: the types of Nova whose resources have ports
#: Of rows that a plugin lists: whether the network is the project's. No attribute of Neutron begins with an underscore.
ON_OWN_NETWORK = "_on_own_network"
DEFAULT_GROUP = "default"  #: Neutron reserves this name, for security groups and for firewall groups


def extension(alias: str) -> Callable[[Connection, ProjectDefinition], bool]:
    """Return an ``available`` check: whether Neutron lists the extension."""

    def available(connection: Connection, project: ProjectDefinition) -> bool:
        return alias in extension_aliases(connection)

    return available


def list_rows(connection: Connection, method: str, *args: Any, **query: Any) -> Iterator[Row]:
    """Yield the rows of an SDK listing of the network proxy."""
    for item in getattr(connection.network, method)(*args, **query):
        yield to_row(item)


def is_shared(row: Row) -> bool:
    """Return whether a row is shared with all projects.

    The attribute has one name in the SDK and another in Neutron.
    """
    return bool(row.get("is_shared") or row.get("shared"))


#: Paths of collections that are not the plural name with dashes.
_PATHS = {
    "bgp_speakers": "/bgp-speakers",
    "bgpvpns": "/bgpvpn/bgpvpns",
    "firewall_groups": "/fwaas/firewall_groups",
    "firewall_policies": "/fwaas/firewall_policies",
    "firewall_rules": "/fwaas/firewall_rules",
    "ips": "/floatingips",
    "local_ips": "/local_ips",
    "metering_labels": "/metering/metering-labels",
    "ndp_proxies": "/ndp_proxies",
    "network_segment_ranges": "/network_segment_ranges",
    "qos_policies": "/qos/policies",
    "sfc_flow_classifiers": "/sfc/flow_classifiers",
    "sfc_port_chains": "/sfc/port_chains",
    "sfc_port_pair_groups": "/sfc/port_pair_groups",
    "sfc_port_pairs": "/sfc/port_pairs",
    "sfc_service_graphs": "/sfc/service_graphs",
    "subnet_pools": "/subnetpools",
    "tap_flows": "/taas/tap_flows",
    "tap_mirrors": "/taas/tap_mirrors",
    "tap_services": "/taas/tap_services",
    "vpn_endpoint_groups": "/vpn/endpoint-groups",
    "vpn_ike_policies": "/vpn/ikepolicies",
    "vpn_ipsec_policies": "/vpn/ipsecpolicies",
    "vpn_ipsec_site_connections": "/vpn/ipsec-site-connections",
    "vpn_services": "/vpn/vpnservices",
}


def rest_list(plural: str, **query: Any) -> Rest:
    """Return a list of a collection's rows: those of all projects, or those that the query selects.

    Without the SDK, which takes milliseconds for each row. A collection that Neutron does not page ignores the limit,
    and returns no next link.
    """
    return collection(_PATHS.get(plural) or "/" + plural.replace("_", "-"), **query)


def simple_type(name: str, plural: str, *, get: str = "", **declared: Any) -> ResourceType:
    """Return a type whose calls are plain SDK calls, with the owner filter."""
    declared.setdefault("list", Sdk("network", plural, project_id="{project_id}"))
    declared.setdefault("all_projects", rest_list(plural))
    declared.setdefault("show", Sdk("network", get or f"get_{name}", "{id}"))
    declared.setdefault("delete", Sdk("network", f"delete_{name}", "{id}", ignore_missing=False))
    return ResourceType(name=name, **declared)


def shared(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect a resource that is shared with all projects."""
    if is_shared(resource.data) and not project.options.get("delete_shared"):
        return "it is shared with all projects, who may be using it"
    return None


def own_and(connection: Connection, project: ProjectDefinition) -> list[str]:
    """Return an owner filter that creates no default group in the project.

    A list of these collections creates the default group of the *first* project that it filters by. So the
    orchestrator's own project comes first. Every list without a filter creates its default group as well.

    :raises BadAnswer: when the token is not scoped to a project
    """
    own = connection.session.get_project_id()
    if not own:
        raise BadAnswer("the orchestrator's token is not scoped to a project: a list here would create default groups")
    return [str(own), project.id]


def group_type(name: str, plural: str, names: Iterable[str], *, defaults: bool, **declared: Any) -> ResourceType:
    """Return a type of a service's default resources, or of all others of the list.

    Without a filter the list of all projects creates only the orchestrator's default group.

    :param names: by which the service's default resources are recognised
    :param defaults: whether the type is that of the default resources
    """
    default_names = frozenset(names)
    singular = name.removeprefix("default_")

    def chosen(rows: Iterable[Row]) -> Iterator[Row]:
        return (row for row in rows if (row.get("name") in default_names) is defaults)

    def of_project(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        """Yield the project's rows that belong to this type."""
        return chosen(list_rows(connection, plural, project_id=own_and(connection, project)))

    def of_all_projects(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        """Yield the rows of all projects that belong to this type."""
        return chosen(rest_list(plural).rows(connection, project))

    return simple_type(
        name,
        plural,
        list=of_project,
        all_projects=of_all_projects,
        show=Sdk("network", f"get_{singular}", "{id}"),
        delete=Sdk("network", f"delete_{singular}", "{id}", ignore_missing=False),
        **declared,
    )


def explain_by(type_: str, plural: str, attribute: str) -> Callable[..., Verdict | None]:
    """Return an explanation that names the rows that refer to the resource."""

    def explain(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
        """Name the resources, of any project, that refer to it."""
        rows = list_rows(connection, plural, **{attribute: resource.id})
        blockers = [row_blocker(type_, row) for row in rows if row.get(attribute) == resource.id]
        return verdict_naming(project, "it is used by", blockers)

    return explain


def needed_by_attribute(listing: Callable[[Connection, ProjectDefinition], Iterator[Row]], attribute: str) -> NeededBy:
    """Return a rule by which a leftover needs the resource that an attribute of its row names.

    A leftover that is not listed may need any resource.

    :param listing: yields the rows of the leftovers' type
    """

    def rule(connection: Connection, project: ProjectDefinition, left: abc.Collection[str]) -> Needs:
        rows = {str(row["id"]): row for row in listing(connection, project)}
        unseen = next((id_ for id_ in left if id_ not in rows), None)
        named = {str(rows[id_][attribute]): id_ for id_ in left if id_ in rows}
        return lambda resource: unseen or named.get(resource.id)

    return rule


def behind_ports_of_servers(attribute: str) -> NeededBy:
    """Return a rule by which a server uses each resource that names one of the server's ports.

    :param attribute: of the resource's row, with the id of the port
    """

    def rule(connection: Connection, _project: ProjectDefinition, left: abc.Collection[str]) -> Needs:
        ports = {port["id"]: server for server, port in ports_of_servers(connection, left)}
        return lambda resource: ports.get(resource.data.get(attribute))

    return rule


def ports_of_servers(connection: Connection, servers: abc.Collection[str]) -> Iterator[tuple[str, Row]]:
    """Yield the ports of servers, of any owner, each with the id of its server."""
    for server in servers:
        for port in list_rows(connection, "ports", device_id=server):
            if port.get("device_id") == server:
                yield server, port


def rows_naming(
    connection: Connection,
    project: ProjectDefinition,
    resource: Resource,
    plural: str,
    *attributes: str,
    filters: bool = True,
) -> list[Row]:
    """Return the rows of a collection, of any project, that have the resource's id in one of these attributes.

    :param attributes: as in Neutron's answers, with one id, a list of ids, or an object of ids
    :param filters: whether Neutron filters by the attributes; otherwise the rows of all projects are listed
    """
    queries: list[dict[str, Any]] = [{name: resource.id} for name in attributes] if filters else [{}]
    rows = (row for query in queries for row in rest_list(plural, **query).rows(connection, project))
    using = {row["id"]: row for row in rows if any(resource.id in str(row.get(name)) for name in attributes)}
    return list(using.values())


def explain_by_rows(type_: str, plural: str, *attributes: str, filters: bool = True) -> Callable[..., Verdict | None]:
    """Return an explanation that names the rows that refer to the resource; see :func:`rows_naming`."""

    def explain(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
        """Name the resources, of any project, that refer to it."""
        rows = rows_naming(connection, project, resource, plural, *attributes, filters=filters)
        return verdict_naming(project, "it is used by", [row_blocker(type_, row) for row in rows])

    return explain


def rest_type(name: str, path: str, **declared: Any) -> ResourceType:
    """Return a type whose collection the SDK lacks, or cannot filter by owner."""
    calls = Collection("network", f"/{path}", one=name, paging=Paging.LINKS)
    return ResourceType(
        name=name,
        list=calls.own,
        all_projects=collection(calls.path),
        show=calls.show,
        delete=calls.delete,
        **declared,
    )
