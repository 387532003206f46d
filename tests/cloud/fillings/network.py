"""Neutron: at least one resource of each type that a project can own without agents.

Left out: the default statefulness of security groups. Its singular and its plural are the same word, so Neutron 29
treats every body as a bulk request and refuses it: it cannot be created.
"""

from __future__ import annotations

from tests.cloud.fillings.base import FillError, Filling


def quota(f: Filling) -> None:
    # Ten RBAC policies, the default, are too few for sharing with two projects.
    quotas = {"network": 120, "floatingip": 60, "rbac_policy": 40}
    f.network_admin.call("PUT", f"/quotas/{f.project_id}", {"quota": quotas})
    f.note("network quota", f.project_id)


def address_scope(f: Filling) -> None:
    body = {"name": f"{f.name}-scope", "ip_version": 4}
    f.note("address scope", f.network.ensure("address-scopes", "address_scope", body, project_id=f.project_id))


def subnet_pool(f: Filling) -> None:
    body = {
        "name": f"{f.name}-pool",
        "prefixes": ["10.64.0.0/12"],
        "default_prefixlen": 24,
        "address_scope_id": f.first("address scope"),
    }
    f.note("subnet pool", f.network.ensure("subnetpools", "subnetpool", body, project_id=f.project_id))


def networks(f: Filling) -> None:
    for suffix in ("net", "backend", "lonely"):
        body = {"name": f"{f.name}-{suffix}"}
        f.note("network", f.network.ensure("networks", "network", body, project_id=f.project_id))


def subnets(f: Filling) -> None:
    pool = {"subnetpool_id": f.first("subnet pool"), "ip_version": 4}
    outside = f.network.call("GET", "/subnetpools", params={"name": "public-v6"})["subnetpools"]
    wanted = [
        ("net", {"network_id": f.first("network"), **pool}),
        ("backend", {"network_id": f.first("network", 1), "ip_version": 4, "cidr": "172.20.0.0/24"}),
        ("backend-2", {"network_id": f.first("network", 1), "ip_version": 4, "cidr": "172.20.1.0/24"}),
    ]
    if outside:  # one IPv6 address scope inside and outside is what an NDP proxy needs
        # Not SLAAC: its subnets can be deleted under live ports, and the plain kind cannot.
        wanted.append(("v6", {"network_id": f.first("network", 1), "ip_version": 6, "subnetpool_id": outside[0]["id"]}))
    for suffix, body in wanted:
        body = {"name": f"{f.name}-subnet-{suffix}", **body}
        f.note("subnet", f.network.ensure("subnets", "subnet", body, project_id=f.project_id))


def address_group(f: Filling) -> None:
    body = {"name": f"{f.name}-addresses", "addresses": ["198.51.100.0/24"]}
    f.note("address group", f.network.ensure("address-groups", "address_group", body, project_id=f.project_id))


def security_groups(f: Filling) -> None:
    """Two groups whose rules refer to each other."""
    existing = f.network_admin.call("GET", "/security-groups")["security_groups"]
    own = {g["name"]: g["id"] for g in existing if g["project_id"] == f.project_id}
    for suffix in ("web", "db"):
        name = f"{f.name}-{suffix}"
        if name not in own:
            body = {"security_group": {"name": name}}
            own[name] = f.network.call("POST", "/security-groups", body)["security_group"]["id"]
        f.note("security group", own[name])
    web, db = f.filled.ids["security group"]
    for group, more in (
        (web, {"remote_group_id": db}),
        (db, {"remote_group_id": web}),
        (db, {"remote_address_group_id": f.first("address group")}),
    ):
        rule = {"security_group_id": group, "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", **more}
        f.network.call("POST", "/security-group-rules", {"security_group_rule": rule}, ok=(409,))  # it exists
    f.note("security group", own["default"])


def qos_policy(f: Filling) -> None:
    """Only an administrator may create one, for a project."""
    body = {"name": f"{f.name}-qos", "project_id": f.project_id}
    policy = f.network_admin.ensure("qos/policies", "policy", body, project_id=f.project_id)
    f.note("qos policy", policy)
    rule = {"bandwidth_limit_rule": {"max_kbps": 10000, "max_burst_kbps": 1000}}
    f.network_admin.call("POST", f"/qos/policies/{policy}/bandwidth_limit_rules", rule, ok=(400, 409))  # it exists


def ports(f: Filling) -> None:
    web, db = f.filled.ids["security group"][:2]
    net, backend, lonely = f.filled.ids["network"][:3]
    _, inside, _, *v6 = f.filled.ids["subnet"]
    # Neutron would choose among the subnets, and only these are where the floating IPs come from.
    addresses = [{"subnet_id": subnet} for subnet in (inside, *v6)]
    wanted: list[tuple[str, dict[str, object]]] = [
        ("web", {"network_id": net, "security_groups": [web], "qos_policy_id": f.first("qos policy")}),
        ("db", {"network_id": backend, "security_groups": [db], "fixed_ips": addresses}),
        ("spare", {"network_id": net}),
        ("trunk-parent", {"network_id": lonely}),
        ("trunk-child", {"network_id": lonely}),
        ("frozen-parent", {"network_id": lonely}),
        ("frozen-child", {"network_id": lonely}),
    ]
    for suffix, body in wanted:
        body = {"name": f"{f.name}-{suffix}", **body}
        f.note("port", f.network.ensure("ports", "port", body, project_id=f.project_id))


