"""Tells how each catalog entry is covered.

An entry without a plugin or a waiver blocks: it never counts as empty.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from cleanup_orchestrator.cloud.endpoints import OFFICIAL, Registered, interfaces, is_on, official
from cleanup_orchestrator.core.holds import Waiver

#: Service types in which projects own nothing, each with the reason. They were read in the sources of the services.
OWNS_NOTHING: Mapping[str, str] = {
    "placement": "Placement: allocations belong to servers, and go with them",
    "cloudformation": "Heat's second API: its stacks are those of the service orchestration",
    "project-cleanup": "this orchestrator: its records outlive projects on purpose",
    "instance-ha": "Masakari: segments and hosts are the operator's, and no row names a project",
    "resource-optimization": "Watcher: goals, audits and action plans are the operator's, and no row names a project",
    "meter": "Ceilometer: it stores nothing itself; what it measures is in Gnocchi",
    "skyline": "Skyline: a console, which stores settings and sessions of users only",
}

OPTS = {
    "catalog": [
        cfg.ListOpt(
            "owns_nothing",
            default=list(OWNS_NOTHING),
            help="Service types in which a project owns nothing, so that they need no plugin. Resources in a service "
            "that is named here are left behind and not reported. The manual has the reason for each of the default "
            "types, on the page with all services.",
        ),
        cfg.IntOpt(
            "waiver_limit",
            default=90,
            min=1,
            help="The longest duration of a waiver, in days. An operator who still needs it afterwards must check the "
            "service and record a new waiver.",
        ),
    ]
}

_LONGEST = 128  #: characters of a service's name, in a step and in a waiver

#: Services without which no deletion can proceed: Keystone decides whether a project exists.
NEVER_WAIVED = frozenset({"identity"})


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One service in one region of the catalog, with its official type."""

    region: str
    service_type: str
    name: str
    second_of: str = ""  #: its registered type, if another service of that type is the one that is called
    url: str = ""  #: of the endpoint that is called, as it is registered; empty: there is none


class AnsweredBy(StrEnum):
    """How a catalog entry is covered; ``GET /v1/services`` shows the value."""

    PLUGIN = "plugin"  #: an installed plugin lists the service
    PROTOCOL = "protocol"  #: the service lists its resources itself, over the project resources protocol
    NOTHING_TO_OWN = "nothing_to_own"  #: ``[catalog] owns_nothing`` names the service
    WAIVED = "waived"  #: a waiver covers the service: it is not listed
    UNSUPPORTED = "unsupported"  #: nothing lists the service: what it holds is unknown


@dataclasses.dataclass(frozen=True, slots=True)
class ProtocolStatus:
    """What is known of a service that was asked whether it speaks the project resources protocol."""

    usable: bool = False  #: whether its resources are listed over the protocol
    spoke: bool = False  #: whether it ever returned a valid document
    types: tuple[str, ...] = ()  #: of its last valid document
    url: str = ""  #: where it is asked
    read_at: datetime.datetime | None = None  #: UTC; when its last valid document was read
    message: str = ""  #: why it is not usable, or why its document is not of now


