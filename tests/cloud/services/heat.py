"""Heat, with the users of its stacks in a separate domain."""

from __future__ import annotations

from tests.cloud.identity import Rest
from tests.cloud.services.base import REGION, Service, Site, common, daemon, ini, wsgi

DOMAIN, ADMIN = "heat", "heat_domain_admin"


def service(site: Site) -> Service:
    home = site.home("heat")
    config = common(site, "heat")
    config["DEFAULT"] |= {
        "num_engine_workers": 1,
        # Heat's default of 5 retries takes over a minute until the delete of a stack that is in use fails.
        "action_retry_limit": 1,
        "stack_domain_admin": ADMIN,
        "stack_domain_admin_password": site.password,
        "stack_user_domain_name": DOMAIN,
        "enable_stack_abandon": "true",
        "enable_stack_adopt": "true",
        "auth_encryption_key": "0123456789abcdef0123456789abcdef",
        "heat_metadata_server_url": site.url("heat"),
        "region_name_for_services": REGION,
        "environment_dir": site.venv / "etc/heat/environment.d",
        "template_dir": site.venv / "etc/heat/templates",
    }
    config |= {
        "paste_deploy": {"api_paste_config": site.venv / "etc/heat/api-paste.ini"},
        "clients_keystone": {"auth_uri": site.keystone_url},
        "ec2authtoken": {"auth_uri": site.keystone_url},
        "trustee": {
            "auth_url": site.keystone_url,
            "auth_type": "password",
            "username": "heat",
            "password": site.password,
            "user_domain_id": "default",
        },
    }
    files = ("--config-file", str(home / "heat.conf"))
    return Service(
        name="heat",
        files={"heat.conf": ini(config, site.extra_config.get("heat"))},
        folders=("state", "lock"),
        databases=("heat",),
        schema=((site.bin("heat-manage"), *files, "db_sync"),),
        processes=(
            wsgi(site, "heat", ("--module", "heat.wsgi.api:application"), arguments=files),
            daemon(site, "heat-engine", *files),
        ),
        catalog_type="orchestration",
        catalog_url=f"{site.url('heat')}/v1/%(project_id)s",
        accounts=accounts,
    )


def accounts(site: Site, admin: Rest) -> None:
    """Make the user that creates users for the stacks, and the role of these users."""
    admin.ensure_domain_admin(DOMAIN, ADMIN, site.password)
    admin.ensure("roles", "role", {"name": "heat_stack_user"})
