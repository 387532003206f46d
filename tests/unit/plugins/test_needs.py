"""Which resources the leftovers of another type need, by what the services say."""

import types

import pytest
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource, Rest, exceptions, linked, refused_in_use

US = ProjectDefinition("us", "Us", "default", "R1")
INSTALLED = registry.load()
IMAGE, OTHER = "6a1b8f5e-0000-4000-8000-00000000000a", "6a1b8f5e-0000-4000-8000-00000000000b"
KEY = "0c3ffb40-1111-4111-8111-111111111111"


class Service(Adapter):
    """Answers GET by path; what is not there is a 404."""

    def __init__(self, **bodies):
        self.bodies, self.asked = {f"/{path.replace('__', '/')}": body for path, body in bodies.items()}, []

    def request(self, path, *_, microversion=None, **__):
        self.asked.append((path, microversion))
        if path not in self.bodies:
            raise exceptions.NotFoundException(path)
        body = self.bodies[path]
        if isinstance(body, Exception):
            raise body
        return types.SimpleNamespace(status_code=200, content=b"{}", json=lambda: body)


def cloud(bodies, service="image"):
    made = Service()
    made.bodies = bodies
    return types.SimpleNamespace(**{service.replace("-", "_"): made})


def with_store(images, account=(), container=()):
    """Return a connection to Glance, and to Swift with these headers; ``None``: there is no such container."""

    def request(url, method):
        assert method == "HEAD"
        headers = account if url.endswith("/AUTH_us") else container
        return types.SimpleNamespace(status_code=404 if headers is None else 204, headers=dict(headers or ()))

    made = cloud(images)
    made.session = types.SimpleNamespace(get_project_id=lambda: "us")
    made.object_store = types.SimpleNamespace(request=request, get_endpoint=lambda: "http://swift/v1/AUTH_us")
    return made


def needs(service, type_, other, connection, left):
    known = INSTALLED.needed_by(INSTALLED.services[service], INSTALLED.find(service, type_), kept=True)
    return known[other](connection, US, left)


def resource(id_, **row):
    return Resource(id_, "", "us", {"id": id_, **row})


def test_a_rule_of_refusals_names_nothing():
    assert refused_in_use(None, US, {"p"})(resource("n")) is None


def test_a_row_that_names_a_leftover_is_needed_by_it():
    rule = linked()(None, US, {"s-1", "s-2"})
    assert rule(resource("p", device_id="s-2")) == "s-2"
    assert rule(resource("v", attachments=[{"server_id": "S1"}])) == "s-1", "hyphens and case do not matter"
    assert rule(resource("p", device_id="")) is None


@pytest.mark.parametrize(
    ("image", "needed"),
    [
        ({"cinder_encryption_key_id": KEY}, True),
        ({"img_signature_certificate_uuid": KEY.upper().replace("-", "")}, True),
        ({"locations": [{"url": f"http://barbican/v1/secrets/{KEY}"}]}, True),
        ({"name": "plain"}, False),
    ],
)
@pytest.mark.parametrize("type_", ["secret", "container"])
def test_an_image_needs_the_secrets_that_it_names(type_, image, needed):
    connection = cloud({f"/images/{IMAGE}": {"id": IMAGE, **image}})
    rule = needs("key-manager", type_, "image.image", connection, {IMAGE})
    assert rule(resource(KEY)) == (IMAGE if needed else None)


def test_a_leftover_that_its_service_does_not_know_may_need_anything_and_an_error_is_raised():
    rule = linked(Rest("image", "/images/{id}"))
    assert rule(cloud({}), US, {IMAGE})(resource(KEY)) == IMAGE
    for other in ("image.image", "block-storage.backup"):
        unknown = needs("object-store", "container", other, cloud({}, other.split(".")[0]), {IMAGE})
        assert unknown(resource("plain")) == IMAGE
    with pytest.raises(exceptions.HttpException):
        rule(cloud({f"/images/{IMAGE}": exceptions.HttpException("503")}), US, {IMAGE})


