"""What the removal of a project asks and believes, and what goes with the project."""

import contextlib
import dataclasses
import types

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound
from cleanup_orchestrator.core import results
from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.journal import Change, ChangeType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult
from cleanup_orchestrator.errors import BadAnswer, OnHold, RateLimited, Stopped
from cleanup_orchestrator.worker.steps import context as steps_context
from tests.unit.worker.test_guard import Records, task
from tests.unit.worker.test_sweep import done
from tests.unit.world import T0, deletion

#: keystoneauth before 5.16 has no class for 429.
TOO_MANY = getattr(ka_exceptions, "TooManyRequests", ka_exceptions.HTTPClientError)


class Removal:
    """``Projects`` of one project, which goes when it is deleted, or does not."""

    def __init__(self, enabled=False, goes=True, held=True, conflict=False, vanished=False):
        self.enabled, self.goes, self.held, self.conflict, self.vanished = enabled, goes, held, conflict, vanished
        self.deleted = []

    def __call__(self, _identity):
        return self

    def get_uncached(self, project_id):
        return self.get(project_id)

    def get(self, project_id):
        if self.vanished or (self.deleted and self.goes):
            raise ProjectNotFound("gone")
        return Project(project_id, "P", "dom", self.enabled)

    def delete(self, project_id, deletion_id, headers):
        if self.conflict:
            raise ka_exceptions.Conflict("the fence was changed")
        self.deleted.append((project_id, deletion_id, headers))
        return True

    def driver(self):
        """Return the drain driver, which sees whether the lock held."""
        return types.SimpleNamespace(
            close=lambda _context: self.delete("", "", {}),
            held_until_removed=lambda _context, _project: self.held,
            removal_headers=lambda _context: {"Serial": "7"},
        )


def removal(monkeypatch, projects, *changes, **record):
    """Return the task that removes a project with these changes on record."""
    monkeypatch.setattr(steps_context, "Projects", projects)
    record = deletion(status=Status.VERIFYING, purpose=RoundPurpose.PROJECT_SETTINGS, drained_at=T0, **record)
    made = task(record, Step("s", "d", StepKind.REMOVE, round=1))
    made.worker.driver = projects.driver()
    made.worker.store.changed = changes
    return made


def recorded(made, result):
    """Return the deletion after a result."""
    return results.record(dataclasses.replace(made.worker.store.record, empty_inventories=2), made.step, result, T0)[0]


WAIVER = Waiver("w", "dns", "gone for good", T0, T0)


@pytest.mark.parametrize(
    ("projects", "waivers", "in_force", "outcome", "deleted"),
    [
        (Removal(), (), (), Outcome.CLEAR, True),
        (Removal(), (WAIVER,), (WAIVER,), Outcome.CLEAR, True),
        (Removal(), (WAIVER,), (), Outcome.UNKNOWN, False),
        (Removal(enabled=True), (), (), Outcome.UNKNOWN, False),
        (Removal(goes=False), (), (), Outcome.UNKNOWN, True),
        (Removal(held=False), (), (), Outcome.UNKNOWN, False),
        (Removal(conflict=True), (), (), Outcome.UNKNOWN, False),
    ],
    ids=["closed", "waived", "a waiver ended", "enabled again", "Keystone keeps it", "lock changed", "refused for it"],
)
def test_what_the_removal_asks_and_believes(monkeypatch, projects, waivers, in_force, outcome, deleted):
    projects.deleted.clear()
    made = removal(monkeypatch, projects, waivers=waivers)
    made.worker.store.waivers = in_force
    result = done(made)
    assert result.outcome is outcome
    assert projects.deleted == [("p", "d", {"Serial": "7"})] * deleted
    if outcome is Outcome.UNKNOWN and not deleted:
        after = recorded(made, result)
        assert (after.purpose, after.empty_inventories) == (RoundPurpose.NONE, 0), "it is proven empty anew"
        assert after.drained_at is None or waivers, "and locked anew, unless only a waiver ended"
    assert isinstance(result, StepResult)


