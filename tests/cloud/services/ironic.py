"""Ironic: its API and one conductor. The hardware is fake: every driver interface answers at once and does nothing."""

from __future__ import annotations

from tests.cloud.services.base import HOST, Service, Site, common, credentials, daemon, ini, wsgi

#: What an operator allows so that the orchestrator need not leave leases and instances to an admin: the defaults of
#: Ironic, and at the end of each the lessee.
POLICY = """\
"baremetal:node:update:lessee": "(role:member and system_scope:all) or (role:service and system_scope:all) or \
rule:service_role or (role:member and project_id:%(node.owner)s) or (role:service and project_id:%(node.owner)s) or \
(role:admin and project_id:%(node.lessee)s)"
"baremetal:node:set_provision_state": "(role:member and system_scope:all) or (role:service and system_scope:all) or \
rule:service_role or (role:member and project_id:%(node.owner)s) or (role:service and project_id:%(node.owner)s) or \
(role:member and project_id:%(node.lessee)s)"
"""

_FAKE = ("bios", "boot", "console", "deploy", "firmware", "inspect", "management", "power", "raid", "rescue", "vendor")


def service(site: Site) -> Service:
    home = site.home("ironic")
    config = common(site, "ironic")
    config["DEFAULT"] |= {
        "auth_strategy": "keystone",
        "my_ip": HOST,
        "enabled_hardware_types": "fake-hardware",
        **{f"enabled_{interface}_interfaces": "fake" for interface in _FAKE},
        "enabled_network_interfaces": "noop",
        "default_network_interface": "noop",
        "enabled_storage_interfaces": "noop,fake",
    }
    config["conductor"] = {"automated_clean": "false", "sync_power_state_interval": 0}
    config["oslo_policy"] = {"policy_file": home / "policy.yaml"}
    config |= {section: credentials(site, "ironic") for section in ("cinder", "glance", "neutron", "service_catalog")}
    files = ("--config-file", str(home / ".ironic/ironic.conf"))
    return Service(
        name="ironic",
        # Its WSGI module reads the configuration only from ~/.ironic.
        files={".ironic/ironic.conf": ini(config, site.extra_config.get("ironic")), "policy.yaml": POLICY},
        folders=("state", "lock"),
        databases=("ironic",),
        schema=((site.bin("ironic-dbsync"), *files, "create_schema"),),
        after=("keystone",),
        processes=(
            wsgi(site, "ironic", ("--module", "ironic.wsgi:application"), environment={"HOME": str(home)}),
            daemon(site, "ironic-conductor", *files),
        ),
        catalog_type="baremetal",
        catalog_url=site.url("ironic"),
        probe=f"{site.url('ironic')}/v1/nodes?limit=1",
    )
