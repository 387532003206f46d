"""Octavia, whose load balancers are only records."""

from __future__ import annotations

from tests.cloud.services.base import INSIDE, Service, Site, common, credentials, daemon, ini, wsgi


def service(site: Site) -> Service:
    home = site.home("octavia")
    config = common(site, "octavia")
    config |= {
        "api_settings": {
            "auth_strategy": "keystone",
            "enabled_provider_drivers": "amphora:'amphorae that only pretend',noop_driver:'noop'",
            "default_provider_driver": "amphora",
        },
        "controller_worker": {
            "workers": 1,
            "client_ca": home / "ca.pem",
            "amp_boot_network_list": "11111111-1111-1111-1111-111111111111",
            "amp_flavor_id": "1",
            "amp_image_tag": "amphora",
            "compute_driver": "compute_noop_driver",
            "network_driver": "network_noop_driver",
            "amphora_driver": "amphora_noop_driver",
            "image_driver": "image_noop_driver",
            "volume_driver": "volume_noop_driver",
        },
        "certificates": {
            "cert_generator": "local_cert_generator",
            "ca_certificate": home / "ca.pem",
            "ca_private_key": home / "ca.key",
            "server_certs_key_passphrase": "insecure-key-do-not-use-this-key",
            "cert_manager": "noop_cert_manager",
        },
        "oslo_messaging": {"topic": "octavia_prov"},
        "health_manager": {"heartbeat_key": "cleanup"},
        "task_flow": {"jobboard_enabled": "false"},
        "service_auth": credentials(site, "octavia"),
    }
    files = ("--config-file", str(home / "octavia.conf"))
    return Service(
        name="octavia",
        files={"octavia.conf": ini(config, site.extra_config.get("octavia"))},
        folders=("state", "lock"),
        databases=("octavia",),
        schema=((site.bin("octavia-db-manage"), *files, "upgrade", "head"),),
        preparation=((site.bin("python"), str(INSIDE), "certificate", str(home / "ca.pem"), str(home / "ca.key")),),
        processes=(
            wsgi(site, "octavia", ("--module", "octavia.wsgi.api:application"), arguments=files),
            daemon(site, "octavia-worker", *files),
            daemon(site, "octavia-housekeeping", *files),
        ),
        catalog_type="load-balancer",
        catalog_url=site.url("octavia"),
        probe=f"{site.url('octavia')}/v2/lbaas/loadbalancers",
    )
