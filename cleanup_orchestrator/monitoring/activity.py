"""Tracks the current work of this process for the guru meditation report."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import time
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """One piece of work under way."""

    what: str  #: ``decide``, or the name of a step with its region
    deletion_id: str
    project_id: str
    step_id: str  #: empty for a decision
    thread: str
    since: float  #: monotonic seconds


_items: dict[int, Item] = {}  #: one dictionary for all parts of the process
_numbers = itertools.count()


@contextlib.contextmanager
def track(what: str, deletion_id: str, project_id: str = "", step_id: str = "") -> Iterator[None]:
    """Record the work of this thread for the duration of a block."""
    number = next(_numbers)
    _items[number] = Item(what, deletion_id, project_id, step_id, threading.current_thread().name, time.monotonic())
    try:
        yield
    finally:
        del _items[number]


def items() -> tuple[Item, ...]:
    """Return the work under way, oldest first.

    Takes no lock: a report must not wait for the work that it reports.
    """
    return tuple(item for _, item in sorted(_items.copy().items()))
