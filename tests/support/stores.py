"""The fixture ``store``, and records in it."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
import tenacity

from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS, Step, StepKind
from cleanup_orchestrator.core.transitions import By, move
from cleanup_orchestrator.store import Conflict, Store
from cleanup_orchestrator.store.database import Database, Repository
from cleanup_orchestrator.store.plans import requests
from tests.support.timing import wait
from tests.unit.world import deletion

ACCEPTED = Event("deletion.accepted", "asked for", "user")


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A store without records, once on each kind of database."""
    made = Store.from_url(database_url)
    yield made
    made.close()


def retries() -> Iterator[tenacity.Retrying]:
    """Return the retry policy of each transaction of the store."""
    for owner in (Database, *Repository.__subclasses__()):
        for value in vars(owner).values():
            while value is not None:
                retry = getattr(value, "retry", None)
                if isinstance(retry, tenacity.Retrying):
                    yield retry
                value = getattr(value, "__wrapped__", None)


def save(
    store: Store,
    before: Deletion,
    after: Deletion,
    steps: Iterable[Step] = (),
    events: Iterable[Event] = (),
    abandoned: Iterable[str] = (),
) -> Deletion:
    """Save a decision that was made on ``before``, and return the deletion.

    :raises Conflict: when the deletion or a step has changed since it was read
    """
    made = dataclasses.replace(after, version=before.version)
    applied = actions.Applied(made, tuple(steps), tuple(events), (), False, tuple(abandoned))
    decided = store.decide(before.id, lambda *_: applied)
    assert decided is not None
    return decided.saved[-1][1]


def requesters(site: Any, deletion_id: str) -> frozenset[str]:
    """Return the users who may not approve a deletion, because they requested it or one above it."""
    with site.store.database.read() as c:
        return requests(c, site.store.get(deletion_id)).user_ids


def change(
    store: Store, deletion_id: str, after: Callable[[Deletion], Deletion], events: Sequence[Event] = ()
) -> Deletion:
    """Save what ``after`` makes of a deletion; as the API does, again if an engine or a worker wrote meanwhile."""

    def try_once() -> Deletion | None:
        before = store.get(deletion_id)
        try:
            return save(store, before, after(before), events=events)
        except Conflict:
            return None

    return wait("the deletion is changed", try_once)


def cancel(store: Store, deletion_id: str, reason: str = "cancel") -> Deletion:
    """Record that a user cancels a deletion."""
    event = Event("deletion.cancelling", "a test cancels it")
    return change(store, deletion_id, lambda d: move(d, Status.CANCELLING, By.USER, store.now(), reason), [event])


def create(store: Store, **values: Any) -> Deletion:
    """Record a deletion, of project ``p`` unless ``values`` name another one."""
    return store.create(deletion(**{"id": str(uuid.uuid4()), "project_id": "p", **values}), TASKS, ACCEPTED)


def dispatched(store: Store, record: Deletion, kind: StepKind = StepKind.SURVEY, **values: Any) -> Step:
    """Dispatch the one step of this kind and save ``values`` in its deletion; return the step."""
    record, steps, now = store.load(record.id)
    step = next(s for s in steps if s.kind is kind)
    applied = actions.apply(record, steps, (actions.Dispatch(step.id),), now)
    save(store, record, dataclasses.replace(applied.deletion, **values), applied.steps)
    return applied.steps[0]


def claimed(store: Store, record: Deletion, kind: StepKind = StepKind.DRAIN, **values: Any) -> Step:
    """Dispatch the one step of this kind and have worker ``w`` claim it; return the step as claimed."""
    found = store.claim(dispatched(store, record, kind, **values).id, "w", 60)
    assert found is not None
    return found[1]
