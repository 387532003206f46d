"""A drain step ends a janitor whose token a service got."""

import types

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.journal import Change, ChangeType
from cleanup_orchestrator.core.step import Outcome, Step, StepKind
from cleanup_orchestrator.drain.base import Result
from cleanup_orchestrator.worker.steps import context as steps_context
from tests.unit.worker.test_guard import task
from tests.unit.worker.test_remove import WithUsers
from tests.unit.worker.test_sweep import done
from tests.unit.world import deletion

# ------------------------------------------------------------------------------------------------------- its end


JANITOR = Change("c", "d", 1, ChangeType.JANITOR_MADE, {"name": "cleanup-janitor-d", "domain_id": "dom"})


# ---------------------------------------------------------------------------------------------- a token that was lent
LENT = Change("l", "d", 3, ChangeType.JANITOR_LENT, {})


@pytest.mark.parametrize(
    ("changes", "removed", "forgotten"),
    [
        ((LENT, JANITOR), [("cleanup-janitor-d", "dom")], ["janitor_made", "janitor_lent"]),
        ((LENT,), [], ["janitor_lent"]),
        ((JANITOR,), [], []),
        ((), [], []),
    ],
    ids=["lent", "ended half", "for lists only", "none"],
)
def test_the_drain_first_ends_a_janitor_whose_token_a_service_got(monkeypatch, changes, removed, forgotten):
    projects = WithUsers()
    monkeypatch.setattr(steps_context, "Projects", projects)
    made = task(deletion(status=Status.VERIFYING), Step("s", "d", StepKind.DRAIN, round=1, attempt=1))
    made.worker.store.changed = changes
    made.worker.store.steps = lambda _id: ()
    seen = []

    def drain(_context):
        seen.extend(projects.removed)
        return Result(True, message="locked", evidence="7")

    made.worker.driver = types.SimpleNamespace(drain=drain)
    made.worker.conf.drain = types.SimpleNamespace(project_role="admin", inherited_grants="close")
    made.worker.protocol.off = True
    assert done(made).outcome is Outcome.CLEAR
    assert seen == removed, "before the lock"
    assert [type_ for type_, _ in made.worker.store.forgotten] == forgotten, "the user first"
