"""The order over all services: what has to wait for what, and why; what must not wait for each other.

A service that is not installed is stood in for by the names and waits that its plugin is to have.
"""

import graphlib

import pytest

from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import EVERYTHING, ResourceType, Sdk, Service

STACK, CLUSTER = "orchestration.stack", "container-infrastructure-management.cluster"

#: Service: type: what it waits for.
NAMES = {
    "compute": {"server": (CLUSTER,), "server_group": ()},
    "block-storage": {
        "transfer": (),
        "attachment": ("compute.server",),
        "group_snapshot": (),
        "snapshot": ("group_snapshot",),
        "group": ("compute.server", "group_snapshot"),
        "volume": (CLUSTER, "compute.server", "transfer", "attachment"),
        "backup": (),
    },
    "load-balancer": {"load_balancer": (CLUSTER,)},
    "dns": {"ptr": (), "zone": (), "zone_share": ("zone",)},
    "shared-file-system": {
        "share": ("compute.server", "snapshot"),
        "snapshot": (),
        "share_network": ("share",),
    },
}


def stand_in(service_type):
    call = Sdk("network", "ports", project_id="{project_id}")
    types = [ResourceType(name, call, None, after=after) for name, after in NAMES[service_type].items()]
    return Service(service_type, tuple(types), after=(STACK,))


def closure(graph):
    """Every type with all that must be gone before it, directly or not."""
    found = {}
    for name in graphlib.TopologicalSorter(graph).static_order():
        found[name] = set(graph[name]).union(*(found[before] for before in graph[name]))
    return found


INSTALLED = registry.load().services
WHOLE = registry.Registry([*INSTALLED.values(), *(stand_in(name) for name in NAMES if name not in INSTALLED)])
BEFORE = closure(WHOLE.graph())


#: What goes first, what waits for it, and why.
WAITS = [
    (CLUSTER, STACK, "a cluster's driver owns its stack"),
    *((CLUSTER, name, "a driver whose parts are deleted ends in an error")
      for name in ("compute.server", "block-storage.volume", "load-balancer.load_balancer", "network.port",
                   "network.network", "network.floating_ip", "key-manager.container", "key-manager.secret")),
    *((STACK, name, "what is listed of a stack goes with it, or would be made again")
      for name in ("compute.server", "compute.server_group", "block-storage.volume", "block-storage.snapshot",
                   "load-balancer.load_balancer", "dns.zone", "shared-file-system.share", "object-store.container",
                   "key-manager.order", "key-manager.secret", "image.image", "network.port", "network.network",
                   "network.router", "network.security_group", "network.qos_policy", "network.rbac_policy",
                   "network.metering_label")),
    ("orchestration.software_deployment", "orchestration.software_config", "400 while it is referred to"),
    (CLUSTER, "container-infrastructure-management.cluster_template", "400 while a cluster refers to it"),
    *(("load-balancer.load_balancer", name, "its port sits on the subnet, its listeners name certificates")
      for name in ("network.port", "network.security_group", "network.subnet", "network.network",
                   "key-manager.container", "key-manager.secret")),
    ("dns.ptr", "network.floating_ip", "the record is addressed by the floating IP"),
    ("shared-file-system.snapshot", "shared-file-system.share", "a share with snapshots is refused"),
    ("shared-file-system.share", "shared-file-system.share_network", "409 with shares"),
    *(("shared-file-system.share_network", name, "its share servers hold ports")
      for name in ("network.port", "network.subnet", "network.network")),
    *(("compute.server", name, "attached, bound, booted from it, or shelved into it")
      for name in ("block-storage.volume", "network.port", "network.trunk", "network.security_group", "image.image",
                   "key-manager.secret")),
    ("compute.server", "accelerator.accelerator_request", "only Nova may delete one that is bound to a server"),
    *(("compute.server", name, "Nova undeploys its node with it")
      for name in ("baremetal.instance", "baremetal.allocation", "baremetal.lease")),
    ("baremetal.instance", "baremetal.allocation", "Ironic deletes it with the instance"),
    ("baremetal.instance", "baremetal.lease", "an instance would keep running without its lessee"),
    ("baremetal.allocation", "baremetal.lease", "Ironic hides the node of an allocation once the lease is ended"),
    ("compute.server", "reservation.lease", "its end would delete the servers on its hosts"),
    ("network.floating_ip", "reservation.lease", "its end would delete its floating IPs"),
    ("application-container.container", "application-container.registry", "409 while a container names it"),
    ("application-container.capsule", "application-container.registry", "409 while a container names it"),
    ("compute.server", "placement.usage", "its allocations are its own"),
    *(("nfv-orchestration.vnf_instance", name, "Tacker refuses what an instance uses")
      for name in ("nfv-orchestration.vnf_package", "nfv-orchestration.vim")),
    ("block-storage.backup", "object-store.container", "its row cannot be deleted without the chunks"),
    ("image.image", "object-store.container", "its data may be kept there"),
    *((name, "key-manager.secret", "its key is needed to detach and delete it")
      for name in ("block-storage.volume", "block-storage.backup", "image.image")),
    ("database.backup", "object-store.container", "Trove deletes its object there"),
    ("database.backup", "database.instance", "one that is being made never ends without its instance"),
    ("database.cluster", "database.instance", "only with the cluster Trove deletes its instances"),
    *((STACK, name, "a stack would make it again") for name in ("database.instance", "database.backup")),
    *(("database.instance", name, "parts of an instance, where Trove makes them in the project")
      for name in ("compute.server", "block-storage.volume", "network.port", "network.network", "key-manager.secret")),
    *(("database.instance", name, "an instance that has it is refused")
      for name in ("database.configuration", "database.module")),
    ("block-storage.volume", "image.image", "a copy-on-write clone holds its image"),
    ("network.floating_ip", "network.router", "409 while an address goes through it"),
    ("network.router", "network.network", "its interfaces are ports there"),
    ("network.trunk", "network.port", "a trunk's ports are refused"),
    ("network.port", "network.security_group", "409 while a port uses it"),
    ("network.network", "network.subnet", "takes its subnets along"),
    ("network.subnet", "network.subnet_pool", "a pool with subnets is refused"),
    ("network.subnet_pool", "network.address_scope", "409 with pools"),
    ("key-manager.order", "key-manager.container", "an order under way makes secrets"),
    ("key-manager.container", "key-manager.secret", "a container names its secrets"),
    *((name, "identity.trust", "it acts through a trust")
      for name in (STACK, CLUSTER, "orchestration.failed_stack", "alarm.alarm", "backup.job", "reservation.lease",
                   "workflow.cron_trigger", "workflow.event_trigger", "message.subscription")),
    ("workflow.cron_trigger", "workflow.execution", "it starts executions"),
    ("workflow.action", "workflow.workbook", "its namespace is known by workbooks and workflows"),
    ("workflow.action", "workflow.workflow", "its namespace is known by workbooks and workflows"),
    ("message.subscription", "message.queue", "no call lists it without its queue"),
    *((name, "identity.application_credential", "last of all")
      for name in ("network.network", "key-manager.secret", "object-store.container", "dns.zone", "image.image")),
]  # fmt: skip

