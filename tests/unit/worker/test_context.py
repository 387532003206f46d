"""Which token a step uses: that of the orchestrator, of the project, or of the janitor."""

import dataclasses
import datetime
import types

import pytest

from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Change, ChangeType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.core.step import Leftover, Step, StepKind, StepState, Token
from cleanup_orchestrator.errors import NoJanitor, NoProjectToken, ProjectGone, classify
from cleanup_orchestrator.plugins.base import ResourceType
from tests.unit.worker.test_access import Cloud
from tests.unit.worker.test_guard import task
from tests.unit.worker.test_sweep import Ports, done
from tests.unit.world import T0, deletion, sweep_step

MODULE = ResourceType("module", lambda *_: (), None, token=Token.MEMBER)
GRANT = {"actor": "users", "actor_id": "janitor", "role_id": "id-member"}
USER = {"name": "cleanup-janitor-d", "domain_id": "dom"}
MADE = [("janitor_made", USER), ("made", "janitor"), ("grant_added", GRANT), ("grant", "janitor", "id-member")]
ROLE = ("janitor", "member")


@pytest.mark.parametrize("driver", ["fence", "revoke"])
def test_a_list_is_made_with_the_janitors_token_that_cannot_write(driver):
    cloud = Cloud(ROLE)
    session = cloud.session(driver=driver)
    assert (session.whose, session.guard, cloud.did) == ("janitor", read_only, [])


def test_a_delete_round_makes_the_janitor():
    cloud, guard = Cloud(), lambda *_: None
    assert cloud.session(guard=guard).whose == "janitor"
    assert cloud.did == MADE


def test_a_list_makes_no_janitor_and_is_unknown_without_it():
    cloud = Cloud()
    with pytest.raises(NoJanitor, match="does not exist yet") as error:
        cloud.session()
    assert (classify(error.value).reason, cloud.did) == (Reason.NO_JANITOR, [])


@pytest.mark.parametrize(
    "cloud",
    [
        Cloud(ROLE, ("janitor", "admin")),
        Cloud(ROLE, more=["admin"]),
        Cloud(),
    ],
)
def test_no_other_token_stands_in_for_that_of_a_janitor_that_is_configured(cloud):
    with pytest.raises(NoJanitor):
        cloud.session()


@pytest.mark.parametrize(
    ("cloud", "options"),
    [
        (Cloud(secret=""), {}),
        (Cloud(ROLE), {"dry_run": True}),
        (Cloud(), {"dry_run": True}),
        (Cloud(ROLE), {"type_": dataclasses.replace(MODULE, token=Token.PROJECT)}),
    ],
)
def test_without_a_janitor_and_in_a_dry_run_the_list_gets_the_token_of_the_orchestrators_user(cloud, options):
    assert cloud.session(**options) == ("me", read_only)
    assert cloud.did == []


def test_a_disabled_project_is_named_as_the_reason_and_not_the_janitor():
    with pytest.raises(NoProjectToken):
        Cloud(ROLE, enabled=False).session()


def test_there_is_no_such_token_of_a_project_that_is_gone():
    with pytest.raises(ProjectGone):
        Cloud(ROLE).session(gone=True)


class Hooks(Ports):
    """A registry with a type whose service acts on what users wrote; it writes down the connection of each delete."""

    def __init__(self):
        super().__init__()
        self.services = {"vendor": None, "object-store.radosgw": None}

    def find(self, _service, _type):
        listing = lambda *_: list(self.rows)  # noqa: E731
        return ResourceType(
            "hook",
            listing,
            self.delete,
            why_no_show="the test",
            source="the test",
            token=Token.SERVICE,
            user_content="an address",
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
    made.step_context.janitor_session = lambda writing=True: "janitor"
    result = done(made)
    if token:
        assert hooks.deleted == [("janitor", "1")]
        return
    assert hooks.deleted == []
    [left] = result.leftovers
    assert left.reason is Reason.NO_JANITOR
    assert service in left.message and "[protocol] acts_on_user_content" in left.message


LENT = Change("l", "d", 3, ChangeType.JANITOR_LENT, {})


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
    made.step_context.janitor_session = lambda writing=True: seen.append("token") or "janitor"
    done(made)
    assert seen == [("janitor_lent", {}), "token"]


def test_what_is_looked_at_beside_the_swept_type_is_only_read():
    """The sweep of a stack deletes the stack: Heat deletes what it contains."""
    made = task(registry=Ports())
    context = made.step_context
    guards = made.worker.clouds.guards
    other = context.sweep(Ports().find("", ""), None, context.definition()).find_type("network.port")
    assert other.name == "network.port" and guards == [read_only]


# ---------------------------------------------------------------------- what was selected while the project was locked
LOCKED = {"mode": Mode.PURGE, "status": Status.DELETING, "drained_at": T0, "selection": Selection(updated_before=T0)}
LEFT = [
    Leftover("selected", "", Reason.PRESENT),
    Leftover("in use", "", Reason.IN_USE),
    Leftover("young", "", Reason.NOT_SELECTED),
]
LATER = T0 + datetime.timedelta(seconds=1)


@pytest.mark.parametrize(
    ("values", "listed", "expected"),
    [
        ({}, {"finished_at": LATER}, {"selected", "in use"}),
        ({}, {"finished_at": LATER, "kind": StepKind.HALT}, set()),
        ({}, {"finished_at": LATER, "region": "R2"}, set()),
        ({}, {"finished_at": LATER, "type": "router"}, set()),
        ({}, {"finished_at": T0}, set()),  # listed before the lock took hold
        ({}, {"finished_at": None}, set()),
        ({"drained_at": None}, {"finished_at": LATER}, set()),  # users may still change resources
        ({"dry_run": True}, {"finished_at": LATER}, set()),
        ({"selection": Selection(created_before=T0)}, {"finished_at": LATER}, set()),
    ],
)
@pytest.mark.parametrize("kind", [StepKind.SWEEP, StepKind.HALT])
def test_only_a_list_behind_the_lock_says_what_was_selected(kind, values, listed, expected):
    step = dataclasses.replace(sweep_step("network.port"), state=StepState.RUNNING, round=1, kind=kind)
    made = task(deletion(**LOCKED | values), step=step, registry=Ports())
    made.worker.store.left = LEFT
    made.worker.store.steps = lambda _id: (dataclasses.replace(sweep_step("network.port"), **listed),)
    context = made.step_context
    assert set(context.sweep(context.resource_type(), None, context.definition()).selected_before) == expected
