"""Gnocchi, with its files in the directory of the cloud, and the daemon that removes deleted metrics."""

from __future__ import annotations

from tests.cloud.services.base import Service, Site, common, daemon, ini, wsgi


def service(site: Site) -> Service:
    home = site.home("gnocchi")
    config = common(site, "gnocchi")
    url = config.pop("database")["connection"]
    del config["oslo_concurrency"]
    config["DEFAULT"] = {"coordination_url": f"file://{home / 'lock'}"}
    files = {"driver": "file", "file_basepath": home / "state"}
    config |= {"api": {"auth_mode": "keystone"}, "indexer": {"url": url}, "storage": files, "incoming": files}
    # The defaults wait for a minute or more, and use a process for each processor.
    config["metricd"] = {"workers": 1, "metric_processing_delay": 1, "metric_cleanup_delay": 1}
    upgrade = (site.bin("gnocchi-upgrade"), "--config-file", str(home / ".gnocchi/gnocchi.conf"))
    return Service(
        name="gnocchi",
        # Its WSGI module reads the configuration only from ~/.gnocchi.
        files={".gnocchi/gnocchi.conf": ini(config, site.extra_config.get("gnocchi"))},
        folders=("state", "lock"),
        databases=("gnocchi",),
        schema=((*upgrade, "--skip-storage", "--skip-incoming"),),
        preparation=((*upgrade, "--skip-index", "--skip-archive-policies-creation"),),
        processes=(
            wsgi(site, "gnocchi", ("--module", "gnocchi.wsgi.api:application"), environment={"HOME": str(home)}),
            daemon(site, "gnocchi-metricd", "--config-file", str(home / ".gnocchi/gnocchi.conf")),
        ),
        catalog_type="metric",
        catalog_url=site.url("gnocchi"),
        probe=f"{site.url('gnocchi')}/v1/metric?limit=1",
    )
