"""Changes are undone in reverse; each is undone once, and one that cannot be undone stops no other."""

import contextlib
import types

import pytest

from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.journal import Change, Event
from cleanup_orchestrator.core.step import TASKS, StepKind, StepState
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import CleanupError, Stopped
from cleanup_orchestrator.store import tables
from cleanup_orchestrator.worker.steps.release import Release, undo_all
from tests.unit.drain.test_base import CHANGES, UNDONE
from tests.unit.drain.test_fence import Keystone
from tests.unit.world import deletion


def undoing(store, step):
    """Return what the undoing of changes works with."""
    worker = types.SimpleNamespace(name="w")
    return types.SimpleNamespace(store=store, step=step, deletion=deletion(), worker=worker)


@pytest.fixture
def step(store):
    """A step in the hands of a worker, with the changes of a drain on record."""
    store.create(deletion(status=Status.DRAINING), TASKS, Event("deletion.accepted", ""))
    with store.database.engine.begin() as connection:
        mine = tables.steps.c.kind == str(StepKind.DRAIN)
        connection.execute(tables.steps.update().where(mine).values(state=str(StepState.DISPATCHED), round=1))
    held = store.claim(next(s for s in store.steps("d") if s.kind is StepKind.DRAIN).id, "w", 3600)[1]
    for type_, data in CHANGES:
        assert store.record_intent(held, type_, data)
    return held


def test_changes_are_undone_in_reverse(store, step):
    """Users get their roles back once the project is open, and the orchestrator goes last: it does all the rest."""
    keystone = Keystone(fence="d")
    assert undo_all(undoing(store, step), keystone) == 5
    assert keystone.did == UNDONE
    assert store.changes("d") == ()


JANITOR = {"name": "cleanup-janitor-d", "domain_id": "dom"}


class WithJanitor(Keystone):
    """The same, with the janitor of the deletion, and with the project or without it."""

    def __init__(self, there=True, known=True, janitor="j"):
        super().__init__()
        self.users, self.there, self.known, self.janitor = self, there, known, janitor

    def get_uncached(self, project_id):
        if not self.known:
            raise ProjectNotFound("gone")
        return Project(project_id, "P", "dom", True, janitor=self.janitor)

    def set_janitor(self, _project_id, user_id):
        self.did.append(("option", user_id))
        self.janitor = user_id

    def remove(self, name, domain_id):
        self.did.append(("remove", name, domain_id))
        there, self.there = self.there, False
        return there


REMOVED = ("remove", *JANITOR.values())


@pytest.mark.parametrize(
    ("keystone", "did", "text"),
    [
        (WithJanitor(), [REMOVED, ("option", None)], "deleted the janitor"),
        (WithJanitor(there=False), [REMOVED, ("option", None)], "no longer there"),
        (WithJanitor(janitor=None), [REMOVED], "deleted the janitor"),
        (WithJanitor(known=False), [REMOVED], "deleted the janitor"),
    ],
    ids=["fenced", "the user does not exist", "no fence", "the project is gone"],
)
def test_the_janitor_is_deleted_also_without_its_project(keystone, did, text):
    change = Change("c", "d", 1, drain.JANITOR_MADE, JANITOR)
    assert text in drain.undo(keystone, "p", change)
    assert keystone.did == did
    keystone.did.clear()
    assert "no longer there" in drain.undo(keystone, "p", change)
    assert keystone.did == [REMOVED], "idempotent"


@pytest.mark.parametrize("name", ["admin", "cleanup-janitor-e", "cleanup-janitor-", "Cleanup-Janitor-d"])
def test_no_other_user_is_ever_deleted(name):
    keystone = WithJanitor()
    with pytest.raises(CleanupError, match="not the janitor of deletion d"):
        drain.undo(keystone, "p", Change("c", "d", 1, drain.JANITOR_MADE, {**JANITOR, "name": name}))
    assert keystone.did == []


def test_what_is_undone_is_not_undone_again(store, step):
    first = store.changes("d")[-1]
    assert store.undone(step, first, Event("drain.undone", ""))
    keystone = Keystone(fence="d")
    assert undo_all(undoing(store, step), keystone) == 4
    assert keystone.did == UNDONE[1:]


def test_a_change_that_cannot_be_undone_stops_no_other_and_is_reported_at_the_end(store, step):
    keystone = Keystone(fence="d")
    keystone.broken = {"u2"}
    with pytest.raises(RuntimeError):
        undo_all(undoing(store, step), keystone)
    assert keystone.did == [each for each in UNDONE if each[1:2] != ("u2",)]
    assert [change.data["actor_id"] for change in store.changes("d")] == ["u2"]


def test_a_worker_that_lost_its_claim_stops_at_once(store, step):
    assert store.renew(step, -1)
    keystone = Keystone(fence="d")
    with pytest.raises(Stopped):
        undo_all(undoing(store, step), keystone)
    assert keystone.did == UNDONE[:1]


@pytest.mark.parametrize("broken", [set(), {"u2"}])
def test_with_the_roles_the_token_of_the_project_is_dropped(store, step, broken):
    """Barbican accepted it for five more seconds: the next dry run listed secrets with a role that was taken back."""
    keystone = Keystone(fence="d")
    keystone.broken, dropped = broken, []
    context = undoing(store, step)
    context.clouds = types.SimpleNamespace(forget_project=dropped.append)
    context.projects = lambda writing: keystone
    with pytest.raises(RuntimeError) if broken else contextlib.nullcontext():
        Release(context).run()
    assert dropped == [context.deletion.project_id]
    assert ("ungrant", "me", "admin") in keystone.did


SENT = Change("c", "d", 1, drain.PROJECT_DELETE_SENT, {"round": 3})


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("changes", "attempt"), [((SENT,), 1), ((), 2)])
def test_a_delete_of_the_project_that_took_effect_is_told(known, changes, attempt):
    """A user stopped the deletion while the delete was under way. A release that failed has marked its record."""
    keystone, gone, undone = WithJanitor(known=known), ("the project is gone",), []
    store = types.SimpleNamespace(
        changes=lambda _: changes, undone=lambda _step, _change, event: undone.append(event.message) or True
    )
    context = undoing(store, types.SimpleNamespace(owner_id="d", name="release", attempt=attempt))
    context.clouds = types.SimpleNamespace(forget_project=lambda _: None)
    context.projects, context.gone_facts = lambda writing: keystone, lambda: gone
    assert Release(context).run().learned == (() if known else gone)
    assert [text == drain.NO_EFFECT for text in undone] == [known] * len(changes)
    assert known or all("is gone" in text for text in undone)
