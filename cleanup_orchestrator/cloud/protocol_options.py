"""The options of ``[protocol]``: services that answer for themselves over the project resources protocol.

The options of its user in Keystone are in :mod:`cleanup_orchestrator.cloud.connections`.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from oslo_config import cfg

from cleanup_orchestrator.cloud.endpoints import official
from cleanup_orchestrator.errors import CleanupError

GROUP = "protocol"
OPTS = {
    GROUP: [
        cfg.ListOpt(
            "endpoints",
            default=[],
            mutable=True,
            help="URLs at which services answer over the project resources protocol, if it is not below their endpoint "
            "in the catalog: 'service-type=URL', or 'service-type@region=URL' for one region. The token of [protocol] "
            "is sent there, and no other token.",
        ),
        cfg.ListOpt(
            "prefer",
            default=[],
            mutable=True,
            help="Service types that have a plugin and are asked over the protocol instead, if they speak it. Once a "
            "service has answered over the protocol, its plugin is no longer used until the type is taken off this "
            "list. 'identity' cannot be on it.",
        ),
        cfg.ListOpt(
            "acts_on_user_content",
            default=[],
            mutable=True,
            help="Service types that may get the janitor's token, which is one of a member of the project: for "
            "resources of which the service says that it acts on what users wrote when they are deleted. "
            "Such resources of other services are not deleted.",
        ),
        cfg.FloatOpt(
            "timeout",
            default=5.0,
            min=0.1,
            max=60.0,
            mutable=True,
            help="Seconds that a service has to answer which types it has, and to refuse or accept new resources of a "
            "project. Lists and deletes have [orchestrator] call_timeout.",
        ),
    ]
}


class BadProtocolOption(CleanupError):
    """An option of ``[protocol]`` is not valid."""

    code = "bad_protocol_option"


def endpoints(conf: cfg.ConfigOpts) -> Mapping[str, str]:
    """Return the URLs that the operator names, by official service type or ``service-type@region``.

    :raises BadProtocolOption: names the entry that is not valid
    """
    urls: dict[str, str] = {}
    for entry in conf[GROUP].endpoints:
        name, _, url = (part.strip() for part in entry.partition("="))
        service, at, region = name.partition("@")
        where = f"[{GROUP}] endpoints: {entry}"
        if not service or bool(at) != bool(region):
            raise BadProtocolOption(f"{where}: an entry is 'service-type=URL' or 'service-type@region=URL'")
        if not _is_url(url):
            text = f"that of {name} is no URL of http or https without a user and a query"
            raise BadProtocolOption(f"[{GROUP}] endpoints: {text}")
        name = official(service) + at + region
        if name in urls:
            raise BadProtocolOption(f"{where}: {name} has two URLs")
        urls[name] = url.rstrip("/")
    return urls


def _is_url(url: str) -> bool:
    """Return whether a text is a URL of HTTP that only says where: a user's password would be shown with it."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if it is none
    except ValueError:
        return False
    named = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    return named and not parts.query and not parts.fragment


def prefer(conf: cfg.ConfigOpts) -> frozenset[str]:
    """Return the service types for which the protocol takes precedence over an installed plugin.

    :raises BadProtocolOption: Keystone is on the list: it decides whether a project exists
    """
    preferred = frozenset(map(official, conf[GROUP].prefer))
    if "identity" in preferred:
        raise BadProtocolOption(f"[{GROUP}] prefer: identity is always asked with its plugin")
    return preferred


def may_act_on_user_content(conf: cfg.ConfigOpts, service_type: str) -> bool:
    """Return whether the operator lets a service that speaks the protocol have the janitor's token.

    :param service_type: as steps have it: the second service of a type has a longer name
    """
    return official(service_type) in map(official, conf[GROUP].acts_on_user_content)


def endpoint(conf: cfg.ConfigOpts, service_type: str, region: str) -> str:
    """Return the URL that the operator names for a service in a region; empty if there is none."""
    named = endpoints(conf)
    return named.get(f"{service_type}@{region}") or named.get(service_type, "")
