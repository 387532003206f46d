"""What each service of the cloud needs, as data: configuration, preparation, processes, catalog.

A service is one function `Site -> Service`; `SERVICES` names them all. Nothing here starts anything: the launcher does.
"""

from __future__ import annotations

import os
import pathlib
import pwd
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cloud.errors import CloudError
from tests.cloud.identity import Rest

HOST = "127.0.0.1"
REGION = "RegionOne"
SERVICE_PROJECT = "service"
SERVICE_ROLES = ("admin", "service")
STOCK_KEYSTONE = "keystone.wsgi.api:application"
INSIDE = pathlib.Path(__file__).with_name("inside.py")

# Offsets from the port base. A place is kept for what may join later, so that no port ever moves.
PORT_OFFSETS = {
    "keystone": 0,
    "glance": 1,
    "neutron": 2,
    "swift": 3,
    "barbican": 4,
    "placement": 5,
    "cinder": 6,
    "nova": 7,
    "octavia": 8,
    "designate": 9,
    "manila": 10,
    "heat": 11,
    "magnum": 12,
    "swift-account": 20,
    "swift-container": 21,
    "swift-object": 22,
    # Where there are several Keystone processes: each one's own, besides the one that they share.
    "keystone-1": 23,
    "keystone-2": 24,
    "keystone-3": 25,
    "keystone-4": 26,
    "orchestrator": 30,
}

Ini = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Site:
    """Where one cloud lives, and what its services have to know of each other."""

    directory: pathlib.Path
    venv: pathlib.Path
    ports: Mapping[str, int]
    password: str
    token_cache_time: int
    keystone_modules: tuple[str, ...] = (STOCK_KEYSTONE,)  #: one process for each
    keystone_cache: str = "process"  #: a key of KEYSTONE_CACHES
    cleanup_user: str = ""  #: the orchestrator's user, if Keystone has to know it from its configuration
    extra_config: Mapping[str, Ini] = field(default_factory=dict)

    @property
    def keystone_url(self) -> str:
        return f"{self.url('keystone')}/v3"

    def url(self, service: str) -> str:
        return f"http://{HOST}:{self.ports[service]}"

    def bin(self, command: str) -> str:
        return str(self.venv / "bin" / command)

    def home(self, service: str) -> pathlib.Path:
        return self.directory / service

    def database(self, service: str) -> pathlib.Path:
        """The service's SQLite file."""
        return self.home(service) / f"{service}.sqlite"

    def database_url(self, service: str) -> str:
        return f"sqlite:///{self.database(service)}"


@dataclass(frozen=True)
class Process:
    """One process: `arguments` are those of serve.py; it is up when `port` answers HTTP at `path`."""

    name: str
    arguments: tuple[str, ...]
    port: int
    path: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Service:
    """Everything the launcher does for one service, in the order of the fields."""

    name: str
    files: Mapping[str, str]  # below the service's directory; written at every start
    folders: tuple[str, ...] = ()
    preparation: tuple[tuple[str, ...], ...] = ()  # commands; repeated only when they change
    processes: tuple[Process, ...] = ()
    catalog_type: str = ""  # none: registered by its own preparation
    catalog_url: str = ""
    seed: Callable[[Site, Rest], None] | None = None  # over its API, idempotent
    probe: str = ""  # an authorised GET that has to succeed before the service counts as up


def ini(sections: Ini, extra: Ini | None = None) -> str:
    """An INI file; `extra` wins."""
    merged: dict[str, dict[str, object]] = {}
    for source in (sections, extra or {}):
        for section, options in source.items():
            merged.setdefault(section, {}).update(options)
    parts = []
    for section, options in merged.items():
        parts.append(f"[{section}]")
        parts += [f"{option} = {value}" for option, value in options.items()]
        parts.append("")
    return "\n".join(parts)


def auth_token(site: Site, service: str) -> dict[str, object]:
    """How a service checks tokens, with its own user."""
    return {
        "www_authenticate_uri": site.keystone_url,
        "auth_url": site.keystone_url,
        "auth_type": "password",
        "username": service,
        "password": site.password,
        "project_name": SERVICE_PROJECT,
        "user_domain_id": "default",
        "project_domain_id": "default",
        "region_name": REGION,
        "token_cache_time": site.token_cache_time,
        "service_token_roles_required": "true",
        "service_token_roles": "service",
    }


