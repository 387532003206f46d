"""Neutron: service function chains and taps (networking-sfc, tap-as-a-service)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    OneByOne,
    ProjectDefinition,
    Reason,
    Resource,
    Rest,
    Use,
    Verdict,
    failed_in,
    linked,
    refuse_foreign,
    state_remedies,
    verdict_naming,
)
from cleanup_orchestrator.plugins.network.common import (
    explain_by_rows,
    extension,
    rest_list,
    rows_naming,
    simple_type,
)
from cleanup_orchestrator.plugins.neutron import extension_aliases, row_blocker

if TYPE_CHECKING:
    from openstack.connection import Connection


def check_tap_flows(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a port that tap flows of others mirror: they would be deleted.

    The owner of a network may make tap flows of any port there.
    """
    if "taas" not in extension_aliases(connection):
        return
    flows = rows_naming(connection, project, resource, "tap_flows", "source_port")
    refuse_foreign(project, "deleting it would delete", [row_blocker("tap_flow", flow) for flow in flows])


def check_flows(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a tap service to which flows of others lead."""
    flows = rows_naming(connection, project, resource, "tap_flows", "tap_service_id", filters=False)
    refuse_foreign(project, "it is used by", [row_blocker("tap_flow", flow) for flow in flows])


def check_chains(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a service graph that joins port chains of others."""
    graph = resource.data.get("port_chains") or {}
    joined = {*graph, *(chain for some in graph.values() for chain in some)}
    chains = (row for row in rest_list("sfc_port_chains").rows(connection, project) if row["id"] in joined)
    refuse_foreign(project, "it joins", [row_blocker("sfc_port_chain", chain) for chain in chains])


#: What refers to a port in a service function chain: extension, type, collection, attributes of its rows.
_CHAINED = (
    ("sfc", "sfc_port_pair", "sfc_port_pairs", ("ingress", "egress")),
    (
        "flow_classifier",
        "sfc_flow_classifier",
        "sfc_flow_classifiers",
        ("logical_source_port", "logical_destination_port"),
    ),
)


def explain_chained_port(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the port pairs and flow classifiers, of any project, that refer to a port.

    Neutron answers 500 to the delete of such a port.
    """
    aliases = extension_aliases(connection)
    blockers = [
        row_blocker(type_, row)
        for alias, type_, plural, attributes in _CHAINED
        if alias in aliases
        for row in rows_naming(connection, project, resource, plural, *attributes)
    ]
    return verdict_naming(project, "it is used by", blockers)


def being_deleted(resource: Resource, project: ProjectDefinition) -> str | None:
    """Wait for the agent: a second delete would remove the row, and what the agent configured would stay."""
    return "Neutron's agent is deleting it" if resource.data.get("status") == "PENDING_DELETE" else None


delete_failed = failed_in("Neutron", "ERROR")


def _tap_remedies(name: str) -> Mapping[Reason, str]:
    return state_remedies(
        "openstack network agent list shows whether the agent of its port's host is up",
        f"openstack tap {name} delete {{id}}; if that host is gone, the agent configured nothing that stays",
    )


def _chained_by(type_: str, plural: str, attribute: str) -> tuple[Use]:
    """Return the use by what names a resource.

    networking-sfc refuses the delete, but calls its driver before, which removes the resource from the switches.
    """
    find = OneByOne(explain_by_rows(type_, plural, attribute, filters=False))
    return (Use((f"network.{type_}",), "removes it from the switches, and is then refused", find),)


#: networking-sfc refuses to delete what one of these names, but calls its driver before; see ``_chained_by``.
_BY_GRAPH = ("sfc_service_graph", linked(Rest("network", "/sfc/service_graphs/{id}")))
_BY_CHAIN = ("sfc_port_chain", linked(Rest("network", "/sfc/port_chains/{id}")))
_BY_GROUP = ("sfc_port_pair_group", linked(Rest("network", "/sfc/port_pair_groups/{id}")))

SFC = (
    simple_type(
        "sfc_service_graph",
        "sfc_service_graphs",
        used_by=(Use(("network.sfc_port_chain",), "separates the chain", OneByOne(check_chains)),),
        available=extension("service_graph"),
        source="/v2.0/sfc/service_graphs; networking_sfc db/sfc_db.py",
    ),
    simple_type(
        "sfc_port_chain",
        "sfc_port_chains",
        available=extension("sfc"),
        used_by=_chained_by("sfc_service_graph", "sfc_service_graphs", "port_chains"),
        after=("sfc_service_graph",),
        needed_by=(_BY_GRAPH,),
        source="DELETE /v2.0/sfc/port_chains/C: 409 ServiceGraphPortChainInUse; networking_sfc db/sfc_db.py, "
        "services/sfc/plugin.py",
    ),
    simple_type(
        "sfc_port_pair_group",
        "sfc_port_pair_groups",
        available=extension("sfc"),
        used_by=_chained_by("sfc_port_chain", "sfc_port_chains", "port_pair_groups"),
        after=("sfc_port_chain",),
        needed_by=(_BY_CHAIN,),
        source="DELETE /v2.0/sfc/port_pair_groups/G: 409 PortPairGroupInUse; networking_sfc db/sfc_db.py",
    ),
    simple_type(
        "sfc_port_pair",
        "sfc_port_pairs",
        available=extension("sfc"),
        used_by=_chained_by("sfc_port_pair_group", "sfc_port_pair_groups", "port_pairs"),
        after=("sfc_port_pair_group",),
        needed_by=(_BY_GROUP,),
        source="DELETE /v2.0/sfc/port_pairs/P: 409 PortPairInUse; networking_sfc db/sfc_db.py",
    ),
    simple_type(
        "sfc_flow_classifier",
        "sfc_flow_classifiers",
        available=extension("flow_classifier"),
        used_by=_chained_by("sfc_port_chain", "sfc_port_chains", "flow_classifiers"),
        after=("sfc_port_chain",),
        needed_by=(_BY_CHAIN,),
        source="DELETE /v2.0/sfc/flow_classifiers/F: 409 FlowClassifierInUse; networking_sfc db/flowclassifier_db.py",
    ),
)

TAP = (
    simple_type(
        "tap_flow",
        "tap_flows",
        used_by=(),
        available=extension("taas"),
        deleting=being_deleted,
        failed=delete_failed,
        remedies=_tap_remedies("flow"),
        note="The agent deletes an active one later.",
        source="/v2.0/taas/tap_flows; neutron_taas services/taas/taas_plugin.py",
    ),
    simple_type(
        "tap_service",
        "tap_services",
        used_by=(Use(("network.tap_flow",), "ends the flow", OneByOne(check_flows)),),
        available=extension("taas"),
        after=("tap_flow",),
        needed_by=(("tap_flow", linked(Rest("network", "/taas/tap_flows/{id}"))),),
        deleting=being_deleted,
        failed=delete_failed,
        remedies=_tap_remedies("service"),
        note="The agent deletes an active one later.",
        source="/v2.0/taas/tap_services; neutron_taas services/taas/taas_plugin.py",
    ),
    simple_type(
        "tap_mirror",
        "tap_mirrors",
        used_by=(),
        available=extension("tap-mirror"),
        source="/v2.0/taas/tap_mirrors; neutron_taas services/taas/tap_mirror_plugin.py",
    ),
)
