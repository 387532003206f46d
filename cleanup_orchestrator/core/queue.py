"""In which order deletions get the places for work. Pure.

There are ``[engine] deletions_at_once`` places. Each free place goes to a domain, there to a requester, and there to
the oldest deletion that waits. Of the domains with such a deletion, the one with the fewest places is next; of those
with equally many, the one whose last turn is the longest ago. Requesters within a domain take turns in the same way. So
a domain that has no place gets one before any other domain gets two more, however many requests the others made.
"""

from __future__ import annotations

import dataclasses
import datetime
import heapq
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

#: Domain and requester of a deletion.
LineKey = tuple[str, str]


class QueueState(StrEnum):
    """What a deletion has to do with the places for work."""

    OUT = ""  #: it has no place and needs none: it waits for a person, for a retry or for an event, or it has ended
    WAITING = "waiting"  #: it could go on, and waits for a place
    WORKING = "working"  #: it has a place


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """The deletions of one requester in one domain."""

    waiting: int = 0
    working: int = 0
    oldest: datetime.datetime = datetime.datetime.max  #: when the oldest of those that wait was requested
    turn_at: datetime.datetime = datetime.datetime.min  #: when one of them last got a place; ``min``: not lately


@dataclasses.dataclass(frozen=True, slots=True)
class Queue:
    """The queue as one deletion that has no place sees it."""

    lines: Mapping[LineKey, Line] = dataclasses.field(default_factory=dict)
    before: int = 0  #: deletions of the same line that wait, and are older

    def gives_place(self, line: LineKey, created_at: datetime.datetime, places: int) -> bool:
        """Return whether a deletion gets a place now.

        :param line: of the deletion, which need not be recorded as waiting
        :param created_at: when the deletion was requested
        :param places: how many there are, free or not
        """
        mine = self.lines.get(line, Line())
        waiting, oldest = max(mine.waiting, self.before + 1), min(mine.oldest, created_at)
        lines = {**self.lines, line: dataclasses.replace(mine, waiting=waiting, oldest=oldest)}
        return sum(each == line for each in turns(lines, places)) > self.before


EMPTY_QUEUE = Queue()

#: Sorts lines and domains: places, the latest turn, the oldest deletion that waits, and the id.
_Key = tuple[int, tuple[datetime.datetime, int], datetime.datetime, str]


def turns(lines: Mapping[LineKey, Line], places: int) -> Iterator[LineKey]:
    """Yield the lines that get the free places, in order.

    :param lines: also those of which no deletion waits: their places and their turns count for the domain
    :param places: how many there are, free or not
    """
    free = places - sum(line.working for line in lines.values())
    if free <= 0:
        return
    domains: dict[str, list[tuple[str, Line]]] = {}
    for (domain_id, user_id), line in lines.items():
        domains.setdefault(domain_id, []).append((user_id, line))
    requesters = {id_: _heap((user_id, (line,)) for user_id, line in each) for id_, each in domains.items()}
    order = _heap((id_, [line for _user_id, line in each]) for id_, each in domains.items())
    left = {key: line.waiting for key, line in lines.items()}
    for number in range(1, free + 1):
        if not order:
            return
        domain_id = order[0][-1]
        user_id = requesters[domain_id][0][-1]
        left[domain_id, user_id] -= 1
        _next(requesters[domain_id], left[domain_id, user_id] > 0, number)
        _next(order, bool(requesters[domain_id]), number)
        yield domain_id, user_id


def _heap(groups: Iterable[tuple[str, Iterable[Line]]]) -> list[_Key]:
    """Return the groups with a deletion that waits, as a heap."""
    heap = []
    for id_, lines in groups:
        lines = tuple(lines)
        if any(line.waiting for line in lines):
            oldest = min(line.oldest for line in lines if line.waiting)
            turn = max(line.turn_at for line in lines), 0
            heap.append((sum(line.working for line in lines), turn, oldest, id_))
    heapq.heapify(heap)
    return heap


def _next(heap: list[_Key], waits: bool, number: int) -> None:
    """Put the first group behind those with as many places, or remove it if none of its deletions still waits."""
    held, _turn, oldest, id_ = heap[0]
    if waits:
        heapq.heapreplace(heap, (held + 1, (datetime.datetime.max, number), oldest, id_))
    else:
        heapq.heappop(heap)
