"""Glance, with its images in files."""

from __future__ import annotations

from tests.cloud.services.base import Service, Site, common, ini, wsgi


def service(site: Site) -> Service:
    home = site.home("glance")
    config = common(site, "glance")
    config["DEFAULT"] |= {
        "enabled_backends": "store:file",
        "enabled_import_methods": "[glance-direct,web-download,copy-image]",
        "use_keystone_limits": "false",
        "worker_self_reference_url": site.url("glance"),
    }
    config |= {
        "glance_store": {"default_backend": "store"},
        "store": {"filesystem_store_datadir": home / "images"},
        "os_glance_staging_store": {"filesystem_store_datadir": home / "staging"},
        "os_glance_tasks_store": {"filesystem_store_datadir": home / "tasks"},
        "paste_deploy": {"flavor": "keystone", "config_file": home / "glance-api-paste.ini"},
    }
    return Service(
        name="glance",
        files={
            "glance-api.conf": ini(config, site.extra_config.get("glance")),
            # Glance 28 searches only next to its configuration.
            "glance-api-paste.ini": (site.venv / "etc/glance/glance-api-paste.ini").read_text(),
        },
        folders=("state", "lock", "images", "staging", "tasks"),
        databases=("glance",),
        schema=((site.bin("glance-manage"), "--config-file", str(home / "glance-api.conf"), "db_sync"),),
        processes=(
            wsgi(site, "glance", ("--module", "glance.wsgi.api:application"),
                 environment={"OS_GLANCE_CONFIG_DIR": str(home)}),
        ),
        catalog_type="image",
        catalog_url=site.url("glance"),
        probe=f"{site.url('glance')}/v2/images?limit=1",
    )  # fmt: skip
