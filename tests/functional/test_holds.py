"""A whole orchestrator over an emulated cloud: a hold stops a deletion, which goes on by itself after the hold."""

from __future__ import annotations

import datetime

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.step import StepKind, StepState
from tests.emulated.orchestrator import Orchestrator
from tests.support.emulated_site import LEAN, DeleteGate
from tests.support.stores import cancel
from tests.support.timing import wait

LONG = 300
CLOUD = {**LEAN, "things": {"image.image": 20, "key-manager.secret": 20}}
#: A call that waits at the gate must not reach its timeout.
WAITING = {"orchestrator": {"call_timeout": 300}}


def condition(made, id_):
    return next((c for c in made.store.get(id_).conditions if c.type == "on_hold" and c.status), None)


def is_own_access(write):
    """Return whether a write is one of the step "access", which a hold does not stop: a role, or a login."""
    return "/roles/" in write.target or (write.method == "POST" and write.target.endswith("/auth/tokens"))


def written(emulated, project):
    """Return the writes to the project and to its resources, except those of the step "access"."""
    return [
        write
        for write in list(emulated.audit.writes)
        if any(touch.owner == project or touch.id == project for touch in write.touched) and not is_own_access(write)
    ]


def decides_not_to_drain(made, id_):
    """Wait until the step "access" is done, let the engine decide again; return whether the drain has not begun."""

    def state(kind):
        return next(step.state for step in made.store.steps(id_) if step.kind is kind)

    wait("the step access is done", lambda: state(StepKind.ACCESS) is StepState.DONE, LONG)
    made.parts.engine().handle(id_)
    return made.store.get(id_).status is Status.DRAINING and state(StepKind.DRAIN) is StepState.IDLE


def untouched(emulated, project):
    """What an inventory must not change: all but the grants, among which the orchestrator adds and removes its role."""
    things = emulated.things(project)
    del things["grants"]
    return things


@pytest.mark.slow
def test_a_deletion_on_hold_from_the_start_changes_nothing_and_goes_on_afterwards(emulated, tmp_path):
    with Orchestrator(emulated, tmp_path) as made:
        [project] = emulated.projects
        before = untouched(emulated, project)
        made.store.add_lien(Lien("l", project, "billing", "an open invoice", made.store.now()))
        id_ = made.request(project)
        wait("it is held", lambda: condition(made, id_), LONG)
        assert decides_not_to_drain(made, id_)
        assert condition(made, id_).reason == "lien"
        assert written(emulated, project) == [] and untouched(emulated, project) == before
        made.store.remove_lien("l", "admin")
        assert made.wait([id_], LONG) == {id_: Status.DELETED}
        assert emulated.audit.deleted_while_not_empty() == []


def test_one_that_comes_while_it_deletes_stops_it_and_a_cancel_gives_the_project_back(emulated, tmp_path):
    gate = DeleteGate(emulated, free=5)
    with Orchestrator(emulated, tmp_path, **WAITING) as made:
        [project] = emulated.projects
        id_ = made.request(project)
        wait("it deletes", gate.reached.is_set, LONG)
        made.store.set_brake(Brake(True, "something is wrong"))
        gate.open()
        wait("it is held", lambda: condition(made, id_), LONG)
        # Calls that were sent before are answered, and steps that had begun end without a further write.
        wait("all is quiet", lambda: all(s.state is not StepState.RUNNING for s in made.store.steps(id_)), LONG)
        left = emulated.left(project)
        assert left, "it was stopped before the end"
        record = made.store.get(id_)
        assert record.status is Status.DELETING
        assert not any(c.type == "stalled" and c.status for c in record.conditions)

        cancel(made.store, id_)
        assert made.wait([id_], LONG) == {id_: Status.CANCELLED}
        assert emulated.exists(project) and not made.store.get(id_).has_changes
        assert emulated.left(project) == left, "and nothing was deleted meanwhile"


@pytest.mark.slow
def test_outside_of_the_hours_nothing_is_begun(emulated, tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    hours = f"{now + datetime.timedelta(hours=3):%H:%M}-{now + datetime.timedelta(hours=4):%H:%M}"
    with Orchestrator(emulated, tmp_path, deletion={"delete_windows": hours}) as made:
        [project] = emulated.projects
        dry = made.request(project, dry_run=True)
        assert made.wait([dry], LONG) == {dry: Status.PLANNED}
        id_ = made.request(project)
        wait("it is held", lambda: condition(made, id_), LONG)
        assert decides_not_to_drain(made, id_)
        assert condition(made, id_).reason == "window"
        assert written(emulated, project) == []


@pytest.mark.slow
def test_a_project_that_gets_on_the_never_delete_list_during_its_deletion_loses_nothing_more(emulated, tmp_path):
    gate = DeleteGate(emulated, free=5)
    with Orchestrator(emulated, tmp_path, **WAITING) as made:
        [project] = emulated.projects
        id_ = made.request(project)
        wait("it deletes", gate.reached.is_set, LONG)
        made.parts.conf.set_override("never_delete_projects", [project], group="deletion")  # as a SIGHUP does
        gate.open()
        assert made.wait([id_], LONG) == {id_: Status.FAILED}
        record = made.store.get(id_)
        assert (record.reason, record.has_changes) == ("project_protected", False)
        assert emulated.exists(project) and emulated.left(project), "it was stopped before the end"
        assert "never-delete list" in record.message
