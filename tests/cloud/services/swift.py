"""Swift: a proxy and one of each backend, one replica."""

from __future__ import annotations

import os
import pwd

from tests.cloud.errors import CloudError
from tests.cloud.services.base import HOST, INSIDE, Process, Service, Site, auth_token, ini


def pipeline() -> tuple[str, ...]:
    """The pipeline of Swift's own sample, without what needs memcached."""
    return (
        "catch_errors", "gatekeeper", "healthcheck", "proxy-logging", "listing_formats", "bulk", "tempurl", "authtoken",
        "keystoneauth", "copy", "container-quotas", "account-quotas", "slo", "dlo", "versioned_writes", "symlink",
        "proxy-server",
    )  # fmt: skip


def service(site: Site) -> Service:
    home = site.home("swift")
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise CloudError(f"Swift needs a name for the user that runs it, and user id {os.getuid()} has none") from None
    default = {"bind_ip": HOST, "workers": 0, "swift_dir": home, "user": user, "log_level": "WARNING"}
    # A write skips a backend that does not answer in time, and no process here updates it later.
    default |= {"conn_timeout": 60, "node_timeout": 60}
    proxy = {
        "DEFAULT": {**default, "bind_port": site.ports["swift"]},
        "pipeline:main": {"pipeline": " ".join(pipeline())},
        "app:proxy-server": {"use": "egg:swift#proxy", "account_autocreate": "true",
                             "error_suppression_limit": 1000000},
        **{f"filter:{name}": {"use": f"egg:swift#{name.replace('-', '_')}"}
           for name in pipeline()[:-1] if name not in ("authtoken", "keystoneauth")},
        "filter:versioned_writes": {
            "use": "egg:swift#versioned_writes",
            "allow_versioned_writes": "true",
            "allow_object_versioning": "true",
        },
        "filter:keystoneauth": {"use": "egg:swift#keystoneauth", "operator_roles": "admin, member"},
        "filter:authtoken": {
            "paste.filter_factory": "keystonemiddleware.auth_token:filter_factory",
            "delay_auth_decision": "true",
            **auth_token(site, "swift"),
        },
    }  # fmt: skip
    # A line per request, as serve.py writes it for the other services.
    proxy["filter:proxy-logging"] |= {
        "access_log_level": "INFO",
        "log_msg_template": "{end_time} {method} {path} -> {status_int} ({request_time} s) {user_agent}",
    }
    if site.mariadb_url:  # in the whole cloud an account can be deleted, as in production
        proxy["app:proxy-server"]["allow_account_management"] = "yes"
    files = {
        "swift.conf": ini({"swift-hash": {"swift_hash_path_suffix": "cleanup", "swift_hash_path_prefix": "demo"}}),
        "proxy-server.conf": ini(proxy, site.extra_config.get("swift")),
    }
    backends = []
    for kind in ("account", "container", "object"):
        port = site.ports[f"swift-{kind}"]
        backend = {
            "DEFAULT": {
                **default,
                "bind_port": port,
                "devices": home / "devices",
                "mount_check": "false",
                "disable_fallocate": "true",
                # Listings have to be correct at once: there are no updaters for late changes.
                "container_update_timeout": 60,
            },
            "pipeline:main": {"pipeline": f"healthcheck {kind}-server"},
            "filter:healthcheck": {"use": "egg:swift#healthcheck"},
            f"app:{kind}-server": {"use": f"egg:swift#{kind}", "fallocate_reserve": 0},
        }
        files[f"{kind}-server.conf"] = ini(backend)
        backends.append(process(site, kind, port))
    return Service(
        name="swift",
        files=files,
        folders=("devices/sda",),
        preparation=(
            (site.bin("python"), str(INSIDE), "swift-rings", str(home), HOST,
             *(str(site.ports[f"swift-{kind}"]) for kind in ("account", "container", "object"))),
        ),
        processes=(*backends, process(site, "proxy", site.ports["swift"])),
        catalog_type="object-store",
        catalog_url=f"{site.url('swift')}/v1/AUTH_%(project_id)s",
    )  # fmt: skip


def process(site: Site, kind: str, port: int) -> Process:
    """One of Swift's servers; with no workers it serves in the process itself."""
    home, program = site.home("swift"), site.bin(f"swift-{kind}-server")
    return Process(
        name=f"swift-{kind}",
        arguments=("exec", "--", site.bin("python"), str(INSIDE), "swift-server", str(home), program,
                   str(home / f"{kind}-server.conf"), "-v"),
        port=port,
        path="/healthcheck",
    )  # fmt: skip
