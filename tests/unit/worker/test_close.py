"""What the closing of a project looks at before, and what it says when Keystone refuses it."""

import dataclasses
import datetime
import types

import pytest

from cleanup_orchestrator.core.findings import InventoryOutdated
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState
from cleanup_orchestrator.drain.base import Result
from cleanup_orchestrator.worker.steps.close import LISTED_WITHIN
from tests.unit.worker.test_remove import WHY_KEPT, Removal, Unchangeable, last_step
from tests.unit.world import T0, Token, sweep_step

OLD = T0 - LISTED_WITHIN - datetime.timedelta(seconds=1)
LISTED = {"round": 1, "attempt": 1, "state": StepState.DONE, "finished_at": OLD}
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT, **LISTED)
PORT = sweep_step("network.port", **LISTED)
SURVEY = Step("survey", "d", StepKind.SURVEY, round=1, state=StepState.DONE, finished_at=T0)


def changed(step, **values):
    return dataclasses.replace(step, **values)


WAITED = changed(PORT, finished_at=T0, attempt=2)  # for its service
ELSEWHERE = changed(SECRET, region="R2", finished_at=T0)


class InUse(Removal):
    """``Projects`` of one project, which can be disabled."""

    def __init__(self, enabled=True):
        super().__init__(enabled)

    def driver(self):
        return types.SimpleNamespace(
            close=lambda _context: Result(True, message="the project is disabled"),
            held_until_closed=lambda _context: True,
            continuous=True,
        )


def closing(monkeypatch, projects, *steps, **record):
    return last_step(monkeypatch, StepKind.CLOSE, projects, *steps, round=1, **record)


@pytest.mark.parametrize(
    "others",
    [(PORT,), (changed(PORT, round=0, finished_at=T0),), (SURVEY,), (WAITED,), (WAITED, ELSEWHERE)],
    ids=["all at that time", "another round", "no list", "one waited", "one waited, and another region did not"],
)
def test_a_project_in_use_that_was_listed_long_ago_is_listed_again_first(monkeypatch, others):
    """A hold of days, a Keystone that refuses: a user may have made a secret, which cannot be listed afterwards."""
    result = closing(monkeypatch, InUse(), SECRET, *others)
    assert (result.outcome, result.reason, result.learned) == (Outcome.UNKNOWN, Reason.STOPPED, (InventoryOutdated(),))
    assert f"listed last at {OLD.isoformat()}Z" in result.message and "key-manager.secret" in result.message


@pytest.mark.parametrize(
    ("steps", "enabled", "drained_at"),
    [
        ((SECRET, changed(PORT, finished_at=T0 - LISTED_WITHIN)), True, None),
        ((changed(SECRET, finished_at=T0 - LISTED_WITHIN), changed(WAITED, finished_at=OLD)), True, None),
        ((PORT,), True, None),
        ((PORT, changed(SECRET, round=0)), True, None),
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
    result = closing(monkeypatch, InUse(enabled), *steps, drained_at=drained_at)
    assert (result.outcome, result.learned) == (Outcome.CLEAR, ())


@WHY_KEPT
def test_why_keystone_does_not_disable_a_project_is_said(monkeypatch, projects, reason, named):
    result = closing(monkeypatch, projects)
    assert (result.outcome, result.reason, result.learned) == (Outcome.UNKNOWN, reason, ())
    assert named in result.message


def test_an_immutable_project_that_was_listed_long_ago_is_named(monkeypatch):
    assert closing(monkeypatch, Unchangeable(immutable=True), SECRET).reason == Reason.PROJECT_IMMUTABLE


def test_an_old_copy_of_a_disabled_project_is_not_believed(monkeypatch):
    """No token could be had to list it again."""

    class OldCopy(InUse):
        def get_uncached(self, project_id):
            return changed(self.get(project_id), enabled=False)

    assert closing(monkeypatch, OldCopy(), SECRET).outcome is Outcome.CLEAR