@pytest.mark.parametrize(
    ("container", "image", "needed"),
    [
        (f"glance_{IMAGE}", {}, True),
        (f"images-of-ours_{IMAGE}", {}, True),
        ("glance", {}, False),
        (f"glance_{OTHER}", {}, False),
        ("my data", {"locations": [{"url": "swift+https://store/my%20data/object"}]}, True),
        ("my data", {"direct_url": "swift+https://store/my%20data/object"}, True),
        ("data", {"locations": [{"url": "swift+https://store/my%20data/object"}]}, False),
    ],
)
def test_an_image_needs_the_container_that_has_its_data(container, image, needed):
    connection = with_store({f"/images/{IMAGE}": {"id": IMAGE, **image}})
    rule = needs("object-store", "container", "image.image", connection, {IMAGE})
    assert rule(resource(container)) == (IMAGE if needed else None)


@pytest.mark.parametrize(
    ("account", "container", "needed"),
    [
        ({}, {}, False),
        ({}, {"X-Container-Read": "another:*"}, False),
        ({}, {"X-Container-Read": ".r:*,.rlistings"}, True),
        ({}, {"X-Container-Meta-Temp-URL-Key-2": "key"}, True),
        ({"X-Account-Meta-Temp-URL-Key": "key"}, {}, True),
        ({}, None, False),
    ],
)
def test_an_image_may_need_each_container_that_glance_can_read_by_a_url(account, container, needed):
    """Glance does not show the URL that a user gave it."""
    connection = with_store({f"/images/{IMAGE}": {"id": IMAGE}}, account, container)
    rule = needs("object-store", "container", "image.image", connection, {IMAGE})
    assert rule(resource("data")) == (IMAGE if needed else None)
    assert needs("object-store", "container", "image.image", connection, set())(resource("data")) is None


@pytest.mark.parametrize(("shown", "needed"), [("volumebackups", True), ("elsewhere", False), (None, True), ("", True)])
def test_a_backup_needs_its_container_and_any_if_it_shows_none(shown, needed):
    connection = cloud({"/backups/b": {"backup": {"id": "b", "container": shown}}}, "block-storage")
    rule = needs("object-store", "container", "block-storage.backup", connection, {"b"})
    assert rule(resource("volumebackups")) == ("b" if needed else None)


def test_a_network_needs_its_subnets():
    rule = needs("network", "subnet", "network.network", None, {KEY})
    assert rule(resource(OTHER, network_id=KEY)) == KEY
    assert rule(resource(OTHER, network_id=IMAGE)) is None, "it is on another project's network"


def test_a_group_needs_the_address_groups_of_its_rules():
    rows = [{"remote_address_group_id": KEY}]
    connection = cloud({"/security-groups/g": {"security_group": {"id": "g", "security_group_rules": rows}}}, "network")
    rule = needs("network", "address_group", "network.security_group", connection, {"g"})
    assert rule(resource(KEY)) == "g" and rule(resource(OTHER)) is None


def test_a_server_needs_the_images_of_its_kernel_and_its_ramdisk_which_an_early_microversion_does_not_show():
    shown = {"server": {"id": "s", "image": {"id": IMAGE}, "OS-EXT-SRV-ATTR:kernel_id": KEY}}
    connection = cloud({"/servers/s": shown}, "compute")
    rule = needs("image", "image", "compute.server", connection, {"s"})
    assert rule(resource(KEY)) == "s" and rule(resource(OTHER)) is None
    assert connection.compute.asked == [("/servers/s", "2.3")]


