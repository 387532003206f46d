"""Cyborg: its API and its conductor. There is no agent and no device: requests stay unbound."""

from __future__ import annotations

from tests.cloud.services.base import Service, Site, common, credentials, daemon, ini, wsgi

#: As the package has it, and below /accelerator: Cyborg names this path in its version documents.
PASTE = """\
[composite:main]
use = egg:Paste#urlmap
/accelerator = cyborg

[pipeline:cyborg]
pipeline = request_id authtoken api_v2

[app:api_v2]
paste.app_factory = cyborg.api.app:app_factory

[filter:authtoken]
acl_public_routes = /, /v2
paste.filter_factory = cyborg.api.middleware.auth_token:AuthTokenMiddleware.factory

[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory
"""


def service(site: Site) -> Service:
    home = site.home("cyborg")
    config = common(site, "cyborg")
    config["api"] = {"api_paste_config": home / "api-paste.ini"}
    config |= {section: credentials(site, "cyborg") for section in ("placement", "nova", "service_user")}
    files = ("--config-file", str(home / "cyborg.conf"))
    return Service(
        name="cyborg",
        files={"cyborg.conf": ini(config, site.extra_config.get("cyborg")), "api-paste.ini": PASTE},
        folders=("state", "lock"),
        databases=("cyborg",),
        schema=((site.bin("cyborg-dbsync"), *files, "upgrade"),),
        after=("keystone",),  # at its start the conductor logs in
        processes=(
            wsgi(site, "cyborg", ("--module", "cyborg.wsgi.api:application"), arguments=files),
            daemon(site, "cyborg-conductor", *files),
        ),
        catalog_type="accelerator",
        catalog_url=f"{site.url('cyborg')}/accelerator/v2",
        probe=f"{site.url('cyborg')}/accelerator/v2/accelerator_requests",
    )
