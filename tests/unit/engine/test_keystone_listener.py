"""Keystone's notifications are hints: any client of the bus can send any message."""

import dataclasses
import types

import pytest

from cleanup_orchestrator.cloud.projects import ProjectNotFound
from cleanup_orchestrator.core import lock
from cleanup_orchestrator.core.deletion import Mode, Origin, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.engine import keystone_listener
from cleanup_orchestrator.engine.keystone_listener import Listener
from cleanup_orchestrator.store import Page
from tests.support import sqlite_stores
from tests.support.stores import save
from tests.unit.world import T0, deletion

ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("payload", "heard"),
    [
        ({"resource_info": ID}, (ID, "")),
        ({"target": {"id": ID}, "initiator": {"user_id": "u1"}}, (ID, "u1")),
        ({"resource_info": ID, "initiator": {"id": "a\nb"}}, (ID, "")),
        ({"resource_info": ID, "initiator": "somebody"}, (ID, "")),
        ({"resource_info": f"{ID}/../{ID}"}, None),
        ({"resource_info": ".."}, None),
        ({"resource_info": f"{ID}?subtree_as_list"}, None),
        ({"resource_info": f"{ID}%2f"}, None),
        ({"resource_info": f"{ID}\n"}, None),
        ({"resource_info": {"id": ID}}, None),
        ({"resource_info": "x" * 65}, None),
        ({"target": [ID]}, None),
        ({}, None),
    ],
)
def test_an_invalid_id_is_dropped_before_any_call(monkeypatch, payload, heard):
    found = []
    listener = Listener(*[types.SimpleNamespace()] * 3)
    monkeypatch.setattr(listener, "deleted", lambda *ids: found.append(ids))
    assert listener.info({}, "identity.host", "identity.project.deleted", payload, {}) is None
    assert found == ([heard] if heard else [])


# --------------------------------------------------------------------------------------------- changes of the lock
MANAGER = {"initiator": {"user_id": "manager"}, "outcome": "success"}
OURS = {"initiator": {"user_id": "me"}, "outcome": "success"}
#: As Keystone 30 sends them; it names no initiator for inherited roles and for tags.
ROLE = {"target": {"id": "8a6ec67a-d87d-5b66-9f70-b1805b667ea0"}, "role": "r", "user": "u"}
DIRECT = ROLE | {"project": ID, "inherited_to_projects": False}
ABOVE = ROLE | {"project": "a" * 32, "inherited_to_projects": True, "outcome": "success"}
DOMAIN = ROLE | {"domain": "dom", "inherited_to_projects": True, "outcome": "success"}
UPDATED = {"resource_info": ID, "target": {"id": ID}}
GRANTED, PATCHED = "identity.role_assignment.created", "identity.project.updated"


@dataclasses.dataclass
class Engine:
    """A listener over a real store with one deletion of a locked project, which is below the project ``aaa…``."""

    values: dict
    evidence: str = lock.evidence("me", ())

    def __post_init__(self):
        self.store, self.woken = sqlite_stores.in_memory(), []
        record = dataclasses.replace(deletion(), project_id=ID, status=Status.VERIFYING, lock_evidence=self.evidence)
        self.store.create(dataclasses.replace(record, **self.values), TASKS, Event("deletion.accepted", "a test"))
        bus = types.SimpleNamespace(decide=self.woken.append)
        self.listener = Listener(self.store, types.SimpleNamespace(), bus)
        self.listener._projects = lambda: self

    def children(self, project_id):
        if project_id != "a" * 32:
            raise ProjectNotFound(project_id)
        return ("b" * 32, ID)

    def get(self, project_id):
        raise ProjectNotFound(project_id)

    def hear(self, event_type, payload):
        assert self.listener.info({}, "identity.host", event_type, payload, {}) is None
        return self.store.get("d")


DRAINED, CLOSED = {"drained_at": T0}, {"drained_at": T0, "closed_at": T0, "empty_inventories": 2}


@pytest.mark.parametrize(
    ("state", "event_type", "payload", "voids"),
    [
        (DRAINED, GRANTED, DIRECT | MANAGER, True),
        (DRAINED, "identity.role_assignment.deleted", DIRECT | MANAGER, True),
        (CLOSED, GRANTED, DIRECT | MANAGER, True),
        (DRAINED, GRANTED, DIRECT | {"initiator": MANAGER["initiator"]}, True),  # without an outcome
        (DRAINED, GRANTED, ABOVE, True),
        (DRAINED, GRANTED, DOMAIN, True),
        (CLOSED, PATCHED, UPDATED | MANAGER, True),
        (DRAINED, GRANTED, DIRECT | OURS, False),
        (CLOSED, PATCHED, UPDATED | OURS, False),
        (DRAINED, GRANTED, DIRECT | MANAGER | {"outcome": "failure"}, False),
        (DRAINED, GRANTED, DOMAIN | {"inherited_to_projects": False}, False),
        (DRAINED, GRANTED, DOMAIN | {"domain": "another"}, False),
        (DRAINED, GRANTED, DIRECT | MANAGER | {"project": "c" * 32}, False),
        (DRAINED, GRANTED, ABOVE | {"project": "c" * 32}, False),
        (DRAINED, PATCHED, UPDATED | MANAGER, False),  # a name or a description
        (CLOSED, PATCHED, UPDATED, False),  # a tag
        (CLOSED, PATCHED, {"resource_info": ID, "request_id": "req-1"}, False),  # the basic format
        ({}, GRANTED, DIRECT | MANAGER, False),
    ],
)
def test_which_changes_of_others_void_the_proof(state, event_type, payload, voids):
    engine = Engine(state)
    before = engine.store.get("d")
    after = engine.hear(event_type, payload)
    assert ((after.drained_at, after.closed_at, after.empty_inventories) == (None, None, 0)) is (voids or not state)
    assert engine.woken == ["d"] * voids
    lines = [row.event for row in engine.store.events("d", 100) if row.event.type == "inventory.void"]
    assert len(lines) == voids
    if voids:
        named = "initiator" in payload
        assert lines[0].actor == ("manager" if named else "")
        assert lines[0].message.startswith(f"user {'manager' if named else '(not named)'} changed ")
    else:
        assert after == before


