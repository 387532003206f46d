"""Barbican, which stores the secrets in its database."""

from __future__ import annotations

from tests.cloud.services.base import Service, Site, common, ini, wsgi


def service(site: Site) -> Service:
    home = site.home("barbican")
    # Up to 2025.1 Heat makes its client without a version, and so sends requests to the catalog's URL as it stands.
    version = "/v1" if site.release <= "2025.1" else ""
    config = common(site, "barbican")
    config["DEFAULT"] |= {"host_href": site.url("barbican"), "db_auto_create": "true"}
    config |= {
        "queue": {"enable": "false"},
        "secretstore": {
            "namespace": "barbican.secretstore.plugin",
            "enabled_secretstore_plugins": "store_crypto",
        },
        "crypto": {"namespace": "barbican.crypto.plugin", "enabled_crypto_plugins": "simple_crypto"},
        # The default of 2026.2. With that of 2025.1 to 2026.1 a member has no secrets, and an admin no project quotas.
        "oslo_policy": {"enforce_new_defaults": "true"},
        "simple_crypto_plugin": {"kek": "dGhpcnR5X3R3b19ieXRlX2tleWJsYWhibGFoYmxhaGg="},
    }
    return Service(
        name="barbican",
        # It reads its configuration only from ~/.barbican, and has no argument for it.
        files={".barbican/barbican.conf": ini(config, site.extra_config.get("barbican"))},
        folders=("state", "lock"),
        databases=("barbican",),
        processes=(
            wsgi(site, "barbican", ("--paste", str(site.venv / "etc/barbican/barbican-api-paste.ini")),
                 environment={"HOME": str(home)}),
        ),
        catalog_type="key-manager",
        catalog_url=f"{site.url('barbican')}{version}",
        probe=f"{site.url('barbican')}/v1/secrets?limit=1",
    )  # fmt: skip