#: Those that share no resource: one of them being slow, or stuck, is no reason for the other to wait.
STRANGERS = [
    ("dns.zone", "block-storage.volume"),
    ("dns.zone", "compute.server"),
    ("dns.zone", "network.network"),
    ("dns.zone", "image.image"),
    ("block-storage.volume", "network.port"),
    ("block-storage.volume", "network.network"),
    ("block-storage.volume", "load-balancer.load_balancer"),
    ("load-balancer.load_balancer", "compute.server"),
    ("load-balancer.load_balancer", "image.image"),
    ("shared-file-system.share", "block-storage.volume"),
    ("shared-file-system.share_network", "image.image"),
    ("image.image", "network.network"),
    ("object-store.container", "network.network"),
    ("object-store.container", "key-manager.secret"),
    ("key-manager.secret", "network.network"),
    ("network.floating_ip", "compute.server"),
    ("network.router", "load-balancer.load_balancer"),
    ("orchestration.software_config", "compute.server"),
    ("container-infrastructure-management.cluster_template", "compute.server"),
]


def test_what_has_to_wait():
    assert [f"{then} after {first}: {why}" for first, then, why in WAITS if first not in BEFORE[then]] == []


def test_independent_branches_do_not_wait_for_each_other():
    assert [(one, other) for one, other in STRANGERS if one in BEFORE[other] or other in BEFORE[one]] == []


@pytest.mark.parametrize("name", ["orchestration.failed_stack", "container-infrastructure-management.failed_cluster"])
def test_a_failed_delete_does_not_delay_types_of_other_services(name):
    """It may be waiting for just what is swept meanwhile: to wait for it would be to wait for ever."""
    service = name.split(".")[0]
    waiting = {other for other, before in BEFORE.items() if name in before and other.split(".")[0] != service}
    assert {WHOLE.find(*other.split(".")).after for other in waiting} == {(EVERYTHING,)}


#: The services of which Heat can create resources.
OF_HEAT = (
    "network", "object-store", "key-manager", "image", "compute", "block-storage", "alarm", "application-container",
    "load-balancer", "dns", "message", "reservation", "shared-file-system", "workflow",
)  # fmt: skip


def test_every_type_that_heat_can_create_waits_for_stacks():
    ordinary = {
        service: [t.name for t in WHOLE.services[service].types if not t.project_setting] for service in OF_HEAT
    }
    assert all(ordinary.values())
    names = [f"{service}.{name}" for service, some in ordinary.items() for name in some]
    assert [name for name in names if STACK not in BEFORE[name]] == []
