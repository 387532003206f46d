"""A project that somebody else deletes: what it had is looked for all the same, and the record says so."""

import dataclasses

import pytest

from cleanup_orchestrator.model import Kind, Mode, Origin, Outcome, Purpose, Reason, Status, Step, Sweep, Token
from cleanup_orchestrator.transitions import allowed
from tests.unit.world import CLEAR, World, deletion, left, sweep_step

PORT = sweep_step("network.port")
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)
QUOTA = sweep_step("network.quota", residue=True)
NO_TOKEN = Sweep(Outcome.UNKNOWN, str(Reason.NO_PROJECT_TOKEN), "Keystone gives us no token for the project")


def vanish(world):
    """From now on every survey says what a worker's survey says: Keystone does not know the project."""

    def survey(_):
        gone_at = world.deletion.project_gone_at or world.now
        world.deletion = dataclasses.replace(world.deletion, project_gone_at=gone_at)
        return Sweep(Outcome.CLEAR, message="Keystone does not know the project any more")

    world.answers["survey"] = survey
    world.answers["key-manager.secret"] = lambda _: NO_TOKEN


def condition(world, type_):
    return next((c for c in world.deletion.conditions if c.type == type_), None)


@pytest.mark.parametrize(
    "when", [Status.ACCEPTED, Status.DRAINING, Status.INVENTORY, Status.DELETING, Status.VERIFYING]
)
def test_a_cascade_deletes_what_an_admin_can_see_and_ends_as_deleted(when):
    world = World(deletion(), PORT, QUOTA)
    world.run(until=when)
    vanish(world)
    assert world.run(limit=500) is Status.DELETED
    assert condition(world, "project_gone").status
    assert "network.quota" in world.dispatched
    if when is Status.ACCEPTED:  # nobody was there to be locked out
        assert not {"access", "drain", "close"} & set(world.dispatched)


@pytest.mark.parametrize("mode", Mode)
def test_what_only_a_token_of_the_project_shows_stays_unknown_and_is_never_called_gone(mode):
    world = World(deletion(mode=mode), PORT, SECRET)
    vanish(world)
    assert world.run(limit=500) is Status.LEFTOVERS
    assert "key-manager.secret" in world.deletion.message
    assert not world.deletion.holding


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


def test_a_project_that_nobody_handed_to_us_is_looked_at_and_never_written_to():
    world = World(deletion(mode=Mode.REPORT, origin=Origin.NOTICED), PORT, QUOTA)
    vanish(world)
    assert world.run(limit=500) is Status.DELETED
    assert world.writes == []
    assert "network.quota" not in world.dispatched
    for kind in (Kind.SWEEP, Kind.REMOVE, Kind.CLOSE, Kind.DRAIN, Kind.ACCESS):
        for purpose in Purpose:
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


def test_what_only_the_project_could_tell_is_not_waited_for():
    gone = Sweep(Outcome.UNKNOWN, str(Reason.PROJECT_GONE), "who had a role on it cannot be asked any more")
    world = World(deletion(), PORT, sweep_step("identity.application_credential"))
    vanish(world)
    world.answers["identity.application_credential"] = lambda _: gone
    assert world.run(limit=500) is Status.LEFTOVERS
    assert "identity.application_credential" in world.deletion.message


def test_what_a_dead_service_hides_is_waited_for_as_ever():
    world = World(deletion(), PORT, SECRET)
    vanish(world)
    world.answers["network.port"] = lambda _: Sweep(Outcome.UNKNOWN, str(Reason.UNREACHABLE), "no answer")
    world.run(limit=100)
    assert world.deletion.status is Status.DELETING
