"""Blazar: its API and its manager, which lends floating IPs of an external network of its own. It lends no hosts."""

from __future__ import annotations

from tests.cloud.identity import Rest
from tests.cloud.services.base import HOST, REGION, SERVICE_PROJECT, Service, Site, common, daemon, ini, wsgi

#: Without this header Blazar answers with 400.
JSON = {"Accept": "application/json"}
#: The external network with the addresses that Blazar lends. Neutron itself gives out none of them.
NETWORK = "reservable"
ADDRESSES = tuple(f"198.51.100.{number}" for number in range(200, 212))
#: Further ones, which tests give to leases by themselves.
SHARED = ("198.51.100.240", "198.51.100.241")


def service(site: Site) -> Service:
    home = site.home("blazar")
    config = common(site, "blazar")
    config["DEFAULT"] |= {
        "os_auth_protocol": "http",
        "os_auth_host": HOST,
        "os_auth_port": site.ports["keystone"],
        # As the prefix: with an empty one, the path of Blazar's requests would begin with two slashes.
        "os_auth_prefix": "v3",
        "os_auth_version": "",
        "os_region_name": REGION,
        "os_admin_username": "blazar",
        "os_admin_password": site.password,
        "os_admin_project_name": SERVICE_PROJECT,
    }
    config["manager"] = {"plugins": "virtual.floatingip.plugin"}
    files = ("--config-file", str(home / "blazar.conf"))
    return Service(
        name="blazar",
        files={"blazar.conf": ini(config, site.extra_config.get("blazar"))},
        folders=("state", "lock"),
        databases=("blazar",),
        schema=((site.bin("blazar-db-manage"), *files, "upgrade", "head"),),
        after=("keystone", "neutron"),
        processes=(
            wsgi(site, "blazar", ("--module", "blazar.wsgi.api:application"),
                 environment={"OS_BLAZAR_CONFIG_DIR": str(home)}),
            daemon(site, "blazar-manager", *files),
        ),
        catalog_type="reservation",
        catalog_url=f"{site.url('blazar')}/v1",
        seed=seed,
        # In place of the header: the launcher sends none.
        probe=f"{site.url('blazar')}/v1/leases.json",
    )  # fmt: skip


def seed(site: Site, admin: Rest) -> None:
    """Make the external network, and have Blazar lend addresses that are in no allocation pool of it."""
    neutron, blazar = f"{site.url('neutron')}/v2.0", f"{site.url('blazar')}/v1"
    found = admin.call("GET", f"{neutron}/networks?name={NETWORK}")["networks"]
    if not found:
        network = {"name": NETWORK, "router:external": True, "provider:network_type": "local"}
        found = [admin.call("POST", f"{neutron}/networks", {"network": network})["network"]]
        pool = {"start": "198.51.100.2", "end": "198.51.100.99"}
        subnet = {"name": NETWORK, "network_id": found[0]["id"], "ip_version": 4, "cidr": "198.51.100.0/24",
                  "allocation_pools": [pool], "enable_dhcp": False}  # fmt: skip
        admin.call("POST", f"{neutron}/subnets", {"subnet": subnet})
    known = {
        row["floating_ip_address"] for row in admin.call("GET", f"{blazar}/floatingips", headers=JSON)["floatingips"]
    }
    for address in sorted({*ADDRESSES, *SHARED} - known):
        body = {"floating_network_id": found[0]["id"], "floating_ip_address": address}
        admin.call("POST", f"{blazar}/floatingips", body, JSON)
