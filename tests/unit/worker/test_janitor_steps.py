"""What steps do with the janitor: which service gets its token, and how it ends with the project."""

import types

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.core.journal import Change, ChangeType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState, Token
from cleanup_orchestrator.drain.base import Result
from cleanup_orchestrator.plugins.base import ResourceType
from cleanup_orchestrator.worker.steps import RUNNERS
from cleanup_orchestrator.worker.steps import context as steps_context
from tests.unit.worker.test_worker_guard import Ports, Removal, done, task
from tests.unit.world import T0, deletion


# --------------------------------------------------------------------------------------------- who gets its token
class Hooks(Ports):
    """A registry with a type whose service acts on what users wrote; it writes down the connection of each delete."""

    def __init__(self):
        super().__init__()
        self.services = {"vendor": None, "object-store.radosgw": None}

    def find(self, _service, _type):
        listing = lambda *_: list(self.rows)  # noqa: E731
        return ResourceType(
            "hook", listing, self.delete, fresh="the test", source="the test", token=Token.SERVICE, acts_on="an address"
        )

    def delete(self, connection, _project, resource):
        self.deleted.append((connection, resource.id))


class Conf(types.SimpleNamespace):
    """Configuration as modules read it."""

    def __getitem__(self, group):
        return getattr(self, group)


@pytest.mark.parametrize(
    ("service", "named", "token"),
    [
        ("vendor", ["vendor"], True),
        ("vendor", ["other", "vendor"], True),
        ("object-store.radosgw", ["object-store.radosgw"], True),
        ("vendor", [], False),
        ("vendor", ["vendors"], False),
        ("object-store.radosgw", ["object-store"], False),
    ],
)
def test_only_a_service_that_the_operator_named_gets_the_janitors_token(service, named, token):
    hooks = Hooks()
    step = Step("s", "d", StepKind.SWEEP, "R1", service, "hook", token=Token.SERVICE, state=StepState.RUNNING, round=1)
    made = task(deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE), step, registry=hooks)
    made.worker.store.append_events = lambda *_: True
    options = {**vars(made.worker.conf), "protocol": types.SimpleNamespace(acts_on_user_content=named)}
    made.worker.conf = Conf(**options)
    made.worker.clouds.service_session = lambda guard: None
    made.worker.clouds.connection = lambda session, _region: session
    made.worker.store.record_intent = lambda *_: LENT
    made.work_on.janitor_session = lambda writing=True: "janitor"
    result = done(made)
    if token:
        assert hooks.deleted == [("janitor", "1")]
        return
    assert hooks.deleted == []
    [left] = result.leftovers
    assert left.reason is Reason.NO_JANITOR
    assert service in left.message and "[protocol] acts_on_user_content" in left.message


# ------------------------------------------------------------------------------------------------------- its end
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


def removal(monkeypatch, projects, *changes):
    """Return the task that removes a project with these changes on record."""
    monkeypatch.setattr(steps_context, "Projects", projects)
    record = deletion(status=Status.VERIFYING, purpose=RoundPurpose.PROJECT_SETTINGS)
    made = task(record, Step("s", "d", StepKind.REMOVE, round=1))
    made.worker.driver = projects.driver()
    made.worker.store.changed = changes
    return made


JANITOR = Change("c", "d", 1, ChangeType.JANITOR_MADE, {"name": "cleanup-janitor-d", "domain_id": "dom"})


def test_the_janitor_is_deleted_with_the_project(monkeypatch):
    projects = WithUsers()
    made = removal(monkeypatch, projects, JANITOR, Change("e", "d", 2, ChangeType.PROJECT_DISABLED, {}))
    assert done(made).outcome is Outcome.CLEAR
    assert projects.removed == [("cleanup-janitor-d", "dom")]
    assert made.worker.store.forgotten == [
        ("janitor_made", "deleted the janitor, user cleanup-janitor-d"),
        ("project_disabled", "project_disabled: gone with the project"),
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


# ---------------------------------------------------------------------------------------------- a token that was lent
LENT = Change("l", "d", 3, ChangeType.JANITOR_LENT, {})


@pytest.mark.parametrize(
    ("changes", "values", "void"),
    [
        ((JANITOR, LENT), {}, True),
        ((LENT,), {}, True),
        ((JANITOR,), {}, False),
        ((), {}, False),
        ((JANITOR, LENT), {"status": Status.DELETING}, False),
        ((JANITOR, LENT), {"drained_at": None}, False),
        ((JANITOR, LENT), {"closed_at": T0}, False),
    ],
    ids=["lent", "ended half", "for lists only", "none", "deletes go on", "not locked", "disabled: no token works"],
)
def test_a_verification_starts_anew_if_a_service_got_the_token(changes, values, void):
    record = deletion(**{"status": Status.VERIFYING, "drained_at": T0, **values})
    made = task(record, Step("s", "d", StepKind.SURVEY, round=1))
    made.worker.store.changed = changes
    assert RUNNERS[StepKind.SURVEY](made.work_on).janitor_lent() is void


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


def test_the_use_of_its_token_is_recorded_before_it_is_made():
    hooks, seen = Hooks(), []
    step = Step("s", "d", StepKind.SWEEP, "R1", "vendor", "hook", token=Token.SERVICE, state=StepState.RUNNING, round=1)
    made = task(deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE), step, registry=hooks)
    made.worker.store.append_events = lambda *_: True
    options = {**vars(made.worker.conf), "protocol": types.SimpleNamespace(acts_on_user_content=["vendor"])}
    made.worker.conf = Conf(**options)
    made.worker.clouds.service_session = lambda guard: None
    made.worker.clouds.connection = lambda session, _region: session
    made.worker.store.record_intent = lambda _step, type_, data: seen.append((str(type_), data)) or LENT
    made.work_on.janitor_session = lambda writing=True: seen.append("token") or "janitor"
    done(made)
    assert seen == [("janitor_lent", {}), "token"]
