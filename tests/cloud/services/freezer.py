"""Freezer: its API alone, which stores jobs, clients and records. No scheduler and no agent makes a backup."""

from __future__ import annotations

from tests.cloud.services.base import Service, Site, common, ini, wsgi


def service(site: Site) -> Service:
    home = site.home("freezer")
    config = common(site, "freezer")
    config["paste_deploy"] = {"config_file": site.venv / "etc/freezer/freezer-paste.ini"}
    files = ("--config-file", str(home / "freezer-api.conf"))
    return Service(
        name="freezer",
        files={"freezer-api.conf": ini(config, site.extra_config.get("freezer"))},
        folders=("state", "lock"),
        databases=("freezer",),
        schema=((site.bin("freezer-manage"), *files, "db", "sync"),),
        processes=(wsgi(site, "freezer", ("--module", "freezer_api.wsgi:application"), arguments=files),),
        catalog_type="backup",
        catalog_url=site.url("freezer"),
        probe=f"{site.url('freezer')}/v2/any/jobs?limit=1",
    )
