"""The calls by which another project's use of a resource ends: what the remedies of ``foreign`` leftovers name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cleanup_orchestrator.plugins.contract import ResourceType, Use
from cleanup_orchestrator.plugins.values import Resource, word

#: Calls that a remedy names at most; ``blocked_by`` has all rows.
_MAX_CALLS = 3

_UNSET_HOPS = "openstack subnet set --gateway none --no-dns-nameservers --no-host-route {id}"
_NO_QOS = "openstack {} unset --qos-policy {{id}}"

#: The call by type of the user, which ends most of its uses: templates with ``{id}`` of the user, ``{used}`` of the
#: resource, ``{row[...]}``, an attribute of the resource, and ``{of}``, what the user is a part of.
_BY_USER: Mapping[str, str] = {
    "baremetal.allocation": "openstack baremetal allocation delete {id}",
    "baremetal.instance": "openstack baremetal node undeploy {id}",
    "baremetal.node": "openstack baremetal node undeploy {id}",
    "block-storage.backup": "openstack volume backup delete {id}",
    "block-storage.group_snapshot": "openstack volume group snapshot delete {id}",
    "block-storage.snapshot": "openstack volume snapshot delete {id}",
    "block-storage.volume": "openstack volume delete {id}",
    "compute.server": "openstack server delete {id}",
    "container-infrastructure-management.cluster": "openstack coe cluster delete {id}",
    "container-infrastructure-management.cluster_template": "openstack coe cluster template delete {id}",
    "database.backup": "openstack database backup delete {id}",
    "database.instance": "openstack database instance delete {id}",
    "dns.recordset": "openstack recordset delete --all-projects {of} {id}",
    "dns.zone": "openstack zone delete --all-projects {id}",
    "image.image": "openstack image delete {id}",
    "image.member": "openstack image remove project {used} {id}",
    "load-balancer.health_monitor": "openstack loadbalancer healthmonitor delete {id}",
    "load-balancer.listener": "openstack loadbalancer listener delete {id}",
    "load-balancer.load_balancer": "openstack loadbalancer delete {id}",
    "load-balancer.pool": "openstack loadbalancer pool delete {id}",
    "network.bgp_speaker": "openstack bgp speaker remove peer {id} {used}",
    "network.bgpvpn_network_association": "openstack bgpvpn network association delete {id} {used}",
    "network.bgpvpn_port_association": "openstack bgpvpn port association delete {id} {used}",
    "network.bgpvpn_router_association": "openstack bgpvpn router association delete {id} {used}",
    "network.default_security_group_rule": "openstack default security group rule delete {id}",
    "network.firewall_group": "openstack firewall group unset --ingress-firewall-policy --egress-firewall-policy {id}",
    "network.firewall_policy": "openstack firewall group policy remove rule {id} {used}",
    "network.floating_ip": "openstack floating ip unset --port {id}",
    "network.ndp_proxy": "openstack router ndp proxy delete {id}",
    "network.network": "openstack network delete {id}",
    "network.port": "openstack port delete {id}",
    "network.port_forwarding": "openstack floating ip port forwarding delete {of} {id}",
    "network.router": "openstack router set --no-route {id}",
    "network.router_port": _NO_QOS.format("port"),
    "network.security_group_rule": "openstack security group rule delete {id}",
    "network.sfc_port_chain": "openstack sfc port chain delete {id}",
    "network.sfc_port_pair_group": "openstack sfc port pair group unset --port-pair {used} {id}",
    "network.sfc_service_graph": "openstack sfc service graph delete {id}",
    "network.subnet": "openstack subnet delete {id}",
    "network.subnet_pool": "openstack subnet pool set --no-address-scope {id}",
    "network.tap_flow": "openstack tap flow delete {id}",
    "network.vpn_ipsec_site_connection": "openstack vpn ipsec site connection delete {id}",
    "network.vpn_service": "openstack vpn service delete {id}",
    "nfv-orchestration.vnf_instance": "openstack vnflcm delete {id}",
    "orchestration.software_deployment": "openstack software deployment delete {id}",
    "reservation.lease": "openstack reservation lease delete {id}",
    "shared-file-system.group_snapshot": "openstack share group snapshot delete {id}",
    "shared-file-system.resource_lock": "openstack share lock delete {id}",
    "shared-file-system.share": "openstack share delete {id}",
    "shared-file-system.share_group": "openstack share group delete {id}",
    "shared-file-system.share_network": "openstack share network unset --security-service {used} {id}",
    "shared-file-system.snapshot": "openstack share snapshot delete {id}",
    "workflow.cron_trigger": "openstack cron trigger delete {id}",
    "workflow.dynamic_action": "openstack dynamic action delete {id}",
    "workflow.environment": "openstack workflow env delete {id}",
    "workflow.event_trigger": "openstack event trigger delete {id}",
    "workflow.member": "mistral member-delete {used} workflow {id}",
    "workflow.workbook": "openstack workbook delete {id}",
}

#: The same where the used type makes a difference: each by the used type, a colon, and the type of the user. Where the
#: project's own row is the use, such as a grant, an admin removes that row.
_BY_USE: Mapping[str, str] = {
    "block-storage.attachment:compute.server": "openstack server remove volume {id} {row[volume_id]}",
    "block-storage.consistency_group:block-storage.volume": "openstack consistency group remove volume {used} {id}",
    "block-storage.group:block-storage.volume": "openstack volume group remove volume {used} {id}",
    "block-storage.volume:compute.server": "openstack server remove volume {id} {used}",
    "compute.server:block-storage.volume": "openstack server remove volume {used} {id}",
    "compute.server:network.port": "openstack port unset --device {id}",
    "image.image:image.image": "openstack image unset --property kernel_id --property ramdisk_id {id}",
    "network.bgp_speaker:network.network": "openstack bgp speaker remove network {used} {id}",
    "network.firewall_group:network.port": "openstack firewall group unset --port {id} {used}",
    "network.default_firewall_group:network.port": "openstack firewall group unset --port {id} {used}",
    "network.floating_ip:network.port": "openstack floating ip unset --port {used}",
    "network.local_ip:network.port": "openstack local ip association delete {used} {id}",
    "network.qos_policy:network.floating_ip": _NO_QOS.format("floating ip"),
    "network.qos_policy:network.network": "openstack network set --no-qos-policy {id}",
    "network.qos_policy:network.port": _NO_QOS.format("port"),
    "network.qos_policy:network.router": _NO_QOS.format("router"),
    "network.router:network.port": "openstack router remove port {used} {id}",
    "network.security_group:network.port": "openstack port unset --security-group {used} {id}",
    "network.default_security_group:network.port": "openstack port unset --security-group {used} {id}",
    "network.sfc_flow_classifier:network.sfc_port_chain": "openstack sfc port chain unset --flow-classifier {used} "
    "{id}",
    "network.sfc_port_pair_group:network.sfc_port_chain": "openstack sfc port chain unset --port-pair-group {used} "
    "{id}",
    "dns.tsig_key:dns.recordset": "openstack recordset delete --all-projects {row[resource_id]} {id}",
    "dns.zone:dns.recordset": "openstack recordset delete --all-projects {used} {id}",
    "network.trunk:network.port": "openstack network trunk unset --subport {id} {used}",
    "reservation.lease:network.floating_ip": "openstack floating ip delete {id}",
    "shared-file-system.share:network.floating_ip": "openstack floating ip delete {id}",
    **{
        f"network.{used}:network.subnet": "openstack subnet delete {id}"
        for used in ("network", "subnet_pool", "address_scope")
    },
    **{
        f"network.rbac_policy:network.{kind}": "openstack network rbac delete {used}"
        for kind in (
            *("network", "subnet_pool", "address_scope", "security_group", "address_group", "qos_policy", "bgpvpn"),
        )
    },
    **{
        f"network.bgpvpn_{kind}_association:network.{kind}": f"openstack bgpvpn {kind} association delete {{used}} "
        "{row[bgpvpn_id]}"
        for kind in ("network", "router", "port")
    },
    **{
        # Its gateway, a next hop or a name server is an address of the resource.
        f"{used}:network.subnet": _UNSET_HOPS
        for used in (
            *("application-container.capsule", "application-container.container", "compute.server"),
            *("load-balancer.load_balancer", "network.port", "network.router", "network.router_port"),
        )
    },
}


def call(used: str, use: Use | None, user: Mapping[str, str], resource: Resource) -> str:
    """Return the call that ends a use, to be copied; empty: it is not known.

    :param used: full name of the type of the resource
    :param use: the declaration that the user is of; ``None``: there is none
    :param user: the row that uses the resource, as a blocker
    """
    by = user.get("type", "")
    template = (use.ends if use is not None else "") or _BY_USE.get(f"{used}:{by}") or _BY_USER.get(by, "")
    try:
        words = {"id": word(user["id"]), "used": word(resource.id), "row": _Words(resource.data)}
        return template.format_map({**words, **({"of": word(user["of"])} if user.get("of") else {})})
    except (LookupError, ValueError, AttributeError, TypeError):
        return ""


def remedy(
    used: str,
    type_: ResourceType,
    project_id: str,
    users: Iterable[Mapping[str, str]],
    one: Resource,
    whole: str = "",
) -> str:
    """Return what a person does about a resource that other projects use, as a template for ``reasons.remedy``.

    :param used: full name of the type of the resource
    :param users: what uses the resource, as blockers; those of the project itself do not count
    :param whole: what it is deleted with, as ``service.type:id``; empty: it is deleted by itself
    :returns: empty: no call is known
    """
    calls: dict[str, None] = {}
    harms: dict[str, None] = {}
    for user in users:
        if user.get("owner") == project_id:
            continue
        use = next((each for each in type_.used_by or () if user.get("type") in each.by), None)
        if not (text := call(used, use, user, one)):
            return ""
        calls[f"'{text}'"] = None
        if use is not None and use.find is not None:
            harms[use.harm] = None
    if not calls:
        return ""
    named = ", ".join(list(calls)[:_MAX_CALLS])
    more = f", and the same for the {len(calls) - _MAX_CALLS} others" if len(calls) > _MAX_CALLS else ""
    said = f"{{owner}} uses it. A member of that project with the needed role, or an admin, ends the use: {named}{more}"
    said += "; then it is deleted automatically"
    if not harms:
        return f"{said}. Its service refuses the delete until then"
    name = word(whole or f"{used}:{one.id}")
    decided = f"openstack project deletion force --although-used {name} --reason WHY {{project}}"
    return (
        f"{said}. Otherwise an admin decides, for this deletion alone, that it is deleted although it is used, which "
        f"{' and '.join(harms)}: '{decided}'"
    )


class _Words(dict[str, object]):
    """A row whose values are words of a shell."""

    def __getitem__(self, key: str) -> object:
        return word(super().__getitem__(key))