class Refusing(Removal):
    """``Projects`` of one project, which Keystone neither disables nor deletes."""

    def __init__(self, below=(), immutable=False):
        super().__init__()
        self.below, self.immutable = below, immutable

    def get(self, project_id):
        return dataclasses.replace(super().get(project_id), immutable=self.immutable)

    def children(self, _project_id):
        return self.below

    def delete(self, *_):
        raise ka_exceptions.Forbidden("no")


class Unchangeable(Refusing):
    """The same, and Keystone does not update it either."""

    def get_uncached(self, _project_id):
        raise ka_exceptions.Forbidden("no")


SENT = Change("c", "d", 1, ChangeType.PROJECT_DELETE_SENT, {"round": 1})
#: Sent without an answer, before the last inventories: a waiver ended, for instance.
EARLIER = dataclasses.replace(SENT, data={"round": 0})


@pytest.mark.parametrize(
    ("changes", "gone_at", "outcome"),
    [
        ((SENT,), None, Outcome.CLEAR),
        ((EARLIER, SENT), None, Outcome.CLEAR),
        ((), T0, Outcome.CLEAR),
        ((), None, Outcome.UNKNOWN),
        ((EARLIER,), None, Outcome.UNKNOWN),
        ((dataclasses.replace(SENT, data={}),), None, Outcome.UNKNOWN),
    ],
    ids=[
        "a delete was sent",
        "and one in an earlier round",
        "seen before the last inventories",
        "another client deleted it",
        "a delete was sent in an earlier round only",
        "a delete without a round",
    ],
)
def test_a_project_that_keystone_does_not_know_is_deleted_only_after_a_delete(monkeypatch, changes, gone_at, outcome):
    made = removal(monkeypatch, Removal(vanished=True), *changes, project_gone_at=gone_at)
    result = done(made)
    assert result.outcome is outcome
    if outcome is Outcome.UNKNOWN:
        after = recorded(made, result)
        assert (after.purpose, after.empty_inventories) == (RoundPurpose.NONE, 0), "it is proven empty anew"
        assert after.project_gone_at is not None, "as a project that another client deleted"


@pytest.mark.parametrize(
    "projects",
    [Removal(enabled=True), Removal(held=False), Removal(conflict=True), Refusing(), Unchangeable()],
    ids=["enabled", "another lock", "409", "403", "403 before"],
)
def test_a_delete_that_took_no_effect_explains_no_later_answer(monkeypatch, projects):
    """Others may delete the project meanwhile, after they created something in it."""
    made = removal(monkeypatch, projects, SENT)
    done(made)
    assert made.worker.store.changed == ()


