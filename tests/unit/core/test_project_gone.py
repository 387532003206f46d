"""A project that another client deletes: its resources are still listed, and the record says so."""

import dataclasses

import pytest

from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, Token
from tests.support.cases import each_case
from tests.unit.world import CLEAR, REMOVING, World, allowed, deletion, left, sweep_step

PORT = sweep_step("network.port")
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)
QUOTA = sweep_step("network.quota", project_setting=True)
NO_TOKEN = StepResult(Outcome.UNKNOWN, str(Reason.NO_PROJECT_TOKEN), "Keystone gives us no token for the project")


def vanish(world):
    """From now on every survey says what a worker's survey says: Keystone does not know the project."""

    def survey(_):
        gone_at = world.deletion.project_gone_at or world.now
        world.deletion = dataclasses.replace(world.deletion, project_gone_at=gone_at)
        return StepResult(Outcome.CLEAR, message="Keystone no longer knows the project")

    world.answers["survey"] = survey
    world.answers["key-manager.secret"] = lambda _: NO_TOKEN


def condition(world, type_):
    return next((c for c in world.deletion.conditions if c.type == type_), None)


@pytest.mark.parametrize(
    "when", [Status.ACCEPTED, Status.DRAINING, Status.INVENTORY, Status.DELETING, Status.VERIFYING]
)
def test_a_cascade_deletes_what_an_admin_can_see_and_ends_as_deleted(when):
    world = World(deletion(), PORT, QUOTA).finds("network.port")
    world.run(until=when)
    world.answers.clear()
    vanish(world)
    assert world.run(limit=500) is Status.DELETED
    assert condition(world, "project_gone").status
    assert "network.quota" in world.dispatched
    if when is Status.ACCEPTED:  # no user had access that could be locked
        assert not {"access", "drain", "close"} & set(world.dispatched)


@pytest.mark.parametrize("mode", REMOVING)
def test_what_only_a_token_of_the_project_shows_stays_unknown_and_is_never_called_gone(mode):
    world = World(deletion(mode=mode), PORT, SECRET)
    vanish(world)
    assert world.run(limit=500) is Status.LEFTOVERS
    assert "key-manager.secret" in world.deletion.message
    assert not world.deletion.has_changes


def test_what_was_proven_empty_behind_the_lock_before_the_project_vanished_is_proven():
    world = World(deletion(), PORT, SECRET)
    world.answers["close"] = lambda _: vanish(world) or CLEAR
    assert world.run(limit=500) is Status.DELETED


def test_a_report_lists_what_is_left_and_locks_nothing():
    world = World(deletion(mode=Mode.REPORT), PORT)
    vanish(world)
    world.answers["network.port"] = lambda _: left("p1")
    assert world.run(limit=500) is Status.LEFTOVERS
    assert world.writes == []


def test_no_inventory_counts_before_the_tokens_of_the_project_have_left_every_cache():
    world = World(deletion(), PORT)
    vanish(world)
    world.run(limit=500)
    gone_at = world.deletion.project_gone_at
    assert len(world.empty_rounds) == 2
    assert all(opened >= gone_at + world.rules.settle for opened in world.empty_rounds)


def test_no_inventory_counts_that_began_before_the_project_vanished_and_its_tokens_left_every_cache():
    """The client that deleted it may have opened it before: the earlier lock proves nothing any more."""
    world = World(deletion(), PORT)
    world.run(until=Status.VERIFYING)
    while world.deletion.empty_inventories < 1:
        world.run(limit=1)
    vanish(world)
    assert world.run(limit=500) is Status.DELETED
    assert world.empty_rounds[-1] >= world.deletion.project_gone_at + world.rules.settle


