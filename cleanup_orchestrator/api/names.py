"""The names of regions, services and resource types in the filters of lists."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.cloud.catalog import by_any_name


class Place(NamedTuple):
    """Where resources are."""

    region: str
    service: str
    type: str


_Place = tuple[str, str, str]


def resolved(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return filters with the official type of the service.

    ``service`` can be an alias of the type, or the name of the OpenStack project (``neutron``). ``type`` can have the
    service in front (``network.port``, ``neutron.port``).

    :raises ApiError: 400 invalid_query if ``service`` and ``type`` name different services
    """
    found = dict(filters)
    if "service" in found:
        found["service"] = by_any_name(found["service"])
    service, _dot, type_ = found.get("type", "").rpartition(".")
    if service and type_:
        if found.setdefault("service", by_any_name(service)) != by_any_name(service):
            raise ApiError(400, "invalid_query", "'type' names another service than 'service'", field="type")
        found["type"] = type_
    return found


def check(context: ApiContext, filters: Mapping[str, Any], places: Callable[[], Iterable[_Place]]) -> None:
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
    missing: str | None = ""
    for source in (lambda: _of_plugins(context), places, lambda: _of_catalog(context)):
        known += itertools.starmap(Place, source())
        if (missing := _missing(wanted, known)) is None:
            return
    assert missing
    raise _unknown(missing, wanted, known)


def _of_plugins(context: ApiContext) -> Iterator[_Place]:
    return (("", service, type_) for service, types in context.types.items() for type_ in types)


def _of_catalog(context: ApiContext) -> Iterator[_Place]:
    return ((answer.region, answer.service_type, "") for answer in context.answers(()))


def _missing(wanted: Mapping[str, str], known: Iterable[Place]) -> str | None:
    """Return the first filter whose name is not known, or ``None``. A type belongs to its service."""
    known = tuple(known)
    for name in ("region", "service"):
        if name in wanted and not any(getattr(place, name) == wanted[name] for place in known):
            return name
    if "type" in wanted and not any(
        place.type == wanted["type"] and wanted.get("service", place.service) == place.service for place in known
    ):
        return "type"
    return None


def _unknown(name: str, wanted: Mapping[str, str], known: Iterable[Place]) -> ApiError:
    """Return the error that names similar ones. It does not repeat the value, which can be long or secret."""
    what, service = {"region": "region", "service": "service", "type": "resource type"}[name], wanted.get("service")
    same = [place for place in known if name != "type" or service in (None, place.service)]
    names = sorted({getattr(place, name) for place in same} - {""})
    text = f"'{name}' names no {what} of {'that service' if name == 'type' and service else 'this cloud'}"
    if similar := difflib.get_close_matches(wanted[name], names, 3):
        text += f"; did you mean {' or '.join(similar)}?"
    else:
        text += "; GET /v1/services lists them"
    return ApiError(400, "invalid_query", text, field=name)
