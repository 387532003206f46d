"""Magnum, with a driver of the tests, because it has none by default."""

from __future__ import annotations

import pathlib

from tests.cloud.identity import Rest
from tests.cloud.services.base import Reports, Service, Site, common, credentials, daemon, ini, python_path, wsgi

DOMAIN, ADMIN = "magnum", "magnum_domain_admin"
DRIVER = pathlib.Path(__file__).parents[1] / "magnum_driver.py"
INSTALL = """\
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import magnum_driver
magnum_driver.install(pathlib.Path(sys.argv[2]))
"""


def service(site: Site) -> Service:
    home = site.home("magnum")
    config = common(site, "magnum")
    config |= {
        "api": {"api_paste_config": site.venv / "etc/magnum/api-paste.ini"},
        "conductor": {"workers": 1},
        "trust": {
            "trustee_domain_name": DOMAIN,
            "trustee_domain_admin_name": ADMIN,
            "trustee_domain_admin_password": site.password,
            "trustee_keystone_interface": "public",
        },
        "cluster": {"temp_cache_dir": home / "cache"},
        "certificates": {"cert_manager_type": "x509keypair"},
        "keystone_auth": credentials(site, "magnum"),
    }
    driver = home / "driver"
    environment = python_path(driver)
    files = ("--config-file", str(home / "magnum.conf"))
    return Service(
        name="magnum",
        files={"magnum.conf": ini(config, site.extra_config.get("magnum"))},
        folders=("state", "lock", "cache"),
        databases=("magnum",),
        schema=((site.bin("magnum-db-manage"), *files, "upgrade"),),
        preparation=((site.bin("python"), "-c", INSTALL, str(DRIVER.parent), str(driver)),) if DRIVER.exists() else (),
        processes=(
            wsgi(site, "magnum", ("--module", "magnum.wsgi.api:application"), arguments=files, environment=environment),
            daemon(site, "magnum-conductor", *files, environment=environment),
        ),
        catalog_type="container-infrastructure-management",
        catalog_url=f"{site.url('magnum')}/v1",
        reports=(Reports(f"{site.url('magnum')}/v1/mservices", "mservices", frozenset({"magnum-conductor"})),),
        # Before release 2026 it lists its daemons only once it has its domain.
        accounts=accounts,
        probe=f"{site.url('magnum')}/v1/clustertemplates",
    )


def accounts(site: Site, admin: Rest) -> None:
    """Make the user that creates the users of clusters."""
    admin.ensure_domain_admin(DOMAIN, ADMIN, site.password)