class Unsent(Removal):
    """The same, but the delete fails before it takes effect. Then another client deletes the project."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def delete(self, *_):
        self.vanished = True
        if self.error is not None:
            raise self.error
        return False


@pytest.mark.parametrize(
    "error",
    [
        OnHold("a lien came"),
        RateLimited("no permit for 60 seconds"),
        ka_exceptions.Unauthorized("no"),
        TOO_MANY("no"),
        BadAnswer("something answered 404, and not as Keystone does"),
        None,
    ],
    ids=["on hold", "no permit", "401", "429", "404 of a proxy", "404"],
)
def test_a_delete_that_was_not_sent_or_was_refused_explains_no_later_answer(monkeypatch, error):
    """Others may enable the project meanwhile, create something in it, and delete it."""
    made = removal(monkeypatch, Unsent(error))
    with contextlib.suppress(BadAnswer, OnHold, RateLimited, ka_exceptions.HttpError):
        assert done(made).outcome is Outcome.UNKNOWN
    assert made.worker.store.changed == ()
    result = done(made)
    assert result.outcome is Outcome.UNKNOWN
    after = recorded(made, result)
    assert (after.purpose, after.empty_inventories) == (RoundPurpose.NONE, 0), "it is proven empty anew"


@pytest.mark.parametrize("error", [ka_exceptions.ConnectFailure("lost"), ka_exceptions.BadGateway("lost")])
def test_a_delete_without_an_answer_may_have_taken_effect(monkeypatch, error):
    made = removal(monkeypatch, Unsent(error))
    with pytest.raises(type(error)):
        done(made)
    assert done(made).outcome is Outcome.CLEAR


def test_a_delete_that_took_no_effect_is_forgotten_before_anything_else(monkeypatch):
    made = removal(monkeypatch, Removal(enabled=True), SENT)

    def stopped(_project):
        raise Stopped("the claim was lost")

    monkeypatch.setattr(made.step_context, "note_undone_by_users", stopped)
    with pytest.raises(Stopped):
        done(made)
    assert made.worker.store.changed == ()


def test_the_delete_of_a_project_is_on_record_before_it_is_sent(monkeypatch):
    projects = Removal()
    made = removal(monkeypatch, projects)
    made.worker.store.record_intent = lambda *_: None  # the claim was lost meanwhile
    with pytest.raises(Stopped):
        done(made)
    assert projects.deleted == []


WHY_KEPT = pytest.mark.parametrize(
    ("projects", "reason", "named"),
    [
        (Refusing(), Reason.FORBIDDEN, "no"),
        (Refusing(immutable=True), Reason.PROJECT_IMMUTABLE, "no"),
        (Refusing(below=("c1", "c2")), Reason.PROJECT_HAS_CHILDREN, "c1, c2"),
    ],
    ids=["rights are missing", "immutable", "child projects"],
)


def last_step(monkeypatch, kind, projects, *others, **record):
    """Return the result of the step that disables or deletes a project.

    :param others: the other steps of the deletion
    """
    monkeypatch.setattr(steps_context, "Projects", projects)
    store = Records(deletion(status=Status.VERIFYING, **record))
    store.steps = lambda _deletion_id: others
    made = task(store.record, Step("s", "d", kind, round=1), store)
    made.worker.driver = projects.driver()
    monkeypatch.setattr(made.step_context, "drain_context", lambda: types.SimpleNamespace(projects=projects))
    return done(made)


@WHY_KEPT
def test_why_keystone_does_not_delete_a_project_is_said(monkeypatch, projects, reason, named):
    result = last_step(monkeypatch, StepKind.REMOVE, projects, purpose=RoundPurpose.PROJECT_SETTINGS)
    assert (result.outcome, result.reason, result.learned) == (Outcome.UNKNOWN, reason, ())
    assert named in result.message


class WithUsers(Removal):
    """The same with the users of Keystone, of which one is deleted, unless Keystone refuses that."""

    def __init__(self, error=None):
        super().__init__()
        self.users, self.error, self.removed = self, error, []

    def remove(self, name, domain_id):
        if self.error is not None:
            raise self.error
        self.removed.append((name, domain_id))
        return True


JANITOR = Change("c", "d", 1, ChangeType.JANITOR_MADE, {"name": "cleanup-janitor-d", "domain_id": "dom"})


def test_the_janitor_is_deleted_with_the_project(monkeypatch):
    projects = WithUsers()
    made = removal(monkeypatch, projects, JANITOR, Change("e", "d", 2, ChangeType.PROJECT_DISABLED, {}))
    assert done(made).outcome is Outcome.CLEAR
    assert projects.removed == [("cleanup-janitor-d", "dom")]
    assert made.worker.store.forgotten == [
        ("janitor_made", "deleted the janitor, user cleanup-janitor-d"),
        ("project_disabled", "project_disabled: gone with the project"),
        ("project_delete_sent", "the delete of the project took effect"),
    ]


def test_a_deletion_does_not_end_while_keystone_keeps_its_janitor(monkeypatch):
    projects = WithUsers(ka_exceptions.ServiceUnavailable("later"))
    made = removal(monkeypatch, projects, JANITOR)
    with pytest.raises(ka_exceptions.ServiceUnavailable):
        done(made)
    assert made.worker.store.forgotten == []
    projects.error = None
    assert done(made).outcome is Outcome.CLEAR, "also if the project is gone meanwhile"
    assert projects.removed == [("cleanup-janitor-d", "dom")]