def test_a_server_needs_its_volumes_its_image_its_ports_and_their_trunks():
    shown = {"server": {"id": "s", "image": {"id": IMAGE}, "os-extended-volumes:volumes_attached": [{"id": KEY}]}}
    connection = cloud({"/servers/s": shown}, "compute")
    assert needs("block-storage", "volume", "compute.server", connection, {"s"})(resource(KEY)) == "s"
    assert needs("block-storage", "volume", "compute.server", connection, {"s"})(resource(OTHER)) is None
    assert needs("image", "image", "compute.server", connection, {"s"})(resource(IMAGE)) == "s"
    assert needs("network", "port", "compute.server", connection, {"s"})(resource(OTHER, device_id="s")) == "s"
    rows = [{"id": OTHER, "device_id": "s"}, {"id": KEY, "device_id": "another"}]
    network = types.SimpleNamespace(ports=lambda device_id: rows)
    trunk = needs("network", "trunk", "compute.server", types.SimpleNamespace(network=network), {"s"})
    assert trunk(resource("t", port_id=OTHER)) == "s" and trunk(resource("t", port_id=KEY)) is None


def neutron(*rows):
    """Return a connection to a Neutron with these ports: (id, device, owner of the device, network)."""
    keys = ("id", "device_id", "device_owner", "network_id")
    ports = [dict(zip(keys, row, strict=True)) for row in rows]
    listed = lambda device_id: [port for port in ports if port["device_id"] == device_id]  # noqa: E731
    return types.SimpleNamespace(network=types.SimpleNamespace(ports=listed))


@pytest.mark.parametrize("server", ["compute.server", "compute.unreachable_server"])
def test_a_server_uses_the_addresses_that_lead_to_its_ports(server):
    connection = neutron((KEY, "s", "compute:nova", "n"), (OTHER, "another", "compute:nova", "n"))
    floating_ip = needs("network", "floating_ip", server, connection, {"s"})
    assert floating_ip(resource("f", port_id=KEY)) == "s"
    assert [floating_ip(resource("f", port_id=port)) for port in (OTHER, None)] == [None, None]
    forwarding = needs("network", "port_forwarding", server, connection, {"s"})
    assert forwarding(resource("pf", internal_port_id=KEY)) == "s"
    assert forwarding(resource("pf", internal_port_id=OTHER)) is None


def test_a_load_balancer_uses_the_floating_ip_of_its_address():
    connection = cloud({"/lbaas/loadbalancers/l": {"loadbalancer": {"vip_port_id": KEY}}}, "load-balancer")
    rule = needs("network", "floating_ip", "load-balancer.load_balancer", connection, {"l"})
    assert rule(resource("f", port_id=KEY)) == "l"
    assert [rule(resource("f", port_id=port)) for port in (OTHER, None)] == [None, None]


@pytest.mark.parametrize(
    ("port", "used"),
    [
        (("i", "r", "network:router_interface", "n"), True),
        (("i", "r", "network:router_interface_distributed", "n"), True),
        (("i", "r", "network:router_interface", "another"), False),
        (("i", "r", "network:router_gateway", "n"), False),  # the server is on the external network itself
        (("i", "another", "network:router_interface", "n"), False),
    ],
)
def test_a_server_uses_the_routers_of_its_networks(port, used):
    connection = neutron((KEY, "s", "compute:nova", "n"), port)
    router = needs("network", "router", "compute.server", connection, {"s"})
    assert router(resource("r")) == ("s" if used else None)


A, B = IMAGE, OTHER


