"""Who answers for each entry of the catalog. An entry that nobody answers for is a blocker, never empty."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from keystoneauth1.adapter import Adapter
from os_service_types import ServiceTypes
from oslo_config import cfg

from cleanup_orchestrator.errors import BadAnswer, body
from cleanup_orchestrator.model import Waiver

_OFFICIAL = ServiceTypes()

OPTS = {
    "catalog": [
        cfg.ListOpt(
            "owns_nothing",
            default=["placement", "cloudformation", "project-cleanup"],
            help="Service types in which a project owns nothing, so that nobody needs to be asked. Naming a service "
            "here that does hold something leaves that behind, unreported. Cloudformation is Heat's other door to the "
            "same stacks.",
        ),
        cfg.IntOpt(
            "waiver_limit",
            default=90,
            min=1,
            help="Days for which a waiver may be recorded at most. One that is still needed then is recorded anew, by "
            "somebody who has looked.",
        ),
    ]
}

#: A project is removed on Keystone's word: nobody goes on without Keystone.
NEVER_WAIVED = frozenset({"identity"})


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One service in one region, as the catalog has it; aliases are resolved to the official type."""

    region: str
    service_type: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Who answers for an entry."""

    region: str
    service_type: str
    name: str
    answered_by: str  #: ``plugin``, ``nothing_to_own``, ``waived`` or ``nobody``
    types: tuple[str, ...] = ()
    message: str = ""
    waiver: Waiver | None = None  #: with ``waived``: who says to go on without it, why, and until when


def official(service_type: str) -> str:
    """Return the official name of a service type, which may be an alias; one that nobody knows stays as it is."""
    return _OFFICIAL.get_service_type(service_type) or service_type


def by_any_name(service: str) -> str:
    """Return the official type of a service that a person named by type, alias or project (``cinder``)."""
    data = _OFFICIAL.get_service_data_for_project(service) or {}
    return _OFFICIAL.get_service_type(service) or data.get("service_type") or service


def read_catalog(identity: Adapter) -> tuple[Entry, ...]:
    """Return every service with an endpoint in each of its regions.

    From ``GET /v3/services`` and ``/v3/endpoints`` and not from a token's catalog: endpoint filters may hide an entry
    from the orchestrator's own project. Disabled entries count: what was created there is still there.

    :raises BadAnswer: when Keystone cut a list short
    """
    services, endpoints = body(identity.get("/services"), "services"), body(identity.get("/endpoints"), "endpoints")
    if services.get("truncated") or endpoints.get("truncated"):
        raise BadAnswer("Keystone did not list the whole catalog")
    if not endpoints["endpoints"]:  # an empty catalog would make every project look empty
        raise BadAnswer("Keystone listed not a single endpoint")
    by_id = {s["id"]: s for s in services["services"]}
    found: dict[tuple[str, str], Entry] = {}
    for endpoint in endpoints["endpoints"]:
        service = by_id.get(endpoint["service_id"])
        if service is None:
            raise BadAnswer(f"endpoint {endpoint['id']} belongs to no listed service")
        type_ = official(service["type"])
        region = endpoint.get("region_id") or ""
        found.setdefault((region, type_), Entry(region, type_, service.get("name") or type_))
    return tuple(found[key] for key in sorted(found))


class Coverage:
    """Answers for catalog entries, from the plugins' types and the operator's word."""

    def __init__(self, conf: cfg.ConfigOpts, types: Mapping[str, tuple[str, ...]]) -> None:
        """Take the type names of each service that has a plugin."""
        self._conf, self._types = conf, types

    def answer(self, entry: Entry, waivers: Iterable[Waiver] = ()) -> Answer:
        """Return who answers for one entry.

        :param waivers: those in force; they stand above plugins, since what they are for is a plugin that cannot answer
        """
        base = (entry.region, entry.service_type, entry.name)
        plugin = entry.service_type in self._types
        nothing = not plugin and entry.service_type in self._conf.catalog.owns_nothing
        covering = [w for w in waivers if w.covers(entry.service_type, entry.region)]
        if covering and not nothing and entry.service_type not in NEVER_WAIVED:
            waiver = max(covering, key=lambda w: (w.expires_at, w.id))
            return Answer(*base, "waived", message=f"not looked at: {waiver}", waiver=waiver)
        if plugin:
            return Answer(*base, "plugin", self._types[entry.service_type])
        if nothing:
            return Answer(*base, "nothing_to_own", message="declared in [catalog] owns_nothing")
        return Answer(*base, "nobody", message=f"no plugin answers for {entry.service_type}: what it holds is unknown")

    def answers(self, identity: Adapter, waivers: Iterable[Waiver] = ()) -> tuple[Answer, ...]:
        """Return who answers for each entry of the catalog."""
        waivers = tuple(waivers)
        return tuple(self.answer(entry, waivers) for entry in read_catalog(identity))