def test_a_noticed_project_is_only_listed_and_never_changed():
    world = World(deletion(mode=Mode.REPORT, origin=Origin.NOTICED), PORT, QUOTA)
    vanish(world)
    assert world.run(limit=500) is Status.DELETED
    assert world.writes == []
    assert "network.quota" not in world.dispatched
    for kind in (StepKind.SWEEP, StepKind.REMOVE, StepKind.CLOSE, StepKind.DRAIN, StepKind.ACCESS):
        for purpose in RoundPurpose:
            record = deletion(origin=Origin.NOTICED, status=Status.VERIFYING, purpose=purpose)
            assert not allowed(record, Step("s", "d", kind, round=record.round), writing=True)


def test_a_project_that_keystone_knows_again_is_proven_empty_as_any_other():
    world = World(deletion(), PORT)
    vanish(world)
    world.run(until=Status.VERIFYING)

    def back(_):
        world.answers["survey"] = lambda _: CLEAR
        world.deletion = dataclasses.replace(world.deletion, project_gone_at=None, empty_inventories=0)
        return CLEAR

    world.answers["survey"] = back
    assert world.run(limit=500) is Status.DELETED
    assert not condition(world, "project_gone").status
    assert "close" in world.dispatched


def test_types_that_need_a_project_token_are_not_waited_for():
    gone = StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_GONE), "who had a role on it can no longer be asked")
    world = World(deletion(), PORT, sweep_step("identity.application_credential"))
    vanish(world)
    world.answers["identity.application_credential"] = lambda _: gone
    assert world.run(limit=500) is Status.LEFTOVERS
    assert "identity.application_credential" in world.deletion.message


def test_resources_of_a_service_that_is_down_are_waited_for():
    world = World(deletion(), PORT, SECRET)
    vanish(world)
    world.answers["network.port"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.UNREACHABLE), "no answer")
    world.run(limit=100)
    assert world.deletion.status is Status.DELETING


BY_USER = sweep_step("identity.trust", after=("*",))


@pytest.mark.parametrize(
    ("when", "found"),
    [
        *((when, CLEAR) for when in (Status.ACCEPTED, Status.INVENTORY, Status.DELETING, Status.VERIFYING)),
        *((when, left("t1")) for when in (Status.ACCEPTED, Status.INVENTORY, Status.DELETING)),
    ],
)
def test_a_type_that_waits_for_an_unreadable_type_is_left_and_the_end_reports_it(when, found):
    """It must neither be deleted out of its turn, nor be waited for for ever."""
    world = World(deletion(), PORT, SECRET, BY_USER).finds("key-manager.secret")
    world.finds("identity.trust", lambda _: found)
    world.run(until=when)
    world.answers["identity.trust"] = lambda _: found
    vanish(world)
    written = len(world.writes)
    assert world.run(limit=500) is Status.LEFTOVERS
    assert world.deletion.reason == "project_gone"
    assert "key-manager.secret" in world.deletion.message
    assert ("identity.trust" in world.deletion.message) is (found is not CLEAR)
    assert not [name for name, _ in world.writes[written:] if name == "identity.trust"]


def test_what_waits_by_way_of_others_is_left_too_and_the_rest_goes():
    """Ports behind a list that takes the project's token, networks behind ports; images behind nothing."""
    things = {
        "network.port": left("p1"),
        "network.network": left("n1"),
        "image.image": left("i1"),
    }
    steps = [
        sweep_step("compute.unreachable_server", token=Token.PROJECT),
        sweep_step("network.port", after=("compute.unreachable_server",)),
        sweep_step("network.network", after=("network.port",)),
        sweep_step("image.image"),
    ]
    world = World(deletion(), *steps)
    vanish(world)
    world.answers["compute.unreachable_server"] = lambda _: NO_TOKEN

    def image(_):
        if world.deletion.purpose is RoundPurpose.DELETE:
            things["image.image"] = CLEAR
        return things["image.image"]

    for name in ("network.port", "network.network"):
        world.answers[name] = lambda _, name=name: things[name]
    world.answers["image.image"] = image
    assert world.run(limit=500) is Status.LEFTOVERS
    assert world.deletion.reason == "project_gone"
    assert {name for name, _ in world.writes} >= {"image.image"}
    assert not {"network.port", "network.network"} & {name for name, _ in world.writes}
    for name in ("network.port", "network.network", "compute.unreachable_server"):
        assert name in world.deletion.message


