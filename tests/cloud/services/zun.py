"""Zun: its API alone, which stores registries, containers and capsules. There is no host that runs them."""

from __future__ import annotations

from tests.cloud.services.base import HOST, Service, Site, common, credentials, ini, wsgi


def service(site: Site) -> Service:
    home = site.home("zun")
    config = common(site, "zun")
    config["api"] = {
        "host_ip": HOST,
        "port": site.ports["zun"],
        "api_paste_config": site.venv / "etc/zun/api-paste.ini",
    }
    config["keystone_auth"] = credentials(site, "zun")
    files = ("--config-file", str(home / "zun.conf"))
    return Service(
        name="zun",
        files={"zun.conf": ini(config, site.extra_config.get("zun"))},
        folders=("state", "lock"),
        databases=("zun",),
        schema=((site.bin("zun-db-manage"), *files, "upgrade"),),
        processes=(wsgi(site, "zun", ("--module", "zun.wsgi.api:application"), arguments=files),),
        catalog_type="container",  # as DevStack registers it: an alias of the official type
        catalog_url=f"{site.url('zun')}/v1",
        probe=f"{site.url('zun')}/v1/registries",
    )
