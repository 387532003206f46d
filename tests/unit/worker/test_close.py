"""What the closing of a project says when Keystone refuses it."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepKind
from cleanup_orchestrator.core.verifying import CLOSING_REFUSED
from tests.unit.worker.test_remove import WHY_KEPT, Refusing, Unchangeable, refused


@WHY_KEPT
def test_why_keystone_does_not_disable_a_project_is_said(monkeypatch, projects, reason, named):
    """The engine then lists the project again before the next try: it is still enabled."""
    monkeypatch.setattr(projects, "enabled", True)
    result = refused(monkeypatch, StepKind.CLOSE, projects)
    assert (result.outcome, result.reason, result.learned) == (Outcome.UNKNOWN, reason, ())
    assert named in result.message
    assert reason in CLOSING_REFUSED


def test_an_immutable_project_is_not_even_read_past_the_caches(monkeypatch):
    projects = Unchangeable(immutable=True)
    projects.enabled = True
    assert refused(monkeypatch, StepKind.CLOSE, projects).reason == Reason.PROJECT_IMMUTABLE


@pytest.mark.parametrize("projects", [Refusing(), Refusing(below=("c1",)), Unchangeable(immutable=True)])
def test_keystone_refuses_what_follows_the_disabling_of_a_project(monkeypatch, projects):
    """The engine must not take the project for enabled: no token could be had to list it again."""
    result = refused(monkeypatch, StepKind.CLOSE, projects)
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, Reason.ERROR)
    assert result.reason not in CLOSING_REFUSED
