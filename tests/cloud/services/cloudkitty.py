"""CloudKitty: its API alone, which stores prices and scopes. Nothing is collected, rated or stored."""

from __future__ import annotations

from tests.cloud.services.base import HOST, Service, Site, common, ini, wsgi

#: The package does not install its own file.
PASTE = """\
[pipeline:cloudkitty+keystone]
pipeline = request_id authtoken ck_api_v1

[app:ck_api_v1]
paste.app_factory = cloudkitty.api.app:app_factory

[filter:authtoken]
acl_public_routes = /, /v1, /v2
paste.filter_factory = cloudkitty.api.middleware:AuthTokenMiddleware.factory

[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory
"""


def service(site: Site) -> Service:
    home = site.home("cloudkitty")
    config = common(site, "cloudkitty")
    config["DEFAULT"] |= {"auth_strategy": "keystone", "api_paste_config": home / "api_paste.ini"}
    config |= {
        # The API of version 2 exists only with a storage of version 2. This one is contacted only for rated data.
        "storage": {"backend": "loki", "version": "2"},
        "storage_loki": {"url": f"http://{HOST}:1/loki/api/v1"},
        "fetcher": {"backend": "source"},
        "collect": {"collector": "prometheus", "metrics_conf": home / "metrics.yaml"},
        "orchestrator": {"coordination_url": f"file://{home}/state"},
    }
    files = ("--config-file", str(home / ".cloudkitty/cloudkitty.conf"))
    return Service(
        name="cloudkitty",
        files={
            # Its WSGI module reads the configuration only from ~/.cloudkitty.
            ".cloudkitty/cloudkitty.conf": ini(config, site.extra_config.get("cloudkitty")),
            "api_paste.ini": PASTE,
            "metrics.yaml": "metrics: {}\n",
        },
        folders=("state", "lock"),
        databases=("cloudkitty",),
        schema=((site.bin("cloudkitty-dbsync"), *files, "upgrade"), (site.bin("cloudkitty-storage-init"), *files)),
        processes=(
            wsgi(
                site,
                "cloudkitty",
                ("--module", "cloudkitty.wsgi.api:application"),
                environment={"HOME": str(home)},
            ),
        ),
        catalog_type="rating",
        catalog_url=site.url("cloudkitty"),
        probe=f"{site.url('cloudkitty')}/v1/rating/modules",
    )
