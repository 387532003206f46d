"""Each hook of a plugin that compares an owner: what is the project's is taken, and nothing that is another's."""

from __future__ import annotations

import dataclasses
import types
from urllib.parse import urlencode

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import (
    block_storage,
    compute,
    container_infrastructure_management,
    dns,
    exceptions,
    identity,
    image,
    network,
    object_store,
    orchestration,
    shared_file_system,
)
from cleanup_orchestrator.plugins import neutron as neutron_calls
from cleanup_orchestrator.plugins.base import Refused, Resource
from tests.support.sweeps import before_delete
from tests.unit.answers import Answers, connection, project

OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


def resource(id_="1", owner=OURS, **row):
    return Resource(id_, f"n-{id_}", owner, {"id": id_, "project_id": owner, **row})


def ids(rows):
    return [row["id"] for row in rows]


def listing(module, name):
    return next(type_.list for type_ in module.SERVICE.types if type_.name == name)


def refusal(call, *args):
    """Return the verdict with which a hook refuses, ``None`` if it does not."""
    try:
        call(*args)
    except Refused as refused:
        return refused.verdict
    return None


# ---------------------------------------------------------------------------------------------------------------- image
class Glance:
    """Images with their members, namespaces, and what it is asked."""

    def __init__(self):
        self.images = [
            {"id": "own", "owner": OURS, "name": "own", "os_hidden": False},
            {"id": "foreign", "owner": THEIRS, "name": "foreign", "os_hidden": False},
            {"id": "hidden", "owner": THEIRS, "name": "hidden", "os_hidden": True},
            {"id": "own-hidden", "owner": OURS, "name": "own-hidden", "os_hidden": True},
        ]
        self.members = {
            "own": [OURS, "third"],
            "own-hidden": [],
            "foreign": ["third", OURS],
            "hidden": ["third"],
        }
        self.queries = []

    def answer(self, method, path, query, body):
        self.queries.append((path, query))
        if path == "/metadefs/namespaces":
            owners = {"a": OURS, "b": THEIRS, "c": None}
            return 200, {"namespaces": [{"namespace": name, "owner": owner} for name, owner in owners.items()]}
        if path.endswith("/members"):
            id_ = path.split("/")[2]
            return 200, {
                "members": [{"member_id": who, "image_id": id_, "status": "accepted"} for who in self.members[id_]]
            }
        hidden = query["os_hidden"] == "true"
        owner = query.get("owner")
        rows = [row for row in self.images if row["os_hidden"] is hidden and owner in (None, row["owner"])]
        return 200, {"images": rows}


def test_metadef_namespaces_are_listed_by_owner():
    cloud = connection(image=Glance().answer)
    assert [row["namespace"] for row in listing(image, "metadef_namespace")(cloud, PROJECT)] == ["a"]


def test_memberships_of_the_project_in_images_of_others_are_listed():
    found = list(listing(image, "membership")(connection(image=Glance().answer), PROJECT))
    assert [(row["image_id"], row["member_id"]) for row in found] == [("foreign", OURS)]


def test_images_are_listed_by_owner_and_include_hidden_ones():
    glance = Glance()
    found = list(listing(image, "image")(connection(image=glance.answer), PROJECT))
    assert ids(found) == ["own", "own-hidden"]
    assert [query["owner"] for _, query in glance.queries] == [OURS, OURS]


@pytest.mark.parametrize("named", [True, False])
def test_glance_deletes_no_secret_that_an_image_names(named):
    """With the policy ``on_image_deletion`` it would, with our token: also one of the orchestrator's own project."""
    key = {"cinder_encryption_key_deletion_policy": "on_image_deletion"} if named else {}
    cloud = connection(image=lambda *_: (200, {"id": "i", "cinder_encryption_key_id": "theirs", **key}))
    image._keep_key(cloud, PROJECT, resource("i"))
    change = [{"op": "remove", "path": "/cinder_encryption_key_deletion_policy"}]
    assert [body for _, _, body in cloud.image.writes()] == ([change] if named else [])