def qos_bindings(f: Filling) -> None:
    """A policy is refused its delete while a network has it, too."""
    body = {"network": {"qos_policy_id": f.first("qos policy")}}
    f.network.call("PUT", f"/networks/{f.first('network', 2)}", body)


def router(f: Filling) -> None:
    """With a gateway, an interface in every subnet but one, and a static route through one of them."""
    public = f.network.call("GET", "/networks", params={"name": "public", "router:external": True})["networks"][0]["id"]
    body = {"name": f"{f.name}-router", "external_gateway_info": {"network_id": public}}
    one = f.note("router", f.network.ensure("routers", "router", body, project_id=f.project_id))
    two = f.note(
        "router", f.network.ensure("routers", "router", {"name": f"{f.name}-router-2"}, project_id=f.project_id)
    )
    net, backend, backend_2, *v6 = f.filled.ids["subnet"]
    for which, subnet in ((one, net), (one, backend), *((one, each) for each in v6), (two, backend_2)):
        path = f"/routers/{which}/add_router_interface"
        answer = f.network.raw("PUT", path, ok=(400,), json={"subnet_id": subnet})
        if answer.status_code == 400 and "already has a port" not in answer.text:
            raise FillError(f"PUT {path}: {answer.text}")
    routes = [{"destination": "203.0.113.0/24", "nexthop": "172.20.0.77"}]
    f.network.call("PUT", f"/routers/{one}", {"router": {"routes": routes}})


def trunks(f: Filling) -> None:
    """One that works, and one that is switched off: Neutron refuses to delete that."""
    parent, child, frozen_parent, frozen_child = f.filled.ids["port"][3:7]
    for suffix, parent_id, child_id in (("trunk", parent, child), ("frozen-trunk", frozen_parent, frozen_child)):
        sub_port = {"port_id": child_id, "segmentation_type": "vlan", "segmentation_id": 100}
        body = {"name": f"{f.name}-{suffix}", "port_id": parent_id, "sub_ports": [sub_port]}
        trunk = f.note("trunk", f.network.ensure("trunks", "trunk", body, project_id=f.project_id))
    f.network.call("PUT", f"/trunks/{trunk}", {"trunk": {"admin_state_up": False}})


def floating_ips(f: Filling) -> None:
    """One in use by a port, one with a port forwarding, one idle."""
    public = f.network.call("GET", "/networks", params={"name": "public", "router:external": True})["networks"][0]["id"]
    web, db = f.filled.ids["port"][:2]
    for suffix, more in (("used", {"port_id": web}), ("forwarding", {}), ("idle", {})):
        body = {"description": f"{f.name}-{suffix}", "floating_network_id": public, **more}
        ip = f.network.ensure("floatingips", "floatingip", body, by="description", project_id=f.project_id)
        f.note("floating ip", ip)
    forwarding_ip = f.first("floating ip", 1)
    fixed = f.network.call("GET", f"/ports/{db}")["port"]["fixed_ips"]
    inside = next(ip["ip_address"] for ip in fixed if "." in ip["ip_address"])
    path = f"/floatingips/{forwarding_ip}/port_forwardings"
    known = f.network.call("GET", path)["port_forwardings"]
    if not known:
        body = {
            "internal_port_id": db,
            "internal_ip_address": inside,
            "internal_port": 5432,
            "external_port": 15432,
            "protocol": "tcp",
        }
        known = [f.network.call("POST", path, {"port_forwarding": body})["port_forwarding"]]
    f.note("port forwarding", f"{forwarding_ip}/{known[0]['id']}")


def conntrack_helper(f: Filling) -> None:
    if not f.extension("l3-conntrack-helper"):
        return
    path = f"/routers/{f.first('router')}/conntrack_helpers"
    known = f.network_admin.call("GET", path)["conntrack_helpers"]
    if not known:
        body = {"conntrack_helper": {"protocol": "udp", "port": 69, "helper": "tftp"}}
        known = [f.network_admin.call("POST", path, body)["conntrack_helper"]]
    f.note("conntrack helper", f"{f.first('router')}/{known[0]['id']}")


def ndp_proxy(f: Filling) -> None:
    if not f.extension("l3-ndp-proxy") or len(f.filled.ids["subnet"]) < 4:
        return
    router_id, port = f.first("router"), f.first("port", 1)
    f.network_admin.call("PUT", f"/routers/{router_id}", {"router": {"enable_ndp_proxy": True}})
    body = {"name": f"{f.name}-ndp", "router_id": router_id, "port_id": port}
    f.note("ndp proxy", f.network.ensure("ndp_proxies", "ndp_proxy", body))  # takes no project filter


