"""Placement, which Nova needs."""

from __future__ import annotations

from tests.cloud.services.base import Service, Site, common, ini, wsgi


def service(site: Site) -> Service:
    home = site.home("placement")
    config = common(site, "placement")
    config |= {"api": {"auth_strategy": "keystone"}, "placement_database": config.pop("database")}
    return Service(
        name="placement",
        files={"placement.conf": ini(config, site.extra_config.get("placement"))},
        folders=("state", "lock"),
        databases=("placement",),
        schema=((site.bin("placement-manage"), "--config-file", str(home / "placement.conf"), "db", "sync"),),
        processes=(
            wsgi(site, "placement", ("--module", "placement.wsgi.api:application"),
                 environment={"OS_PLACEMENT_CONFIG_DIR": str(home)}),
        ),
        catalog_type="placement",
        catalog_url=site.url("placement"),
        probe=f"{site.url('placement')}/resource_providers",
    )  # fmt: skip