class ProtocolProbe(Protocol):
    """Asks services whether they speak the project resources protocol."""

    def ask(self, entries: Sequence[Entry]) -> Mapping[tuple[str, str], ProtocolStatus]:
        """Return what is known of services, by region and service type; of those that are not asked, nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class TypeFacts:
    """What the API knows of a resource type of a plugin."""

    type: str
    forcible: bool = False  #: whether the type has a forced delete
    if_abandoned: str = ""  #: what an abandoned resource of the type still uses and does
    variant_of: str = ""  #: the type of the same service that users mean, too; see ``ResourceType.variant_of``


@dataclasses.dataclass(frozen=True, slots=True)
class CatalogEntryStatus:
    """How a catalog entry is covered."""

    region: str
    service_type: str
    name: str
    answered_by: AnsweredBy
    types: tuple[str, ...] = ()
    message: str = ""
    waiver: Waiver | None = None  #: with ``WAIVED``: the waiver that covers it
    protocol: ProtocolStatus | None = None  #: what is known of the service, if it was asked over the protocol
    facts: tuple[TypeFacts, ...] = ()  #: with ``PLUGIN``: of each type


def by_any_name(service: str) -> str:
    """Return the official type of a type, an alias or a project name (``cinder``)."""
    data = OFFICIAL.get_service_data_for_project(service) or {}
    return OFFICIAL.get_service_type(service) or data.get("service_type") or service


def read_catalog(identity: Adapter) -> tuple[Entry, ...]:
    """Return every service with an endpoint in each of its regions.

    From ``GET /v3/services`` and ``/v3/endpoints`` and not from a token's catalog: endpoint filters may hide an entry
    from the orchestrator's own project. Disabled entries count: what was created there is still there.

    Of two services of one type in one region, only the first is ever called, and of two endpoints of one service and
    interface as well. The other one is a separate entry, which no plugin covers, unless it has the same URL. A service
    that is registered under two names of its type is one entry.

    :raises BadAnswer: Keystone truncated a list
    """
    registered = Registered.read(identity)
    by_id = registered.services
    order = {id_: number for number, id_ in enumerate(by_id)}  # as in the catalog of a token, where the first is called
    of_type: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}  # as it was registered
    for endpoint in registered.endpoints:
        service = by_id[endpoint["service_id"]]
        there = of_type.setdefault((endpoint.get("region_id") or "", service["type"]), {})
        there.setdefault(service["id"], []).append(endpoint)
    entries: dict[tuple[str, str], Entry] = {}
    for (region, raw), there in of_type.items():
        called = {id_: _called(identity, each) for id_, each in there.items()}
        off = {id_: not is_on(by_id[id_]) or not any(is_on(each) for each in called[id_]) for id_ in there}
        ids = sorted(there, key=lambda id_: (off[id_], order[id_]))
        type_ = official(raw)
        url = _first_url(called[ids[0]])
        entries.setdefault((region, type_), Entry(region, type_, by_id[ids[0]].get("name") or type_, url=url))
        further = _further(called[ids[0]])
        known = _urls(each for each in there[ids[0]] if each not in further)
        for endpoint in further:
            if not (urls := _urls([endpoint])) <= known:
                label = _label_by_id(type_, endpoint["id"])
                entries[region, label] = Entry(region, label, by_id[ids[0]].get("name") or type_, type_, urls.pop())
        known |= _urls(further)
        for id_ in ids[1:]:
            urls = _urls(called[id_] or there[id_])
            if not urls <= known:
                label = _label(type_, by_id[id_], [by_id[other] for other in ids if other != id_])
                entry = Entry(region, label, by_id[id_].get("name") or id_, type_, _first_url(called[id_]))
                entries.setdefault((region, label), entry)
            known |= urls
    return tuple(entries[key] for key in sorted(entries))


def _called(identity: Adapter, endpoints: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the endpoints of the interface that is called."""
    names = interfaces(identity)
    return [each for each in endpoints if not names or each.get("interface") in {*names, None}]


def _urls(endpoints: Iterable[Mapping[str, Any]]) -> set[str]:
    return {str(each.get("url") or "").rstrip("/") for each in endpoints}