@pytest.mark.parametrize(
    ("type_", "other", "path", "row", "resource_"),
    [
        ("dns.zone", "dns.zone_transfer_request", "/zones/tasks/transfer_requests/l", {"zone_id": A}, {}),
        ("dns.zone", "dns.zone_import", "/zones/tasks/imports/l", {"zone_id": A}, {}),
        ("dns.zone", "dns.zone_export", "/zones/tasks/exports/l", {"zone_id": A}, {}),
        ("dns.zone", "dns.tsig_key", "/tsigkeys/l", {"resource_id": A}, {}),
        ("key-manager.secret", "key-manager.container", "/containers/l",
         {"secret_refs": [{"secret_ref": f"https://keys/v1/secrets/{A}"}]}, {}),
        ("key-manager.secret", "key-manager.order", "/orders/l", {"secret_ref": f"https://keys/v1/secrets/{A}"}, {}),
        ("key-manager.container", "key-manager.order", "/orders/l",
         {"meta": {"container_ref": f"https://keys/v1/containers/{A}"}}, {}),
        ("network.router", "network.floating_ip", "/floatingips/l", {"floatingip": {"router_id": A}}, {}),
        ("network.router", "network.ndp_proxy", "/ndp_proxies/l", {"ndp_proxy": {"router_id": A}}, {}),
        ("network.router", "network.vpn_service", "/vpn/vpnservices/l", {"vpnservice": {"router_id": A}}, {}),
        ("network.port", "network.sfc_port_pair", "/sfc/port_pairs/l", {"port_pair": {"ingress": A}}, {}),
        ("network.port", "network.sfc_flow_classifier", "/sfc/flow_classifiers/l",
         {"flow_classifier": {"logical_source_port": A}}, {}),
        ("network.port", "network.tap_flow", "/taas/tap_flows/l", {"tap_flow": {"source_port": A}}, {}),
        ("network.port", "network.tap_service", "/taas/tap_services/l", {"tap_service": {"port_id": A}}, {}),
        ("network.port", "network.tap_mirror", "/taas/tap_mirrors/l", {"tap_mirror": {"port_id": A}}, {}),
        ("network.port", "load-balancer.load_balancer", "/lbaas/loadbalancers/l",
         {"loadbalancer": {"additional_vips": [{"port_id": A}]}}, {}),
        ("network.sfc_port_chain", "network.sfc_service_graph", "/sfc/service_graphs/l",
         {"service_graph": {"port_chains": {KEY: [A]}}}, {}),
        ("network.sfc_port_chain", "network.sfc_service_graph", "/sfc/service_graphs/l",
         {"service_graph": {"port_chains": {A: [KEY]}}}, {}),
        ("network.sfc_port_pair_group", "network.sfc_port_chain", "/sfc/port_chains/l",
         {"port_chain": {"port_pair_groups": [A]}}, {}),
        ("network.sfc_flow_classifier", "network.sfc_port_chain", "/sfc/port_chains/l",
         {"port_chain": {"flow_classifiers": [A]}}, {}),
        ("network.sfc_port_pair", "network.sfc_port_pair_group", "/sfc/port_pair_groups/l",
         {"port_pair_group": {"port_pairs": [A]}}, {}),
        ("network.tap_service", "network.tap_flow", "/taas/tap_flows/l", {"tap_flow": {"tap_service_id": A}}, {}),
        ("network.bgp_peer", "network.bgp_speaker", "/bgp-speakers/l", {"bgp_speaker": {"peers": [A]}}, {}),
        ("network.network", "network.vpn_endpoint_group", "/vpn/endpoint-groups/l",
         {"endpoint_group": {"type": "network", "endpoints": [A]}}, {}),
        ("network.network", "network.vpn_endpoint_group", "/vpn/endpoint-groups/l",
         {"endpoint_group": {"type": "subnet", "endpoints": [KEY]}}, {"subnet_ids": [KEY]}),
        ("shared-file-system.share", "shared-file-system.resource_lock", "/resource-locks/l",
         {"resource_lock": {"resource_id": A}}, {}),
        ("shared-file-system.share", "shared-file-system.transfer", "/share-transfers/l",
         {"transfer": {"resource_id": A}}, {}),
        ("shared-file-system.share", "shared-file-system.snapshot", "/snapshots/l", {"snapshot": {"share_id": A}}, {}),
        ("shared-file-system.share", "shared-file-system.backup", "/share-backups/l",
         {"share_backup": {"share_id": A}}, {}),
        ("shared-file-system.share", "shared-file-system.replica", "/share-replicas/l",
         {"share_replica": {"share_id": A}}, {}),
        ("shared-file-system.snapshot", "shared-file-system.replica", "/share-replicas/l",
         {"share_replica": {"share_id": KEY}}, {"share_id": KEY}),
        ("shared-file-system.replica", "shared-file-system.backup", "/share-backups/l",
         {"share_backup": {"share_id": KEY}}, {"share_id": KEY}),
        ("shared-file-system.share_network", "shared-file-system.share", "/shares/l",
         {"share": {"share_network_id": A}}, {}),
        ("shared-file-system.share_network", "shared-file-system.share_group", "/share-groups/l",
         {"share_group": {"share_network_id": A}}, {}),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else None,
)  # fmt: skip
def test_a_leftover_needs_what_it_names_and_nothing_else(type_, other, path, row, resource_):
    service, name = type_.split(".")
    made = cloud({path: row}, other.split(".")[0])
    rule = needs(service, name, other, made, {"l"})
    free = {key: [B] if isinstance(value, list) else B for key, value in resource_.items()}
    assert rule(resource(A, **resource_)) == "l"
    assert rule(resource(B, **free)) is None
    unknown = needs(service, name, other, cloud({}, other.split(".")[0]), {"l"})
    assert unknown(resource(B, **free)) == "l", "it may need anything when its service does not know it"


@pytest.mark.parametrize(
    ("port", "needed", "why"),
    [
        ({}, False, "a user made it, and nothing uses it"),
        ({"device_owner": "compute:nova", "device_id": "s"}, False, "it is a server's"),
        ({"device_owner": "baremetal:none", "device_id": "n"}, False, "it is a node's"),
        ({"device_owner": "trunk:subport", "device_id": "t"}, False, "it is a trunk's"),
        ({"device_owner": "Octavia", "device_id": f"lb-{A}"}, True, "Octavia made it"),
        ({"device_owner": "ovn-lb-hm:distributed"}, True, "a provider made it"),
        ({"device_owner": "manila:share"}, True, "Manila made it"),
        ({"device_owner": "network:vpn_router_gateway"}, True, "a VPN agent made it"),
        ({"device_owner": "vendor:thing"}, True, "a driver of a vendor may have made it"),
        ({"device_id": "something"}, True, "something uses it, and it does not say what"),
    ],
)
@pytest.mark.parametrize(
    "other", ["load-balancer.load_balancer", "shared-file-system.share_network", "network.vpn_service"]
)
def test_a_leftover_that_makes_ports_needs_those_that_a_service_may_have_made(other, port, needed, why):
    made = cloud({f"/lbaas/loadbalancers/{A}": {"loadbalancer": {"id": A}}}, "load-balancer")
    rule = needs("network", "port", other, made, {A})
    assert rule(resource(B, **port)) == (A if needed else None), why


@pytest.mark.parametrize("type_", ["secret", "container"])
def test_load_balancers_need_what_listeners_and_pools_name(type_):
    listener = {"id": "x", "sni_container_refs": [f"https://keys/v1/containers/{KEY.upper()}"]}
    pool = {"id": "y", "ca_tls_container_ref": f"https://keys/v1/secrets/{A}"}
    made = cloud({"/lbaas/listeners": {"listeners": [listener]}, "/lbaas/pools": {"pools": [pool]}}, "load-balancer")
    rule = needs("key-manager", type_, "load-balancer.load_balancer", made, {"l"})
    assert [rule(resource(id_)) for id_ in (KEY, A, B)] == ["l", "l", None]
    hidden = cloud({"/lbaas/listeners": exceptions.ForbiddenException("403")}, "load-balancer")
    assert needs("key-manager", type_, "load-balancer.load_balancer", hidden, {"l"})(resource(B)) == "l"
    with pytest.raises(exceptions.HttpException):
        needs("key-manager", type_, "load-balancer.load_balancer", cloud({}, "load-balancer"), {"l"})


@pytest.mark.parametrize("kind", ["network", "router", "port"])
def test_an_association_needs_its_bgp_vpn_and_what_it_associates(kind):
    made = cloud({"/bgpvpn/bgpvpns": {"bgpvpns": [{"id": B}]}}, "network")
    setattr(made.network, f"bgpvpn_{kind}_associations", lambda _vpn: [{"id": "l", f"{kind}_id": A}])
    other = f"network.bgpvpn_{kind}_association"
    assert [needs("network", kind, other, made, {"l"})(resource(id_)) for id_ in (A, KEY)] == ["l", None]
    assert [needs("network", "bgpvpn", other, made, {"l"})(resource(id_)) for id_ in (B, KEY)] == ["l", None]
    assert needs("network", kind, other, made, {"unseen"})(resource(KEY)) == "unseen"


@pytest.mark.parametrize("type_", ["group", "consistency_group"])
@pytest.mark.parametrize("key", ["group_id", "consistencygroup_id"])
def test_a_server_needs_the_group_of_its_volumes(type_, key):
    compute = cloud({"/servers/s": {"server": {"os-extended-volumes:volumes_attached": [{"id": KEY}]}}}, "compute")
    made = cloud({f"/volumes/{KEY}": {"volume": {"id": KEY, key: A}}}, "block-storage")
    made.compute = compute.compute
    rule = needs("block-storage", type_, "compute.server", made, {"s"})
    assert rule(resource(A)) == "s" and rule(resource(B)) is None
    for bodies in ({}, {"/servers/s": {"server": {"id": "s", "status": "UNKNOWN"}}}):
        made.compute = cloud(bodies, "compute").compute
        assert needs("block-storage", type_, "compute.server", made, {"s"})(resource(B)) == "s"


def test_a_row_that_names_its_user():
    """What needs no call, as the row, or the id of the leftover, says it."""
    for type_, other, row, needed in (
        ("block-storage.attachment", "compute.server", {"instance": A}, True),
        ("block-storage.attachment", "compute.server", {"instance": None}, False),
        ("network.port", "compute.unreachable_server", {"device_id": A}, True),
        ("network.port", "compute.unreachable_server", {"device_id": KEY}, False),
        ("network.router_port", "network.router", {"device_id": A}, True),
        ("network.router_port", "network.router", {"device_id": KEY}, False),
        ("dns.recordset", "dns.ptr", {"type": "PTR"}, True),
        ("dns.recordset", "dns.ptr", {"type": "A"}, False),
    ):
        assert needs(*type_.split("."), other, None, {A})(resource(B, **row)) == (A if needed else None), type_


def test_a_ptr_record_needs_its_floating_ip():
    rule = needs("network", "floating_ip", "dns.ptr", None, {f"RegionOne:{A}"})
    assert rule(resource(A)) == f"RegionOne:{A}" and rule(resource(B)) is None


def test_a_port_forwarding_needs_its_floating_ip():
    """Neutron removes the DNS records of the address before it refuses to delete it."""
    rows = [{"id": A, "project_id": "us"}, {"id": B, "project_id": "us"}]
    listed = {"ips": lambda project_id: rows, "port_forwardings": lambda ip: [{"id": f"of {ip}"}]}
    made = types.SimpleNamespace(network=types.SimpleNamespace(**listed))
    rule = needs("network", "floating_ip", "network.port_forwarding", made, {f"of {A}"})
    assert rule(resource(A)) == f"of {A}" and rule(resource(B)) is None
    assert needs("network", "floating_ip", "network.port_forwarding", made, {"unseen"})(resource(B)) == "unseen"


@pytest.mark.parametrize(
    ("type_", "other"),
    [
        ("container-infrastructure-management.cluster_template", "container-infrastructure-management.failed_cluster"),
        ("orchestration.software_config", "orchestration.software_deployment"),
        ("shared-file-system.share", "shared-file-system.group_snapshot"),
        ("shared-file-system.share_group", "shared-file-system.share"),
        ("shared-file-system.share_group", "shared-file-system.group_snapshot"),
        ("shared-file-system.security_service", "shared-file-system.share_network"),
    ],
)
def test_the_service_itself_refuses_what_is_in_use(type_, other):
    """Each of these deletes is refused by the service (400, 403 or 409), and nothing is changed before."""
    assert needs(*type_.split("."), other, None, {"l"})(resource("r")) is None
