"""The services and endpoints that are registered in Keystone, and the catalog that they make for a project.

The catalog in a token may have less than that. An endpoint filter (``OS-EP-FILTER``) hides endpoints from the tokens of
one project, with what the project made there before. A disabled endpoint or service is in no token. A service that is
not in a token's catalog is not empty, and so its endpoint is taken from here, or its absence is explained.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from keystoneauth1.adapter import Adapter
from keystoneauth1.identity.base import BaseIdentityPlugin
from os_service_types import ServiceTypes

from cleanup_orchestrator import compat
from cleanup_orchestrator.core.texts import enumerated
from cleanup_orchestrator.errors import BadAnswer, body

#: What the standard list of service types says.
OFFICIAL = ServiceTypes()
#: Seconds for which the endpoints are kept. Every token of a project needs them.
KEEP = 30.0
#: Endpoints that one message names; further ones are counted.
_NAMED = 5

Row = Mapping[str, Any]


def official(service_type: str) -> str:
    """Return the official name of a service type or alias; unknown ones unchanged."""
    return OFFICIAL.get_service_type(service_type) or service_type


def interfaces(identity: Any) -> frozenset[str]:
    """Return the interfaces that an adapter calls; empty: any."""
    asked = getattr(identity, "interface", None) or ()
    return frozenset(name.removesuffix("URL") for name in ((asked,) if isinstance(asked, str) else asked))


def is_on(row: Row) -> bool:
    """Return whether a service or an endpoint is enabled."""
    return row.get("enabled") is not False


@dataclasses.dataclass(frozen=True, slots=True)
class Registered:
    """What ``GET /v3/services`` and ``GET /v3/endpoints`` answered, disabled ones included."""

    services: Mapping[str, Row]  #: by id, in the order of the catalog of a token
    endpoints: Sequence[Row]  #: each belongs to one of the services

    @classmethod
    def read(cls, identity: Adapter) -> Registered:
        """Ask Keystone.

        :raises BadAnswer: Keystone truncated a list, or lists not a single endpoint: an empty catalog would make every
            project look empty
        """
        services, endpoints = body(identity.get("/services"), "services"), body(identity.get("/endpoints"), "endpoints")
        if services.get("truncated") or endpoints.get("truncated"):
            raise BadAnswer("Keystone did not list the whole catalog")
        if not endpoints["endpoints"]:
            raise BadAnswer("Keystone listed not a single endpoint")
        by_id = {service["id"]: service for service in services["services"]}
        for endpoint in endpoints["endpoints"]:
            if endpoint["service_id"] not in by_id:
                raise BadAnswer(f"endpoint {endpoint['id']} belongs to no listed service")
        return cls(by_id, endpoints["endpoints"])

    def catalog(
        self, project_id: str, user_id: str, own: Sequence[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]] | None:
        """Return the catalog of a project's token without an endpoint filter; ``None``: the token has all of it.

        An endpoint whose URL has a variable that only ``keystone.conf`` fills is left out, unless the token has it.

        :param own: the catalog in the token
        """
        urls = {each.get("id"): each.get("url") for service in own for each in service.get("endpoints", ())}
        if all(each["id"] in urls for each in self.endpoints if self._is_called(each)):
            return None
        catalog: list[Mapping[str, Any]] = []
        for service in self.services.values():
            endpoints = [
                _entry(each, url)
                for each in self.endpoints
                if each["service_id"] == service["id"] and self._is_called(each)
                if (url := urls.get(each["id"]) or filled(str(each.get("url") or ""), project_id, user_id))
            ]
            if endpoints:
                named = {"id": service["id"], "type": service["type"], "name": service.get("name") or ""}
                catalog.append({**named, "endpoints": endpoints})
        return catalog

    def _is_called(self, endpoint: Row) -> bool:
        return is_on(endpoint) and is_on(self.services[endpoint["service_id"]])

    def why_missing(self, service_type: str, region: str, called: Collection[str], own_project_id: str | None) -> str:
        """Return why the orchestrator's token has no endpoint of a service, and what an admin does about it.

        Empty: the service is not registered there.

        :param region: empty: any
        :param called: the interfaces that are called; empty: any
        :param own_project_id: the project of that token
        """
        of_type = [
            each
            for each in self.endpoints
            if official(str(self.services[each["service_id"]]["type"])) == official(service_type)
        ]
        here = [each for each in of_type if not region or each.get("region_id") == region]
        of_interface = [each for each in here if not called or each.get("interface") in called]
        what = f"{service_type} in region {region}" if region else service_type
        if usable := [each["id"] for each in of_interface if self._is_called(each)]:
            return (
                f"{what} is registered in Keystone and enabled, and the orchestrator's own token lacks it: an endpoint "
                f"filter hides it from the orchestrator's project. As an admin: openstack endpoint add project "
                f"{usable[0]} {own_project_id or 'PROJECT'}"
            )
        if calls := self._calls_to_enable(of_interface):
            return (
                f"{what} is registered in Keystone and disabled, so that no token has its endpoint: what it holds is "
                f"unknown. As an admin: {enumerated(calls, _NAMED, '; ')}"
            )
        if here:
            there = ", ".join(sorted({str(each.get("interface")) for each in here}))
            service_id = here[0]["service_id"]
            return (
                f"{what} has no {' or '.join(sorted(called))} endpoint in Keystone, only {there}: what it holds is "
                f"unknown. As an admin: openstack endpoint create --region {region or 'REGION'} {service_id} "
                f"{min(called)} URL; or set [orchestrator] interface to one that every service has"
            )
        return ""

    def _calls_to_enable(self, endpoints: Iterable[Row]) -> list[str]:
        """Return the commands that enable what is disabled of these endpoints and their services."""
        calls: dict[str, None] = {}
        for each in endpoints:
            if not is_on(self.services[each["service_id"]]):
                calls[f"openstack service set --enable {each['service_id']}"] = None
            if not is_on(each):
                calls[f"openstack endpoint set --enable {each['id']}"] = None
        return list(calls)


def filled(url: str, project_id: str, user_id: str) -> str:
    """Return the URL of an endpoint as Keystone writes it into a token; empty: it cannot be known here.

    Source: ``keystone.common.utils.format_url``. Keystone fills in further variables from ``keystone.conf``.

    :raises ValueError: the project has no id: the URL could be that of another project
    """
    if not project_id:
        raise ValueError("an empty project id")
    values = {"project_id": project_id, "tenant_id": project_id, "user_id": user_id}
    try:
        return url.replace("$(", "%(") % values
    except (KeyError, TypeError, ValueError):
        return ""


def _entry(endpoint: Row, url: str) -> dict[str, Any]:
    """Return an endpoint as the catalog of a token has it."""
    region = endpoint.get("region_id")
    return {
        "id": endpoint["id"],
        "interface": endpoint.get("interface"),
        "region": region,
        "region_id": region,
        "url": url,
    }


class KnownEndpoints:
    """The registered endpoints that all sessions share, for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._registered: Registered | None = None
        self._since = time.monotonic()

    def forget(self) -> None:
        """Drop the registered endpoints: the next caller of :meth:`recent` asks Keystone."""
        with self._lock:
            self._registered = None

    def recent(self, identity: Adapter) -> Registered:
        """Return the registered endpoints as Keystone had them within the last seconds (:data:`KEEP`).

        :raises BadAnswer: Keystone truncated a list
        :raises keystoneauth1.exceptions.ClientException: Keystone did not answer
        """
        with self._lock:
            if self._registered is not None and time.monotonic() - self._since <= KEEP:
                return self._registered
        began, registered = time.monotonic(), Registered.read(identity)
        with self._lock:
            self._registered, self._since = registered, began
        return registered

    def latest(self) -> Registered | None:
        """Return the endpoints that were read last; make no call."""
        with self._lock:
            return self._registered


class Unfiltered(BaseIdentityPlugin):  # type: ignore[misc] # keystoneauth1 has no type information
    """An identity whose tokens come with the catalog that the project has without an endpoint filter."""

    def __init__(self, inner: BaseIdentityPlugin, known: KnownEndpoints) -> None:
        """Wrap an identity.

        :param known: filled by the caller, before a token is asked for
        """
        super().__init__(auth_url=inner.auth_url, reauthenticate=inner.reauthenticate)
        self._inner, self._known = inner, known

    def get_auth_ref(self, session: Any, **options: Any) -> Any:
        """Return a new token; only the catalog that came with it may be another one."""
        access = self._inner.get_auth_ref(session, **options)
        registered = self._known.latest()
        if registered is None or not access.project_id or not access.has_service_catalog():
            return access
        whole = registered.catalog(access.project_id, access.user_id, access.service_catalog.catalog)
        return access if whole is None else compat.with_catalog(access, whole)

    def get_cache_id_elements(self) -> dict[str, Any]:
        """Return what identifies the identity."""
        return dict(self._inner.get_cache_id_elements())
