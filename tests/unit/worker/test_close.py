"""What the closing of a project looks at before, and what it says when Keystone refuses it."""

import dataclasses
import datetime
import types

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.findings import InventoryOutdated
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind
from cleanup_orchestrator.drain.base import Result
from cleanup_orchestrator.worker.steps import context as steps_context
from cleanup_orchestrator.worker.steps.close import LISTED_WITHIN
from tests.unit.worker.test_guard import Records, task
from tests.unit.worker.test_remove import WHY_KEPT, Refusing, Removal, Unchangeable, refused
from tests.unit.worker.test_sweep import done
from tests.unit.world import T0, Token, deletion, sweep_step

SECOND = datetime.timedelta(seconds=1)
OLD = T0 - LISTED_WITHIN - SECOND
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT, round=3, attempt=1, finished_at=OLD)
PORT = sweep_step("network.port", round=3, attempt=1, finished_at=OLD)


def changed(step, **values):
    return dataclasses.replace(step, **values)


def closing(monkeypatch, *steps, projects=None, **record):
    """Return the result of the closing of a project whose deletion has these steps."""
    projects = projects or Removal(enabled=True)
    monkeypatch.setattr(steps_context, "Projects", projects)
    store = Records(deletion(status=Status.VERIFYING, round=3, **record))
    store.steps = lambda _deletion_id: steps
    made = task(store.record, Step("s", "d", StepKind.CLOSE, round=3), store)
    made.worker.driver = types.SimpleNamespace(
        close=lambda _context: Result(True, message="the project is disabled"),
        held_until_closed=lambda _context: True,
        continuous=True,
    )
    monkeypatch.setattr(made.step_context, "drain_context", lambda: types.SimpleNamespace(projects=projects))
    return done(made)


SURVEY = Step("survey", "d", StepKind.SURVEY, round=3, finished_at=T0)


WAITED = changed(PORT, finished_at=T0, attempt=2)  # for its service


@pytest.mark.parametrize("others", [(PORT,), (changed(PORT, round=2, finished_at=T0),), (SURVEY,), (WAITED,)])
def test_a_project_in_use_that_was_listed_long_ago_is_listed_again_first(monkeypatch, others):
    """A hold of days, a Keystone that refuses: a user may have made a secret, which cannot be listed afterwards."""
    result = closing(monkeypatch, SECRET, *others)
    assert (result.outcome, result.reason, result.learned) == (Outcome.UNKNOWN, Reason.STOPPED, (InventoryOutdated(),))
    assert f"listed last at {OLD.isoformat()}Z" in result.message and "key-manager.secret" in result.message


@pytest.mark.parametrize(
    ("steps", "enabled", "drained_at"),
    [
        ((SECRET, changed(PORT, finished_at=T0 - LISTED_WITHIN)), True, None),
        ((changed(SECRET, finished_at=T0 - LISTED_WITHIN), changed(WAITED, finished_at=OLD)), True, None),
        ((PORT,), True, None),
        ((PORT, changed(SECRET, round=2)), True, None),
        ((), True, None),
        ((SECRET,), False, None),
        ((SECRET,), True, T0),
    ],
    ids=[
        "the inventory ended a moment ago",
        "it waited, and what needs a token was listed a moment ago",
        "each type can be listed afterwards",
        "what needs a token is no longer listed",
        "nothing is listed",
        "it is disabled already",
        "it is locked",
    ],
)
def test_it_is_disabled_at_once(monkeypatch, steps, enabled, drained_at):
    result = closing(monkeypatch, *steps, projects=Removal(enabled=enabled), drained_at=drained_at)
    assert (result.outcome, result.learned) == (Outcome.CLEAR, ())


@WHY_KEPT
def test_why_keystone_does_not_disable_a_project_is_said(monkeypatch, projects, reason, named):
    result = refused(monkeypatch, StepKind.CLOSE, projects)
    assert (result.outcome, result.reason, result.learned) == (Outcome.UNKNOWN, reason, ())
    assert named in result.message


def test_an_immutable_project_that_was_listed_long_ago_is_named(monkeypatch):
    projects = Unchangeable(immutable=True)
    assert closing(monkeypatch, SECRET, projects=projects).reason == Reason.PROJECT_IMMUTABLE


def test_an_old_copy_of_a_disabled_project_is_not_believed(monkeypatch):
    """No token could be had to list it again."""

    class OldCopy(Refusing):
        def get_uncached(self, project_id):
            return changed(self.get(project_id), enabled=False)

    projects = OldCopy()
    projects.enabled = True
    assert closing(monkeypatch, SECRET, projects=projects).outcome is Outcome.CLEAR