@pytest.mark.parametrize(
    ("urls", "acts"),
    [
        (None, False),
        ([], False),
        (["rbd://f/pool/i/snap", "file:///images/i", "https://a/b"], False),
        (["file:///images/i", "cinder://lvm/victim"], True),
        (["CINDER://victim"], True),
        (["swift+https://host.of.a.tenant/v1/AUTH_x/c/o"], True),
    ],
)
@pytest.mark.parametrize("gone", [False, True])
def test_a_store_acts_on_an_images_locations_with_no_admins_token(urls, acts, gone):
    """With a Glance that lets users write them. Of a project that is gone there is no other token."""
    row = {"id": "i", **({} if urls is None else {"locations": [{"url": url} for url in urls]})}
    assert image._has_user_written_locations(Resource("i", "", OURS, row)) is acts
    cloud = connection(image=lambda *_: (200, row))
    verdict = refusal(
        image._refuse_user_written_locations, cloud, dataclasses.replace(PROJECT, gone=gone), resource("i")
    )
    assert (verdict is not None) is (acts and gone)


def test_a_namespace_keeps_its_owner_when_its_protection_is_cleared():
    cloud = connection(image=lambda *_: (200, {}))
    row = {"namespace": "a", "visibility": "private", "owner": OURS, "protected": True, "schema": "/v2/x"}
    image._unprotect_namespace(cloud, PROJECT, Resource("a", "a", OURS, row))
    [(method, _, body)] = cloud.image.writes()
    assert method == "PUT"
    assert body == {"namespace": "a", "visibility": "private", "owner": OURS, "protected": False}


# -------------------------------------------------------------------------------------------------------------- network
class Neutron(Answers):
    """The network proxy of a connection: rows by method; it writes down what it is told to change."""

    def __init__(self, **rows):
        super().__init__(self.collection)
        self.rows, self.did = {"extensions": [{"alias": "router"}], **rows}, []

    def collection(self, _method, path, _query, _body):
        """Return all rows of a collection, whatever is asked for."""
        key = path.strip("/").replace("-", "_")
        return 200, {key: self.rows.get({"floatingips": "ips"}.get(key, key), [])}

    def get_endpoint(self):
        """Return none, so that the extensions of one Neutron are not taken for those of another."""
        return None

    def __getattr__(self, method):
        if method.startswith(("delete_", "remove_", "update_")):
            return lambda *args, **kwargs: self.did.append(
                (method, *args, *(v for k, v in kwargs.items() if k == "port"))
            )
        if method.startswith("get_"):
            return lambda id_: self.rows[method][id_]
        if method in self.rows:
            return lambda *args, **query: iter(self.filtered(method, *args, **query))
        raise AttributeError(method)

    def filtered(self, method, *args, **query):
        """Return all rows, whatever is asked for: a filter that Neutron ignores must do no harm."""
        rows = self.rows[method]
        return rows[args[0]] if args else rows


def neutron(scope="own", **rows):
    session = types.SimpleNamespace(get_project_id=lambda: scope)
    return types.SimpleNamespace(network=Neutron(**rows), session=session)


def port(id_, owner, **row):
    return {"id": id_, "project_id": owner, "network_id": "1", **row}


@pytest.mark.parametrize(
    ("owners", "foreign"), [([], []), ([OURS], []), ([OURS, THEIRS], [THEIRS]), ([THEIRS], [THEIRS]), ([""], [""])]
)
def test_a_network_is_deleted_with_subnets_of_the_project_and_with_no_others(owners, foreign):
    subnets = [{"id": f"s{n}", "project_id": owner, "network_id": "1"} for n, owner in enumerate(owners)]
    verdict = refusal(network.networks.check_network, neutron(subnets=subnets), PROJECT, resource())
    assert [b["owner"] for b in (verdict.blocked_by if verdict else ())] == foreign
    assert verdict is None or verdict.reason is Reason.FOREIGN


def test_a_subnet_with_a_port_that_would_lose_its_address_stays():
    """Neutron removes automatic addresses from the ports of any project, the deleted one included."""
    on_it = {"fixed_ips": [{"subnet_id": "s"}]}
    subnet = resource("s", network_id="1")
    dhcp = port("dhcp", OURS, device_owner="network:dhcp", **on_it)
    cloud = neutron(ports=[dhcp, port("off", THEIRS, fixed_ips=[{"subnet_id": "other"}])])
    assert refusal(network.networks.check_subnet, cloud, PROJECT, subnet) is None
    cloud.network.rows["ports"].append(port("mine", OURS, **on_it))
    verdict = refusal(network.networks.check_subnet, cloud, PROJECT, subnet)
    assert (verdict.reason, [b["id"] for b in verdict.blocked_by]) == (Reason.IN_USE, ["mine"])
    cloud.network.rows["ports"].append(port("theirs", THEIRS, **on_it))
    verdict = refusal(network.networks.check_subnet, cloud, PROJECT, subnet)
    assert (verdict.reason, [b["id"] for b in verdict.blocked_by]) == (Reason.FOREIGN, ["theirs"])


