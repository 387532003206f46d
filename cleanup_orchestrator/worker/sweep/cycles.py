"""Finds cycles among the leftovers of a deletion: each blocks the next one, and the last one blocks the first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from cleanup_orchestrator.core import references
from cleanup_orchestrator.core.step import Leftover, StepResult

#: Leftovers of one type that are read, and leftovers of one result that are looked at, at most.
MOST = 200
#: Types whose leftovers are read at most.
MOST_TYPES = 8
#: Members of a cycle that a message names at most.
MOST_NAMED = 10

#: The type's full name and the id.
_Node: TypeAlias = tuple[str, str]


def with_cycles(
    result: StepResult, name: str, project_id: str, leftovers_of: Callable[[str], Iterable[Leftover]]
) -> StepResult:
    """Return a result in which each leftover that is part of a cycle says so, with the names of the members.

    What blocks a leftover is known as of the latest list of its type.

    :param name: full name of the type of the result
    :param project_id: resources of other projects are no part of a cycle
    :param leftovers_of: returns what is stored as left of another type, by its full name
    """
    blocked = [one for one in result.leftovers if _blockers(one, project_id)][:MOST]
    if not blocked:
        return result
    ways: dict[_Node, tuple[_Node, ...]] = {}
    names: dict[_Node, str] = {}
    pending, read = [name], set[str]()
    while pending and len(read) < MOST_TYPES:
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
    more = f"... ({len(titles) - MOST_NAMED} more)"
    shown = titles if len(titles) <= MOST_NAMED else [*titles[:MOST_NAMED], more]
    return f"it is part of a cycle: {' -> '.join((*shown, titles[0]))}; remove one of these references"
