"""Cinder, with fake volumes and backups."""

from __future__ import annotations

from tests.cloud.identity import Rest
from tests.cloud.services.base import (
    FAKES,
    Pools,
    Reports,
    Service,
    Site,
    common,
    credentials,
    daemon,
    ini,
    python_path,
    wsgi,
)

BACKEND, TYPE = "fake", "fakevol"


def service(site: Site) -> Service:
    home = site.home("cinder")
    config = common(site, "cinder")
    config["DEFAULT"] |= {
        "api_paste_config": site.venv / "etc/cinder/api-paste.ini",
        "resource_query_filters_file": site.venv / "etc/cinder/resource_filters.json",
        "rootwrap_config": site.venv / "etc/cinder/rootwrap.conf",
        "auth_strategy": "keystone",
        "enabled_backends": BACKEND,
        "default_volume_type": TYPE,
        "enable_force_upload": "true",
        "my_ip": "127.0.0.1",
        "backup_manager": "fake_backup.Manager",
        "backup_driver": "fake_backup.Driver",
        "report_interval": 5,
    }
    config |= {
        BACKEND: {
            "volume_driver": "fake_volumes.Driver",
            "volume_backend_name": BACKEND,
        },
        "coordination": {"backend_url": f"file://{home / 'coordination'}"},
        "service_user": {**credentials(site, "cinder"), "send_service_user_token": "true"},
        "nova": credentials(site, "cinder"),
        "glance": credentials(site, "cinder"),
        "key_manager": {"backend": "barbican"},
        "barbican": {"barbican_endpoint": site.url("barbican"), "auth_endpoint": site.keystone_url},
    }
    files = ("--config-file", str(home / "cinder.conf"))
    daemons = ("cinder-scheduler", "cinder-volume", "cinder-backup")
    return Service(
        name="cinder",
        files={"cinder.conf": ini(config, site.extra_config.get("cinder"))},
        folders=("state", "lock", "coordination"),
        databases=("cinder",),
        schema=((site.bin("cinder-manage"), *files, "db", "sync"),),
        processes=(
            wsgi(site, "cinder", ("--module", "cinder.wsgi.api:application"), arguments=files,
                 environment={"OS_CINDER_DISABLE_EVENTLET_PATCHING": "true"}),
            *(daemon(site, name, *files, environment=python_path(FAKES)) for name in daemons),
        ),
        catalog_type="block-storage",
        catalog_url=f"{site.url('cinder')}/v3",
        reports=(
            Reports(f"{site.url('cinder')}/v3/os-services", "services", frozenset(daemons)),
            Pools(f"{site.url('cinder')}/v3/scheduler-stats/get_pools", "pools", frozenset({BACKEND})),
        ),
        seed=seed,
        probe=f"{site.url('cinder')}/v3/types",
    )  # fmt: skip


def seed(site: Site, admin: Rest) -> None:
    """Make the default type of volumes."""
    url = f"{site.url('cinder')}/v3/types"
    if all(each["name"] != TYPE for each in admin.call("GET", f"{url}?is_public=none")["volume_types"]):
        admin.call("POST", url, {"volume_type": {"name": TYPE, "extra_specs": {"volume_backend_name": BACKEND}}})
