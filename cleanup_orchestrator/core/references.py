"""Orders resources by their references to each other, and finds cycles of references. Pure.

A reference leads from a resource to one that it needs. The resource that refers is deleted first. In a cycle no
resource can be first: its members are not ordered among each other.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """In which order resources are deleted. A resource that is not mentioned refers to none, and none refers to it."""

    #: By id: the ids of the resources that refer to it, without itself and the members of its cycle.
    referrers: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    #: By id: the members of its cycle that refer to it.
    cycles: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    #: By id: greater than the level of each of ``referrers``; absent: 0.
    levels: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def behind(self, ids: Iterable[str], in_cycles: bool = False) -> dict[str, str]:
        """Return what must wait for these resources, directly or not, by id with the id of a referrer.

        A member of a cycle does not wait for the other members, unless ``in_cycles``: these stay.
        """
        # Resources of one name have the same referrers: each set of referrers is looked at once.
        waiting: dict[frozenset[str], list[str]] = {}
        for id_, referrers in self.referrers.items():
            waiting.setdefault(referrers, []).append(id_)
        for id_, members in self.cycles.items() if in_cycles else ():
            waiting.setdefault(members, []).append(id_)
        sets: dict[str, list[frozenset[str]]] = {}
        for referrers in waiting:
            for referrer in referrers:
                sets.setdefault(referrer, []).append(referrers)
        referrer_of: dict[str, str] = {}
        pending = collections.deque(ids)
        while pending:
            referrer = pending.popleft()
            for referrers in sets.get(referrer, ()):
                for id_ in waiting.pop(referrers, ()):
                    referrer_of[id_] = referrer
                    pending.append(id_)
        return referrer_of


def order(references: Mapping[str, Collection[str]], names: Mapping[str, Collection[str]] | None = None) -> Order:
    """Return the order that a set of references demands.

    Resources that are referred to by the same name alone share one set of referrers. If many have this name, a set for
    each would take the square of their number.

    :param references: id to the ids and names that the resource refers to. References to itself are ignored
    :param names: name to the ids of the resources with this name. A reference to a name is one to each of them. A name
        is no id
    """
    names = names or {}
    graph = {**references, **names}
    users: dict[str, set[str]] = {}  #: of an id or a name: the ids and names that refer to it
    for node, needed in graph.items():
        for other in needed:
            if other != node:
                users.setdefault(other, set()).add(node)
    referrers: dict[str, frozenset[str]] = {}
    cycles: dict[str, frozenset[str]] = {}
    levels: dict[str, int] = {}
    shared: dict[frozenset[str], frozenset[str]] = {}  #: by users: the ids that refer, directly or by a name
    for group in _groups(graph):
        members, ids = frozenset(group), [node for node in group if node not in names]
        split: dict[frozenset[str], tuple[frozenset[str], frozenset[str]]] = {}
        for id_ in ids:
            direct = frozenset(users.get(id_, ()))
            if direct not in shared:
                shared[direct] = frozenset().union(*(users.get(one, ()) if one in names else (one,) for one in direct))
            every = shared[direct]
            if every not in split:  # a copy for each resource would take the square of their number
                split[every] = (every, frozenset()) if every.isdisjoint(members) else (every - members, every & members)
            outside, inside = split[every]
            if outside:
                referrers[id_] = outside
            if len(ids) > 1:
                cycles[id_] = inside - {id_} if id_ in inside else inside
        before = [levels.get(user, 0) for node in group for user in users.get(node, ()) if user not in members]
        if before:
            levels.update(dict.fromkeys(group, max(before) + 1))
    return Order(referrers, cycles, {id_: level for id_, level in levels.items() if id_ not in names})


def _groups(references: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the cycles, and each resource outside of cycles alone; what refers comes before what it refers to.

    These are the strongly connected components, by Tarjan's algorithm. It does not recurse: chains may be long.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_path: set[str] = set()
    path: list[str] = []
    groups: list[list[str]] = []
    work: list[tuple[str, Iterator[str]]] = []

    def enter(node: str) -> None:
        index[node] = low[node] = len(index)
        path.append(node)
        on_path.add(node)
        work.append((node, iter(references.get(node, ()))))

    for root in references:
        if root not in index:
            enter(root)
        while work:
            id_, rest = work[-1]
            for other in rest:
                if other not in index:
                    enter(other)
                    break
                if other in on_path:
                    low[id_] = min(low[id_], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[id_])
                if low[id_] == index[id_]:
                    group = [path.pop()]
                    while group[-1] != id_:
                        group.append(path.pop())
                    on_path.difference_update(group)
                    groups.append(group)
    groups.reverse()
    return groups


def cycle(start: Node, references: Mapping[Node, Iterable[Node]]) -> tuple[Node, ...]:
    """Return a shortest way from a node along references back to it; empty: there is none.

    A reference of a node to itself is no cycle.

    :returns: the nodes of the way, each once, beginning with ``start``
    """
    came_from: dict[Node, Node] = {}
    pending = collections.deque([start])
    while pending:
        node = pending.popleft()
        for other in references.get(node, ()):
            if other == start and node != start:
                way = [node]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return tuple(reversed(way))
            if other != start and other not in came_from:
                came_from[other] = node
                pending.append(other)
    return ()
