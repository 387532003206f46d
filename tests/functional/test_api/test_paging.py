"""Pages of deletions: each is on one page, in the order that was asked for."""

import dataclasses
import datetime
import urllib.parse
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleanup_orchestrator import store as storage
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.shapes import queries
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.support.examples import examples
from tests.support.stores import save
from tests.unit.world import deletion

KEYS = st.permutations(queries.SORT_KEYS).flatmap(
    lambda keys: st.integers(0, 3).flatmap(
        lambda n: st.tuples(*(st.tuples(st.just(k), st.sampled_from(["asc", "desc"])) for k in keys[:n]))
    )
)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory, keystone):
    """Forty deletions, with as many equal values as can be."""
    site = Site(tmp_path_factory.mktemp("crowd"), keystone=keystone)
    some = datetime.datetime(2026, 1, 1)
    for n in range(40):
        made = deletion(
            id=str(uuid.uuid4()),
            project_id=f"p{n % 7}",
            project_name="ab"[n % 2],
            domain_id=f"d{n // 3 % 3 + 1}",
            mode=list(Mode)[n % 2],
            status=[Status.DELETED, Status.FAILED, Status.LEFTOVERS][n % 3],
        )
        made = site.store.create(made, TASKS, Event("deletion.accepted", "x"))
        when = some + datetime.timedelta(seconds=n // 5)
        times = dict.fromkeys(("created_at", "updated_at", "status_at", "progress_at"), when)
        save(site.store, made, dataclasses.replace(made, **times))
    yield site
    site.close()


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sort=KEYS,
    limit=st.integers(1, 45),
    token=st.sampled_from([ks.ADMIN, ks.MANAGER]),
    status=st.sets(st.sampled_from(["deleted", "failed", "leftovers"])),
)
def test_walking_the_pages_yields_every_deletion_once_and_in_order(crowd, sort, limit, token, status):
    query = [("limit", limit), *(("status", s) for s in status)]
    query += [("sort", ",".join(f"{key}:{way}" for key, way in sort))] if sort else []
    path, seen = f"/v1/deletions?{urllib.parse.urlencode(query)}", []
    while path:
        body = crowd.get(path, token).json
        assert (1 if seen else 0) <= len(body["deletions"]) <= limit
        seen += [d["id"] for d in body["deletions"]]
        path = body.get("links", [{}])[0].get("href", "").removeprefix("http://cleanup.example.com")
    wanted = [
        d
        for d in crowd.store.list(storage.Page(1000))
        if (not status or d.status in status) and (token == ks.ADMIN or d.domain_id == "d1")
    ]
    order = storage.Page(1, sort=tuple(sort)).order if sort else storage.Page(1).order
    for key, way in reversed(order):
        wanted.sort(key=lambda d: getattr(d, key), reverse=way == "desc")
    assert seen == [d.id for d in wanted]


def test_a_default_way_is_ascending(crowd):
    ids = [d["id"] for d in crowd.get("/v1/deletions?sort=id&limit=50").json["deletions"]]
    assert ids == sorted(ids) and len(ids) == 40
