"""Keystone: one process, or several behind one port."""

from __future__ import annotations

from collections.abc import Callable

from tests.cloud.identity import Rest
from tests.cloud.services.base import INSIDE, REGION, SERVICE_PROJECT, Process, Service, Site, ini, wsgi

#: The caches of Keystone: a separate one in each process, or a shared one (in a file instead of memcached, see
#: serve.py).
CACHES: dict[str, Callable[[Site], dict[str, object]]] = {
    "process": lambda site: {"enabled": "true", "backend": "dogpile.cache.memory"},
    "shared": lambda site: {
        "enabled": "true",
        "backend": "dogpile.cache.dbm",
        "backend_argument": f"filename:{site.home('keystone') / 'cache.sqlite'}",
    },
    "none": lambda site: {"enabled": "false"},
}


def keystone_processes(site: Site) -> tuple[Process, ...]:
    """One process, or several: each of them on a separate port, and all on the port of Keystone.

    On the shared port the kernel gives each new connection to one of them, like a load balancer.
    """
    files = [site.home("keystone") / name for name in ("keystone.conf", "cleanup-user.conf")]
    environment = {"OS_KEYSTONE_CONFIG_FILES": ";".join(map(str, files if site.cleanup_user else files[:1]))}
    if len(site.keystone_modules) == 1:
        return (wsgi(site, "keystone", ("--module", site.keystone_modules[0]), environment=environment),)
    shared = ("--shared-port", str(site.ports["keystone"]))
    return tuple(
        wsgi(site, f"keystone-{number}", ("--module", module), options=shared, environment=environment)
        for number, module in enumerate(site.keystone_modules, 1)
    )


def service(site: Site) -> Service:
    home = site.home("keystone")
    config = {
        "DEFAULT": {"transport_url": site.transport_url, "public_endpoint": site.url("keystone")},
        "database": {"connection": site.database_url("keystone")},
        "token": {"provider": "fernet"},
        "fernet_tokens": {"key_repository": home / "fernet"},
        "credential": {"key_repository": home / "credential"},
        "cache": CACHES[site.keystone_cache](site),
        "identity": {"password_hash_rounds": 4},  # the minimum of bcrypt: a dozen users are created at the start
    }
    return Service(
        name="keystone",
        files={"keystone.conf": ini(config, site.extra_config.get("keystone"))},
        databases=("keystone",),
        # The preparation does the same in one process with other commands; then this one has nothing to do.
        schema=((site.bin("keystone-manage"), "--config-file", str(home / "keystone.conf"), "db_sync"),),
        preparation=(
            (site.bin("python"), str(INSIDE), "keystone", str(home / "keystone.conf"), site.password, REGION,
             site.keystone_url, *((SERVICE_PROJECT, site.cleanup_user) if site.cleanup_user else ())),
        ),
        processes=keystone_processes(site),
        catalog_type="identity",
        catalog_url=site.keystone_url,
        seed=seed,
    )  # fmt: skip


def seed(site: Site, admin: Rest) -> None:
    """The user that may read every Swift account, also of a deleted project."""
    admin.ensure_user("auditor", site.password, SERVICE_PROJECT, ("ResellerAdmin", "reader"))