def test_interfaces_of_the_project_are_removed_from_a_router_and_others_are_named():
    owner = {"device_id": "1", "device_owner": "network:router_interface"}
    rows = [port("mine", OURS, **owner), port("theirs", THEIRS, **owner), port("x", OURS, device_id="2")]
    cloud = neutron(ports=rows)
    verdict = refusal(network.routers.remove_interfaces, cloud, PROJECT, resource())
    assert cloud.network.did == [("remove_interface_from_router", "1", "mine")]
    assert [b["id"] for b in verdict.blocked_by] == ["theirs"]
    assert refusal(network.routers.remove_interfaces, neutron(ports=rows[:1]), PROJECT, resource()) is None


@pytest.mark.parametrize(("owner", "reason"), [(OURS, Reason.IN_USE), (THEIRS, Reason.FOREIGN)])
@pytest.mark.parametrize("call", ["remove_interfaces", "delete_port"])
def test_the_trunk_that_a_port_is_in_is_named(call, owner, reason):
    """Neutron refuses the removal of an interface whose port is a subport. Only its refusal has the trunk."""
    trunk = "0a2b0000-0000-4000-8000-000000000000"
    cloud = neutron(
        ports=[port("mine", OURS, device_id="1", device_owner="network:router_interface")],
        get_trunk={trunk: {"id": trunk, "project_id": owner}},
    )

    def refused(*_args, **_query):
        raise exceptions.ConflictException(f"Port mine is currently a subport for trunk {trunk}.")

    cloud.network.remove_interface_from_router = cloud.network.delete_port = refused
    hook = network.routers.remove_interfaces if call == "remove_interfaces" else network.ports.delete_port
    verdict = refusal(hook, cloud, PROJECT, resource())
    assert (verdict.reason, [b["id"] for b in verdict.blocked_by]) == (reason, [trunk])


def test_conntrack_helpers_are_those_of_the_projects_routers():
    routers = [{"id": "r1", "project_id": OURS}, {"id": "r2", "project_id": THEIRS}]
    cloud = neutron(routers=routers, conntrack_helpers={"r1": [{"id": "h1"}], "r2": [{"id": "h2"}]})
    assert ids(network.routers.list_conntrack_helpers(cloud, PROJECT)) == ["h1"]


def test_port_forwardings_are_those_of_the_projects_floating_ips():
    addresses = [{"id": "f1", "project_id": OURS}, {"id": "f2", "project_id": THEIRS}]
    cloud = neutron(ips=addresses, port_forwardings={"f1": [{"id": "w1"}], "f2": [{"id": "w2"}]})
    found = list(network.routers.list_port_forwardings(cloud, PROJECT))
    assert [(row["id"], row["project_id"]) for row in found] == [("w1", OURS)]


def test_a_port_forwarding_belongs_to_the_current_owner_of_its_floating_ip():
    cloud = neutron(get_ip={"f": {"id": "f", "project_id": THEIRS}})
    row = network.routers.show_port_forwarding(cloud, PROJECT, resource("w", floatingip_id="f"))
    assert row["project_id"] == THEIRS


@pytest.mark.parametrize(
    ("groups", "reason"),
    [(["other"], None), ([], None), (["default"], Reason.IN_USE), (["other", "default"], Reason.IN_USE)],
)
def test_rules_of_the_project_that_name_an_address_group_are_deleted_unless_a_port_uses_them(groups, reason):
    rows = [
        {"id": "mine", "project_id": OURS, "remote_address_group_id": "1", "security_group_id": "default"},
        {"id": "theirs", "project_id": THEIRS, "remote_address_group_id": "1", "security_group_id": "other"},
        {"id": "another", "project_id": OURS, "remote_address_group_id": "2", "security_group_id": "other"},
    ]
    cloud = neutron(security_group_rules=rows, ports=[port("left", OURS, security_group_ids=groups)])
    verdict = refusal(network.security.drop_own_rules, cloud, PROJECT, resource())
    assert (verdict and verdict.reason) == reason
    assert cloud.network.did == ([] if reason else [("delete_security_group_rule", "mine")])


