"""Heat: what is deleted with a stack, as resources of other services."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cleanup_orchestrator.plugins.base import (
    Paging,
    ProjectDefinition,
    Resource,
    Rest,
    Row,
    may_be_id,
)
from cleanup_orchestrator.plugins.orchestration.listing import resources_of

if TYPE_CHECKING:
    from openstack.connection import Connection

#: The types of Heat whose physical id is the id of a resource, or ends with it as the last part of a URL, or begins
#: with it before a colon (``ROUTER:subnet_id=SUBNET``).
_TYPES = {
    "OS::Barbican::CertificateContainer": "key-manager.container",
    "OS::Barbican::GenericContainer": "key-manager.container",
    "OS::Barbican::RSAContainer": "key-manager.container",
    "OS::Barbican::Secret": "key-manager.secret",
    "OS::Blazar::Lease": "reservation.lease",
    "OS::Cinder::Volume": "block-storage.volume",
    "OS::Designate::Zone": "dns.zone",
    "OS::Glance::Image": "image.image",
    "OS::Heat::SoftwareConfig": "orchestration.software_config",
    "OS::Heat::SoftwareDeployment": "orchestration.software_deployment",
    "OS::Heat::StructuredConfig": "orchestration.software_config",
    "OS::Heat::StructuredDeployment": "orchestration.software_deployment",
    "OS::Glance::WebImage": "image.image",
    "OS::Magnum::ClusterTemplate": "container-infrastructure-management.cluster_template",
    "OS::Manila::SecurityService": "shared-file-system.security_service",
    "OS::Manila::Share": "shared-file-system.share",
    "OS::Manila::ShareNetwork": "shared-file-system.share_network",
    "OS::Mistral::Workflow": "workflow.workflow",
    "OS::Neutron::AddressScope": "network.address_scope",
    "OS::Neutron::ExtraRouteSet": "network.router",
    "OS::Neutron::FloatingIP": "network.floating_ip",
    "OS::Neutron::Net": "network.network",
    "OS::Neutron::Port": "network.port",
    "OS::Neutron::ProviderNet": "network.network",
    "OS::Neutron::QoSPolicy": "network.qos_policy",
    "OS::Neutron::RBACPolicy": "network.rbac_policy",
    "OS::Neutron::Router": "network.router",
    "OS::Neutron::RouterGateway": "network.router",
    "OS::Neutron::RouterInterface": "network.router",
    "OS::Neutron::SecurityGroup": "network.security_group",
    "OS::Neutron::Subnet": "network.subnet",
    "OS::Neutron::SubnetPool": "network.subnet_pool",
    "OS::Neutron::Trunk": "network.trunk",
    "OS::Nova::FloatingIP": "network.floating_ip",
    "OS::Nova::Server": "compute.server",
    "OS::Nova::ServerGroup": "compute.server_group",
    "OS::Octavia::LoadBalancer": "load-balancer.load_balancer",
    "OS::Trove::Instance": "database.instance",
    "OS::Zun::Container": "application-container.container",
    "AWS::EC2::EIP": "network.floating_ip",
    "AWS::EC2::Instance": "compute.server",
    "AWS::EC2::NetworkInterface": "network.port",
    "AWS::EC2::RouteTable": "network.router",
    "AWS::EC2::SecurityGroup": "network.security_group",
    "AWS::EC2::Subnet": "network.subnet",
    "AWS::EC2::Volume": "block-storage.volume",
    "AWS::EC2::VPC": "network.network",
}
#: Types of Heat that take a floating IP off a port, and do not show which one. Each of the project's may be it.
_ASSOCIATIONS = frozenset(
    {
        "AWS::EC2::EIPAssociation",
        "OS::Neutron::FloatingIPAssociation",
        "OS::Neutron::FloatingIPPortForward",
        "OS::Nova::FloatingIPAssociation",
    }
)
#: Types of Heat that are no resource of a project: parts, links between resources, and what belongs to a user.
_NO_RESOURCES = _ASSOCIATIONS | {
    "OS::Cinder::VolumeAttachment",
    "OS::Neutron::SecurityGroupRule",
    "OS::Nova::KeyPair",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VolumeAttachment",
}
#: The services of further types of Heat, by what their names begin with. Empty: they are no resources.
_SERVICES = {
    "OS::Aodh": "alarm",
    "OS::Barbican": "key-manager",
    "OS::Blazar": "reservation",
    "OS::Cinder": "block-storage",
    "OS::Designate": "dns",
    "OS::Glance": "image",
    "OS::Heat": "",
    "OS::Keystone": "identity",
    "OS::Magnum": "container-infrastructure-management",
    "OS::Manila": "shared-file-system",
    "OS::Mistral": "workflow",
    "OS::Neutron": "network",
    "OS::Nova": "compute",
    "OS::Octavia": "load-balancer",
    "OS::Swift": "object-store",
    "OS::Trove": "database",
    "OS::Zaqar": "message",
    "OS::Zun": "application-container",
    "AWS::S3": "object-store",
}
_FLOATING_IPS = Rest(
    "network", "/floatingips", key="floatingips", query={"project_id": "{project_id}"}, paging=Paging.LINKS
)


def contents_of(connection: Connection, project: ProjectDefinition, stack: Resource) -> Iterator[tuple[str, str]]:
    """Yield what Heat deletes with a stack, and with those nested in it.

    A template may give a type of Heat another name. The environment of the stack has these names. Names from the
    environment of all stacks of the cloud are not known here. If a type has no entry, only its service is named, or
    nothing if that is not known either. A stack of a project that is gone is abandoned: its resources stay.
    """
    if project.gone:
        return
    rows = [row for row in resources_of(connection, project, stack) if row.get("physical_resource_id")]
    if not rows:
        return
    names = _other_names(connection, project, stack)
    meanings = {type_: _meanings(type_, names) for type_ in {str(row.get("resource_type")) for row in rows}}
    associates = False
    for row in rows:
        types = meanings[str(row.get("resource_type"))]
        associates = associates or not _ASSOCIATIONS.isdisjoint(types)
        names_of = dict.fromkeys(_TYPES[type_] for type_ in types if type_ in _TYPES)
        if not _is_nested(row):
            yield from ((name, str(row["physical_resource_id"])) for name in _services(types))
        for name in names_of:
            id_ = str(row["physical_resource_id"]).rstrip("/").rpartition("/")[2].partition(":")[0]
            if may_be_id(id_):  # a user may choose others: the name of a container of Swift, an ``external_id``
                yield name, id_
    if associates:
        for row in _FLOATING_IPS.rows(connection, project):
            yield "network.floating_ip", str(row["id"])


def _is_nested(row: Row) -> bool:
    """Whether a resource is a stack of its own, whose resources are listed, too."""
    links = row.get("links")
    return any(link.get("rel") == "nested" for link in links or () if isinstance(link, Mapping))


def _services(types: Collection[str]) -> Iterator[str]:
    """Yield the services that a resource of a type without an entry may be of, each with a dot.

    One empty text: nothing is known of it.

    :param types: the types of Heat that its name may stand for
    """
    services = {_SERVICES.get("::".join(type_.split("::")[:2])) for type_ in {*types} - _TYPES.keys() - _NO_RESOURCES}
    if services == {None} and _NO_RESOURCES.isdisjoint(types) and _TYPES.keys().isdisjoint(types):
        yield ""
    yield from sorted(f"{service}." for service in services if service)


#: What the environment calls other types: pairs of a name, which may end with ``*``, and what it stands for.
_Names = Collection[tuple[str, str]]
_MAX = 100  #: types that one name may stand for


def _other_names(connection: Connection, project: ProjectDefinition, stack: Resource) -> _Names:
    """Return the other names that the environment of a stack gives to types, also those for single resources."""
    name, id_ = (quote(part, safe="") for part in (stack.name, stack.id))
    body = Rest("orchestration", f"/stacks/{name}/{id_}/environment").call(connection, project)
    names: dict[tuple[str, str], None] = {}

    def collect(registry: Any) -> None:
        for key, value in registry.items() if isinstance(registry, Mapping) else ():
            if isinstance(value, str):
                names[str(key), value] = None
            else:
                collect(value)

    collect(body.get("resource_registry") if isinstance(body, Mapping) else None)
    return names.keys()


def _meanings(type_: str, names: _Names) -> set[str]:
    """Return the types of Heat that a name may stand for, itself included: ``OS::Net*`` for ``OS::Neutron::Net*``.

    A user of the project wrote these names. Some hold for a single resource, or for none. So a name hides no type, and
    one that stands for a longer form of itself is followed only as often as there are names. If there are too many, it
    may stand for any type.
    """
    meanings, last = {type_}, {type_}
    for _ in names:
        last = {_replaced(one, *each) for one in last for each in names if fnmatch.fnmatchcase(one, each[0])} - meanings
        meanings |= last
        if not last:
            break
        if len(meanings) > _MAX:
            return {*_TYPES, *_ASSOCIATIONS}
    return meanings


def _replaced(type_: str, name: str, value: str) -> str:
    return value[:-1] + type_[len(name) - 1 :] if name.endswith("*") and value.endswith("*") else value
