"""A dry run under way keeps no project from being deleted: it ends for a real request."""

import concurrent.futures
import dataclasses
import threading
import uuid

import pytest

from cleanup_orchestrator import store as storage
from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import Outcome, StepKind, StepResult
from cleanup_orchestrator.store import tables
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.support.stores import dispatched, save

DONE = StepResult(Outcome.CLEAR, message="too late")


def moved(site, id_, *path):
    """Move a deletion as the engine or a user would."""
    for status in path:
        d = site.store.get(id_)
        by = transitions.MOVES[d.status, status]
        save(site.store, d, transitions.move(d, status, by, site.store.now(), "test"))


def ended(site, id_, by):
    """Whether a dry run has ended for another deletion, and its journal says so."""
    d, lines = site.store.get(id_), [row.event for row in site.store.events(id_, 100)]
    return d.status is Status.CANCELLED and lines[-1].data.get("replaced_by") == by


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("path", [(), (Status.INVENTORY,), (Status.CANCELLING,)], ids=str)
def test_a_dry_run_under_way_ends_for_a_real_deletion(any_site, path, mode):
    dry = any_site.ask(token=ks.MANAGER, dry_run=True)["id"]
    moved(any_site, dry, *path)
    answer = any_site.post("/v1/deletions", {"project_id": "p1", "mode": mode}, ks.ADMIN)
    assert answer.status == 202, answer.body
    made = answer.json["deletion"]
    assert (made["mode"], made["dry_run"], made["status"]) == (mode, False, "accepted")
    assert any_site.store.live("p1").id == made["id"] != dry
    assert ended(any_site, dry, made["id"])
    last = any_site.store.events(dry, 100)[-1].event
    assert (last.type, last.actor) == ("deletion.cancelled", "admin-id")
    assert last.request_id == answer.headers["x-openstack-request-id"]


def test_a_manager_may_end_the_dry_run_of_an_admin_by_a_deletion(site):
    dry = site.ask(token=ks.ADMIN, dry_run=True)["id"]
    assert ended(site, dry, site.ask(token=ks.MANAGER, mode="cascade")["id"])


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"dry_run": True}, {"dry_run": True}, True),
        ({"dry_run": True}, {"dry_run": True, "mode": "cascade"}, False),
        ({"mode": "cascade"}, {"dry_run": True, "mode": "cascade"}, False),
        ({"mode": "cascade"}, {"mode": "report"}, False),
    ],
)
def test_nothing_else_under_way_ends_for_a_request(site, first, second, same):
    id_ = site.ask(**first)["id"]
    answer = site.post("/v1/deletions", {"project_id": "p1", **second})
    if same:
        assert (answer.status, answer.json["deletion"]["id"]) == (202, id_)
    else:
        assert (answer.status, answer.error["deletion_id"]) == (409, id_)
    assert site.store.get(id_).status is Status.ACCEPTED


def test_dry_runs_of_a_tree_end_for_a_deletion_of_the_tree(any_site):
    dry = any_site.ask("parent", ks.MANAGER, dry_run=True, include_subtree=True)["id"]
    before = [d.id for d in any_site.store.list(storage.Page(10))]
    root = any_site.ask("parent", ks.ADMIN, include_subtree=True)["id"]
    made = {d.project_id: d.id for d in any_site.store.list(storage.Page(10), live_project_id=["parent", "child-2"])}
    assert ended(any_site, dry, root) and made["parent"] == root
    assert {any_site.store.get(id_).status for id_ in before} == {Status.CANCELLED}


def test_a_refused_request_ends_no_dry_run(any_site):
    any_site.ask("child-1", ks.MANAGER, dry_run=True, include_subtree=True)
    upper, lower = any_site.store.live("child-1"), any_site.store.live("child-2")
    save(any_site.store, upper, dataclasses.replace(upper, dry_run=False))
    answer = any_site.post("/v1/deletions", {"project_id": "parent", "mode": "cascade", "include_subtree": True})
    assert (answer.status, answer.error["deletion_id"]) == (409, upper.id)
    assert any_site.store.get(lower.id) == lower