def test_a_security_group_that_a_rule_of_another_project_names_stays():
    mine = {"id": "mine", "project_id": OURS, "remote_group_id": "1"}
    other = {"id": "other", "project_id": THEIRS, "remote_group_id": "2"}
    assert (
        refusal(network.security.check_security_group, neutron(security_group_rules=[mine, other]), PROJECT, resource())
        is None
    )
    theirs = {"id": "theirs", "project_id": THEIRS, "remote_group_id": "1"}
    verdict = refusal(
        network.security.check_security_group, neutron(security_group_rules=[mine, theirs]), PROJECT, resource()
    )
    assert [b["id"] for b in verdict.blocked_by] == ["theirs"]
    assert verdict.reason is Reason.FOREIGN


def test_a_list_of_groups_names_the_project_of_the_orchestrator_first():
    assert network.common.own_and(neutron(), PROJECT) == ["own", OURS]
    with pytest.raises(BadAnswer):
        network.common.own_and(neutron(scope=None), PROJECT)


def test_neutrons_own_ports_are_kept_on_the_projects_networks_alone():
    dhcp = {"device_owner": "network:dhcp"}
    rows = [
        {"id": "here", "project_id": OURS, "network_id": "own", **dhcp},
        {"id": "there", "project_id": OURS, "network_id": "foreign", **dhcp},
    ]
    asked = []

    def answer(_method, path, query, _body):
        asked.append((path, query))
        return 200, {"ports": rows}

    cloud = connection(network=answer)
    cloud.network.networks = lambda **_: iter([{"id": "own", "project_id": OURS}])
    found = [resource(row["id"], **row) for row in network.ports.list_ports(cloud, PROJECT)]
    assert [bool(network.ports.of_own_network(each, PROJECT)) for each in found] == [True, False]
    assert asked == [("/ports", {"project_id": OURS, "limit": 1000})]


def test_the_ports_of_routers_are_asked_for_on_each_page_and_no_others_are_taken():
    owners, asked = neutron_calls.ROUTER_PORTS, []
    link = f"http://other/v2.0/ports?limit=1&{urlencode({'device_owner': owners, 'marker': 'a'}, doseq=True)}"

    def answer(_method, _path, query, _body):
        asked.append(query)
        rows = [{"id": "a", "device_owner": owners[0]}, {"id": "b", "device_owner": "compute:nova"}]
        if "marker" in query:
            return 200, {"ports": [{"id": "c", "device_owner": owners[-1]}]}
        return 200, {"ports": rows, "ports_links": [{"rel": "next", "href": link}]}

    assert ids(network.ports.all_ports(of_routers=True)(connection(network=answer), PROJECT)) == ["a", "c"]
    assert [query["device_owner"] for query in asked] == [list(owners)] * 2


# ------------------------------------------------------------------------------------------------------------------ dns
class Designate:
    """Zones, recordsets, shares and keys; each list comes in one page, with the rows of every project."""

    def __init__(self):
        self.zones = [
            {"id": "z", "name": "ours.example.", "project_id": OURS},
            {"id": "t", "name": "theirs.example.", "project_id": THEIRS},
            {"id": "n", "name": "unowned.example.", "project_id": ""},
        ]
        self.recordsets, self.in_zone = [], []
        self.keys = [
            {"id": "k", "name": "k", "scope": "ZONE", "resource_id": "z"},
            {"id": "l", "name": "l", "scope": "ZONE", "resource_id": "t"},
            {"id": "m", "name": "m", "scope": "POOL", "resource_id": "z"},
        ]

    def answer(self, method, path, query, body):
        first = "marker" not in query
        if path == "/zones":
            rows = self.zones
            if name := query.get("name"):
                rows = [zone for zone in rows if zone["name"].endswith(name.removeprefix("*"))]
            return 200, {"zones": rows if first else []}
        if path == "/recordsets":
            return 200, {"recordsets": self.recordsets if first else []}
        if path == "/tsigkeys":
            return 200, {"tsigkeys": self.keys if first else []}
        if path.endswith("/recordsets"):
            return 200, {"recordsets": self.in_zone if first else []}
        if path.endswith("/shares"):
            zone = path.split("/")[2]
            return 200, {"shared_zones": [{"id": f"share-of-{zone}", "target_project_id": OURS}] if first else []}
        return 200, {}


