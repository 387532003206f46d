"""Shows which resources block a delete, and whose they are, as far as the requester may know."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_context.context import RequestContext

from cleanup_orchestrator import shapes
from cleanup_orchestrator.api import policies
from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.reasons import Subject, commands
from cleanup_orchestrator.shapes.render import render
from cleanup_orchestrator.store import BlockedResources

#: Resources that a blocker of a deletion names at most; the leftovers have all of them.
NAMED = 10


#: Returns whether the requester may read a project, by its domain (empty: unknown) and its id.
MayRead = Callable[[str, str], bool]

#: The name of a project that the requester may not read.
ANOTHER_PROJECT = "another project"


def blocking(blocker: Mapping[str, str], d: Deletion, may_read: MayRead) -> dict[str, str | None]:
    """Return a resource that blocks a delete.

    The name of a resource, and the id and the name of its project, are for requesters who may read that project.

    :param blocker: as a sweep has stored it
    :param d: the deletion of the project whose resource is blocked
    """
    owner = blocker.get("owner", "")
    shown: dict[str, str | None] = {"type": blocker.get("type", ""), "id": blocker.get("id", "")}
    hidden: dict[str, str | None] = {"name": "", "project_id": None, "project_name": ANOTHER_PROJECT if owner else None}
    if owner == d.project_id:
        return {**shown, "name": blocker.get("name", ""), "project_id": owner, "project_name": d.project_name}
    if not may_read(blocker.get("domain_id", ""), owner):
        return {**shown, **hidden}
    project = {"project_id": owner or None, "project_name": blocker.get("project_name") or None}
    return {**shown, "name": blocker.get("name", ""), **project}


class Blocking:
    """Shows blocking resources to one requester. A policy is checked once for each project."""

    def __init__(self, context: ApiContext, requester: RequestContext) -> None:
        self._context, self._requester = context, requester
        self._known: dict[tuple[str, str], bool] = {}
        self._everything: bool | None = None

    def shown(self, d: Deletion, blocked_by: Iterable[Mapping[str, str]]) -> list[dict[str, Any]]:
        """Return what blocks a resource of a deletion."""
        return [blocking(each, d, self._may_read) for each in blocked_by]

    def with_blocking_resources(self, d: Deletion, view: dict[str, Any]) -> dict[str, Any]:
        """Return the view of a deletion or a plan whose blockers name the resources that they are about."""
        blockers: list[dict[str, Any]] = view["blockers"]
        places = [(b["region"], b["service"], b["type"], b["reason"]) for b in blockers if b["service"]]
        by_place = self._context.store.blocked(d.id, places, NAMED) if places else {}
        return {**view, "blockers": [self._named(d, b, by_place.get(_place(b))) for b in blockers]}

    def _named(self, d: Deletion, blocker: dict[str, Any], blocked: BlockedResources | None) -> dict[str, Any]:
        """Return a blocker with the resources that it is about, and what blocks these."""
        if blocked is None:
            return blocker
        by = {(b.get("type"), b.get("id")): b for one in blocked.first for b in one.blocked_by}
        copied = (
            commands(
                str(one.reason), Subject(d.id, d.project_id, blocker["service"], blocker["type"], one.id), one.remedy
            )
            for one in blocked.first
        )
        return {
            **blocker,
            "commands": list(dict.fromkeys(itertools.chain.from_iterable(copied))),
            "number": blocked.number,
            "resources": [render(shapes.BlockedResource, one) for one in blocked.first],
            "blocked_by": self.shown(d, list(by.values())[:NAMED]),
        }

    def _may_read(self, domain_id: str, project_id: str) -> bool:
        """Whether the requester may see the deletions of a project.

        :param domain_id: of the project; empty: unknown
        """
        if self._everything is None:
            self._everything = self._context.enforcer.may(self._requester, policies.GET)
        if self._everything or not domain_id:
            return self._everything
        key = domain_id, project_id
        if key not in self._known:
            self._known[key] = self._context.enforcer.may(self._requester, policies.GET, domain_id, project_id)
        return self._known[key]


def _place(blocker: Mapping[str, Any]) -> tuple[str, str, str]:
    return blocker["region"], blocker["service"], blocker["type"]