def test_a_worker_of_a_dry_run_that_ended_saves_nothing(any_site):
    dry = any_site.ask(dry_run=True)["id"]
    step = dispatched(any_site.store, any_site.store.get(dry), StepKind.SURVEY)
    _, mine = any_site.store.claim(step.id, "w", 60)
    assert any_site.store.record_intent(mine, "project_disabled", {}) is None, "a dry run writes nothing"
    any_site.ask(mode="cascade")
    assert not any_site.store.renew(mine, 60)
    assert not any_site.store.finish(mine, DONE)
    assert not any_site.store.append_events(mine, Event("note", "too late"))
    assert any_site.store.claim(step.id, "another", 60) is None


def test_a_dry_run_with_a_recorded_change_is_not_ended_at_once(site):
    """None records one. If one did, only its cancel would undo it."""
    dry = site.ask(dry_run=True)["id"]
    change = {"id": str(uuid.uuid4()), "deletion_id": dry, "sequence": 1, "type": "grant_added", "data": {}}
    with site.store.database.begin() as c:
        c.execute(tables.changes.insert(), {**change, "undone": False})
    answer = site.post("/v1/deletions", {"project_id": "p1"})
    assert (answer.status, answer.error["deletion_id"]) == (409, dry)
    assert site.store.get(dry).status is Status.ACCEPTED


def test_a_retry_of_a_real_deletion_ends_a_dry_run(any_site):
    id_ = any_site.ask()["id"]
    moved(any_site, id_, Status.INVENTORY, Status.LEFTOVERS)
    dry = any_site.ask(token=ks.MANAGER, dry_run=True)["id"]
    assert any_site.post(f"/v1/deletions/{id_}/retry", token=ks.ADMIN).status == 202
    assert ended(any_site, dry, id_)
    assert any_site.store.live("p1").id == id_


def test_a_retry_of_a_dry_run_ends_nothing(site):
    first = site.ask(dry_run=True)["id"]
    moved(site, first, Status.FAILED)
    second = site.ask(dry_run=True)["id"]
    answer = site.post(f"/v1/deletions/{first}/retry")
    assert (answer.status, answer.error["deletion_id"]) == (409, second)


def test_a_plan_is_used_while_another_dry_run_is_under_way(site):
    plan = site.ask(mode="cascade", dry_run=True)["id"]
    moved(site, plan, Status.INVENTORY, Status.PLANNED)
    dry = site.ask(mode="cascade", dry_run=True)["id"]
    made = site.ask(mode="cascade", plan_id=plan)
    assert made["plan_id"] == plan
    assert ended(site, dry, made["id"])
    assert site.store.get(plan).status is Status.PLANNED


def test_the_limits_of_the_requester_do_not_count_the_dry_run_that_ends(tmp_path, keystone):
    site = Site(tmp_path, keystone=keystone, extra="[api]\nlive_per_requester = 1\n")
    try:
        dry = site.ask(token=ks.MANAGER, dry_run=True)["id"]
        assert ended(site, dry, site.ask(token=ks.MANAGER, mode="cascade")["id"])
    finally:
        site.close()


def test_a_script_that_requests_dry_runs_keeps_no_project_from_being_deleted(any_site):
    stop, started = threading.Event(), threading.Event()

    def script():
        while not stop.is_set():
            any_site.post("/v1/deletions", {"project_id": "p1", "dry_run": True}, ks.MANAGER)
            started.set()

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(script)
        try:
            assert started.wait(30)
            for _ in range(5):
                id_ = any_site.ask(mode="cascade")["id"]
                moved(any_site, id_, Status.CANCELLING, Status.CANCELLED)
        finally:
            stop.set()