def _further(endpoints: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the enabled endpoints after the first of each interface.

    A project whose endpoint filter hides the first one uses them.
    """
    first: dict[Any, Mapping[str, Any]] = {}
    return [each for each in endpoints if is_on(each) and first.setdefault(each.get("interface"), each) is not each]


def _first_url(endpoints: Iterable[Mapping[str, Any]]) -> str:
    """Return the URL of the first enabled endpoint; empty if there is none."""
    return next((str(each.get("url") or "").rstrip("/") for each in endpoints if is_on(each)), "")


def _label(type_: str, service: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> str:
    """Return what steps and waivers call a second service of a type."""
    name = _plain(service)
    if name and name not in map(_plain, others) and len(type_) + 1 + len(name) <= _LONGEST:
        return f"{type_}.{name}"
    return _label_by_id(type_, service["id"])


def _label_by_id(type_: str, id_: str) -> str:
    return f"{type_[: _LONGEST - 1 - len(id_)]}.{id_}"


def _plain(service: Mapping[str, Any]) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", (service.get("name") or "").lower()).strip("-")


class ServiceCatalog:
    """Tells how catalog entries are covered: by plugins, configuration and waivers."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        types: Mapping[str, tuple[str, ...]],
        protocol: ProtocolProbe | None = None,
        facts: Mapping[str, tuple[TypeFacts, ...]] = MappingProxyType({}),
    ) -> None:
        """Take the type names of each service that has a plugin.

        :param protocol: asks the other services over the project resources protocol; ``None``: none is asked
        :param facts: by service, of its types
        """
        self._conf, self.types, self._protocol, self._facts = conf, types, protocol, facts

    @property
    def variants(self) -> Mapping[str, tuple[str, ...]]:
        """By ``service.type``: the full names of the types with the same resources in another state or place."""
        found: dict[str, tuple[str, ...]] = {}
        for service, one in ((service, one) for service, facts in self._facts.items() for one in facts):
            if one.variant_of:
                name = f"{service}.{one.variant_of}"
                found[name] = (*found.get(name, ()), f"{service}.{one.type}")
        return found

    def with_protocol(self, protocol: ProtocolProbe) -> ServiceCatalog:
        """Return the same with another way to ask services over the protocol."""
        return type(self)(self._conf, self.types, protocol, self._facts)

    def status(
        self, entry: Entry, waivers: Iterable[Waiver] = (), protocol: ProtocolStatus | None = None
    ) -> CatalogEntryStatus:
        """Return how one entry is covered.

        A service that ever answered over the protocol is no longer covered by a plugin: the protocol may have types
        that the plugin does not list.

        :param waivers: those in force; they take precedence over plugins, because they cover for plugins that fail
        :param protocol: what is known of the service, if it was asked over the protocol
        """
        base = (entry.region, entry.service_type, entry.name)
        plugin = entry.service_type in self.types
        nothing = not plugin and self._owns_nothing(entry)
        if (waiver := self._waiver(entry, waivers)) is not None and not nothing:
            return CatalogEntryStatus(*base, AnsweredBy.WAIVED, message=f"not listed: {waiver}", waiver=waiver)
        if protocol is not None and (protocol.usable or protocol.spoke):
            by = AnsweredBy.PROTOCOL if protocol.usable else AnsweredBy.UNSUPPORTED
            return CatalogEntryStatus(*base, by, protocol.types, protocol.message, protocol=protocol)
        said = protocol.message if protocol is not None else ""
        if plugin:
            message = f"its plugin is used, although [protocol] prefer names it: {said}" if said else ""
            types, facts = self.types[entry.service_type], self._facts.get(entry.service_type, ())
            return CatalogEntryStatus(*base, AnsweredBy.PLUGIN, types, message, facts=facts)
        if nothing:
            why = OWNS_NOTHING.get(entry.second_of or entry.service_type, "declared in [catalog] owns_nothing")
            return CatalogEntryStatus(*base, AnsweredBy.NOTHING_TO_OWN, message=why)
        if entry.second_of and protocol is None:
            message = (
                f"the catalog has more than one service or endpoint of type {entry.second_of} here, and only one of "
                f"them is asked: what {entry.name} holds {f'at {entry.url} ' if entry.url else ''}is unknown"
            )
            return CatalogEntryStatus(*base, AnsweredBy.UNSUPPORTED, message=message)
        message = f"no plugin answers for {entry.service_type}: what it holds is unknown{said and f'; {said}'}"
        return CatalogEntryStatus(*base, AnsweredBy.UNSUPPORTED, message=message)

    def _owns_nothing(self, entry: Entry) -> bool:
        declared = [official(name) for name in self._conf.catalog.owns_nothing]
        return entry.service_type in declared or (entry.second_of in declared and entry.second_of not in self.types)

    def statuses(self, identity: Adapter, waivers: Iterable[Waiver] = ()) -> tuple[CatalogEntryStatus, ...]:
        """Return how each entry of the catalog is covered."""
        waivers = tuple(waivers)
        entries = read_catalog(identity)
        known: Mapping[tuple[str, str], ProtocolStatus] = {}
        if self._protocol is not None:
            known = self._protocol.ask([entry for entry in entries if self._may_be_asked(entry, waivers)])
        return tuple(self.status(each, waivers, known.get((each.region, each.service_type))) for each in entries)

    def _may_be_asked(self, entry: Entry, waivers: Iterable[Waiver]) -> bool:
        """Return whether a service may be asked over the protocol; a waived one is not called at all."""
        declared = entry.service_type not in self.types and self._owns_nothing(entry)
        return not declared and self._waiver(entry, waivers) is None and entry.service_type not in NEVER_WAIVED

    @staticmethod
    def _waiver(entry: Entry, waivers: Iterable[Waiver]) -> Waiver | None:
        """Return the waiver that covers an entry, the one that lasts longest; ``None``: there is none."""
        if entry.service_type in NEVER_WAIVED:
            return None
        covering = [w for w in waivers if w.covers(entry.service_type, entry.region)]
        return max(covering, key=lambda w: (w.expires_at, w.id), default=None)
