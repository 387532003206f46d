"""Waivers in the store, on every kind of database."""

import dataclasses
import datetime
import uuid

import pytest

from cleanup_orchestrator.core.findings import Surveyed
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.store import NotFound, Page
from tests.support.stores import create, dispatched


def waiver(store, **values):
    now = store.now()
    base = Waiver(str(uuid.uuid4()), "dns", "it is retired", now, now + datetime.timedelta(hours=1), user_id="u")
    return store.add_waiver(dataclasses.replace(base, **values))


def test_a_waiver_is_written_and_read(store):
    made = waiver(store, region="R1", project_id="p", user_name="ünïcødé 🗑", request_id="req-1")
    assert store.waiver(made.id)[0] == made
    with pytest.raises(NotFound):
        store.waiver("nowhere")


def test_only_unexpired_waivers_for_this_project_are_in_force(store):
    past = store.now() - datetime.timedelta(hours=1)
    for_all, for_p = waiver(store), waiver(store, project_id="p")
    waiver(store, project_id="another")
    waiver(store, expires_at=past)
    withdrawn = waiver(store, project_id="p")
    store.withdraw_waiver(withdrawn.id, "admin")
    assert {w.id for w in store.waivers_in_force("p")} == {for_all.id, for_p.id}
    assert {w.id for w in store.waivers_in_force()} == {for_all.id}
    held, now = store.waivers(Page(10), in_force=True)
    ended, _ = store.waivers(Page(10), in_force=False)
    assert len(held) == 3 and len(ended) == 2
    assert all(w.in_force(now) for w in held) and not any(w.in_force(now) for w in ended)
    assert len(store.waivers(Page(10))[0]) == 5


def test_a_waiver_is_withdrawn_once_and_stays_on_record(store):
    made = waiver(store)
    first = store.withdraw_waiver(made.id, "alice")
    assert (first.deleted_by, first.deleted_at is not None) == ("alice", True)
    assert store.withdraw_waiver(made.id, "bob") == first
    assert store.waiver(made.id)[0] == first
    with pytest.raises(NotFound):
        store.withdraw_waiver("nowhere", "alice")


def test_a_deletion_keeps_the_waivers_that_it_relied_upon(store):
    record, made = create(store), waiver(store)
    _, held = store.claim(dispatched(store, record).id, "w", 60)
    assert store.finish(held, StepResult(Outcome.CLEAR, learned=(Surveyed((made,)),)))
    store.withdraw_waiver(made.id, "alice")
    assert store.get(record.id).waivers == (made,)
