"""The services of the cloud as data; the launcher starts them.

A service is a module with one function `service(site)`. `SERVICES` names them all, `LIGHT` those that need no other
server, `WHOLE` those of the whole cloud. All others are started only in a cloud that names them.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.cloud.services import (
    aodh,
    barbican,
    blazar,
    cinder,
    cloudkitty,
    cyborg,
    designate,
    freezer,
    glance,
    gnocchi,
    heat,
    ironic,
    keystone,
    magnum,
    manila,
    mistral,
    neutron,
    nova,
    octavia,
    placement,
    swift,
    tacker,
    trove,
    zaqar,
    zun,
)
from tests.cloud.services.base import (
    HOST,
    PORT_OFFSETS,
    REGION,
    SERVICE_PROJECT,
    SERVICE_ROLES,
    STOCK_KEYSTONE,
    Ini,
    Process,
    Service,
    Site,
    ini,
)
from tests.cloud.services.keystone import keystone_processes

__all__ = [
    "HOST", "LIGHT", "NO_BUS", "PORT_OFFSETS", "REGION", "SERVICES", "SERVICE_PROJECT", "SERVICE_ROLES",
    "STOCK_KEYSTONE", "WHOLE", "Ini", "Process", "Service", "Site", "clouds_yaml", "ini", "keystone_processes",
]  # fmt: skip

#: In the order in which the launcher begins with them: those that take longest, or that others wait for, come first.
SERVICES: dict[str, Callable[[Site], Service]] = {
    "keystone": keystone.service,
    "neutron": neutron.service,
    "placement": placement.service,
    "nova": nova.service,
    "glance": glance.service,
    "barbican": barbican.service,
    "swift": swift.service,
    "cinder": cinder.service,
    "heat": heat.service,
    "designate": designate.service,
    "octavia": octavia.service,
    "manila": manila.service,
    "magnum": magnum.service,
    "aodh": aodh.service,
    "neutron-addons": neutron.with_addons,  # in place of neutron
    "mistral": mistral.service,
    "zaqar": zaqar.service,
    "freezer": freezer.service,
    "gnocchi": gnocchi.service,
    "cyborg": cyborg.service,
    "ironic": ironic.service,
    "cloudkitty": cloudkitty.service,
    "tacker": tacker.service,
    "trove": trove.service,
    "blazar": blazar.service,
    "zun": zun.service,
}
#: The services that run on SQLite without a bus. All others need MariaDB, which these then use as well.
LIGHT = ("keystone", "neutron", "glance", "barbican", "swift")
#: The services of the whole cloud.
WHOLE = (*LIGHT, "placement", "nova", "cinder", "heat", "designate", "octavia", "manila", "magnum")
#: The services that work without RabbitMQ: they send nothing from one process to another.
NO_BUS = (
    *LIGHT,
    "placement",
    "aodh",
    "cloudkitty",
    "freezer",
    "gnocchi",
    "mistral",
    "neutron-addons",
    "tacker",
    "zaqar",
    "zun",
)


def clouds_yaml(site: Site) -> str:
    """Credentials for openstacksdk and the openstack command."""
    lines = ["clouds:"]
    for name, (user, project) in {"admin": ("admin", "admin"), "auditor": ("auditor", SERVICE_PROJECT)}.items():
        lines += [
            f"  {name}:",
            "    auth:",
            f"      auth_url: {site.keystone_url}",
            f"      username: {user}",
            f"      password: {site.password}",
            f"      project_name: {project}",
            "      user_domain_id: default",
            "      project_domain_id: default",
            f"    region_name: {REGION}",
            '    identity_api_version: "3"',
        ]
    return "\n".join(lines) + "\n"
