"""Nova, with a fake hypervisor."""

from __future__ import annotations

from tests.cloud.identity import Rest
from tests.cloud.services.base import (
    FAKES,
    NODE,
    REGION,
    Reports,
    Service,
    Site,
    common,
    credentials,
    daemon,
    ini,
    wsgi,
)

#: Nova fills them in from its configuration: what is kept of a cell holds on any port.
CELL = "{scheme}://{username}@{hostname}:{port}/%s?{query}"
BUS = "{scheme}://{username}:{password}@{hostname}:{port}/"


def service(site: Site) -> Service:
    home = site.home("nova")
    config = common(site, "nova")
    config["DEFAULT"] |= {
        "compute_driver": "fake.FakeDriver",
        "my_ip": "127.0.0.1",
        # No agent plugs ports or reports it.
        "vif_plugging_is_fatal": "false",
        "vif_plugging_timeout": 0,
        "allow_resize_to_same_host": "true",
        "report_interval": 5,
        # It would write to the rows of deleted servers during a test that compares all rows.
        "instance_delete_interval": 86400,
    }
    config |= {
        "api": {"auth_strategy": "keystone"},
        "api_database": {"connection": site.database_url("nova_api")},
        "conductor": {"workers": 1},
        "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 2},
        "quota": {"instances": -1, "cores": -1, "ram": -1},
        "vnc": {"enabled": "false"},
        "barbican": {"barbican_region_name": REGION},
        "glance": credentials(site, "nova"),
        "neutron": credentials(site, "nova"),
        "placement": credentials(site, "nova"),
        "cinder": {**credentials(site, "nova"), "os_region_name": REGION,
                   "catalog_info": "block-storage:cinder:publicURL"},
        "service_user": {**credentials(site, "nova"), "send_service_user_token": "true"},
    }  # fmt: skip
    manage = (site.bin("nova-manage"), "--config-file", str(home / "nova.conf"))
    files = ("--config-file", str(home / "nova.conf"))
    daemons = ("nova-conductor", "nova-scheduler", "nova-compute")
    return Service(
        name="nova",
        files={
            "nova.conf": ini(config, site.extra_config.get("nova")),
            # Its API searches only next to its configuration.
            "api-paste.ini": (site.venv / "etc/nova/api-paste.ini").read_text(),
            # A node that has lost this file does not start again.
            "state/compute_id": "7b2d6c1e-0000-4000-8000-000000000001\n",
        },
        folders=("state", "lock"),
        databases=("nova_api", "nova_cell0", "nova"),
        schema=(
            (*manage, "api_db", "sync"),
            (*manage, "cell_v2", "map_cell0", "--database_connection", CELL % "nova_cell0"),
            (*manage, "cell_v2", "create_cell", "--name", "cell1",
             "--database_connection", CELL % "{path}", "--transport-url", BUS),
            (*manage, "db", "sync"),
        ),
        after=("placement",),
        processes=(
            wsgi(site, "nova", ("--module", "nova.wsgi.osapi_compute:application"),
                 environment={"OS_NOVA_CONFIG_DIR": str(home), "OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"}),
            *(daemon(site, name, *files) for name in daemons[:-1]),
            daemon(site, "nova-compute", *files, script=str(FAKES / "fake_hypervisor.py")),
        ),
        catalog_type="compute",
        catalog_url=f"{site.url('nova')}/v2.1",
        reports=(
            Reports(f"{site.url('nova')}/v2.1/os-services", "services", frozenset(daemons)),
            # Before the scheduler has found it, it is not in this list and gets no server.
            Reports(f"{site.url('nova')}/v2.1/os-hypervisors/detail", "hypervisors", frozenset({NODE})),
        ),
        seed=seed,
        probe=f"{site.url('nova')}/v2.1/servers?limit=1",
    )  # fmt: skip


def seed(site: Site, admin: Rest) -> None:
    """Make two small flavors."""
    url = f"{site.url('nova')}/v2.1/flavors"
    known = {flavor["name"] for flavor in admin.call("GET", f"{url}?is_public=None")["flavors"]}
    for name, ram in (("m1.nano", 64), ("m1.micro", 128)):
        if name not in known:
            admin.call("POST", url, {"flavor": {"name": name, "ram": ram, "disk": 1, "vcpus": 1}})