def common(site: Site, service: str) -> dict[str, dict[str, object]]:
    """What the oslo services have in common."""
    return {
        "DEFAULT": {
            "transport_url": "fake://",
            "state_path": site.home(service) / "state",
            "host": "cloudhost",
        },
        "database": {"connection": site.database_url(service)},
        "keystone_authtoken": auth_token(site, service),
        "oslo_concurrency": {"lock_path": site.home(service) / "lock"},
    }


def wsgi(
    site: Site,
    service: str,
    target: tuple[str, str],
    *,
    threads: int = 8,
    options: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Process:
    """A WSGI service behind our own runner."""
    option, value = target
    return Process(
        name=service,
        arguments=(
            "wsgi", "--name", f"{service}-api", "--port", str(site.ports[service]), "--threads", str(threads),
            *options, option, value, *(("--", *arguments) if arguments else ()),
        ),
        port=site.ports[service],
        environment=environment or {},
    )  # fmt: skip


#: Where Keystone caches tokens and more: each process for itself, or all of them together (in a file instead of in
#: memcached, see serve.py).
KEYSTONE_CACHES: dict[str, Callable[[Site], dict[str, object]]] = {
    "process": lambda site: {"enabled": "true", "backend": "dogpile.cache.memory"},
    "shared": lambda site: {
        "enabled": "true",
        "backend": "dogpile.cache.dbm",
        "backend_argument": f"filename:{site.home('keystone') / 'cache.sqlite'}",
    },
    "none": lambda site: {"enabled": "false"},
}


def keystone_processes(site: Site) -> tuple[Process, ...]:
    """One process, or several: each of them on a port of its own, and all on the port of Keystone.

    There the kernel gives each new connection to one of them, as a load balancer would.
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


def keystone(site: Site) -> Service:
    home = site.home("keystone")
    config = {
        "DEFAULT": {"transport_url": "fake://", "public_endpoint": site.url("keystone")},
        "database": {"connection": site.database_url("keystone")},
        "token": {"provider": "fernet"},
        "fernet_tokens": {"key_repository": home / "fernet"},
        "credential": {"key_repository": home / "credential"},
        "cache": KEYSTONE_CACHES[site.keystone_cache](site),
        "identity": {"password_hash_rounds": 4},  # the least bcrypt takes: a dozen users are created at the start
    }
    return Service(
        name="keystone",
        files={"keystone.conf": ini(config, site.extra_config.get("keystone"))},
        preparation=(
            (site.bin("python"), str(INSIDE), "keystone", str(home / "keystone.conf"), site.password, REGION,
             site.keystone_url, *((SERVICE_PROJECT, site.cleanup_user) if site.cleanup_user else ())),
        ),
        processes=keystone_processes(site),
        catalog_type="identity",
        catalog_url=site.keystone_url,
        seed=seed_keystone,
    )  # fmt: skip


def seed_keystone(site: Site, admin: Rest) -> None:
    """The user that may read every Swift account, also of a deleted project."""
    admin.ensure_user("auditor", site.password, SERVICE_PROJECT, ("ResellerAdmin", "reader"))


def glance(site: Site) -> Service:
    home = site.home("glance")
    config = common(site, "glance")
    config["DEFAULT"] |= {
        "enabled_backends": "store:file",
        "enabled_import_methods": "[glance-direct,web-download,copy-image]",
        "use_keystone_limits": "false",
        "worker_self_reference_url": site.url("glance"),
    }
    config |= {
        "glance_store": {"default_backend": "store"},
        "store": {"filesystem_store_datadir": home / "images"},
        "os_glance_staging_store": {"filesystem_store_datadir": home / "staging"},
        "os_glance_tasks_store": {"filesystem_store_datadir": home / "tasks"},
        "paste_deploy": {"flavor": "keystone", "config_file": site.venv / "etc/glance/glance-api-paste.ini"},
    }
    return Service(
        name="glance",
        files={"glance-api.conf": ini(config, site.extra_config.get("glance"))},
        folders=("state", "lock", "images", "staging", "tasks"),
        preparation=((site.bin("glance-manage"), "--config-file", str(home / "glance-api.conf"), "db_sync"),),
        processes=(
            wsgi(site, "glance", ("--module", "glance.wsgi.api:application"),
                 environment={"OS_GLANCE_CONFIG_DIR": str(home)}),
        ),
        catalog_type="image",
        catalog_url=site.url("glance"),
        probe=f"{site.url('glance')}/v2/images?limit=1",
    )  # fmt: skip


NEUTRON_PLUGINS = (
    "router", "trunk", "qos", "port_forwarding", "metering", "local_ip", "ndp_proxy", "conntrack_helper", "log",
    "network_segment_range",
)  # fmt: skip


def neutron(site: Site) -> Service:
    home = site.home("neutron")
    config = common(site, "neutron")
    config["DEFAULT"] |= {
        "core_plugin": "ml2",
        "service_plugins": ",".join(NEUTRON_PLUGINS),
        "auth_strategy": "keystone",
        "api_paste_config": site.venv / "etc/neutron/api-paste.ini",
        # No Nova to tell, and no agent to wait for an answer from.
        "notify_nova_on_port_status_changes": "false",
        "notify_nova_on_port_data_changes": "false",
        "dhcp_agent_notification": "false",
        "rpc_response_timeout": 2,
    }
    ml2 = {
        "ml2": {
            "type_drivers": "flat,vlan,vxlan,local",
            "tenant_network_types": "vxlan",
            "mechanism_drivers": "openvswitch",
            "extension_drivers": "port_security,qos",
        },
        "ml2_type_flat": {"flat_networks": "public"},
        "ml2_type_vxlan": {"vni_ranges": "1:4000"},
        "securitygroup": {"enable_security_group": "true"},
    }
    files = ("--config-file", str(home / "neutron.conf"), "--config-file", str(home / "ml2_conf.ini"))
    return Service(
        name="neutron",
        files={"neutron.conf": ini(config, site.extra_config.get("neutron")), "ml2_conf.ini": ini(ml2)},
        folders=("state", "lock"),
        preparation=((site.bin("python"), str(INSIDE), "neutron-schema", site.database_url("neutron")),),
        processes=(wsgi(site, "neutron", ("--module", "neutron.wsgi.api:application"), arguments=files),),
        catalog_type="network",
        catalog_url=site.url("neutron"),
        seed=seed_neutron,
        probe=f"{site.url('neutron')}/v2.0/networks?limit=1",
    )


def seed_neutron(site: Site, admin: Rest) -> None:
    """What the migrations would have put in (the rules of a default group), and the outside world."""
    url = f"{site.url('neutron')}/v2.0"
    if not admin.call("GET", f"{url}/default-security-group-rules")["default_security_group_rules"]:
        for ethertype in ("IPv4", "IPv6"):
            for rule in (
                {"direction": "egress", "used_in_non_default_sg": True},
                {"direction": "ingress", "remote_group_id": "PARENT", "used_in_non_default_sg": False},
            ):
                body = {"ethertype": ethertype, "used_in_default_sg": True, **rule}
                admin.call("POST", f"{url}/default-security-group-rules", {"default_security_group_rule": body})
    if admin.call("GET", f"{url}/networks?name=public")["networks"]:
        return
    scope = {"name": "public-v6", "ip_version": 6, "shared": True}
    scope_id = admin.call("POST", f"{url}/address-scopes", {"address_scope": scope})["address_scope"]["id"]
    pool = {"name": "public-v6", "prefixes": ["2001:db8::/40"], "default_prefixlen": 64, "shared": True,
            "address_scope_id": scope_id}  # fmt: skip
    pool_id = admin.call("POST", f"{url}/subnetpools", {"subnetpool": pool})["subnetpool"]["id"]
    network = {
        "name": "public",
        "router:external": True,
        "provider:network_type": "flat",
        "provider:physical_network": "public",
    }
    network_id = admin.call("POST", f"{url}/networks", {"network": network})["network"]["id"]
    for name, subnet in (
        ("public-v4", {"ip_version": 4, "cidr": "192.0.2.0/24"}),
        # NDP proxies want the outside and the inside in one IPv6 address scope, hence the shared pool.
        ("public-v6", {"ip_version": 6, "subnetpool_id": pool_id}),
    ):
        body = {"name": name, "network_id": network_id, "enable_dhcp": False, **subnet}
        admin.call("POST", f"{url}/subnets", {"subnet": body})


def swift_pipeline() -> tuple[str, ...]:
    """The pipeline of Swift's own sample, without what needs memcached."""
    return (
        "catch_errors", "gatekeeper", "healthcheck", "proxy-logging", "listing_formats", "bulk", "tempurl", "authtoken",
        "keystoneauth", "copy", "container-quotas", "account-quotas", "slo", "dlo", "versioned_writes", "symlink",
        "proxy-server",
    )  # fmt: skip


def swift(site: Site) -> Service:
    home = site.home("swift")
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise CloudError(f"Swift needs a name for the user that runs it, and user id {os.getuid()} has none") from None
    default = {"bind_ip": HOST, "workers": 0, "swift_dir": home, "user": user, "log_level": "WARNING"}
    proxy = {
        "DEFAULT": {**default, "bind_port": site.ports["swift"]},
        "pipeline:main": {"pipeline": " ".join(swift_pipeline())},
        "app:proxy-server": {"use": "egg:swift#proxy", "account_autocreate": "true"},
        **{f"filter:{name}": {"use": f"egg:swift#{name.replace('-', '_')}"}
           for name in swift_pipeline()[:-1] if name not in ("authtoken", "keystoneauth")},
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
                # Listings have to be right at once: there are no updaters to bring a late one in.
                "container_update_timeout": 15,
            },
            "pipeline:main": {"pipeline": f"healthcheck {kind}-server"},
            "filter:healthcheck": {"use": "egg:swift#healthcheck"},
            f"app:{kind}-server": {"use": f"egg:swift#{kind}", "fallocate_reserve": 0},
        }
        files[f"{kind}-server.conf"] = ini(backend)
        backends.append(swift_process(site, kind, port))
    return Service(
        name="swift",
        files=files,
        folders=("devices/sda",),
        preparation=(
            (site.bin("python"), str(INSIDE), "swift-rings", str(home), HOST,
             *(str(site.ports[f"swift-{kind}"]) for kind in ("account", "container", "object"))),
        ),
        processes=(*backends, swift_process(site, "proxy", site.ports["swift"])),
        catalog_type="object-store",
        catalog_url=f"{site.url('swift')}/v1/AUTH_%(project_id)s",
    )  # fmt: skip


