"""What a purge deletes with each criterion, and what stays. End to end over the emulated cloud."""

import datetime

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.selection import Selection
from tests.emulated.orchestrator import Orchestrator

REGION, LONG = "RegionOne", 300
CLOUD = {"projects": 0, "bystanders": 1, "small": True, "fences": True, "without": ("object-store", "key-manager")}
BEFORE = datetime.datetime(2026, 3, 1)  # the resources of the emulation are of 1 January


class Network:
    """A project with networks, routers, an image, and what belongs to these."""

    def __init__(self, emulated):
        self.project = emulated.add_project("purged")
        emulated.audit.under_deletion.add(self.project)
        emulated.grant(self.project, emulated.orchestrator_id, "admin")
        self._state = emulated.state
        self.rows = {}
        young = {"updated_at": "2026-06-01T00:00:00Z"}
        self.add("test", "network.network", name="test-1")
        self.add("prod", "network.network", name="prod-1", tags=["keep"], **young)
        self.add("subnet", "network.subnet", name="test-2", network_id=self.rows["prod"].id)
        self.add("port", "network.port", name="", network_id=self.rows["test"].id)
        self.add("router", "network.router", name="test-3")
        self.add("used", "network.router", name="test-4")
        owner = {"device_id": self.rows["used"].id, "device_owner": "network:router_interface"}
        self.add("interface", "network.port", name="", network_id=self.rows["prod"].id, **owner)
        self.add("address", "network.floating_ip", router_id=None, floating_ip_address="192.0.2.1")
        self.add("image", "image.image", name="[prod] x", visibility="private", **young)

    def add(self, label, kind, /, **row):
        self.rows[label] = self._state.add(REGION, kind, self.project, **row)

    def gone(self):
        return {name for name, row in self.rows.items() if row.id not in row.table.rows}


ALL = {"test", "prod", "subnet", "port", "router", "used", "interface", "address", "image"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selection", "staying"),
    [
        # What a resource that stays needs stays with it: the subnet of a network, the network of a port.
        (Selection(skip=("network",)), ALL - {"image"}),
        (Selection(skip=("image.image",)), {"image"}),
        (
            Selection(skip=("network.port", "network.router_port")),
            {"port", "interface", "used", "test", "prod", "subnet"},
        ),
        (Selection(skip=("network.subnet",)), {"subnet", "prod"}),
        (Selection(services=("network",), skip=("network.floating_ip",)), {"address", "image"}),
        (Selection(not_tags=("keep",)), {"prod", "subnet"}),
        (Selection(not_names=("prod*", "[prod] x")), {"prod", "subnet", "image"}),
        (Selection(names=("test-?",), not_names=("test-3",)), ALL - {"used", "interface"}),
        (Selection(tags=("keep",), not_names=("prod*",)), ALL),
        (Selection(updated_before=BEFORE), {"prod", "subnet", "image"}),
    ],
    ids=str,
)
def test_only_what_meets_each_criterion_is_deleted(emulated, tmp_path, selection, staying):
    made = Network(emulated)
    with Orchestrator(emulated, tmp_path) as orchestrator:
        id_ = orchestrator.request(made.project, Mode.PURGE, selection=selection)
        status = orchestrator.wait([id_], LONG)[id_]
        left = {
            row.leftover.id: f"{row.leftover.reason}: {row.leftover.message}"
            for row in orchestrator.store.leftovers(id_, 99)
        }
        said = {name: left.get(row.id) for name, row in made.rows.items()}
        assert (ALL - made.gone(), status in (Status.PURGED, Status.LEFTOVERS)) == (staying, True), said
