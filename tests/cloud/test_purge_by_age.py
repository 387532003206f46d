"""A purge by age with a real Neutron and Designate: what is old goes, except with a part that is too young."""

from __future__ import annotations

import datetime
import functools
import pathlib
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.worker.sweep.calls import list_resources
from cleanup_orchestrator.worker.sweep.context import RelatedType
from tests.cloud import filler
from tests.cloud.fillings.base import Filled, Rest, client
from tests.cloud.orchestrator import Orchestrator
from tests.support import sweeps


def age_after(*created: str) -> datetime.datetime:
    """Return a time after these, once it has passed."""
    at = max(datetime.datetime.fromisoformat(each).replace(tzinfo=None) for each in created)
    at = at.replace(microsecond=0) + datetime.timedelta(seconds=1)
    while datetime.datetime.now(datetime.UTC).replace(tzinfo=None) < at:
        time.sleep(0.05)
    return at


def purged(cloud, folder: pathlib.Path, project: Filled, selection: Selection) -> dict[str, str]:
    """Empty a project, and return why what is left stays, by ID."""
    made = Orchestrator(cloud, folder)
    try:
        deletion_id = made.request(project.project_id, Mode.PURGE, selection=selection)
        made.wait(deletion_id, Status.PURGED, Status.LEFTOVERS)
        return {row.leftover.id: row.leftover.message for row in made.store.leftovers(deletion_id, 1000)}
    finally:
        made.running.close()


class Neutron:
    """What a member makes, and what only an admin may make for the project."""

    def __init__(self, project: Filled, admin) -> None:
        self.project, self.member, self.admin = project, Rest(project.connection.network), Rest(admin.network)

    def make(self, path: str, key: str, by_admin: bool = False, **fields: object) -> dict:
        owner = {"project_id": self.project.project_id} if by_admin else {}
        rest = self.admin if by_admin else self.member
        return rest.call("POST", path, {key: {**owner, **fields}})[key]

    def router(self) -> dict:
        net = self.make("/networks", "network", name="of a router")["id"]
        subnet = self.make("/subnets", "subnet", network_id=net, ip_version=4, cidr="10.3.0.0/24")["id"]
        router = self.make("/routers", "router", name="r")
        self.member.call("PUT", f"/routers/{router['id']}/add_router_interface", {"subnet_id": subnet})
        return router

    def trunk(self) -> dict:
        net = self.make("/networks", "network", name="of a trunk")["id"]
        parent, self.child = (self.make("/ports", "port", network_id=net)["id"] for _ in range(2))
        return self.make("/trunks", "trunk", port_id=parent)


Change = Callable[[Neutron, str], object]
#: By type: how a resource is made, how it gets a young part, and what the report then says.
KINDS: dict[str, tuple[Callable[[Neutron], dict], Change, str]] = {
    "security_group": (
        lambda n: n.make("/security-groups", "security_group", name="g"),
        lambda n, id_: n.make(
            "/security-group-rules",
            "security_group_rule",
            **{"security_group_id": id_, "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp"},
        ),
        "its rule ",
    ),
    "router": (
        Neutron.router,
        lambda n, id_: n.member.call(
            "PUT",
            f"/routers/{id_}",
            {"router": {"routes": [{"destination": "192.0.2.0/24", "nexthop": "10.3.0.77"}]}},
        ),
        "its route, which would be deleted with it, may be as young as the last change",
    ),
    "subnet_pool": (
        lambda n: n.make("/subnetpools", "subnetpool", name="p", prefixes=["10.16.0.0/16"]),
        lambda n, id_: n.member.call(
            "PUT", f"/subnetpools/{id_}", {"subnetpool": {"prefixes": ["10.16.0.0/16", "10.18.0.0/16"]}}
        ),
        "its prefix, which would be deleted with it, may be as young as the last change",
    ),
    "address_group": (
        lambda n: n.make("/address-groups", "address_group", name="a", addresses=["192.0.2.1/32"]),
        lambda n, id_: n.member.call("PUT", f"/address-groups/{id_}/add_addresses", {"addresses": ["192.0.2.2/32"]}),
        "its address, which would be deleted with it, may be as young as the last change",
    ),
    "qos_policy": (
        lambda n: n.make("/qos/policies", "policy", by_admin=True, name="q"),
        lambda n, id_: n.admin.call(
            "POST", f"/qos/policies/{id_}/dscp_marking_rules", {"dscp_marking_rule": {"dscp_mark": 10}}
        ),
        "its rule ",
    ),
    "trunk": (
        Neutron.trunk,
        lambda n, id_: n.member.call(
            "PUT",
            f"/trunks/{id_}/add_subports",
            {"sub_ports": [{"port_id": n.child, "segmentation_type": "vlan", "segmentation_id": 5}]},
        ),
        "its subport, which would be deleted with it, may be as young as the last change",
    ),
    "network": (
        lambda n: n.make("/networks", "network", name="n"),
        lambda n, id_: n.make("/subnets", "subnet", network_id=id_, ip_version=4, cidr="10.4.0.0/24"),
        "its subnet ",
    ),
    "network shared": (
        lambda n: n.make("/networks", "network", name="s"),
        lambda n, id_: n.make(
            "/rbac-policies",
            "rbac_policy",
            **{"object_type": "network", "object_id": id_, "action": "access_as_shared"},
            target_tenant=n.project.partner_id,
        ),
        "its service does not say when its rbac_policy ",
    ),
}


