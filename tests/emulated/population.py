"""Fills projects with a random mix of all types, and with the resources that each of them refers to."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.emulated.network import Network
from tests.emulated.object_store import STAMP, Account, Container, ObjectStore
from tests.emulated.state import Row
from tests.emulated.tables import ROUTER_GATEWAY, ROUTER_INTERFACE

if TYPE_CHECKING:
    from tests.emulated.cloud import Emulated

#: How many of a kind a project gets, before it is filled up.
COUNTS = (0, 1, 1, 2)
#: The same for a small project.
FEW = (0, 0, 0, 0, 1)
#: What a project is filled up with, and the parts of each.
BULK = (("port", 5), ("object", 3), ("image", 1), ("secret", 1))


class Filler:
    """Fills one project in one region."""

    def __init__(self, cloud: Emulated, region: str, project: str, random_: random.Random, guest: str = "") -> None:
        self.cloud, self.region, self.project, self.random, self.guest = cloud, region, project, random_, guest
        self.name = cloud.identity.projects[project].name
        self.made: dict[str, list[Row]] = {}
        self.users: list[str] = []

    def add(self, kind: str, /, *, owner: str | None = None, **more: Any) -> Row:
        """A row of the project."""
        row = self.cloud.state.add(self.region, kind, self.project if owner is None else owner, **more)
        self.made.setdefault(kind, []).append(row)
        return row

    def named(self, kind: str, /, **more: Any) -> Row:
        """The same, with a name."""
        number = len(self.made.get(kind, ()))
        return self.add(kind, name=f"{self.name}-{kind.partition('.')[2].replace('_', '-')}-{number}", **more)

    def build(self, kind: str) -> Row:
        """Create one of a kind, with the rows that it refers to."""
        return BUILD[kind](self)

    def one(self, kind: str) -> Row:
        """Return an existing one, or else a new one."""
        there = self.made.get(kind)
        return self.random.choice(there) if there else self.build(kind)

    def id(self, kind: str) -> str:
        return self.one(kind).id

    def fresh_port(self, **more: Any) -> Row:
        """Create a port that no other row refers to."""
        return self.named("network.port", network_id=self.id("network.network"), **more)

    @property
    def store(self) -> ObjectStore:
        service = self.cloud.services[self.region, "object-store"]
        assert isinstance(service, ObjectStore)
        return service

    @property
    def account(self) -> Account:
        return self.store.accounts.setdefault(self.project, Account())


def _port(f: Filler) -> Row:
    groups = [f.id("network.security_group")] if f.random.random() < 0.5 else []
    owner = f.random.choice(("", "", "compute:nova", "network:dhcp"))
    network = f.id("network.network")
    subnets = [s for s in f.made.get("network.subnet", ()) if s.get("network_id") == network]
    ips = [{"subnet_id": subnets[0].id, "ip_address": "10.0.0.9"}] if subnets else []
    return f.named("network.port", network_id=network, security_groups=groups, device_owner=owner, fixed_ips=ips)


def _router(f: Filler) -> Row:
    public = f.cloud.state.table(f.region, "network.network").owned[_admin(f.cloud)]
    gateway = {"network_id": next(iter(public)), "external_fixed_ips": [], "enable_snat": True}
    routes = [{"destination": "203.0.113.0/24", "nexthop": "10.0.0.77"}] if f.random.random() < 0.5 else []
    router = f.named("network.router", external_gateway_info=gateway, routes=routes)
    f.add("network.port", owner="", network_id=gateway["network_id"], device_id=router.id, device_owner=ROUTER_GATEWAY)
    subnet = f.one("network.subnet")
    ips = [{"subnet_id": subnet.id, "ip_address": "10.0.0.1"}]
    more = {"network_id": subnet.get("network_id"), "fixed_ips": ips}
    f.add("network.port", device_id=router.id, device_owner=ROUTER_INTERFACE, **more)
    return router


def _floating_ip(f: Filler) -> Row:
    router = f.one("network.router")
    public = router.get("external_gateway_info")["network_id"]
    used = {} if f.random.random() < 0.5 else {"port_id": f.fresh_port().id, "router_id": router.id}
    ip = f.add("network.floating_ip", floating_network_id=public, **used)
    f.add("network.port", owner="", network_id=public, device_id=ip.id, device_owner="network:floatingip")
    return ip


def _port_forwarding(f: Filler) -> Row:
    router = f.one("network.router")
    public = router.get("external_gateway_info")["network_id"]
    ip = f.add("network.floating_ip", floating_network_id=public, router_id=router.id)
    f.add("network.port", owner="", network_id=public, device_id=ip.id, device_owner="network:floatingip")
    return f.add("network.port_forwarding", floatingip_id=ip.id, internal_port_id=f.fresh_port().id)


def _local_ip(f: Filler) -> Row:
    network = f.id("network.network")
    port = f.add("network.port", owner="", network_id=network, device_owner="network:local_ip")
    ip = f.named("network.local_ip", network_id=network, local_port_id=port.id)
    port.table.change(port, {"device_id": ip.id})
    fixed = f.fresh_port().id
    f.add("network.local_ip_association", id=fixed, local_ip_id=ip.id)
    return ip


def _trunk(f: Filler) -> Row:
    child = {"port_id": f.fresh_port().id, "segmentation_type": "vlan", "segmentation_id": 100}
    up = f.random.random() < 0.7
    return f.named("network.trunk", port_id=f.fresh_port().id, sub_ports=[child], admin_state_up=up)


def _security_group(f: Filler) -> Row:
    group = f.named("network.security_group")
    others = [g.id for g in f.made["network.security_group"]]
    for remote in (None, f.random.choice(others)):
        f.add("network.security_group_rule", security_group_id=group.id, remote_group_id=remote)
    return group


def _address_group(f: Filler) -> Row:
    group = f.named("network.address_group")
    rule = {"security_group_id": f.id("network.security_group"), "remote_address_group_id": group.id}
    f.add("network.security_group_rule", **rule)
    return group


def _rbac_policy(f: Filler) -> Row:
    kind = f.random.choice(("network", "security_group", "qos_policy", "address_group", "address_scope", "subnet_pool"))
    names = {"subnet_pool": "subnetpool"}
    more = {"object_type": names.get(kind, kind), "object_id": f.id(f"network.{kind}")}
    return f.add("network.rbac_policy", target_tenant=f.guest or f.project, **more)


def _qos_policy(f: Filler) -> Row:
    policy = f.named("network.qos_policy")
    network = f.one("network.network")
    network.table.change(network, {"qos_policy_id": policy.id})
    return policy


def _image(f: Filler) -> Row:
    looks = f.random.choice(({}, {"protected": True}, {"os_hidden": True}, {"visibility": "shared"}))
    members = {"members": [f.guest]} if looks.get("visibility") == "shared" and f.guest else {}
    return f.named("image.image", **looks, **members)


def _namespace(f: Filler) -> Row:
    number = len(f.made.get("image.metadef_namespace", ()))
    protected = f.random.random() < 0.5
    return f.add("image.metadef_namespace", id=f"{f.name}::{f.region}::{number}", protected=protected)


def _secret(f: Filler) -> Row:
    consumer = {"service": "image", "resource_type": "image", "resource_id": "gone", "status": "ACTIVE"}
    return f.named("key-manager.secret", **({"secret_consumers": [consumer]} if f.random.random() < 0.3 else {}))


def _order(f: Filler) -> Row:
    made = f.build("key-manager.secret").id
    meta = {"name": f"{f.name}-order", "algorithm": "aes", "bit_length": 256, "mode": "cbc", "expiration": None}
    return f.add("key-manager.order", meta=meta, secret_ref=made)


def _default_firewall(f: Filler) -> Row:
    """The group, policies and rules that Neutron makes for a project, and knows by their names."""
    groups = f.cloud.state.table(f.region, "network.firewall_group").owned.get(f.project, {})
    if there := next((group for group in groups.values() if group.get("name") == "default"), None):
        return there
    policies = []
    for policy in ("default ingress", "default egress"):
        add = f.cloud.state.add
        rules = [add(f.region, "network.firewall_rule", f.project, name=f"{policy} {ip}").id for ip in ("ipv4", "ipv6")]
        made = add(f.region, "network.firewall_policy", f.project, name=policy, firewall_rules=rules)
        policies.append(made.id)
    more = {"ingress_firewall_policy_id": policies[0], "egress_firewall_policy_id": policies[1]}
    return f.cloud.state.add(f.region, "network.firewall_group", f.project, name="default", **more)


def _named(kind: str, **references: str) -> Callable[[Filler], Row]:
    """Create a row that refers to others: attribute = kind, or [kind] for a list."""

    def build(f: Filler) -> Row:
        more: dict[str, Any] = {}
        for attribute, other in references.items():
            many = other.startswith("[")
            id_ = f.id(f"{kind.partition('.')[0]}.{other.strip('[]')}")
            more[attribute] = [id_] if many else id_
        return f.named(kind, **more)

    return build


BUILD: dict[str, Callable[[Filler], Row]] = {
    "network.address_scope": _named("network.address_scope"),
    "network.subnet_pool": _named("network.subnet_pool", address_scope_id="address_scope"),
    "network.network": _named("network.network"),
    "network.subnet": lambda f: f.named(
        "network.subnet",
        network_id=f.id("network.network"),
        subnetpool_id=f.id("network.subnet_pool") if f.random.random() < 0.5 else None,
    ),
    "network.security_group": _security_group,
    "network.address_group": _address_group,
    "network.port": _port,
    "network.router": _router,
    "network.conntrack_helper": lambda f: f.add("network.conntrack_helper", router_id=f.id("network.router")),
    "network.floating_ip": _floating_ip,
    "network.port_forwarding": _port_forwarding,
    "network.ndp_proxy": lambda f: f.named(
        "network.ndp_proxy", router_id=f.id("network.router"), port_id=f.fresh_port().id
    ),
    "network.trunk": _trunk,
    "network.local_ip": _local_ip,
    "network.qos_policy": _qos_policy,
    "network.metering_label": _named("network.metering_label"),
    "network.log": _named("network.log"),
    "network.security_groups_default_statefulness": lambda f: f.add("network.security_groups_default_statefulness"),
    "network.network_segment_range": _named("network.network_segment_range"),
    "network.quota": lambda f: (
        f.add("network.quota", id=f.project)
        if f.project not in f.cloud.state.table(f.region, "network.quota").rows
        else f.one("network.quota")
    ),
    "network.rbac_policy": _rbac_policy,
    "network.vpn_service": _named("network.vpn_service", router_id="router"),
    "network.vpn_ike_policy": _named("network.vpn_ike_policy"),
    "network.vpn_ipsec_policy": _named("network.vpn_ipsec_policy"),
    "network.vpn_endpoint_group": _named("network.vpn_endpoint_group"),
    "network.vpn_ipsec_site_connection": _named(
        "network.vpn_ipsec_site_connection",
        vpnservice_id="vpn_service",
        ikepolicy_id="vpn_ike_policy",
        ipsecpolicy_id="vpn_ipsec_policy",
        local_ep_group_id="vpn_endpoint_group",
        peer_ep_group_id="vpn_endpoint_group",
    ),
    "network.firewall_rule": _named("network.firewall_rule"),
    "network.firewall_policy": _named("network.firewall_policy", firewall_rules="[firewall_rule]"),
    "network.firewall_group": _named("network.firewall_group", ingress_firewall_policy_id="firewall_policy"),
    "network.default_firewall": _default_firewall,
    "network.bgp_speaker": _named("network.bgp_speaker"),
    "network.bgp_peer": _named("network.bgp_peer"),
    "network.bgpvpn": _named("network.bgpvpn"),
    "network.bgpvpn_network_association": _named(
        "network.bgpvpn_network_association", bgpvpn_id="bgpvpn", network_id="network"
    ),
    "network.bgpvpn_router_association": _named(
        "network.bgpvpn_router_association", bgpvpn_id="bgpvpn", router_id="router"
    ),
    "network.bgpvpn_port_association": lambda f: f.named(  # Neutron: of the same owner
        "network.bgpvpn_port_association", bgpvpn_id=f.id("network.bgpvpn"), port_id=f.fresh_port().id
    ),
    "network.sfc_flow_classifier": _named("network.sfc_flow_classifier"),
    "network.sfc_port_pair": _named("network.sfc_port_pair"),
    "network.sfc_port_pair_group": _named("network.sfc_port_pair_group", port_pairs="[sfc_port_pair]"),
    "network.sfc_port_chain": _named(
        "network.sfc_port_chain", port_pair_groups="[sfc_port_pair_group]", flow_classifiers="[sfc_flow_classifier]"
    ),
    "network.sfc_service_graph": lambda f: f.named(
        "network.sfc_service_graph",
        port_chains={f.id("network.sfc_port_chain"): [f.build("network.sfc_port_chain").id]},
    ),
    "network.tap_service": _named("network.tap_service"),
    "network.tap_flow": _named("network.tap_flow", tap_service_id="tap_service"),
    "network.tap_mirror": _named("network.tap_mirror"),
    "image.image": _image,
    "image.metadef_namespace": _namespace,
    "image.task": lambda f: f.add("image.task"),
    "key-manager.secret": _secret,
    "key-manager.container": _named("key-manager.container"),
    "key-manager.order": _order,
    "key-manager.project_quota": lambda f: (
        f.add("key-manager.project_quota", id=f.project)
        if f.project not in f.cloud.state.table(f.region, "key-manager.project_quota").rows
        else f.one("key-manager.project_quota")
    ),
}


def _object_store(f: Filler) -> None:
    """Containers of each sort: plain, empty, versioned in the new way and in the old one."""
    account = f.account
    account.metadata["Temp-Url-Key"] = "a secret of sorts"
    account.containers["plain"] = Container([f"object-{n:05}" for n in range(f.random.randrange(1, 20))])
    account.containers["empty"] = Container()
    account.containers["odd names % ü"] = Container(sorted(["with space", "a/b//c", "ünïcödé/☃", "100%25 sure?"]))
    versions = [("document", f"{float(STAMP) + n:.5f}") for n in range(3)]
    account.containers["versioned"] = Container(["document"], {"X-Versions-Enabled": "True"}, versions)
    account.containers["archive"] = Container([f"005notes/{STAMP}"])
    account.containers["history"] = Container(["notes"], {"X-Versions-Location": "archive"})


def _people(f: Filler) -> None:
    """Create a direct member and a member of a group, each with an application credential, and a trust and more."""
    cloud, add = f.cloud, f.cloud.state.add
    user, colleague = (cloud.add_user(f"{f.name}-{who}") for who in ("user", "colleague"))
    team = add("", "identity.group", "", name=f"{f.name}-team").id
    cloud.identity.members[team] = {colleague}
    cloud.grant(f.project, user, "member")
    cloud.grant(f.project, team, "member", actor="groups")
    f.users = [user, colleague]
    for each in f.users:
        f.add("identity.application_credential", user_id=each, name=f"{f.name}-robot")
    f.add("identity.credential", user_id=user, blob='{"access": "a", "secret": "b"}')
    f.add("identity.trust", trustor_user_id=user, trustee_user_id=colleague)
    f.add("identity.oauth1_access_token", user_id=user, consumer_id="c")
    f.add("identity.limit")
    cloud.identity.endpoint_filters[f.project] = [next(iter(cloud.identity.table("endpoint").rows))]


def fill(f: Filler, everything: bool, small: bool = False) -> None:
    """Give a project a resource of each type, or of random types."""
    network = f.cloud.services.get((f.region, "network"))
    if isinstance(network, Network):
        network.default_group(f.project)
    for kind in BUILD:
        if kind.partition(".")[0] in f.cloud.without:
            continue
        alias = "fwaas_v2" if kind == "network.default_firewall" else f.cloud.state.table(f.region, kind).kind.extension
        if alias and alias not in f.cloud.extensions:
            continue
        for _ in range(1 if everything else f.random.choice(FEW if small else COUNTS)):
            f.build(kind)
    if "object-store" not in f.cloud.without and (everything or f.random.random() < 0.7):
        _object_store(f)


def fill_up(f: Filler, count: int) -> None:
    """Add this number of resources of small types."""
    network = f.named("network.network").id
    whole = sum(part for _, part in BULK)
    for name, part in BULK:
        number = count * part // whole
        if name == "object":
            add_objects(f, number)
            continue
        for _ in range(number):
            if name == "port":
                f.cloud.state.add(f.region, "network.port", f.project, network_id=network)
            else:
                f.cloud.state.add(f.region, "image.image" if name == "image" else "key-manager.secret", f.project)


def add_objects(f: Filler, number: int) -> None:
    """Give a project a container with this number of objects."""
    f.account.containers["many"] = Container([f"object-{n:06}" for n in range(number)])


def share(giver: Filler, taker: Filler) -> None:
    """Let one project use shared resources of another one, in ways that block no delete."""
    cloud, add = giver.cloud, giver.cloud.state.add
    if "network" not in cloud.without:
        network = giver.id("network.network")
        grant = {"object_type": "network", "object_id": network, "target_tenant": taker.project}
        giver.add("network.rbac_policy", **grant)
        add(taker.region, "network.port", taker.project, network_id=network, name="guest")
        group = taker.id("network.security_group")
        remote = giver.id("network.security_group")
        taker.add("network.security_group_rule", security_group_id=group, remote_group_id=remote)
    giver.named("image.image", visibility="shared", members=[taker.project])
    # A user of the one works for the other, too.
    cloud.grant(taker.project, giver.users[0], "member")
    add("", "identity.application_credential", taker.project, user_id=giver.users[0], name="elsewhere")


def _admin(cloud: Emulated) -> str:
    return next(p.id for p in cloud.identity.projects.values() if p.name == "admin")


def populate(
    cloud: Emulated,
    projects: int,
    bystanders: int,
    resources: int,
    everything: bool,
    small: bool = False,
    servers: int = 0,
) -> None:
    """Make the projects, fill them, and let them share."""
    external: dict[str, Any] = {"name": "public", "router:external": True}
    for region in cloud.regions if "network" not in cloud.without else ():
        public = cloud.state.add(region, "network.network", _admin(cloud), **external)
        cloud.state.add(region, "network.subnet", _admin(cloud), name="public", network_id=public.id)

    def make(name: str, guest: str, least: int) -> list[Filler]:
        project = cloud.add_project(name)
        # Each project has a separate generator, so that another project changes none of the others.
        made = [Filler(cloud, r, project, random.Random(f"{cloud.seed} {name} {r}"), guest) for r in cloud.regions]
        _people(made[0])
        for filler in made:
            filler.users = made[0].users
            fill(filler, everything, small)
            for _ in range(servers):
                filler.named("compute.server")
        missing = least - sum(cloud.left(project).values())
        for filler in made if missing > 0 else ():
            fill_up(filler, -(-missing // len(made)))
        return made

    standing = [make(f"bystander-{number}", "", 0) for number in range(bystanders)]
    cloud.bystanders = [fillers[0].project for fillers in standing]
    for number in range(projects):
        guest = cloud.bystanders[number % bystanders] if bystanders else ""
        made = make(f"doomed-{number}", guest, resources)
        cloud.projects.append(made[0].project)
        for giver, taker in zip(standing[number % bystanders] if bystanders else (), made, strict=False):
            share(giver, taker)
