"""What an abandoned resource goes on costing, and which types have a forced delete."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

#: Types with a forced delete: see the manual, "Forced delete of each type". The API decides.
FORCIBLE = (
    "orchestration.stack",
    "orchestration.failed_stack",
    "orchestration.nested_stack",
    "compute.server",
    "block-storage.volume",
    "block-storage.snapshot",
    "block-storage.backup",
    "block-storage.group",
    "block-storage.group_snapshot",
    "shared-file-system.share",
    "shared-file-system.replica",
    "shared-file-system.backup",
    "shared-file-system.snapshot",
    "shared-file-system.share_group",
    "shared-file-system.group_snapshot",
    "dns.zone",
)

_STORAGE = _("It still uses storage. It belongs to no project, so no project is billed for it.")
_STACK = _("Heat keeps the stack. What the stack made can go on running.")
_CLUSTER = _("Its servers, volumes and addresses go on occupying hosts, storage and addresses.")

_COSTS = {
    "baremetal.allocation": _("The node stays reserved. Other projects cannot use it."),
    "baremetal.instance": _("The node stays deployed. Other projects cannot use it. It still uses power."),
    "baremetal.node": _("The node stays enrolled. Other projects cannot use it. It still uses power."),
    "block-storage.backup": _STORAGE,
    "block-storage.snapshot": _("It goes on occupying storage. Its volume cannot be deleted while it exists."),
    "block-storage.volume": _STORAGE,
    "compute.server": _(
        "It goes on using CPU, memory and disk of a host. It may still run, and answer on the network."
    ),
    "compute.unreachable_server": _("Its host does not answer. When the host is back, the server may run again."),
    "container-infrastructure-management.cluster": _CLUSTER,
    "database.backup": _STORAGE,
    "database.cluster": _CLUSTER,
    "database.instance": _("Its server and its volume go on using a host and storage."),
    "dns.zone": _("Its name servers still answer for it. Other projects cannot create a zone of this name."),
    "image.image": _STORAGE,
    "key-manager.secret": _("The secret stays stored. An admin of the key manager can still read it."),
    "load-balancer.load_balancer": _("Its virtual machines and its address stay in use."),
    "network.floating_ip": _("The address stays allocated. Other projects cannot use it."),
    "network.network": _("It goes on using a segment of the network. Its ports stay connected."),
    "network.port": _("Its addresses stay in use, and may still be reached."),
    "network.router": _("Its gateway goes on using an external address. It goes on forwarding packets."),
    "network.security_group": _("It stays in the database of the network service. It costs nothing else."),
    "network.subnet": _("Its address range stays in use. A subnet pool cannot give it to others."),
    "object-store.container": _STORAGE,
    "orchestration.failed_stack": _STACK,
    "orchestration.nested_stack": _STACK,
    "orchestration.stack": _STACK,
    "reservation.lease": _("The reserved hosts stay reserved until the lease ends."),
    "shared-file-system.share": _("It goes on occupying storage, and may still be mounted. It counts in no quota."),
    "shared-file-system.snapshot": _("It goes on occupying storage. Its share cannot be deleted while it exists."),
}
_OTHER = _("It stays in its service. It belongs to no project, so no project is billed for it.")


def of_type(type_: str) -> Any:
    """Return what an abandoned resource of a type costs, as a sentence.

    :param type_: as ``service.type``
    """
    return _COSTS.get(type_, _OTHER)
