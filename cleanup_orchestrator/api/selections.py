"""Reads what a request for a purged project selects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleanup_orchestrator.api import inputs
from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.names import unknown
from cleanup_orchestrator.cloud.catalog import by_any_name
from cleanup_orchestrator.core.selection import LISTS, TIMES, Selection, contradiction


def read(context: ApiContext, given: Mapping[str, Any]) -> Selection:
    """Return the selection of a request, with the official types of services.

    A name that nothing has is refused: a typo would select nothing, and the project would look as if it were purged; or
    it would skip nothing, and what the user wants to keep would be deleted. So is a selection of nothing. If a type is
    skipped, its variants are, too: a stack whose delete failed is still a stack. The result is sorted and has each text
    once, so that two requests that select the same are equal.

    :param given: the field ``selection`` of the body
    :raises ApiError: 400 invalid_body; 503 if Keystone does not answer, and a service is in no plugin
    """
    named = {"services": by_any_name, "types": _official, "skip": _official}
    lists = {name: tuple(sorted(set(map(named.get(name, str), given.get(name, ()))))) for name in LISTS}
    times = {name: inputs.moment(value, name) for name in TIMES if (value := given.get(name))}
    more = {variant for name in lists["skip"] for variant in context.variants.get(name, ())}
    lists["skip"] = tuple(sorted({*lists["skip"], *more}))
    selection = Selection.of(lists, times)
    _check(context, selection)
    field, what = contradiction(selection)
    if field:
        raise inputs.invalid_field(field, f"leaves nothing of the selection: {what}")
    return selection


def _official(name: str) -> str:
    """Return the name of a service or of a type with the official type of the service."""
    service, dot, type_ = name.rpartition(".")
    return f"{by_any_name(service)}.{type_}" if dot else by_any_name(type_)


def _check(context: ApiContext, selection: Selection) -> None:
    """Refuse services and types that this cloud does not have, as far as plugins and catalog tell."""
    types = [name for name in (*selection.types, *selection.skip) if "." in name]
    skipped = (name for name in selection.skip if "." not in name)
    wanted = {*selection.services, *skipped, *(name.rpartition(".")[0] for name in types)}
    if uncovered := wanted - context.types.keys():
        known = {entry.service_type for entry in context.catalog_status(())}
        if lost := sorted(uncovered - known):
            raise unknown("selection", "names no service of this cloud", lost[0], {*context.types, *known})
    for name in types:
        service, _dot, type_ = name.rpartition(".")
        if service in context.types and type_ not in context.types[service]:
            there = [f"{service}.{one}" for one in context.types[service]]
            raise unknown("selection", "names no resource type of this cloud", name, there)