ZONE = Resource("z", "ours.example.", OURS, {"id": "z", "name": "ours.example.", "project_id": OURS})


@pytest.mark.parametrize(("owner", "foreign"), [(OURS, False), ("", False), (THEIRS, True)])
def test_a_zone_with_a_recordset_of_another_project_stays(owner, foreign):
    designate = Designate()
    designate.in_zone = [{"id": "r", "project_id": owner}]
    verdict = before_delete(dns.zones.ZONE, connection(dns=designate.answer), PROJECT, ZONE)
    assert (verdict is not None) is foreign
    assert verdict is None or (verdict.reason, verdict.blocked_by[0]["id"]) == (Reason.FOREIGN, "r")


@pytest.mark.parametrize(("owner", "foreign"), [(OURS, False), (THEIRS, True)])
def test_a_zone_with_a_zone_of_another_project_below_it_stays(owner, foreign):
    designate = Designate()
    designate.zones.append({"id": "b", "name": "below.ours.example.", "project_id": owner})
    verdict = before_delete(dns.zones.ZONE, connection(dns=designate.answer), PROJECT, ZONE)
    assert (verdict is not None) is foreign
    assert verdict is None or (verdict.reason, verdict.blocked_by[0]["id"]) == (Reason.FOREIGN, "b")


PTR = {"type": "PTR", "name": "4.113.0.203.in-addr.arpa."}


@pytest.mark.parametrize(("holder", "kept"), [(OURS, False), ("", False), (THEIRS, True)])
def test_the_ptr_record_of_an_address_belongs_to_its_holder(monkeypatch, holder, kept):
    ips = [{"project_id": holder}] if holder else []
    monkeypatch.setattr(dns.records, "_floating_ips", lambda _connection, **_query: iter(ips))
    designate = Designate()
    designate.recordsets = [
        {"id": "in-own", "project_id": OURS, "zone_id": "z", **PTR},
        {"id": "in-theirs", "project_id": OURS, "zone_id": "t", **PTR},
    ]
    cloud = connection(dns=designate.answer)
    [row] = listing(dns, "recordset")(cloud, PROJECT)
    assert row["id"] == "in-theirs", "those in the project's own zones go with these"
    recordset = Resource(row["id"], "", OURS, row)
    assert bool(dns.records.others_floating_ip(recordset, PROJECT)) is kept
    verdict = refusal(dns.records._delete_recordset, cloud, PROJECT, recordset)
    assert (verdict is not None) is kept
    assert bool(cloud.dns.writes()) is not kept


def test_shares_are_those_of_others_zones_with_the_project():
    found = listing(dns, "zone_share")(connection(dns=Designate().answer), PROJECT)
    assert ids(found) == ["share-of-t"]


def test_keys_are_those_of_the_projects_zones():
    cloud = connection(dns=Designate().answer)
    assert ids(listing(dns, "tsig_key")(cloud, PROJECT)) == ["k"]


# ------------------------------------------------------------------------------------------- Nova, Cinder, Manila, Heat
def test_servers_out_of_reach_are_read_from_a_list_of_the_project_alone():
    answer = lambda *_: (200, {"servers": [{"id": "s", "status": "UNKNOWN"}]})  # noqa: E731
    assert ids(compute.servers.list_unreachable_servers(connection(scope=OURS, compute=answer), PROJECT)) == ["s"]
    with pytest.raises(BadAnswer, match="scoped into project them"):
        list(compute.servers.list_unreachable_servers(connection(scope=THEIRS, compute=answer), PROJECT))


@pytest.mark.parametrize(("owner", "ours"), [(OURS, True), ("", True), (THEIRS, False)])
def test_a_list_of_servers_with_one_of_another_project_is_no_answer(owner, ours):
    """Nova ignores filters that its policy does not allow; one without an owner is protected by the sweep."""

    def answer(method, path, query, body):
        return 200, {"servers": [] if query.get("soft_deleted") else [{"id": "s", "tenant_id": owner}]}

    cloud = connection(compute=answer)
    if ours:
        assert ids(compute.servers.list_servers(cloud, PROJECT)) == ["s"]
        return
    with pytest.raises(BadAnswer, match="listed one of another project"):
        list(compute.servers.list_servers(cloud, PROJECT))


