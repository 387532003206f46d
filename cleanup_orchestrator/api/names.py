"""The names of regions, services and resource types in the filters of lists."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.inputs import invalid_field
from cleanup_orchestrator.cloud.catalog import by_any_name
from cleanup_orchestrator.core.messages import Place


def resolved(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return filters with the official type of the service.

    ``service`` can be an alias of the type, or the name of the OpenStack project (``neutron``). ``type`` can have the
    service in front (``network.port``, ``neutron.port``).

    :raises ApiError: 400 invalid_query if ``service`` and ``type`` name different services
    """
    official = dict(filters)
    if "service" in official:
        official["service"] = by_any_name(official["service"])
    service, _dot, type_ = official.get("type", "").rpartition(".")
    if service and type_:
        if official.setdefault("service", by_any_name(service)) != by_any_name(service):
            text = "names another service than 'service'"
            raise invalid_field("type", text, "invalid_query", problem="other_service")
        official["type"] = type_
    return official


def check(context: ApiContext, filters: Mapping[str, Any], places: Callable[[], Iterable[Place]]) -> None:
    """Refuse names that nothing has. A list without rows calls this: without rows, a typo looks like a clean project.

    The catalog is only read if neither a plugin nor the records know a name.

    :param filters: as :func:`resolved` returns them
    :param places: returns (region, service, type) of what the records know; a part that is not known is empty
    :raises ApiError: 400 invalid_query
    """
    wanted = {name: filters[name] for name in ("region", "service", "type") if name in filters}
    if not wanted:
        return
    known: list[Place] = []
    for source in (lambda: _of_plugins(context), places, lambda: _of_catalog(context)):
        known += source()
        names = _names(known, wanted.get("service"))
        missing = [name for name, value in wanted.items() if value not in names[name]]
        if not missing:
            return
    raise _unknown(missing[0], wanted, names[missing[0]])


def _of_plugins(context: ApiContext) -> Iterator[Place]:
    return (("", service, type_) for service, types in context.types.items() for type_ in types)


def _of_catalog(context: ApiContext) -> Iterator[Place]:
    return ((entry.region, entry.service_type, "") for entry in context.catalog_status(()))


def _names(known: Iterable[Place], service: str | None) -> dict[str, set[str]]:
    """Return the known names, by filter; with a service only its types."""
    names: dict[str, set[str]] = {"region": set(), "service": set(), "type": set()}
    for region, of, type_ in known:
        names["region"].add(region)
        names["service"].add(of)
        if service in (None, of):
            names["type"].add(type_)
    return names


def _unknown(name: str, wanted: Mapping[str, str], names: Collection[str]) -> ApiError:
    """Return the error that names similar names, and not the value, which can be long or secret."""
    what = {"region": "region", "service": "service", "type": "resource type"}[name]
    text = f"names no {what} of {'that service' if name == 'type' and 'service' in wanted else 'this cloud'}"
    return unknown(name, text, wanted[name], names, "invalid_query")


def unknown(field: str, expected: str, name: str, known: Collection[str], code: str = "invalid_body") -> ApiError:
    """Return the error for an unknown name: the error has similar names, or says where the names are listed.

    The error does not repeat the name, which can be long or secret.

    :param expected: follows the name of the field in the text
    """
    if similar := difflib.get_close_matches(name, sorted({*known} - {""}), 3):
        return invalid_field(field, f"{expected}; did you mean {' or '.join(similar)}?", code)
    return invalid_field(field, f"{expected}; GET /v1/services lists them", code, problem="unknown_name")
