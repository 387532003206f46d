"""A cluster driver for Magnum, which has none by default: each cluster is one Heat stack with a network in it.

It runs inside the processes of Magnum, and imports nothing of this project. Magnum finds it by an entry point:

    install(directory)    # then put the directory on PYTHONPATH of magnum-api and magnum-conductor

Two labels of a cluster control it: ``cleanup_create=fail`` ends its creation in an error, ``cleanup_delete=once`` the
first delete of it, ``cleanup_delete=never`` every one.
"""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

NAME = "cleanup_test"
DISTRO = "cleanup-test"  #: ``os_distro`` of an image that this driver takes

TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "resources": {
        "network": {"type": "OS::Neutron::Net"},
        "subnet": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "network"}, "cidr": "10.250.0.0/24"},
        },
    },
}


def install(directory: pathlib.Path) -> None:
    """Write the driver and its entry point into a directory, in the form of an installed distribution."""
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, directory / "cleanup_magnum_driver.py")
    info = directory / "cleanup_magnum_driver-1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cleanup-magnum-driver\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[magnum.drivers]\n{NAME} = cleanup_magnum_driver:Driver\n")


def heat(context: Any) -> Any:
    """Return a client of Heat with the token of the context: that of the caller, or of Magnum in periodic tasks."""
    from magnum.common import clients
    from openstack.connection import Connection

    return Connection(session=clients.OpenStackClients(context).keystone().session).orchestration


class Driver:
    """The driver. Magnum finds it by name, so it needs no base class of Magnum."""

    provides = ({"server_type": "vm", "os": DISTRO, "coe": "kubernetes"},)
    beta = False

    def create_cluster(self, context: Any, cluster: Any, cluster_create_timeout: Any) -> None:
        if cluster.labels.get("cleanup_create") == "fail":
            raise RuntimeError("the label cleanup_create says so")
        body = {"stack_name": f"cluster-{cluster.uuid}", "template": TEMPLATE}
        answer = heat(context).post("/stacks", json=body)
        answer.raise_for_status()
        cluster.stack_id = answer.json()["stack"]["id"]

    def delete_cluster(self, context: Any, cluster: Any) -> None:
        wish = cluster.labels.get("cleanup_delete")
        if wish == "never" or (wish == "once" and cluster.status != "DELETE_FAILED"):
            raise RuntimeError("the label cleanup_delete says so")
        if cluster.stack_id:
            name = f"cluster-{cluster.uuid}"
            answer = heat(context).delete(f"/stacks/{name}/{cluster.stack_id}")
            if answer.status_code != 404:
                answer.raise_for_status()

    def update_cluster_status(self, context: Any, cluster: Any) -> None:
        """Copy the status of the stack. Magnum calls this every ten seconds for clusters that change."""
        status = "DELETE_COMPLETE"
        if cluster.stack_id:
            answer = heat(context).get(f"/stacks/cluster-{cluster.uuid}/{cluster.stack_id}")
            if answer.status_code != 404:
                answer.raise_for_status()
                status = answer.json()["stack"]["stack_status"]
        if cluster.status.startswith("DELETE") or not status.startswith("DELETE"):
            cluster.status = status
            cluster.save()

    def pre_delete_cluster(self, context: Any, cluster: Any) -> None:
        """Nothing to do."""

    def validate_master_size(self, node_count: int) -> None:
        """Return any number: Magnum does not use it here."""

    def get_monitor(self, context: Any, cluster: Any) -> None:
        """Return nothing: the fake has no health."""
