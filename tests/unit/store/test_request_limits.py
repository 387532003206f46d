"""The limits of requests: what counts for each of them, and for how long."""

import dataclasses

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.request_limits import RequestLimits
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.store import TooManyDeletions, tables
from cleanup_orchestrator.store.request_limits import check_requests
from tests.support import sqlite_stores
from tests.support.stores import save
from tests.unit import world

REQUEST = {"user_id": "alice", "domain_id": "d1"}
#: By limit: what the recorded deletions have in common with the request, and whether those that ended count.
COUNTS = {
    "live_per_requester": ({"user_id": "alice", "domain_id": "d2"}, False),
    "live_per_domain": ({"user_id": "bob", "domain_id": "d1"}, False),
    "daily_per_requester": ({"user_id": "alice", "domain_id": "d2"}, True),
    "daily_per_domain": ({"user_id": "bob", "domain_id": "d1"}, True),
}


def recorded(*records, ended=False):
    """Return a store with these deletions, of today."""
    store = sqlite_stores.in_memory()
    for number, values in enumerate(records):
        record = world.deletion(id=f"d-{number}", project_id=f"p-{number}", **values)
        made = store.create(record, TASKS, Event("deletion.accepted", ""))
        if ended:
            save(store, made, dataclasses.replace(made, status=Status.FAILED, finished_at=made.created_at))
    return store


def exceeded(store, limits):
    wanted = world.deletion(id="new", project_id="new", **REQUEST)
    try:
        with store.database.read() as c:
            check_requests(c, wanted, limits)
    except TooManyDeletions as many:
        return many.exceeded.limit
    return None


@pytest.mark.parametrize("name", COUNTS)
def test_a_limit_counts_what_it_names(name):
    alike, ended_count = COUNTS[name]
    unlike = {"user_id": "carol", "domain_id": "d3"}
    limits = RequestLimits(**{name: 2})
    assert exceeded(recorded(alike, unlike), limits) is None
    assert exceeded(recorded(alike, alike), limits) == 2
    assert exceeded(recorded(alike, alike, ended=True), limits) == (2 if ended_count else None)
    assert exceeded(recorded(alike, alike), RequestLimits()) is None


@pytest.mark.parametrize("name", ["daily_per_requester", "daily_per_domain"])
def test_a_request_of_the_day_before_does_not_count(name):
    alike, _ = COUNTS[name]
    store = recorded(alike, alike)
    with store.database.begin() as c:
        c.execute(tables.deletions.update().where(tables.deletions.c.id == "d-0").values(created_at=world.T0))
    assert exceeded(store, RequestLimits(**{name: 2})) is None
