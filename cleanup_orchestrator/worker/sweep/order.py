"""In which order a sweep deletes resources that refer to others of their type, and cycles of what is left.

See ``ResourceType.refers_to``. In a cycle each leftover blocks the next one, and the last one blocks the first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from cleanup_orchestrator.core import references
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, StepResult
from cleanup_orchestrator.core.texts import enumerated
from cleanup_orchestrator.plugins.base import MAX_BLOCKERS, Resource, Verdict, blocker
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.item import Item, State, Unasked
from cleanup_orchestrator.worker.sweep.uses import OF_OTHERS

#: Leftovers of one type that are read, and leftovers of one result that are looked at, at most.
MAX_IN_CYCLES = 200
#: Types whose leftovers are read at most.
MAX_TYPES = 8
#: Members of a cycle that a message names at most.
MAX_NAMED = 10

#: The type's full name and the id.
_Node: TypeAlias = tuple[str, str]


class References:
    """What the resources of one listing refer to, as far as these are listed, too."""

    def __init__(self, context: SweepContext) -> None:
        self._rule = context.type.refers_to
        self._found: dict[str, tuple[str, ...]] = {}

    def add(self, resource: Resource) -> None:
        """Note what a listed resource refers to."""
        if self._rule is not None and (named := tuple(self._rule(resource))):
            self._found[resource.id] = named

    def order(self, items: Mapping[str, Item]) -> references.Order:
        """Return the order of the items of a sweep.

        :param items: all of them, by id. A reference to any other resource does not count
        """
        return references.order(*self._among(items)) if self._found else references.Order()

    def leave_needed(
        self, context: SweepContext, items: Mapping[str, Item], excluded: Iterable[Leftover], forced: Collection[str]
    ) -> None:
        """Leave each item that a resource which stays refers to, directly or not, also in a cycle.

        :param excluded: what must not be deleted, whatever the reason: it goes on using what it refers to
        :param forced: ids of items that wait for nothing
        """
        stay = {one.id: one for one in excluded}
        if not stay or not self._found:
            return
        every: dict[str, Item | Leftover] = {**items, **stay}
        for id_, referrer in references.order(*self._among(every)).behind(stay, in_cycles=True).items():
            if id_ in items and id_ not in forced:
                name = every[referrer].name
                text = f"{name or referrer} refers to it, and stays"
                items[id_].leave(Verdict(Reason.IN_USE, text, (_blocker(context, referrer, name),)))

    def _among(self, listed: Mapping[str, Item | Leftover]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Return what each of these resources refers to among them, and the ids behind each name that it refers to."""
        titles: dict[str, list[str]] = {}
        for id_, one in listed.items():
            titles.setdefault(one.name, []).append(id_)
        referred = {
            id_: [value for value in named if value in listed or value in titles]
            for id_, named in self._found.items()
            if id_ in listed
        }
        return referred, {value: titles[value] for named in referred.values() for value in named if value not in listed}


def leave_followers(
    context: SweepContext, order: references.Order, items: Mapping[str, Item], forced: Collection[str]
) -> None:
    """Leave each item that waits for one that its service is deleting already.

    :param items: all of the sweep, by id
    :param forced: ids of items that wait for nothing
    """
    moving = [id_ for id_, item in items.items() if item.verdict.reason is Reason.DELETING]
    for id_, referrer in order.behind(moving).items():
        if items[id_].state is State.NEW and id_ not in forced:
            items[id_].leave(follows(context, items[referrer]))


def follows(context: SweepContext, referrer: Item) -> Verdict:
    """Return the verdict on a resource that is deleted once another one, which refers to it, is gone."""
    text = f"its delete follows that of {referrer.name or referrer.id}, which refers to it and is being deleted"
    return Verdict(Reason.DELETING, text, (_blocker(context, referrer.id, referrer.name),))


#: Reasons for which a resource stays whatever its service says. Users of it, or its owner, decide otherwise.
_STAYS = OF_OTHERS | {Reason.OWNER_UNKNOWN, Reason.NOT_SELECTED}


def needed(context: SweepContext, referrer: Item) -> Verdict | None:
    """Return the verdict on a resource that another one refers to, if that one was looked at again and stays.

    A resource that others use needs what it refers to. So force does not delete that either. Trove, for example,
    deletes all increments of a backup together with it, also those of other projects.
    """
    said = referrer.verdict
    if referrer.state is not State.LEFT or not (said.reason in _STAYS or isinstance(said, Unasked)):
        return None
    name = referrer.name or referrer.id
    if said.reason in OF_OTHERS:
        return dataclasses.replace(said, message=f"{name} refers to it, and stays: {said.message}")
    return Verdict(Reason.IN_USE, f"{name} refers to it, and stays", (_blocker(context, referrer.id, referrer.name),))