def test_neutrons_old_resources_go_except_with_a_younger_part(cloud, admin, tmp_path):
    project = filler.make_project(admin, "purge-by-age", password=None, partner=None)
    neutron = Neutron(project, admin)
    plain, changed = (
        {kind: make(neutron) for kind, (make, _change, _said) in KINDS.items() if kind not in skipped}
        for skipped in (("network shared", "router", "trunk"), ())
    )
    before = age_after(*(row["created_at"] for row in (*plain.values(), *changed.values())))
    for kind, (_make, change, _said) in KINDS.items():
        change(neutron, changed[kind]["id"])
    types = tuple(sorted({f"network.{kind.split()[0]}" for kind in KINDS}))
    left = purged(cloud, tmp_path, project, Selection(types=types, created_before=before))
    print()
    for kind, (_make, _change, said) in KINDS.items():
        id_ = changed[kind]["id"]
        print(f"{kind}: {left.get(id_, 'deleted')}")
        assert left.get(id_, "deleted").startswith(said)
    assert not {row["id"] for row in plain.values()} & set(left)


@pytest.fixture
def zones(full_admin) -> Iterator[tuple[Filled, Rest]]:
    project = filler.make_project(full_admin, "purge-zones", password=None, partner=None)
    yield project, client(project.connection, "dns")


def test_an_old_zone_with_a_younger_recordset_stays(full_cloud, zones, tmp_path):
    project, dns = zones
    rows = {
        name: dns.call("POST", "/zones", {"name": f"{name}.purge.example.", "email": "a@purge.example"})
        for name in ("plain", "changed")
    }
    record = {"name": "old.plain.purge.example.", "type": "A", "records": ["192.0.2.1"]}
    old = dns.call("POST", f"/zones/{rows['plain']['id']}/recordsets", record)
    before = age_after(old["created_at"], *(row["created_at"] for row in rows.values()))
    record = {"name": "new.changed.purge.example.", "type": "A", "records": ["192.0.2.1"]}
    new = dns.call("POST", f"/zones/{rows['changed']['id']}/recordsets", record)
    left = purged(full_cloud, tmp_path, project, Selection(types=("dns.zone",), created_before=before))
    print(f"\n{left}")
    assert rows["plain"]["id"] not in left
    assert left[rows["changed"]["id"]].startswith(f"its recordset {new['id']}, which would be deleted with it, was")
    assert dns.call("GET", f"/zones/{rows['changed']['id']}/recordsets/{new['id']}")["id"] == new["id"]


#: Parts that show no time, in the filling of a project: their wholes stay in each purge by age.
TIMELESS = {
    "with the same token",
    "rbac_policy",
    "conntrack_helper",
    "share_server",
    "definition",
    "association",
    "access rule",
}
#: Parts that a filling does not make: the API shows no segments, and no snapshot can be mounted.
NOT_FILLED = {"network.network: segment", "shared-file-system.snapshot: access rule"}


@pytest.fixture(scope="module")
def filled(full_admin) -> Filled:
    return filler.fill(full_admin, "purge-everything", objects=5)


def test_each_service_says_how_old_the_parts_are_that_the_plugins_declare(filled, full_sweeper, full_cloud):
    """With an age in the future, what stays has a part without a time; and no list of parts fails."""
    full_sweeper.enter(filled)
    known = registry.load()
    future = Selection(created_before=datetime.datetime(2100, 1, 1))
    connection = functools.cache(lambda project_id: full_sweeper.connection(project_id))
    seen: Counter[str] = Counter()
    stays, unknown = set[tuple[str, str]](), dict[str, str]()
    for service, type_ in ((name, type_) for name, one in known.services.items() for type_ in one.types):
        if type_.parts is None or type_.project_setting or not full_sweeper.connection().has_service(service):
            continue
        definition = full_sweeper.definition(known.services[service], filled)
        related = [
            RelatedType(other.name, other, full_sweeper.definition(of, filled), whole, attribute)
            for of, other, whole, attribute in known.related_types(known.services[service], type_)
        ]
        with_token = connection(filled.project_id if type_.token.scoped else None)
        name = f"{service}.{type_.name}"
        result = sweeps.inventory(type_, with_token, definition, name=name, selection=future, related=related)
        if result.outcome is Outcome.UNKNOWN:
            unknown[name] = result.message
            continue
        for one in type_.parts:
            for whole in list_resources(type_, with_token, definition):
                if whole.owner == filled.project_id:
                    seen[f"{name}: {one.name}"] += len(list(one.of(with_token, definition, whole)))
        stays.update((name, left.message) for left in result.leftovers if left.reason is Reason.NOT_SELECTED)
    print("\n" + "\n".join(f"{what}: {number}" for what, number in seen.items()))
    print("\n".join(f"{name}: {why}" for name, why in sorted(stays)))
    assert unknown == {}
    assert [(name, why) for name, why in sorted(stays) if not any(part in why for part in TIMELESS)] == []
    assert {what for what, number in seen.items() if not number} == NOT_FILLED
