"""What a user without a role on a project can do to its resources. Over the whole cloud."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from openstack.connection import Connection

from cleanup_orchestrator.core.deletion import Mode, Status
from tests.cloud import filler
from tests.cloud.fillings.base import Filled, Rest
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator


@pytest.fixture(scope="module")
def orchestrator(full_cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """Engine and workers in this process."""
    made = Orchestrator(full_cloud, tmp_path_factory.mktemp("orchestrator"))
    yield made
    made.running.close()


@pytest.fixture
def victim(full_admin: Connection) -> Filled:
    """A project with nothing in it."""
    return filler.fill(full_admin, f"victim-{secrets.token_hex(3)}", only=())


@pytest.fixture(scope="module")
def outsider(full_admin: Connection) -> Filled:
    """A project of a user without a role on any other project."""
    return filler.fill(full_admin, f"outsider-{secrets.token_hex(3)}", only=())


@pytest.fixture
def shared_network(outsider: Filled, victim: Filled) -> str:
    """A network of the outsider's, who shares it with the victim."""
    network = Rest(outsider.connection.network)
    net: str = network.call("POST", "/networks", {"network": {"name": "bait"}})["network"]["id"]
    subnet = {"network_id": net, "cidr": "10.78.0.0/24", "ip_version": 4}
    network.call("POST", "/subnets", {"subnet": subnet})
    grant = {
        "object_type": "network",
        "object_id": net,
        "action": "access_as_shared",
        "target_tenant": victim.project_id,
    }
    network.call("POST", "/rbac-policies", {"rbac_policy": grant})
    return net


def port(who: Filled, network_id: str) -> str:
    """Make a port there."""
    made: str = Rest(who.connection.network).call("POST", "/ports", {"port": {"network_id": network_id}})["port"]["id"]
    return made


@pytest.mark.parametrize("below", [False, True], ids=["parent", "subport"])
def test_a_trunk_of_the_networks_owner_on_a_port_is_named(orchestrator, victim, outsider, shared_network, below):
    """The owner of a network may put a trunk on any port there. Neutron then refuses to delete this port."""
    held = port(victim, shared_network)
    network = Rest(outsider.connection.network)
    trunk: dict[str, object] = {"name": "grip", "port_id": held}
    if below:
        subport = {"port_id": held, "segmentation_type": "vlan", "segmentation_id": 7}
        trunk = {"name": "grip", "port_id": port(outsider, shared_network), "sub_ports": [subport]}
    made = network.call("POST", "/trunks", {"trunk": trunk})["trunk"]["id"]
    deletion_id = orchestrator.request(victim.project_id, Mode.CASCADE)
    orchestrator.wait(deletion_id, until=lambda _: orchestrator.blockers(deletion_id).get("network.port"), seconds=120)
    (row,) = orchestrator.store.leftovers(deletion_id, 100)
    assert row.leftover.message == "it is in another project's trunk"
    assert (row.leftover.id, row.leftover.reason) == (held, "foreign")
    [blocker] = row.leftover.blocked_by
    assert (blocker["type"], blocker["id"], blocker["owner"]) == ("network.trunk", made, outsider.project_id)
    assert blocker["project_name"] == outsider.project_name
    network.call("DELETE", f"/trunks/{made}")
    orchestrator.wait(deletion_id, Status.DELETED, seconds=120)
