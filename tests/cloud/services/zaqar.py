"""Zaqar: its API, with queues in the database, and messages and subscriptions in a separate Redis."""

from __future__ import annotations

from tests.cloud.services.base import HOST, Process, Service, Site, common, credentials, ini, wsgi


def service(site: Site) -> Service:
    home = site.home("zaqar")
    port = site.ports["zaqar-redis"]
    config = common(site, "zaqar")
    config["DEFAULT"] |= {"auth_strategy": "keystone", "unreliable": "true"}
    config |= {
        "drivers": {"transport": "wsgi", "management_store": "sqlalchemy", "message_store": "redis"},
        "drivers:management_store:sqlalchemy": {"uri": config.pop("database")["connection"]},
        "drivers:message_store:redis": {"uri": f"redis://{HOST}:{port}"},
        "signed_url": {"secret_key": "secret"},
        "trustee": credentials(site, "zaqar"),
        "storage": {"message_pipeline": "", "queue_pipeline": ""},
        "notification": {"require_confirmation": "false"},
    }
    redis = ("redis-server", "--bind", HOST, "--port", str(port), "--save", "", "--dir", str(home / "state"))
    return Service(
        name="zaqar",
        # Its WSGI module reads the configuration only from ~/.zaqar.
        files={".zaqar/zaqar.conf": ini(config, site.extra_config.get("zaqar"))},
        folders=("state", "lock"),
        databases=("zaqar",),
        schema=(
            (site.bin("zaqar-sql-db-manage"), "--config-file", str(home / ".zaqar/zaqar.conf"), "upgrade", "head"),
        ),
        processes=(
            Process(name="zaqar-redis", arguments=("exec", "--", *redis)),
            wsgi(site, "zaqar", ("--module", "zaqar.transport.wsgi.app:application"), environment={"HOME": str(home)}),
        ),
        catalog_type="messaging",  # as DevStack registers it: an alias of the official type
        catalog_url=site.url("zaqar"),
    )