def test_what_refuses_to_go_is_tried_for_ever_although_something_else_is_out_of_reach():
    world = World(deletion(), PORT, SECRET)
    vanish(world)
    world.answers["network.port"] = lambda _: left("p1", reason=Reason.IN_USE)
    world.run(limit=300)
    assert world.deletion.status is Status.DELETING


def test_a_deletion_of_a_project_that_is_there_waits_behind_a_token_it_cannot_get_as_ever():
    world = World(deletion(), PORT, SECRET, BY_USER)
    world.answers["key-manager.secret"] = lambda _: NO_TOKEN
    world.run(limit=300)
    assert world.deletion.status is Status.DELETING


# ------------------------------------------------------------------------------------------------------- adopted
def adopted(*sweeps, **values):
    world = World(deletion(origin=Origin.ADOPTED, **values), *sweeps)
    vanish(world)
    return world


def test_what_a_dead_project_left_is_deleted_without_a_lock_and_without_a_removal():
    world = adopted(PORT, QUOTA)
    assert world.run(limit=500) is Status.DELETED
    assert world.deletion.reason == "project_gone"
    assert ("network.port", RoundPurpose.DELETE) in world.writes and (
        "network.quota",
        RoundPurpose.PROJECT_SETTINGS,
    ) in world.writes
    assert {world.step(name).kind for name, _ in world.writes} == {StepKind.SWEEP}
    assert not {"access", "drain", "close", "release", "remove"} & set(world.dispatched)
    assert len(world.empty_rounds) == 2


def test_a_dry_run_of_an_adoption_only_lists():
    world = adopted(PORT, QUOTA, dry_run=True)
    world.answers["network.port"] = lambda _: left("p1")
    assert world.run(limit=500) is Status.PLANNED
    assert world.writes == []


KNOWN = StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_KNOWN), "Keystone knows project p: it is no orphan")


@pytest.mark.parametrize("when", [Status.ACCEPTED, Status.INVENTORY, Status.DELETING, Status.VERIFYING])
@pytest.mark.parametrize("who", ["survey", "network.port"])
def test_a_project_that_keystone_knows_again_is_left_alone_at_once(when, who):
    world = adopted(PORT, sweep_step("image.image"))
    world.run(until=when)
    told = []

    def known(_):
        told.append(len(world.dispatched))
        return KNOWN

    world.answers[who] = known
    assert world.run(limit=500) is Status.FAILED
    assert world.deletion.reason == str(Reason.PROJECT_KNOWN)
    assert len(told) == 1
    assert world.dispatched[told[0] :] == [], "after the first word of it nothing more is handed out"
    assert not world.deletion.has_changes


@each_case("kind", StepKind, "purpose", RoundPurpose, "project_setting", [False, True])
def test_only_sweeps_of_an_adopted_deletion_write(kind, purpose, project_setting):
    record = deletion(origin=Origin.ADOPTED, status=Status.DELETING, purpose=purpose)
    step = Step("s", "d", kind, round=record.round, project_setting=project_setting)
    sweeps = kind is StepKind.SWEEP and purpose is (
        RoundPurpose.PROJECT_SETTINGS if project_setting else RoundPurpose.DELETE
    )
    assert allowed(record, step, writing=True) is (sweeps or kind is StepKind.RELEASE)


def test_an_adopted_deletion_that_was_cancelled_ends_as_cancelled():
    world = adopted(PORT)
    world.run(until=Status.DELETING)
    world.user(Status.CANCELLING)
    assert world.run(limit=200) is Status.CANCELLED