def leave_needed_in_cycles(
    context: SweepContext, order: references.Order, items: Mapping[str, Item], left: Collection[str]
) -> None:
    """Leave each new item that one of these needs, directly or not, if the order has a cycle.

    The members of a cycle do not wait for each other, so that none sees in its turn what is left of the others.

    :param items: all of the sweep, by id
    :param left: ids of those that were left just now
    """
    behind = order.behind(left, in_cycles=True) if order.cycles and left else {}
    for id_, referrer in behind.items():
        if items[id_].state is State.NEW and (verdict := needed(context, items[referrer])):
            items[id_].leave_early(verdict)


def arranged(order: references.Order, batch: list[Item], items: Mapping[str, Item]) -> list[Item]:
    """Return a batch in the order of its deletes.

    An item that one outside of the batch refers to is left for a later sweep. If nothing would remain, all are tried:
    the service decides.

    :param items: all of the sweep, by id. Those that are new and not in the batch are deleted by a later sweep
    """
    chosen = {item.id for item in batch}
    later = (id_ for id_, item in items.items() if item.state is State.NEW and id_ not in chosen)
    behind = order.behind(later)
    remaining = [item for item in batch if item.id not in behind] or batch
    return sorted(remaining, key=lambda item: order.levels.get(item.id, 0))


def with_cycle_members(
    context: SweepContext, order: references.Order, left: Sequence[Leftover], refused: Collection[str]
) -> list[Leftover]:
    """Return leftovers, of which each refused member of a cycle names the members that refer to it and are left.

    :param refused: ids of those that a verdict has left
    """
    names = {one.id: one.name for one in left}
    leftovers = []
    for one in left:
        members = sorted(order.cycles.get(one.id, frozenset()) & names.keys())
        if members and one.id in refused and one.reason not in (Reason.DELETING, Reason.STUCK):
            known = {(b.get("type"), b.get("id")) for b in one.blocked_by}
            more = [_blocker(context, id_, names[id_]) for id_ in members[:MAX_BLOCKERS]]
            added = (b for b in more if (b["type"], b["id"]) not in known)
            one = dataclasses.replace(one, blocked_by=(*one.blocked_by, *added))
        leftovers.append(one)
    return leftovers


def _blocker(context: SweepContext, id_: str, name: str) -> dict[str, str]:
    return blocker(context.name or context.type.name, id_, context.project.id, name)


def with_cycles(
    result: StepResult, name: str, project_id: str, leftovers_of: Callable[[str], Iterable[Leftover]]
) -> StepResult:
    """Return a result in which each leftover that is part of a cycle says so, with the names of the members.

    What blocks a leftover is known as of the latest list of its type.

    :param name: full name of the type of the result
    :param project_id: resources of other projects are no part of a cycle
    :param leftovers_of: returns what is stored as left of another type, by its full name
    """
    blocked = [one for one in result.leftovers if _blockers(one, project_id)][:MAX_IN_CYCLES]
    if not blocked:
        return result
    ways: dict[_Node, tuple[_Node, ...]] = {}
    names: dict[_Node, str] = {}
    pending, read = [name], set[str]()
    while pending and len(read) < MAX_TYPES:
        type_ = pending.pop(0)
        if type_ in read:
            continue
        read.add(type_)
        for one in result.leftovers if type_ == name else leftovers_of(type_):
            names[type_, one.id] = one.name
            ways[type_, one.id] = _blockers(one, project_id)
            pending += dict.fromkeys(other for other, _id in ways[type_, one.id] if other not in read)
    said = {one.id: _text(members, names) for one in blocked if (members := references.cycle((name, one.id), ways))}
    leftovers, message = [], result.message
    for one in result.leftovers:
        if one.id in said:
            full = "; ".join(filter(None, (one.message, said[one.id])))
            if (result.reason, message) == (one.reason, one.message):
                message = full
            one = dataclasses.replace(one, message=full)
        leftovers.append(one)
    return dataclasses.replace(result, leftovers=tuple(leftovers), message=message)


def _blockers(leftover: Leftover, project_id: str) -> tuple[_Node, ...]:
    own = (b for b in leftover.blocked_by if b.get("owner") == project_id)
    return tuple((b.get("type", ""), b.get("id", "")) for b in own)


def _text(members: Sequence[_Node], names: Mapping[_Node, str]) -> str:
    """Return the sentence about a cycle; the types are named if there are several."""
    several = len({type_ for type_, _id in members}) > 1
    titles = [f"{node[0]} {names[node] or node[1]}" if several else names[node] or node[1] for node in members]
    shown = enumerated(titles, MAX_NAMED, " -> ")
    return f"it is part of a cycle: {shown} -> {titles[0]}; remove one of these references"
