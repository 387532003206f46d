"""Tacker: its API alone. No conductor reads packages or makes instances of them, and no notification is sent."""

from __future__ import annotations

from tests.cloud.services.base import HOST, Process, Service, Site, common, daemon, ini


def service(site: Site) -> Service:
    home = site.home("tacker")
    config = common(site, "tacker")
    config["DEFAULT"] |= {
        "transport_url": "fake://",  # nothing receives what it sends
        "bind_host": HOST,
        "bind_port": site.ports["tacker"],
        "api_paste_config": site.venv / "etc/tacker/api-paste.ini",
        "api_workers": "0",
    }
    # Tacker gives the connection of a request that deletes back only when Python's garbage collector runs. With the
    # default of 50 it sometimes answers 500 (QueuePool limit) after some twenty deletes, to lists as well.
    config["database"] |= {"max_overflow": "300"}
    config |= {
        "glance_store": {"filesystem_store_datadir": home / "packages"},  # by default in /var/lib/glance
        "vnf_package": {"vnf_package_csar_path": home / "packages"},
        "vim_keys": {"openstack": home / "keys", "use_barbican": "false"},
        # Otherwise it calls the address of a new subscription.
        "vnf_lcm": {"test_callback_uri": "false"},
        "v2_nfvo": {"test_callback_uri": "false"},
    }
    files = ("--config-file", str(home / "tacker.conf"))
    server = daemon(site, "tacker-server", *files)
    return Service(
        name="tacker",
        files={"tacker.conf": ini(config, site.extra_config.get("tacker"))},
        folders=("state", "lock", "packages", "keys"),
        databases=("tacker",),
        schema=((site.bin("tacker-db-manage"), *files, "upgrade", "head"),),
        processes=(Process(server.name, server.arguments, port=site.ports["tacker"]),),
        catalog_type="nfv-orchestration",
        catalog_url=site.url("tacker"),
        probe=f"{site.url('tacker')}/vnflcm/v1/vnf_instances",
    )
