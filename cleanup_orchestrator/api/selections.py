"""Reads what a request for a purged project selects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleanup_orchestrator.api import inputs
from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.names import unknown
from cleanup_orchestrator.cloud.catalog import by_any_name
from cleanup_orchestrator.core.selection import Selection


def read(context: ApiContext, given: Mapping[str, Any]) -> Selection:
    """Return the selection of a request, with the official types of services.

    A name that nothing has is refused: a typo would select nothing, and the project would look as if it were purged.
    The result is sorted and has each name and tag once, so that two requests that select the same are equal.

    :param given: the field ``selection`` of the body
    :raises ApiError: 400 invalid_body; 503 if Keystone does not answer, and a service is in no plugin
    """
    services = sorted(set(map(by_any_name, given.get("services", ()))))
    types = sorted({_type(name) for name in given.get("types", ())})
    before = given.get("created_before")
    moment = inputs.moment(before, "created_before") if before else None
    selection = Selection(tuple(services), tuple(types), tuple(sorted(set(given.get("tags", ())))), moment)
    _check(context, selection)
    return selection


def _type(name: str) -> str:
    service, _dot, type_ = name.rpartition(".")
    return f"{by_any_name(service)}.{type_}"


def _check(context: ApiContext, selection: Selection) -> None:
    """Refuse services and types that this cloud does not have, as far as plugins and catalog tell."""
    wanted = {*selection.services, *(name.rpartition(".")[0] for name in selection.types)}
    if uncovered := wanted - context.types.keys():
        known = {entry.service_type for entry in context.catalog_status(())}
        if lost := sorted(uncovered - known):
            raise unknown("selection", "names no service of this cloud", lost[0], {*context.types, *known})
    for name in selection.types:
        service, _dot, type_ = name.rpartition(".")
        if service in context.types and type_ not in context.types[service]:
            there = [f"{service}.{one}" for one in context.types[service]]
            raise unknown("selection", "names no resource type of this cloud", name, there)
