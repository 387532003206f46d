"""Manila, with a fake backend."""

from __future__ import annotations

from tests.cloud.identity import Rest
from tests.cloud.services.base import Pools, Reports, Service, Site, common, credentials, daemon, ini, wsgi

BACKEND = "dummy"
HEADERS = {"X-OpenStack-Manila-API-Version": "2.60"}


def service(site: Site) -> Service:
    home = site.home("manila")
    config = common(site, "manila")
    config["DEFAULT"] |= {
        "api_paste_config": site.venv / "etc/manila/api-paste.ini",
        "rootwrap_config": site.venv / "etc/manila/rootwrap.conf",
        "auth_strategy": "keystone",
        "enabled_share_backends": BACKEND,
        "enabled_share_protocols": "NFS,CIFS",
        "default_share_type": "default",
        "my_ip": "127.0.0.1",
        "report_interval": 5,
        "transfer_retention_time": 86400,  # five minutes is shorter than a test: it would change by itself
    }
    config |= {
        BACKEND: {
            "share_driver": "manila.tests.share.drivers.dummy.DummyDriver",
            "share_backend_name": BACKEND,
            "driver_handles_share_servers": "false",
        },
        "coordination": {"backend_url": f"file://{home / 'coordination'}"},
        **{name: credentials(site, "manila") for name in ("neutron", "nova", "cinder", "glance")},
    }
    files = ("--config-file", str(home / "manila.conf"))
    daemons = ("manila-scheduler", "manila-share", "manila-data")
    return Service(
        name="manila",
        files={"manila.conf": ini(config, site.extra_config.get("manila"))},
        folders=("state", "lock", "coordination"),
        databases=("manila",),
        schema=((site.bin("manila-manage"), *files, "db", "sync"),),
        processes=(
            wsgi(site, "manila", ("--module", "manila.wsgi.api:application"), arguments=files),
            *(daemon(site, name, *files) for name in daemons),
        ),
        catalog_type="shared-file-system",
        catalog_url=f"{site.url('manila')}/v2",
        reports=(
            Reports(f"{site.url('manila')}/v2/services", "services", frozenset(daemons), HEADERS),
            Pools(f"{site.url('manila')}/v2/scheduler-stats/pools", "pools", frozenset({BACKEND}), HEADERS),
        ),
        seed=seed,
        probe=f"{site.url('manila')}/v2/shares",
    )


def seed(site: Site, admin: Rest) -> None:
    """Make the default type of shares."""
    url = f"{site.url('manila')}/v2/types"
    if not admin.call("GET", url, headers=HEADERS)["share_types"]:
        specs = {"driver_handles_share_servers": False, "snapshot_support": True,
                 "create_share_from_snapshot_support": True}  # fmt: skip
        admin.call("POST", url, {"share_type": {"name": "default", "extra_specs": specs}}, headers=HEADERS)
