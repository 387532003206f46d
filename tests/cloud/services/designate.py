"""Designate, with a fake name server."""

from __future__ import annotations

import json

from tests.cloud.services.base import FAKES, HOST, Reports, Service, Site, common, daemon, ini, wsgi

DAEMONS = ("central", "producer", "worker", "mdns")


def service(site: Site) -> Service:
    home = site.home("designate")
    mdns, server = site.ports["designate-mdns"], site.ports["designate-server"]
    config = common(site, "designate")
    config |= {
        "service:api": {
            "enabled_extensions_admin": "quotas",
            "auth_strategy": "keystone",
            "enable_api_v2": "true",
            "enable_api_admin": "true",
            "enable_host_header": "true",
            "api_base_uri": f"{site.url('designate')}/",
        },
        **{f"service:{name}": {"workers": 1, "threads": 20} for name in DAEMONS},
        "storage:sqlalchemy": config.pop("database"),
        "coordination": {"backend_url": f"file://{home / 'coordination'}"},
    }
    config["service:mdns"]["listen"] = f"{HOST}:{mdns}"
    config["service:worker"] |= {"poll_max_retries": 3, "poll_retry_interval": 1, "poll_delay": 0}
    files = ("--config-file", str(home / "designate.conf"))
    pool = {
        "name": "default",
        "description": "name servers that only pretend",
        "attributes": {},
        "ns_records": [{"hostname": "ns1.cloud.example.", "priority": 1}],
        "nameservers": [{"host": HOST, "port": server}],
        "targets": [
            {"type": "fake", "description": "", "masters": [{"host": HOST, "port": mdns}],
             "options": {"host": HOST, "port": server}}
        ],
    }  # fmt: skip
    return Service(
        name="designate",
        files={
            "designate.conf": ini(config, site.extra_config.get("designate")),
            # Its API searches only next to its configuration.
            "api-paste.ini": (site.venv / "etc/designate/api-paste.ini").read_text(),
            "pools.yaml": json.dumps([pool], indent=1),
        },
        folders=("state", "lock", "coordination"),
        databases=("designate",),
        schema=((site.bin("designate-manage"), *files, "database", "sync"),),
        processes=(
            wsgi(site, "designate", ("--module", "designate.wsgi.api:application"),
                 environment={"OS_DESIGNATE_CONFIG_DIR": str(home)}),
            *(daemon(site, f"designate-{name}", *files) for name in DAEMONS),
            daemon(site, "designate-server", str(server), site.database_url("designate"),
                   script=str(FAKES / "fake_name_server.py")),
        ),
        catalog_type="dns",
        catalog_url=site.url("designate"),
        reports=(Reports(f"{site.url('designate')}/v2/service_statuses", "service_statuses", frozenset(DAEMONS)),),
        settings=((site.bin("designate-manage"), *files, "pool", "update", "--file", str(home / "pools.yaml")),),
        probe=f"{site.url('designate')}/v2/pools",
    )  # fmt: skip