def test_flavor_access_is_the_projects():
    def answer(method, path, query, body):
        if path == "/flavors":
            return 200, {"flavors": [{"id": "f", "name": "f"}]}
        return 200, {"flavor_access": [{"flavor_id": "f", "tenant_id": who} for who in (THEIRS, OURS)]}

    found = list(compute.settings.list_flavor_access(connection(compute=answer), PROJECT))
    assert [row["tenant_id"] for row in found] == [OURS]


def cinder(**rows):
    """Cinder: rows by collection, and volumes by id."""

    def answer(method, path, query, body):
        parts = path.strip("/").split("/")
        if parts[0] == "volumes" and len(parts) == 2 and parts[1] != "detail":
            return 200, {"volume": next(v for v in rows["volumes"] if v["id"] == parts[1])}
        key = {"types": "volume_types"}.get(parts[0], parts[0])
        if parts[-1] == "os-volume-type-access":
            key = "volume_type_access"
        return 200, {key: [] if "marker" in query or query.get("offset") else rows.get(key, [])}

    return connection(scope=OURS, block_storage=answer, compute=lambda *_: (404, {}))


def volume(id_, owner, **row):
    return {"id": id_, "os-vol-tenant-attr:tenant_id": owner, "attachments": [], **row}


def test_an_attachment_is_its_volumes_owners():
    rows = [{"id": "a1", "volume_id": "v1"}, {"id": "a2", "volume_id": "v2"}]
    cloud = cinder(volumes=[volume("v1", OURS), volume("v2", THEIRS)], attachments=rows)
    found = {row["id"]: row["project_id"] for row in block_storage.volumes.list_attachments(cloud, PROJECT)}
    assert found == {"a1": OURS, "a2": THEIRS}


def test_a_group_with_a_volume_of_another_project_stays():
    mine, theirs = volume("v1", OURS, group_id="1"), volume("v2", THEIRS, group_id="1")
    group = resource(status="available")
    type_ = block_storage.groups.GROUP
    assert before_delete(type_, cinder(volumes=[mine]), PROJECT, group) is None
    verdict = before_delete(type_, cinder(volumes=[mine, theirs]), PROJECT, group)
    assert (verdict.reason, [b["id"] for b in verdict.blocked_by]) == (Reason.FOREIGN, ["v2"])


def test_a_list_that_rests_on_its_token_takes_a_token_of_the_project():
    block_storage.common.check_scope(connection(scope=OURS), PROJECT)
    with pytest.raises(BadAnswer, match="scoped into project them"):
        block_storage.common.check_scope(connection(scope=THEIRS), PROJECT)


def test_volume_type_access_is_the_projects():
    access = [{"volume_type_id": "t", "project_id": who} for who in (THEIRS, OURS)]
    cloud = cinder(volume_types=[{"id": "t", "name": "t"}], volume_type_access=access)
    assert [row["project_id"] for row in block_storage.settings.list_type_access(cloud, PROJECT)] == [OURS]


def manila(**rows):
    def answer(method, path, query, body):
        key = path.strip("/").split("/")[0].replace("-", "_")
        if path.endswith("/share_type_access"):
            key = "share_type_access"
        elif path.startswith("/types"):
            key = "share_types"
        return 200, {key: [] if query.get("offset") else rows.get(key, [])}

    return connection(shared_file_system=answer)


def test_replicas_and_backups_are_listed_for_the_shares_of_the_project():
    shares = [{"id": "s1", "project_id": OURS}, {"id": "s2", "project_id": THEIRS}]
    assert set(ids(shared_file_system.shares._own_shares(manila(shares=shares), PROJECT))) == {"s1"}


def test_share_type_access_is_the_projects():
    types_ = [{"id": "t", "name": "t", "share_type_access:is_public": False}]
    access = [{"share_type_id": "t", "project_id": who} for who in (THEIRS, OURS)]
    cloud = manila(share_types=types_, share_type_access=access)
    found = list(listing(shared_file_system, "type_access")(cloud, PROJECT))
    assert [row["project_id"] for row in found] == [OURS]


class Heat:
    """Configs of two projects, with a deployment of each."""

    @staticmethod
    def answer(method, path, query, body):
        if path == "/software_configs":
            rows = [{"id": "c1", "project": OURS}, {"id": "c2", "project": THEIRS}]
            return 200, {"software_configs": [] if "marker" in query else rows}
        rows = [{"id": "d1", "config_id": "c1"}, {"id": "d2", "config_id": "c2"}]
        return 200, {"software_deployments": rows}


