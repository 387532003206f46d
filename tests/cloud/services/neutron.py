"""Neutron with ML2; in the whole cloud also the agent that port binding needs.

With the add-ons it is the API alone: no agent configures what is made with them.
"""

from __future__ import annotations

from tests.cloud.identity import Rest
from tests.cloud.services.base import FAKES, INSIDE, Ini, Reports, Service, Site, common, credentials, daemon, ini, wsgi

PLUGINS = (
    "router", "trunk", "qos", "port_forwarding", "metering", "local_ip", "ndp_proxy", "conntrack_helper", "log",
    "network_segment_range",
)  # fmt: skip
#: The service plugins of the add-ons, which are separate packages.
ADDONS = ("vpnaas", "firewall_v2", "bgp", "bgpvpn", "sfc", "flow_classifier", "taas", "tapmirror")
#: Plugins that the add-ons break. BGP VPNs and local IPs both have `port_associations`: Neutron knows only one of them.
CLASHING = ("local_ip",)
#: What each of them is told of its driver.
ADDON_CONFIG: Ini = {
    "service_providers": {
        "service_provider": (
            "VPN:dummy:neutron_vpnaas.services.vpn.service_drivers.ipsec.IPsecVPNDriver:default",
            "FIREWALL_V2:agent:neutron_fwaas.services.firewall.service_drivers.agents.agents.FirewallAgentDriver:default",
            "BGPVPN:Dummy:networking_bgpvpn.neutron.services.service_drivers.driver_api.BGPVPNDriverRC:default",
            "TAAS:TAAS:neutron_taas.services.taas.service_drivers.taas_rpc.TaasRpcDriver:default",
        )
    },
    "sfc": {"drivers": "dummy"},
    "flowclassifier": {"drivers": "dummy"},
}


def with_addons(site: Site) -> Service:
    """Return a Neutron that has all add-ons, in place of the plain one."""
    return service(site, ADDONS)


def service(site: Site, addons: tuple[str, ...] = ()) -> Service:
    """Return Neutron.

    :param addons: further service plugins, which :data:`ADDON_CONFIG` configures
    """
    plugins = [name for name in PLUGINS if not (addons and name in CLASHING)] + [*addons]
    home = site.home("neutron")
    whole = "nova" in site.services
    config = common(site, "neutron")
    config["DEFAULT"] |= {
        "core_plugin": "ml2",
        "service_plugins": ",".join(plugins),
        "auth_strategy": "keystone",
        "api_paste_config": site.venv / "etc/neutron/api-paste.ini",
        "notify_nova_on_port_status_changes": whole,
        "notify_nova_on_port_data_changes": whole,
        "dhcp_agent_notification": "false",  # there is none
        "rpc_workers": 1,
    }
    if whole:
        config |= {"nova": credentials(site, "neutron"), "placement": credentials(site, "neutron")}
    else:
        config["DEFAULT"]["rpc_response_timeout"] = 2  # no agent to wait for an answer from
    if addons:
        config |= ADDON_CONFIG
    ml2 = {
        "ml2": {
            "type_drivers": "flat,vlan,vxlan,local",
            "tenant_network_types": "vxlan",
            "mechanism_drivers": "openvswitch",
            "extension_drivers": "port_security,qos",
        },
        "ml2_type_flat": {"flat_networks": "public"},
        "ml2_type_vxlan": {"vni_ranges": "1:4000"},
        "securitygroup": {"enable_security_group": "true"},
    }
    files = ("--config-file", str(home / "neutron.conf"), "--config-file", str(home / "ml2_conf.ini"))
    agent = "neutron-openvswitch-agent"
    return Service(
        name="neutron",
        files={"neutron.conf": ini(config, site.extra_config.get("neutron")), "ml2_conf.ini": ini(ml2)},
        folders=("state", "lock"),
        databases=("neutron",),
        schema=(
            (site.bin("neutron-db-manage"), *files, "upgrade", "heads" if addons else "head") if site.mariadb_url
            else (site.bin("python"), str(INSIDE), "neutron-schema", site.database_url("neutron")),
        ),
        processes=(
            # Neutron's first process lays out the ranges that networks get their numbers from. It knows by a file in
            # TMPDIR that is named after its parent: of the clouds that one process starts, only the first would work.
            wsgi(site, "neutron", ("--module", "neutron.wsgi.api:application"), arguments=files,
                 environment={"TMPDIR": str(home / "state")}),
            *((daemon(site, "neutron-rpc-server", *files),
               daemon(site, agent, *files, script=str(FAKES / "fake_switch.py"))) if whole else ()),
        ),
        catalog_type="network",
        catalog_url=site.url("neutron"),
        reports=(Reports(f"{site.url('neutron')}/v2.0/agents", "agents", frozenset({agent})),) if whole else (),
        seed=seed,
        probe=f"{site.url('neutron')}/v2.0/networks?limit=1",
    )  # fmt: skip


def seed(site: Site, admin: Rest) -> None:
    """Make the rows that migrations would create (the rules of a default group), and the external network."""
    url = f"{site.url('neutron')}/v2.0"
    if not admin.call("GET", f"{url}/default-security-group-rules")["default_security_group_rules"]:
        for ethertype in ("IPv4", "IPv6"):
            for rule in (
                {"direction": "egress", "used_in_non_default_sg": True},
                {"direction": "ingress", "remote_group_id": "PARENT", "used_in_non_default_sg": False},
            ):
                body = {"ethertype": ethertype, "used_in_default_sg": True, **rule}
                admin.call("POST", f"{url}/default-security-group-rules", {"default_security_group_rule": body})
    if admin.call("GET", f"{url}/networks?name=public")["networks"]:
        return
    scope = {"name": "public-v6", "ip_version": 6, "shared": True}
    scope_id = admin.call("POST", f"{url}/address-scopes", {"address_scope": scope})["address_scope"]["id"]
    pool = {"name": "public-v6", "prefixes": ["2001:db8::/40"], "default_prefixlen": 64, "shared": True,
            "address_scope_id": scope_id}  # fmt: skip
    pool_id = admin.call("POST", f"{url}/subnetpools", {"subnetpool": pool})["subnetpool"]["id"]
    network = {
        "name": "public",
        "router:external": True,
        "provider:network_type": "flat",
        "provider:physical_network": "public",
    }
    network_id = admin.call("POST", f"{url}/networks", {"network": network})["network"]["id"]
    for name, subnet in (
        ("public-v4", {"ip_version": 4, "cidr": "192.0.2.0/24"}),
        # NDP proxies need the external and the internal subnet in one IPv6 address scope, hence the shared pool.
        ("public-v6", {"ip_version": 6, "subnetpool_id": pool_id}),
    ):
        body = {"name": name, "network_id": network_id, "enable_dhcp": False, **subnet}
        admin.call("POST", f"{url}/subnets", {"subnet": body})