@pytest.mark.parametrize("evidence", ["7", ""])
def test_a_lock_that_others_cannot_change_is_not_voided(evidence):
    engine = Engine(CLOSED, evidence)
    assert engine.hear(PATCHED, UPDATED | MANAGER).closed_at == T0


def test_each_change_voids_the_proof_however_many_there_were_before():
    """A limit would let a manager of the domain use it up, and then make a change that nothing follows."""
    engine, changes = Engine(DRAINED), 15
    for _ in range(changes):
        for _ in range(20):  # a burst counts once: until the next lock there is nothing to void
            after = engine.hear(GRANTED, DIRECT | MANAGER)
        assert after.drained_at is None
        save(engine.store, after, dataclasses.replace(after, drained_at=T0))
    lines = [row.event.message for row in engine.store.events("d", 100) if row.event.type == "inventory.void"]
    assert len(lines) == changes


def test_every_deletion_of_a_domain_is_reached(monkeypatch):
    monkeypatch.setattr(keystone_listener, "_PAGE", 2)
    engine = Engine(DRAINED)
    first = engine.store.get("d")
    for number in range(4):
        record = dataclasses.replace(first, id=f"d{number}", project_id=f"{number}" * 32)
        engine.store.create(record, TASKS, Event("deletion.accepted", "a test"))
    engine.hear(GRANTED, DOMAIN)
    assert sorted(engine.woken) == ["d", "d0", "d1", "d2", "d3"]


def test_a_change_that_cannot_be_handled_now_is_delivered_again(monkeypatch):
    monkeypatch.setattr(keystone_listener, "_PAUSE", 0)
    engine = Engine(DRAINED)
    monkeypatch.setattr(engine.listener, "_projects", lambda: 1 / 0)
    assert engine.listener.info({}, "identity.host", GRANTED, ABOVE, {}) == "requeue"


# --------------------------------------------------------------------------------------------- projects that are gone
def test_a_project_that_an_earlier_deletion_removed_when_it_was_retried_is_not_noticed():
    """Its dry run, or a deletion that was cancelled, is the later record by then."""
    engine = Engine({"status": Status.LEFTOVERS})
    first = engine.store.get("d")
    later = dataclasses.replace(first, id="dry", status=Status.PLANNED, dry_run=True)
    while engine.store.now() == first.created_at:  # SQLite's clock counts milliseconds
        pass
    engine.store.create(later, TASKS, Event("deletion.accepted", "a test"))
    save(engine.store, engine.store.get("d"), dataclasses.replace(first, status=Status.DELETED))
    engine.hear("identity.project.deleted", UPDATED)
    assert {d.id for d in engine.store.list(Page(10))} == {"d", "dry"}


def test_a_project_that_is_deleted_during_its_dry_run_is_recorded_instead_of_the_dry_run():
    engine = Engine({"status": Status.INVENTORY, "dry_run": True})
    assert engine.hear("identity.project.deleted", UPDATED).status is Status.CANCELLED
    live = engine.store.live(ID)
    assert (live.origin, engine.woken) == (Origin.NOTICED, [live.id])


@pytest.mark.parametrize(
    "values", [{"status": Status.CANCELLING}, {}, {"origin": Origin.ADOPTED, "dry_run": True}, {"mode": Mode.REPORT}]
)
def test_a_deletion_under_way_knows_or_finds_out_itself_that_its_project_is_gone(values):
    engine = Engine(values)
    before = engine.store.get("d")
    assert engine.hear("identity.project.deleted", UPDATED) == before
    assert engine.woken == ["d"]
    assert len(engine.store.list(Page(10))) == 1


@pytest.mark.parametrize(
    "event_type",
    ["identity.project.created", "identity.projectXupdated", "identity.user.updated", "identity.project.deleted\n"],
)
def test_other_notifications_are_not_received(event_type):
    assert not Listener.filter_rule.match({}, "identity.host", event_type, {}, {})
    assert Listener.filter_rule.match({}, "identity.host", GRANTED, {}, {})