def swift_process(site: Site, kind: str, port: int) -> Process:
    """One of Swift's servers; with no workers it serves in the process itself."""
    config = site.home("swift") / f"{kind}-server.conf"
    return Process(
        name=f"swift-{kind}",
        arguments=("exec", "--", site.bin("python"), site.bin(f"swift-{kind}-server"), str(config), "-v"),
        port=port,
        path="/healthcheck",
    )


def barbican(site: Site) -> Service:
    home = site.home("barbican")
    config = common(site, "barbican")
    config["DEFAULT"] |= {"host_href": site.url("barbican"), "db_auto_create": "true"}
    config |= {
        "queue": {"enable": "false"},
        "secretstore": {
            "namespace": "barbican.secretstore.plugin",
            "enabled_secretstore_plugins": "store_crypto",
        },
        "crypto": {"namespace": "barbican.crypto.plugin", "enabled_crypto_plugins": "simple_crypto"},
        "simple_crypto_plugin": {"kek": "dGhpcnR5X3R3b19ieXRlX2tleWJsYWhibGFoYmxhaGg="},
    }
    return Service(
        name="barbican",
        # It looks for its configuration in ~/.barbican alone, and takes no argument for it.
        files={".barbican/barbican.conf": ini(config, site.extra_config.get("barbican"))},
        folders=("state", "lock"),
        processes=(
            wsgi(site, "barbican", ("--paste", str(site.venv / "etc/barbican/barbican-api-paste.ini")),
                 environment={"HOME": str(home)}),
        ),
        catalog_type="key-manager",
        catalog_url=site.url("barbican"),
        probe=f"{site.url('barbican')}/v1/secrets?limit=1",
    )  # fmt: skip


SERVICES: dict[str, Callable[[Site], Service]] = {
    "keystone": keystone,
    "neutron": neutron,
    "glance": glance,
    "barbican": barbican,
    "swift": swift,
}


def clouds_yaml(site: Site) -> str:
    """Credentials for openstacksdk and the openstack command."""
    entries: dict[str, Any] = {"admin": ("admin", "admin"), "auditor": ("auditor", SERVICE_PROJECT)}
    lines = ["clouds:"]
    for name, (user, project) in entries.items():
        lines += [
            f"  {name}:",
            "    auth:",
            f"      auth_url: {site.keystone_url}",
            f"      username: {user}",
            f"      password: {site.password}",
            f"      project_name: {project}",
            "      user_domain_id: default",
            "      project_domain_id: default",
            f"    region_name: {REGION}",
            '    identity_api_version: "3"',
        ]
    return "\n".join(lines) + "\n"