def test_deployments_are_those_of_the_projects_configs():
    assert ids(orchestration.configs._deployments(connection(orchestration=Heat.answer), PROJECT)) == ["d1"]


@pytest.mark.parametrize(("owner", "foreign"), [(OURS, False), (THEIRS, True)])
def test_a_deployment_to_another_projects_server_stays(owner, foreign):
    nova = lambda *_: (200, {"server": {"id": "s", "tenant_id": owner}})  # noqa: E731
    deployment = resource("d", server_id="s")
    verdict = before_delete(orchestration.configs.SOFTWARE_DEPLOYMENT, connection(compute=nova), PROJECT, deployment)
    assert (verdict is not None) is foreign


def test_of_the_trusts_given_to_heat_those_for_the_project_are_deleted():
    trusts = [
        {"id": "own", "project_id": OURS, "trustor_user_id": "cleanup", "trustee_user_id": "heat"},
        {"id": "mine", "project_id": OURS, "trustor_user_id": "u", "trustee_user_id": "heat"},
        {"id": "theirs", "project_id": THEIRS, "trustor_user_id": "u", "trustee_user_id": "heat"},
        {"id": "another", "project_id": OURS, "trustor_user_id": "u", "trustee_user_id": "friend"},
    ]
    cloud = connection(identity=lambda method, *_: (200, {"trusts": trusts}) if method == "GET" else (204, {}))
    error = exceptions.failure(500)
    assert orchestration.stacks._drop_trusts(cloud, cloud, PROJECT, resource("s"), error)
    assert [path for _, path, _ in cloud.identity.writes()] == ["/OS-TRUST/trusts/mine"]


# -------------------------------------------------------------------------------------------- Keystone, Swift, Magnum
def keystone(method, path, query, body):
    """Two users; each has an application credential in each project, and the first one has the project as default."""
    if path.startswith("/OS-PROJECT-CLEANUP"):  # it lists them by user only
        return 404, {"error": {"code": 404, "message": "not found"}}
    if path.startswith("/role_assignments"):
        scope = {"project": {"id": OURS}}
        return 200, {"role_assignments": [{"user": {"id": who}, "scope": scope} for who in ("u1", "u2")]}
    if path.endswith("/application_credentials"):
        user = path.split("/")[2]
        rows = [{"id": f"{user}-{who}", "project_id": who} for who in (OURS, THEIRS)]
        return 200, {"application_credentials": rows}
    if path.startswith("/users/"):
        user = path.split("/")[2]
        default = OURS if user == "u1" else THEIRS
        return 200, {"user": {"id": user, "default_project_id": default}}
    return 200, {"things": [{"id": who, "project_id": who} for who in (OURS, THEIRS)]}


def test_of_each_users_credentials_those_in_the_project_are_listed():
    found = listing(identity, "application_credential")(connection(identity=keystone), PROJECT)
    assert sorted(ids(found)) == ["u1-p", "u2-p"]


def test_users_with_the_project_as_their_default_project_are_listed():
    assert ids(identity._default_project_users(connection(identity=keystone), PROJECT)) == ["u1"]


def test_of_a_list_without_a_filter_the_projects_rows_are_taken():
    assert ids(identity._list_own("/things", "things")(connection(identity=keystone), PROJECT)) == [OURS]


@pytest.mark.parametrize(
    ("scope", "account", "ours"),
    [(OURS, "AUTH_p", True), (OURS, "AUTH_them", False), (THEIRS, "AUTH_p", False), (THEIRS, "AUTH_them", False)],
)
def test_an_account_is_the_projects_by_its_token_and_by_its_name(scope, account, ours):
    cloud = connection(scope=scope)
    cloud.object_store = types.SimpleNamespace(get_endpoint=lambda: f"http://swift/v1/{account}")
    if ours:
        assert object_store.common.account_url(cloud, PROJECT) == f"http://swift/v1/{account}"
        return
    with pytest.raises(BadAnswer):
        object_store.common.account_url(cloud, PROJECT)


@pytest.mark.parametrize(("public", "protected"), [(False, False), (True, True), (None, True)])
def test_a_public_cluster_template_is_protected(public, protected):
    template = resource(public=public)
    assert bool(container_infrastructure_management._protect_public(template, PROJECT)) is protected
