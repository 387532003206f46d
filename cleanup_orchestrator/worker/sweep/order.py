"""In which order one sweep deletes resources that refer to others of their type; see ``ResourceType.refers_to``."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from cleanup_orchestrator.core import references
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover
from cleanup_orchestrator.plugins.base import MOST_BLOCKERS, Resource, Verdict, blocker
from cleanup_orchestrator.worker.sweep.context import SweepContext


class References:
    """What the resources of one listing refer to, as far as these are listed, too."""

    def __init__(self, context: SweepContext) -> None:
        self._rule = context.type.refers_to
        self._found: dict[str, tuple[str, ...]] = {}

    def add(self, resource: Resource) -> None:
        """Note what a listed resource refers to."""
        if self._rule is not None and (named := tuple(self._rule(resource))):
            self._found[resource.id] = named

    def order(self, listed: Mapping[str, Leftover]) -> references.Order:
        """Return the order of the listed resources.

        :param listed: all of them, by id. A reference to any other resource does not count
        """
        return references.order(self._among(listed)) if self._found else references.Order()

    def needed(
        self, context: SweepContext, listed: Mapping[str, Leftover], blocked: Iterable[Leftover]
    ) -> dict[str, Verdict]:
        """Return a verdict, by id, on each listed resource that one which stays refers to, directly or not.

        :param blocked: the resources that must not be deleted, whatever the reason: they go on using what they refer to
        """
        stay = {one.id: one for one in blocked}
        if not stay or not self._found:
            return {}
        every = {**listed, **stay}
        found: dict[str, Verdict] = {}
        for id_, referrer in references.order(self._among(every)).behind(stay).items():
            if id_ in listed:
                name = every[referrer].name
                text = f"{name or referrer} refers to it, and stays"
                found[id_] = Verdict(Reason.IN_USE, text, (_blocker(context, referrer, name),))
        return found

    def _among(self, listed: Mapping[str, Leftover]) -> dict[str, list[str]]:
        """Return what each of these resources refers to among them."""
        titles: dict[str, list[str]] = {}
        for id_, one in listed.items():
            titles.setdefault(one.name, []).append(id_)
        return {
            id_: [other for value in named for other in ((value,) if value in listed else titles.get(value, ()))]
            for id_, named in self._found.items()
            if id_ in listed
        }


def waiting(
    context: SweepContext, order: references.Order, going: Collection[str], listed: Mapping[str, Leftover]
) -> dict[str, Verdict]:
    """Return a verdict, by id, on each resource that waits for one that its service is deleting already.

    :param going: the ids of those that the service is deleting
    :param listed: all resources, by id
    """
    return {
        id_: follows(context, referrer, listed[referrer].name)
        for id_, referrer in order.behind(going).items()
        if id_ not in going
    }


def follows(context: SweepContext, referrer: str, name: str) -> Verdict:
    """Return the verdict on a resource that is deleted once another one, which refers to it, is gone."""
    text = f"its delete follows that of {name or referrer}, which refers to it and is being deleted"
    return Verdict(Reason.DELETING, text, (_blocker(context, referrer, name),))


def arranged(order: references.Order, batch: list[Resource], others: Iterable[str]) -> list[Resource]:
    """Return a batch in the order of its deletes.

    A resource that one outside of the batch refers to is left for a later sweep. If nothing would remain, all are
    tried: the service decides.

    :param others: the ids of resources that a later sweep deletes
    """
    behind = order.behind(others)
    chosen = [resource for resource in batch if resource.id not in behind] or batch
    return sorted(chosen, key=lambda resource: order.levels.get(resource.id, 0))


def with_cycle_members(
    context: SweepContext, order: references.Order, left: Sequence[Leftover], refused: Mapping[str, Verdict]
) -> list[Leftover]:
    """Return leftovers, of which each refused member of a cycle names the members that refer to it and are left.

    :param refused: the verdicts on those whose delete was tried, by id
    """
    names = {one.id: one.name for one in left}
    found = []
    for one in left:
        members = sorted(order.cycles.get(one.id, frozenset()) & names.keys())
        if members and one.id in refused and one.reason not in (Reason.DELETING, Reason.STUCK):
            known = {(b.get("type"), b.get("id")) for b in one.blocked_by}
            more = [_blocker(context, id_, names[id_]) for id_ in members[:MOST_BLOCKERS]]
            added = (b for b in more if (b["type"], b["id"]) not in known)
            one = dataclasses.replace(one, blocked_by=(*one.blocked_by, *added))
        found.append(one)
    return found


def _blocker(context: SweepContext, id_: str, name: str) -> dict[str, str]:
    return blocker(context.name or context.type.name, id_, context.project.id, name)
