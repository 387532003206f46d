"""Aodh: its API alone, which creates, lists and deletes alarms. No process evaluates them."""

from __future__ import annotations

from tests.cloud.services.base import Service, Site, common, credentials, ini, wsgi


def service(site: Site) -> Service:
    home = site.home("aodh")
    config = common(site, "aodh")
    config |= {
        "api": {"auth_mode": "keystone"},
        "service_credentials": credentials(site, "aodh"),  # the trustee of the alarms' trusts
    }
    return Service(
        name="aodh",
        # Its WSGI module reads the configuration only from ~/.aodh. Without it, it fails with a misleading message.
        files={".aodh/aodh.conf": ini(config, site.extra_config.get("aodh"))},
        folders=("state", "lock"),
        databases=("aodh",),
        schema=((site.bin("aodh-dbsync"), "--config-file", str(home / ".aodh/aodh.conf")),),
        processes=(wsgi(site, "aodh", ("--module", "aodh.wsgi.api:application"), environment={"HOME": str(home)}),),
        catalog_type="alarming",  # as DevStack registers it: an alias of the official type
        catalog_url=site.url("aodh"),
        probe=f"{site.url('aodh')}/v2/alarms?limit=1",
    )