def local_ip(f: Filling) -> None:
    if not f.extension("local_ip"):
        return
    body = {"name": f"{f.name}-local-ip", "network_id": f.first("network", 1)}
    one = f.note("local ip", f.network.ensure("local-ips", "local_ip", body, project_id=f.project_id))
    port = {"fixed_port_id": f.first("port", 1)}
    fixed = f.network.call("GET", f"/ports/{f.first('port', 1)}")["port"]["fixed_ips"]
    port["fixed_ip"] = next(ip["ip_address"] for ip in fixed if "." in ip["ip_address"])
    # As the administrator: for a member, Neutron 29 fails to find the owner of the local IP. For every user it creates
    # the association and then answers 500, as it does to every list of associations that is not empty.
    path = f"/local-ips/{one}/port_associations"
    f.network_admin.call("POST", path, {"port_association": port}, ok=(409, 500))
    listed = f.network_admin.raw("GET", path, ok=(500,))
    if listed.status_code == 200 and not listed.json()["port_associations"]:
        raise FillError(f"the local IP {one} was not associated")
    f.note("local ip association", f"{one}/{port['fixed_port_id']}")


def metering_label(f: Filling) -> None:
    body = {"name": f"{f.name}-meter", "project_id": f.project_id}
    label = f.network_admin.ensure("metering/metering-labels", "metering_label", body, project_id=f.project_id)
    f.note("metering label", label)
    rules = f.network_admin.call("GET", "/metering/metering-label-rules", params={"metering_label_id": label})
    if not rules["metering_label_rules"]:
        rule = {"metering_label_id": label, "destination_ip_prefix": "0.0.0.0/0", "direction": "egress"}
        f.network_admin.call("POST", "/metering/metering-label-rules", {"metering_label_rule": rule})


def log(f: Filling) -> None:
    """A log of a security group, which administrators create for the project."""
    if not f.extension("logging"):
        return
    body = {"name": f"{f.name}-log", "resource_type": "security_group", "project_id": f.project_id, "event": "ALL"}
    f.note("network log", f.network_admin.ensure("log/logs", "log", body, project_id=f.project_id))


def network_segment_range(f: Filling) -> None:
    if not f.extension("network-segment-range"):
        return
    known = f.network_admin.call("GET", "/network_segment_ranges")["network_segment_ranges"]
    own = [r for r in known if r.get("project_id") == f.project_id]  # shared ones have no owner at all
    if not own:
        # Ranges of one type must not overlap: the next free stretch far above the default one.
        top = max((r["maximum"] for r in known if r["network_type"] == "vxlan" and not r["default"]), default=200000)
        body = {
            "name": f"{f.name}-range",
            "project_id": f.project_id,
            "shared": False,
            "network_type": "vxlan",
            "minimum": top + 1,
            "maximum": top + 10,
        }
        own = [
            f.network_admin.call("POST", "/network_segment_ranges", {"network_segment_range": body})[
                "network_segment_range"
            ]
        ]
    f.note("network segment range", own[0]["id"])


def rbac_policies(f: Filling) -> None:
    """Resources of the project that another project may use."""
    known = f.network.call("GET", "/rbac-policies", params={"project_id": f.project_id})["rbac_policies"]
    shared = {(r["object_type"], r["object_id"], r["target_tenant"]): r["id"] for r in known}
    for kind, object_id in (
        ("network", f.first("network")),
        ("security_group", f.first("security group")),
        ("qos_policy", f.first("qos policy")),
        ("address_group", f.first("address group")),
        ("address_scope", f.first("address scope")),
        ("subnetpool", f.first("subnet pool")),
    ):
        target = f.filled.partner_id
        if (kind, object_id, target) not in shared:
            body = {
                "object_type": kind,
                "object_id": object_id,
                "target_tenant": target,
                "action": "access_as_shared",
                "project_id": f.project_id,
            }
            # A member may not share a QoS policy, an administrator may do it for the project.
            caller = f.network_admin if kind == "qos_policy" else f.network
            answer = caller.call("POST", "/rbac-policies", {"rbac_policy": body})
            shared[kind, object_id, target] = answer["rbac_policy"]["id"]
        f.note("rbac policy", shared[kind, object_id, target])


def ha_network(f: Filling) -> None:
    """Make what Neutron makes for a highly available router, which needs an agent: a network without a project."""
    if f.extension("l3-ha"):
        body = {"name": f"HA network tenant {f.project_id}", "project_id": ""}
        f.note("HA network", f.network_admin.ensure("networks", "network", body))


KINDS = (
    quota, address_scope, subnet_pool, network_segment_range, networks, subnets, address_group,
    security_groups, qos_policy, ports, qos_bindings, router, trunks, floating_ips, conntrack_helper, ndp_proxy,
    local_ip, metering_label, log, rbac_policies, ha_network,
)  # fmt: skip
